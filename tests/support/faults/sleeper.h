/* A thread that sleeps on a futex word until it is woken, to test who wakes it, and when.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_SLEEPER_H
#define TESTS_SUPPORT_FAULTS_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct h_sleeper {
    _Atomic uint32_t word;
    _Atomic bool awake;
    struct h_thread *thread;
} h_sleeper;

/* The thread may not sleep yet when this returns, so the waker repeats until it is awake. */
void h_sleeper_start(h_sleeper *sleeper);
void h_sleeper_join(h_sleeper *sleeper);

#endif
