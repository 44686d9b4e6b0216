/* Histograms of the waiting and running time of each actor's requests, in the figures of the
 * device, for `troupe top` and the metrics. Always on, so the share of timed requests falls with
 * the rate: all of an actor that gets few, down to one in TRP__TIMED_MOST, which then counts for so
 * many. */
#ifndef TRP_CLIENT_OBSERVE_LATENCY_H
#define TRP_CLIENT_OBSERVE_LATENCY_H

#include "client/core/device.h"

enum { TRP__TIMED_MOST = 16 }; /* a power of two */

/* Returns the weight of the request at `place` of a mailbox; 0: not timed. Timed places are spread,
 * so that periodic patterns of requests are sampled evenly. */
static inline uint8_t trp__latency_weight(const trp__client_actor *actor, uint64_t place)
{
    const uint32_t every = atomic_load_explicit(&actor->timed_every, memory_order_relaxed);
    const uint64_t spread = place * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return (spread & (every - 1)) == 0 ? (uint8_t)every : 0;
}

/* A timed request has ended; its slot is RETIRING by this thread. */
void trp__latency_note(trp_device *device, const trp__slot *slot);

/* Return the time at which the worker issued a request (0: unknown), and the time at which it saw
 * an actor's timeline reach a ticket (0: unknown), with the time of the timeline's move before in
 * *before. All three are the worker's, unchecked. See trace.c. */
int64_t trp__issued_at(const trp_device *device, uint32_t slot, uint64_t ticket);
int64_t trp__seen_done(const trp_device *device, uint32_t actor, uint64_t ticket, int64_t *before);

#endif
