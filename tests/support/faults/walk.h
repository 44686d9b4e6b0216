/* The life of one application while a fault point, or a killer, acts on it: it opens a device,
 * sends requests with known results, creates and destroys objects, and closes. In every case each
 * request must complete exactly once, with a right result or an allowed status, memory that no
 * request writes must stay intact, and nothing may be left behind.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_WALK_H
#define TESTS_SUPPORT_FAULTS_WALK_H

#include <stdbool.h>

typedef enum h_scenario {
    H_WALK_PLAIN,   /* no faults of its own */
    H_WALK_FAULTS,  /* a culprit, a worker killed from outside, a killed standby */
    H_WALK_BROKEN,  /* the worker reports a broken context, as that of a GPU */
    H_WALK_LACKING, /* the standby can't map an arena, and is given up */
    H_WALK_SCENARIOS
} h_scenario;

typedef struct h_walk {
    h_scenario scenario;
    /* at most one worker dies under any request, so work that can run again succeeds */
    bool strict;
    bool may_go_down; /* the plan kills more workers than the restart budget allows */
} h_walk;

/* Ends the program if an outcome is wrong. */
void h_walk_run(const h_walk *walk);

#endif
