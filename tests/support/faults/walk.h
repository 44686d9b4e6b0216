/* The life of one application while a fault point, or a killer, does its work: it opens a device,
 * sends what has known results, makes and drops things, and closes. Whatever happens, every request
 * must end exactly once, with a result that is right or a status that is allowed; what nobody
 * writes must stay intact; and nothing may be left. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_WALK_H
#define TESTS_SUPPORT_FAULTS_WALK_H

#include <stdbool.h>

typedef enum h_scenario {
    H_WALK_PLAIN,   /* no faults of its own */
    H_WALK_FAULTS,  /* a culprit, a worker killed from outside, a standby killed */
    H_WALK_BROKEN,  /* the worker reports that its context is broken, as a GPU's does */
    H_WALK_LACKING, /* the standby can't map an arena, and is given up */
    H_WALK_SCENARIOS
} h_scenario;

typedef struct h_walk {
    h_scenario scenario;
    bool strict;      /* one worker dies under any request, at most: what can run again succeeds */
    bool may_go_down; /* the plan kills more workers than the budget allows */
} h_walk;

/* Fails the program if anything is not as it must be. */
void h_walk_run(const h_walk *walk);

#endif
