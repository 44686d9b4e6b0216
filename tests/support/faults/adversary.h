/* For tests/fault/adversary/: what a program does to itself that the library has to live with is
 * done in a forked child, which it can't be undone in. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_ADVERSARY_H
#define TESTS_SUPPORT_FAULTS_ADVERSARY_H

#include "support/harness.h"

/* Runs it in a child, which must end with 0 when it returns. A child that hangs is killed after
 * H_LONG, and so are the workers of one that was killed. */
void adv_child(void (*run)(void));

/* The same, of a child that `run` does not return in: its status, as waitpid() gives it. */
int adv_child_status(void (*run)(void));

/* Memory that the child shares with its parent: zero when adv_child() begins. */
typedef struct adv_shared {
    _Atomic int64_t value[8];
} adv_shared;
adv_shared *adv_memory(void);

/* Waits until a process is gone, also one to which no signal may be sent. */
void adv_await_gone(int64_t pid);

/* Ends the program as skipped unless it runs as root. */
void adv_need_root(void);

#endif
