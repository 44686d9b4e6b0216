/* Workers that are killed at random times while a test sends and awaits requests.
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

/* At once, if the device has a worker that is ready. */
void h_kill_worker(trp_device *device);

/* So many times, each at some time before `span` after the last. It stays where it is until the
 * end. */
void h_killer_start(h_killer *k, trp_device *device, int kills, int64_t span);
/* Waits until that is done, and until the device is ready again. */
void h_killer_end(h_killer *k);

/* Some workers must have died, and no request failed; prints how many did. */
void h_check_deaths(const char *file, int line, trp_device *device, int64_t span);
#define H_CHECK_DEATHS(device, span) h_check_deaths(__FILE__, __LINE__, device, span)

#endif
