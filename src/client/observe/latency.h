/* How long requests wait and run: histograms of each actor in the figures of the device, for
 * `troupe top` and the metrics. Always on, so it times what it can afford: all requests of an actor
 * that gets few, one in TRP__TIMED_MOST at most of one that gets many, each of which then counts
 * for so many. */
#ifndef TRP_CLIENT_OBSERVE_LATENCY_H
#define TRP_CLIENT_OBSERVE_LATENCY_H

#include "client/core/device.h"

enum { TRP__TIMED_MOST = 16 }; /* a power of two */

/* How many requests the one at `place` of a mailbox counts for; 0: it is not timed. Places are
 * spread, so that a program whose requests come in a pattern does not have the same one timed. */
static inline uint8_t trp__latency_weight(const trp__client_actor *actor, uint64_t place)
{
    const uint32_t every = atomic_load_explicit(&actor->timed_every, memory_order_relaxed);
    const uint64_t spread = place * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return (spread & (every - 1)) == 0 ? (uint8_t)every : 0;
}

/* A timed request has ended; its slot is RETIRING by this thread. */
void trp__latency_note(trp_device *device, const trp__slot *slot);

/* When the worker has issued a request; 0: not known. When it has seen that the timeline of an
 * actor had come to a ticket, and *before is when it saw the timeline move the last time before
 * that; each 0 if it has not. The worker has written all three: they may be anything. See trace.c.
 */
int64_t trp__issued_at(const trp_device *device, uint32_t slot, uint64_t ticket);
int64_t trp__seen_done(const trp_device *device, uint32_t actor, uint64_t ticket, int64_t *before);

#endif
