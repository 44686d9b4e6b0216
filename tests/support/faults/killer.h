/* Kills workers at random times while a test sends and awaits requests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAULTS_KILLER_H
#define TESTS_SUPPORT_FAULTS_KILLER_H

#include "support/harness.h"

enum { H_KILLS = 2 };

typedef struct h_killer {
    trp_device *device;
    int kills;
    int64_t after_ns[H_KILLS];
    h_thread *thread;
} h_killer;

/* Kills the worker of a device now, if it is ready. */
void h_kill_worker(trp_device *device);

/* Starts to kill workers, a number of times, each within `span` after the previous kill. `k` must
 * not move until the end. */
void h_killer_start(h_killer *k, trp_device *device, int kills, int64_t span);
/* Waits until all kills are done and the device is ready again. */
void h_killer_end(h_killer *k);

/* Checks that workers have died and no request has failed; prints how many have died. */
void h_check_deaths(const char *file, int line, trp_device *device, int64_t span);
#define H_CHECK_DEATHS(device, span) h_check_deaths(__FILE__, __LINE__, device, span)

#endif
