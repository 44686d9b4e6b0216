/* A buffer at which requests wait: while the gate is closed, what uses the buffer is not given to a
 * stream, so what is sent meanwhile is in the queue for certain. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef TESTS_SUPPORT_GATE_H
#define TESTS_SUPPORT_GATE_H

#include "support/harness.h"

typedef struct h_gate {
    trp_device *device;
    trp_actor *blocker; /* a probe */
    trp_buffer buffer;
    trp_completion hold; /* the end of this opens it */
} h_gate;

/* Its buffer holds zeros. */
h_gate h_gate_create(trp_device *device, uint64_t bytes);

/* Sends the blocker more than a stream is given at a time, the last of which writes the buffer:
 * behind something long, all who use the buffer wait. */
void h_gate_behind(trp_actor *blocker, trp_buffer buffer);

/* Drains the device and closes the gate for a while. */
void h_gate_close(h_gate *gate, int64_t ns);

/* Whether all that was sent since h_gate_close() was sent while it was closed. If not, the machine
 * was too slow: once more, with a longer time, which has a limit. */
bool h_gate_closed(const h_gate *gate);

/* Waits until it is open and all is done, whether somebody has awaited `hold` or not. */
void h_gate_open(h_gate *gate);

#endif
