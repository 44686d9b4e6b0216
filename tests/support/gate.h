/* A gate: a buffer that requests wait for. While it is closed, no stream gets a request that uses
 * the buffer, so that all requests sent meanwhile are queued. SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_SUPPORT_GATE_H
#define TESTS_SUPPORT_GATE_H

#include "support/harness.h"

typedef struct h_gate {
    trp_device *device;
    trp_actor *blocker; /* a probe */
    trp_buffer buffer;
    trp_completion hold; /* its completion opens the gate */
} h_gate;

/* Creates a gate, whose buffer holds zeros. */
h_gate h_gate_create(trp_device *device, uint64_t bytes);

/* Sends the blocker more requests than a stream takes at a time. The last one writes the buffer,
 * and all users of the buffer wait for it. */
void h_gate_behind(trp_actor *blocker, trp_buffer buffer);

/* Drains the device and closes the gate for a while. */
void h_gate_close(h_gate *gate, int64_t ns);

/* Returns whether all requests since h_gate_close() were sent while the gate was closed. If not,
 * the machine was too slow: the test repeats with a longer time, up to a limit. */
bool h_gate_closed(const h_gate *gate);

/* Waits until the gate is open and all requests are done, whether or not `hold` was awaited. */
void h_gate_open(h_gate *gate);

#endif
