#include "client/observe/latency.h"

#include "base/os/clock.h"
#include "base/error.h"

#include <math.h>

/* Requests per second from which on one in four, and one in TRP__TIMED_MOST, is timed. */
enum { MANY = 10000, VERY_MANY = 40000, RATE_WITHIN_MS = 10 };

/* 1, 1.5, 2, 3, 5 and 7 of each power of ten, from a microsecond to 70 s: no value is farther than
 * a factor of 1.67 from the next. */
#define DECADE(unit)                                                                               \
    UINT64_C(10) * (unit), UINT64_C(15) * (unit), UINT64_C(20) * (unit), UINT64_C(30) * (unit),    \
        UINT64_C(50) * (unit), UINT64_C(70) * (unit)
static const uint64_t bounds[] = {
    DECADE(100),     DECADE(1000),     DECADE(10000),     DECADE(100000),
    DECADE(1000000), DECADE(10000000), DECADE(100000000), DECADE(1000000000),
};

enum { BOUNDS = sizeof bounds / sizeof *bounds };
_Static_assert(BOUNDS + 1 == TRP_LATENCY_BUCKETS, "a bucket for each bound, and one for the rest");

uint64_t trp_latency_bound(uint32_t bucket)
{
    return bucket < BOUNDS ? bounds[bucket] : UINT64_MAX;
}

static uint32_t bucket_of(uint64_t ns)
{
    uint32_t low = 0, high = BOUNDS;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (bounds[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add(trp__histogram *h, int64_t ns, uint64_t weight)
{
    atomic_fetch_add_explicit(&h->sum_ns, (uint64_t)ns * weight, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->bucket[bucket_of((uint64_t)ns)], weight, memory_order_relaxed);
}

/* Adapts the share of timed requests to the rate of requests since the last call. */
static void adapt(trp__client_actor *actor, int64_t now)
{
    int64_t last = atomic_load_explicit(&actor->rated_at, memory_order_relaxed);
    if (now - last < RATE_WITHIN_MS * TRP__MS ||
        !atomic_compare_exchange_strong(&actor->rated_at, &last, now))
        return;
    const uint64_t sent = atomic_load_explicit(actor->tail, memory_order_relaxed);
    const uint64_t before = atomic_exchange(&actor->rated_sent, sent);
    const double rate = (double)(sent - before) * 1e9 / (double)(now - last);
    atomic_store_explicit(&actor->timed_every,
                          rate > VERY_MANY ? TRP__TIMED_MOST
                          : rate > MANY    ? 4
                                           : 1,
                          memory_order_relaxed);
}

static int64_t between(int64_t ns, int64_t least, int64_t most)
{
    return ns < least ? least : ns > most ? most : ns;
}

void trp__latency_note(trp_device *device, const trp__slot *slot)
{
    const uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    const uint32_t id = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    const int64_t sent = atomic_load_explicit(&slot->sent_ns, memory_order_relaxed);
    trp__client_actor *actor = atomic_load_explicit(&device->actor[id], memory_order_relaxed);
    int64_t issued = trp__issued_at(device, slot->index, ticket);
    const int64_t now = trp__now_ns();
    if (actor)
        adapt(actor, now);
    if (issued == 0 || sent == 0)
        return; /* it was never issued */
    int64_t before;
    issued = between(issued, sent, now);
    const int64_t seen = trp__seen_done(device, id, ticket, &before);
    const int64_t done = seen ? between(seen, issued, now) : now;
    /* It begins in its stream when its predecessors have ended. */
    const int64_t begun = between(before, issued, done);
    trp__stats_actor *stats = &device->observe.stats->actor[id];
    add(&stats->waiting, begun - sent, slot->weight);
    add(&stats->running, done - begun, slot->weight);
}

/* Reading. */

static uint64_t counted(const trp_latency *now, const trp_latency *before, uint32_t bucket)
{
    const uint64_t then = before ? before->bucket[bucket] : 0;
    return now->bucket[bucket] > then ? now->bucket[bucket] - then : 0;
}

uint64_t trp_latency_quantile(const trp_latency *now, const trp_latency *before, double q)
{
    double total = 0, below = 0;
    if (!now)
        return 0;
    for (uint32_t i = 0; i < TRP_LATENCY_BUCKETS; i++)
        total += (double)counted(now, before, i);
    const double wanted = total * (q >= 0 && q <= 1 ? q : q > 1 ? 1 : 0);
    for (uint32_t i = 0; total > 0 && i < TRP_LATENCY_BUCKETS; i++) {
        const double count = (double)counted(now, before, i);
        if (count == 0 || below + count < wanted) {
            below += count;
            continue;
        }
        if (i == BOUNDS)
            return bounds[BOUNDS - 1];
        /* Values within a bucket are assumed to be spread evenly by logarithm. */
        const double high = (double)bounds[i], low = i ? (double)bounds[i - 1] : high / 10;
        return (uint64_t)(low * pow(high / low, (wanted - below) / count));
    }
    return total > 0 ? bounds[BOUNDS - 1] : 0;
}
