/* 32 streams of work that can run again, and one request among them that kills the worker: all
 * others complete with right results, and the culprit alone fails.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_INNOCENTS_H
#define TESTS_SUPPORT_FAULTS_INNOCENTS_H

#include "support/harness.h"

/* Runs rounds, each with the next one of the actions; TROUPE_TEST_ROUNDS overrides the number. Ends
 * the program if an outcome is wrong. */
void h_innocents(int rounds, const trp_probe_action *actions, size_t action_count);

#endif
