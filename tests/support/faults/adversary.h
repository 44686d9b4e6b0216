/* For tests/fault/adversary/: programs do to themselves what the library must survive, in a forked
 * child, since it can't be undone there. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_ADVERSARY_H
#define TESTS_SUPPORT_FAULTS_ADVERSARY_H

#include "support/harness.h"

/* Runs a function in a child, which must return from it and exit with 0. A child that hangs is
 * killed after H_LONG; the workers of a killed child are killed, too. */
void adv_child(void (*run)(void));

/* Runs a function that does not return; returns the child's status, as of waitpid(). */
int adv_child_status(void (*run)(void));

/* Memory that the child shares with its parent, zeroed by adv_child(). */
typedef struct adv_shared {
    _Atomic int64_t value[8];
} adv_shared;
adv_shared *adv_memory(void);

/* Waits until a process has ended, even one that this process may not signal. */
void adv_await_gone(int64_t pid);

/* Ends the program as skipped unless it runs as root. */
void adv_need_root(void);

#endif
