/* Times for traces and timed requests, noted by the scheduler in the reply block: when a request
 * was issued, and when timelines moved. Only plain stores, since no other thread writes there. */
#ifndef TRP_WORKER_TRACER_H
#define TRP_WORKER_TRACER_H

#include "base/os/clock.h"
#include "wire/layout.h"

/* Ends of an actor that come SLOW_NS apart get a timeline write each; those that come within
 * FAST_NS share one, for it costs about a fifth of a launch. In between the mode stays. Requests
 * that share a write share its time equally. */
#define TRP__SLOW_NS (100 * TRP__US)
#define TRP__FAST_NS (10 * TRP__US)

typedef struct trp__tracer {
    trp__reply *reply;
    uint64_t watched;             /* bit a: actor a has requests whose ends were not seen yet */
    uint64_t fast;                /* bit a: its ends come fast */
    uint64_t issued[TRP__ACTORS]; /* the last request that was noted */
    uint64_t seen[TRP__ACTORS];   /* of the timeline */
    int64_t since[TRP__ACTORS];   /* when it moved last, or became busy again */
    int64_t between[TRP__ACTORS]; /* requests that were issued since then */
} trp__tracer;

/* Notes a move of a timeline. *now is 0 before the clock is read. */
static inline void trp__tracer_look_at(trp__tracer *t, uint32_t actor, int64_t *now)
{
    uint64_t bit = UINT64_C(1) << actor;
    uint64_t ticket =
        atomic_load_explicit(&t->reply->timelines.timeline[actor].value, memory_order_acquire);
    if (ticket >= t->issued[actor])
        t->watched &= ~bit;
    if (ticket <= t->seen[actor])
        return;
    t->seen[actor] = ticket;
    if (*now == 0)
        *now = trp__now_ns();
    int64_t took = (*now - t->since[actor]) / (t->between[actor] > 1 ? t->between[actor] : 1);
    t->since[actor] = *now;
    t->between[actor] = 0;
    t->fast = took < TRP__FAST_NS ? t->fast | bit : took > TRP__SLOW_NS ? t->fast & ~bit : t->fast;

    trp__progress *log = &t->reply->progress[actor];
    uint64_t count = atomic_load_explicit(&log->count, memory_order_relaxed);
    trp__stamp *stamp = &log->stamp[count % TRP__PROGRESS];
    atomic_store_explicit(&stamp->ns, *now, memory_order_relaxed);
    atomic_store_explicit(&stamp->ticket, ticket, memory_order_release);
    atomic_store_explicit(&log->count, count + 1, memory_order_release);
}

/* Returns whether the request that was just issued gets a timeline write of its own. */
static inline bool trp__tracer_wants_end(const trp__tracer *t, uint32_t actor)
{
    return !(t->fast >> actor & 1);
}

/* Each turn of the scheduler. */
static inline void trp__tracer_look(trp__tracer *t)
{
    int64_t now = 0;
    for (uint64_t rest = t->watched; rest; rest &= rest - 1)
        trp__tracer_look_at(t, (uint32_t)__builtin_ctzll(rest), &now);
}

/* Notes that a request is about to be issued; repeated for its further parts. Checks its actor's
 * timeline, so that a long turn does not give all ends the same time. */
static inline void trp__tracer_issue(trp__tracer *t, uint32_t actor, uint32_t slot, uint64_t ticket)
{
    trp__stamp *stamp = &t->reply->issue_stamp[slot];
    if (atomic_load_explicit(&stamp->ticket, memory_order_relaxed) == ticket)
        return;
    int64_t now = trp__now_ns();
    trp__tracer_look_at(t, actor, &now);
    if (!(t->watched >> actor & 1)) {
        t->since[actor] = now;
        t->between[actor] = 0;
    }
    t->between[actor]++;
    atomic_store_explicit(&stamp->ns, now, memory_order_relaxed);
    atomic_store_explicit(&stamp->ticket, ticket, memory_order_release);
    t->issued[actor] = ticket;
    t->watched |= UINT64_C(1) << actor;
}

#endif
