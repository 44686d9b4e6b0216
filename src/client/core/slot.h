/* The slot of a request: its state on the application's side until its result was taken. */
#ifndef TRP_CLIENT_CORE_SLOT_H
#define TRP_CLIENT_CORE_SLOT_H

#include "client/core/system.h"
#include "wire/actor_class.h"
#include "wire/box.h"
#include "wire/layout.h"

/* Phases of a request. Phase, generation and TRP__WANTED are one word, so that each change also
 * checks that the slot still holds the same request. The thread that takes a request from PENDING
 * to RETIRING ends it: exactly once. */
typedef enum trp__phase {
    TRP__FREE = 0,
    TRP__FILLING,  /* being written by its sender */
    TRP__PENDING,  /* sent */
    TRP__RETIRING, /* being ended by one thread */
    TRP__DONE,     /* ended; its future, or a queue, holds it */
    TRP__GATHERED, /* ended; the leader of its list holds it, see list.c */
} trp__phase;

#define TRP__WANTED UINT64_C(0x80) /* beside the phase: a future names the request */

/* A copy through the pieces of a stream. */
typedef struct trp__transfer {
    char *user; /* source or target */
    uint64_t bytes;
    trp__box box; /* of a pitched copy, also of a small one (see `boxed`); else its bytes are 0 */
    trp_pitch pitch;        /* of `user` */
    trp_pitch buffer_pitch; /* of the buffer */
    uint64_t number;        /* place among the transfers of its stream */
    uint64_t first_chunk, chunks, chunk_bytes;
    uint64_t claimed, finished; /* chunks taken by, and done with by, copying threads */
    uint32_t active;            /* threads that touch user memory now */
    uint32_t next;              /* slot of the next transfer of the stream */
} trp__transfer;

#define TRP__NO_SLOT  UINT32_MAX
#define TRP__NO_PIECE UINT32_MAX

/* State of an input when its request was encoded. The request gets its ticket later, and changes
 * that other threads make in between may come after it in the order. */
typedef struct trp__look {
    uint64_t cover, accepted; /* TRP__COVERED and TRP__ACCEPTED, the least in the range */
} trp__look;

/* The first three lines hold all that every request touches, since 16,384 slots fit in no cache. */
typedef struct trp__slot {
    _Atomic uint64_t state;         /* generation << 8 | wanted | phase */
    _Atomic uint64_t ticket;        /* 0 until it is sent */
    _Atomic uint64_t retired_early; /* ticket of a request that ended before its turn; else 0 */
    _Atomic uint64_t deadline_ns;   /* for its running; 0: none */
    _Atomic int64_t sent_ns;        /* while the device is traced, or if it is timed; else 0 */
    trp_queue *queue;
    void *user_data;
    const char *label; /* NULL: none */
    /* The second line. */
    struct trp__room *room; /* of the call that fills it */
    uint64_t token;         /* of the object that it makes, until it is sent; 0: none */
    void *read_target;      /* where a small read's piece, or a result's, goes at the end */
    _Atomic uint32_t actor; /* id */
    _Atomic int stream;     /* -1: none; else `transfer` is in use */
    _Atomic uint32_t next_free;
    uint32_t index;
    _Atomic uint32_t deaths;   /* workers that died while it was in flight */
    uint16_t missed_deadlines; /* workers that did not begin it within its deadline */
    uint8_t weight;            /* requests that it is timed for, see latency.h; 0: it is not */
    uint32_t segment;          /* host segment that it holds, 0 for none */
    uint32_t piece;            /* small staging piece that it uses */
    _Atomic uint32_t leader;   /* of a member of a list: the list's last; NO_SLOT: not in a list */
    trp_status status;
    /* The third. */
    trp__queue_item item;
    _Atomic bool cancelling; /* trp_cancel() was called */
    _Atomic bool nested;     /* the call that fills it may send another request first; see room.h */
    bool delivers;           /* see deliver.c; set when it is sent */
    bool boxed;              /* a small copy whose rows lie apart: transfer.box says how */
    _Atomic uint32_t mate;   /* the next in the list */
    uint64_t read_bytes;
    _Atomic uint64_t writes; /* bit i: it writes a buffer whose number mod 64 is that */
    uint64_t *handle;        /* where its sender has that one's handle; with `token` */
    /* The leader's: */
    _Atomic uint32_t first; /* of the list */
    _Atomic uint32_t left;  /* members that have not ended */
    _Atomic uint32_t members;
    trp_status list_status; /* once they have ended: of the first that failed */
    trp__transfer transfer;
    trp__look look[TRP__ACCESS_MAX]; /* of each input */
} __attribute__((aligned(64))) trp__slot;

_Static_assert(offsetof(trp__slot, transfer) <= (size_t)3 * TRP__LINE, "a slot's first lines");

static inline uint64_t trp__state(uint64_t generation, trp__phase phase)
{
    return generation << 8 | (uint64_t)phase;
}

static inline trp__phase trp__phase_of(uint64_t state)
{
    return (trp__phase)(state & 0x7f);
}

static inline uint64_t trp__generation_of(uint64_t state)
{
    return state >> 8;
}

static inline bool trp__leads(const trp__slot *slot)
{
    return atomic_load_explicit(&slot->leader, memory_order_relaxed) == slot->index;
}

/* Compares cells by ticket, for qsort(). */
static inline int trp__by_ticket(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* queue_items.c */
/* Checks that completions of the device's requests can go to a queue; `name` is the argument's. */
trp_status trp__queue_check(const trp_device *device, const trp_queue *queue, const char *name);
/* Checks that a queue can be used. */
trp_status trp__queue_usable(const trp_queue *queue, const char *name);
void trp__queue_push(trp_queue *queue, trp__slot *slot, uint64_t done);
/* Adds an item; the queue's lock is held. */
void trp__queue_link(trp_queue *queue, trp__queue_item *item);
void trp__queue_unlink(trp_queue *queue, trp__queue_item *item);
/* Sets the state of the queue's event file; nothing else changes it. */
void trp__queue_set_readable(trp_queue *queue, bool readable);

static inline trp_status trp__completion_check(const trp_device *device,
                                               const trp_completion *completion)
{
    return completion && completion->queue
               ? trp__queue_check(device, completion->queue, "completion.queue")
               : TRP_OK;
}

#endif
