/* State of the scheduler: scheduler.c takes requests and issues them, prepare.c checks whether one
 * can be issued, joining.c issues several as one. */
#ifndef TRP_WORKER_SCHEDULER_H
#define TRP_WORKER_SCHEDULER_H

#include "base/fault_point.h"
#include "worker/poison.h"
#include "worker/tracer.h"
#include "worker/usage.h"
#include "worker/window.h"
#include "worker/worker.h"

enum { TRP__SIGNAL_BATCH = 64 }; /* requests of an actor that share one timeline write */

#define TRP__NO_SLOT UINT32_MAX

/* A request that was taken and not yet issued. The dependencies are those at the time it was taken;
 * later requests may not add to them. */
typedef struct trp__pending {
    uint32_t next;
    uint64_t overwrites; /* the last request of the same actor that reads an output of this one */
    uint64_t follows;    /* the last that writes a range of this one */
    uint64_t waits_for;  /* bit a: ticket[a] of actor a */
    uint64_t destroys;   /* bit a: it overwrites a range of one of these */
    uint64_t ticket[TRP__ACTORS];
} trp__pending;

typedef struct trp__lane {
    uint32_t head, tail; /* taken, not issued */
    trp__job job;        /* the first of them */
    uint64_t issued;     /* the last ticket whose work is completely in the stream */
    uint64_t signalled;  /* the last ticket for which a timeline write is in the stream */
    uint32_t unsignalled;
    uint32_t last_slot; /* of the request with ticket `issued` */
    uint64_t announced; /* the last ticket whose end wakes its sleepers */
    uint64_t apart;     /* requests up to this ticket are not joined */
    bool waiting; /* the first request has nothing in the stream and asked to be called again */
    trp__window window; /* what is in the stream and not done */
} trp__lane;

struct trp__scheduler {
    trp__worker *worker;
    const trp__control *control;
    trp__reply *reply;
    const trp__backend *backend;
    uint64_t next;      /* ticket to take next from the ring */
    uint32_t resumed;   /* entries of control->resume that were taken */
    bool together;      /* those that must run alone are done */
    uint64_t queued;    /* bit a: lane a has requests */
    uint64_t to_signal; /* bit a: lane a has unsignalled work */
    uint64_t in_flight; /* bit a: lane a's timeline was behind at the last check */
    bool polling;       /* a request was held, or asked to be called again */
    bool full;          /* a lane has enough in its stream */
    uint32_t take_most; /* requests to take before issuing again */
    int64_t spin_ns;    /* how long to spin when idle, before sleeping */
    bool nvtx;          /* an NVTX tool is loaded */
    trp__tracer tracer;
    trp__lane lane[TRP__ACTORS];
    trp__pending pending[TRP__SLOTS];
    trp__usage usage[TRP__BUFFERS];
    uint32_t parted; /* buffers from here on never had parts */
    trp__poisons poisons;
    trp__job joined[TRP_ACTOR_JOINED_MAX];
};

static inline uint64_t trp__timeline(const trp__scheduler *s, uint32_t actor)
{
    return atomic_load_explicit(&s->reply->timelines.timeline[actor].value, memory_order_acquire);
}

static inline uint64_t trp__bit(uint32_t actor)
{
    return UINT64_C(1) << actor;
}

/* Returns whether the device is traced. */
static inline bool trp__tracing(const trp__scheduler *s)
{
    return __builtin_expect(atomic_load_explicit(&s->control->tracing, memory_order_relaxed) != 0,
                            0);
}

/* Returns whether an actor's stream runs only copies with the host. None of them reads a buffer
 * that a later one of the same actor writes, so no end must be written before the next begins. */
static inline bool trp__only_copies(uint32_t actor)
{
    return actor == TRP__LANE_UPLOAD || actor == TRP__LANE_DOWNLOAD;
}

/* Enqueues one timeline write for everything issued to an actor since the last. */
trp_status trp__signal_lane(trp__scheduler *s, uint32_t actor, trp_error *error);

/* Takes the first request off a lane, after its work of `operations` operations was enqueued or its
 * error was replied. */
static inline void trp__leave_lane(trp__scheduler *s, uint32_t actor, uint64_t ticket,
                                   uint64_t operations)
{
    trp__lane *l = &s->lane[actor];
    l->last_slot = l->head;
    l->head = s->pending[l->head].next;
    if (l->head == TRP__NO_SLOT) {
        l->tail = TRP__NO_SLOT;
        s->queued &= ~trp__bit(actor);
    }
    l->job.api.progress = 0;
    l->issued = ticket;
    l->unsignalled++;
    trp__window_add(&l->window, operations);
    s->to_signal |= trp__bit(actor);
}

/* prepare.c */

/* TRP__BROKEN: a stream did not take a signal or a wait, on which other requests rely. */
typedef enum trp__readiness { TRP__HOLD, TRP__GO, TRP__REFUSE, TRP__BROKEN } trp__readiness;

/* Returns whether the inputs of a request are good. All earlier ones are issued or refused. */
bool trp__may_read(trp__scheduler *s, const trp__record *record, trp_error *error);

/* Finds the addresses of a request's buffers. */
trp__readiness trp__resolve(trp__scheduler *s, trp__job *job, trp_error *error);

/* Whether the first request of a lane, whose job is begun, can be issued; makes its stream wait for
 * its causes. */
trp__readiness trp__prepare(trp__scheduler *s, uint32_t actor, trp__pending *p, trp_error *error);

/* The last check before the work begins. A canceller marks the request and then reads `issued`;
 * here it is the other way round. All four accesses are sequentially consistent, so if the
 * canceller does not see `issued`, this side sees the mark. `issued` never falls: requests that
 * were begun together but that their actor can't join are begun once more, one by one. */
static inline trp_status trp__begin(trp__scheduler *s, uint32_t actor, uint32_t slot,
                                    trp_error *error)
{
    const trp__record *record = &s->control->record[slot];
    _Atomic uint64_t *issued = &s->reply->issued[actor].value;
    if (trp__tracing(s) || record->sampled)
        trp__tracer_issue(&s->tracer, actor, slot, record->ticket);
    TRP__FAULT_POINT(ISSUE_UNMARKED);
    if (atomic_load_explicit(issued, memory_order_relaxed) < record->ticket)
        atomic_store(issued, record->ticket);
    TRP__FAULT_POINT(ISSUE_MARKED);
    return atomic_load(&record->cancelled) == record->ticket
               ? trp__refusal(error, TRP_E_CANCELLED, 0)
               : TRP_OK;
}

/* joining.c */

/* Returns whether a lane has several requests and may join them, apart from the requests
 * themselves. Inline, for it is called for each request. */
static inline bool trp__may_join(const trp__scheduler *s, uint32_t actor)
{
    const trp__lane *l = &s->lane[actor];
    const trp__worker_actor *a = &s->worker->actor[actor];
    const trp__record *first = &s->control->record[l->head];
    /* Until the actor is ready its instance is the side thread's. */
    return s->pending[l->head].next != TRP__NO_SLOT &&
           atomic_load_explicit(&a->state, memory_order_acquire) == TRP__READY &&
           a->instance.impl->joins && l->job.api.progress == 0 && !s->nvtx &&
           s->poisons.count == 0 && !first->timed && first->ticket > l->apart;
}

/* Issues the requests at the front of a lane that can be joined, *count of them. 0: the first one
 * must be issued by itself, which also finds its error. */
trp_status trp__issue_joined(trp__scheduler *s, uint32_t actor, uint32_t *count, trp_error *error);

#endif
