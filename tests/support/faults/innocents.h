/* 32 streams of work that can run twice, one request among them that brings the worker down: all
 * complete with the right results, and exactly one error comes, at the culprit.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_INNOCENTS_H
#define TESTS_SUPPORT_FAULTS_INNOCENTS_H

#include "support/harness.h"

/* Rounds, each with one of the actions in turn; TROUPE_TEST_ROUNDS overrides the number. Fails the
 * program if anything is not as it must be. */
void h_innocents(int rounds, const trp_probe_action *actions, size_t action_count);

#endif
