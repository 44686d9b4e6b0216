/* A bound on the operations in a stream that are not done. A stream has room for a limited number
 * of operations, about 1,024 on either backend; enqueueing one more waits until the stream moves
 * on, and with it the scheduler, and all other actors. So a lane that has enough in its stream is
 * held.
 *
 * A timeline has tickets, not amounts of work. With each timeline write the window notes how many
 * operations had been enqueued; it looks that up only when it seems full. */
#ifndef TRP_WORKER_WINDOW_H
#define TRP_WORKER_WINDOW_H

#include <troupe/worker.h>

enum {
    /* The promise of <troupe/worker.h>. A call of an actor counts as one operation, though it may
     * enqueue more: half of a stream's room is left for those. The last request may bring some
     * more: a wait for each other actor. The chunks of large copies are not counted; they are
     * bounded by the pieces of staging memory. */
    TRP__WINDOW_LIMIT = TRP_ACTOR_CALLS_MAX,
    /* A timeline write is an operation itself and stands for at least one more, so this many are
     * never out at a time. */
    TRP__WINDOW_MARKS = 512,
};

typedef struct trp__window {
    uint64_t enqueued, done; /* operations */
    uint32_t first, last;    /* marks of writes that are not known to be done, modulo 2^32 */
    struct {
        uint64_t ticket, enqueued;
    } mark[TRP__WINDOW_MARKS];
} trp__window;

static inline void trp__window_add(trp__window *w, uint64_t operations)
{
    w->enqueued += operations;
}

/* Notes that a write of `ticket` was enqueued. */
static inline void trp__window_mark(trp__window *w, uint64_t ticket)
{
    uint32_t at = w->last++ % TRP__WINDOW_MARKS;
    w->mark[at].ticket = ticket;
    w->mark[at].enqueued = ++w->enqueued;
}

static inline bool trp__window_seems_full(const trp__window *w)
{
    return w->enqueued - w->done >= TRP__WINDOW_LIMIT;
}

/* Updates `done` for a timeline at `timeline`. */
static inline void trp__window_look(trp__window *w, uint64_t timeline)
{
    for (; w->first != w->last; w->first++) {
        uint32_t at = w->first % TRP__WINDOW_MARKS;
        if (w->mark[at].ticket > timeline)
            break;
        w->done = w->mark[at].enqueued;
    }
}

/* Returns whether it is full, for a timeline at `timeline`. */
static inline bool trp__window_full(trp__window *w, uint64_t timeline)
{
    trp__window_look(w, timeline);
    return trp__window_seems_full(w);
}

#endif
