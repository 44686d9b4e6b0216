/* A request in shared memory: no pointers, fixed size, so that it can be replayed. */
#ifndef TRP_WIRE_RECORD_H
#define TRP_WIRE_RECORD_H

#include <troupe/submit.h>

#include <stdatomic.h>

enum {
    TRP__ACCESS_MAX = 16,
    TRP__PAYLOAD_BYTES = 256,
    TRP__ACKED_WORDS = 7,
    TRP__ACKED_WINDOW = 64 * TRP__ACKED_WORDS, /* tickets */
};

enum {
    TRP__READ = 1,
    TRP__WRITE = 2,
    TRP__COVER = 4, /* with WRITE: every byte of the range is written, none is read */
};

/* One buffer that a request reads or writes. */
typedef struct trp__access {
    uint32_t slot;       /* in the buffer table */
    uint32_t generation; /* that the slot must have */
    uint64_t offset;     /* bytes */
    uint64_t bytes;
    uint8_t mode;  /* TRP__READ and so on */
    uint8_t whole; /* the range is all of the buffer */
    /* The ticket, 0 for none, of the last failed request that should have written all of the range
     * and whose failure was delivered before this one was sent: this one may read the range. See
     * also `acked` of the record. */
    uint16_t accepted_high;
    uint32_t accepted_low;
} trp__access;

static inline uint64_t trp__accepted(const trp__access *access)
{
    return (uint64_t)access->accepted_high << 32 | access->accepted_low;
}

static inline void trp__set_accepted(trp__access *access, uint64_t ticket)
{
    access->accepted_high = (uint16_t)(ticket >> 32); /* a cell of the ring has 50 bits for it */
    access->accepted_low = (uint32_t)ticket;
}

/* 960 bytes: a first line that the scheduler needs, the actor's own payload, and the accesses,
 * which both sides understand without knowing the operation. */
typedef struct trp__record {
    uint64_t ticket; /* place in the total order of the device; written last */
    uint32_t op;
    uint16_t actor; /* index in the actor table */
    uint16_t access_count;
    /* A futex of the application, changed when the request has ended. The worker may wake its
     * `sleepers` when the work is done. */
    _Atomic uint32_t ended;
    _Atomic uint32_t sleepers;
    /* Set by the sender after it took the ticket, too late to refuse the call: the worker refuses
     * the request, with TRP_E_LOST or TRP_E_DEPENDENCY, because of request `cause`. */
    _Atomic uint32_t refuse; /* TRP_OK: it is not */
    /* It has a deadline, so it shares no timeline write. */
    uint8_t timed : 1;
    uint8_t sampled : 1; /* when it is issued and ends shall be noted */
    uint8_t labelled;    /* `label` is its own */
    /* Its outputs may be half-written unless it succeeds: a worker died while it was in flight, or
     * they were half-written before and it writes all of them. */
    _Atomic uint8_t begun;
    uint8_t reserved;
    uint64_t cause;
    _Atomic uint64_t cancelled; /* the record's ticket: it shall not be issued any more */
    uint32_t code;              /* of a request to an actor from a library */
    uint32_t payload_bytes;     /* likewise; others know theirs */
    /* A small piece of staging memory for a result, or for input: its number + 1, 0 for none; and
     * how many of its bytes. The actor finds it as one more access, behind those below. */
    uint32_t piece;
    uint32_t piece_bytes;
    unsigned char payload[TRP__PAYLOAD_BYTES];
    trp__access access[TRP__ACCESS_MAX];
    char label[TRP_LABEL_MAX + 1]; /* for people; untouched without */
    /* More failed requests that should have written parts of this one's inputs and whose failures
     * were delivered before. Bit i of the words together stands for ticket acked_last - i.
     * acked_last 0: none, and the words are undefined. */
    uint64_t acked_last;
    uint64_t acked[TRP__ACKED_WORDS];
} __attribute__((aligned(64))) trp__record;

_Static_assert(sizeof(trp__access) == 32, "layout of an access");
_Static_assert(sizeof(trp__record) == 960, "layout of a record");

/* Adds a failed request to `acked`; false if it is too old. acked_last is set, and the words were
 * zero. */
static inline bool trp__ack_failure(trp__record *record, uint64_t failed)
{
    uint64_t age = record->acked_last - failed;
    if (failed > record->acked_last || age >= TRP__ACKED_WINDOW)
        return false;
    record->acked[age / 64] |= UINT64_C(1) << age % 64;
    return true;
}

/* Whether the failure of a request, which should have written a part of `access`, was delivered
 * before this request was sent. */
static inline bool trp__is_acked(const trp__record *record, const trp__access *access,
                                 uint64_t failed)
{
    uint64_t age = record->acked_last - failed;
    return failed <= trp__accepted(access) ||
           (failed <= record->acked_last && age < TRP__ACKED_WINDOW &&
            (record->acked[age / 64] >> age % 64 & 1));
}

#define TRP__WHOLE_WORKER UINT64_MAX /* as a cause: no request, but a fault of the worker */

/* Fills the error of a request that was not issued, on either side: TRP_E_LOST or TRP_E_DEPENDENCY
 * because of request `cause`, or TRP_E_CANCELLED. Returns `status`. */
trp_status trp__refusal(trp_error *error, trp_status status, uint64_t cause);

/* Whether a request with this status was ended without a worker. */
static inline bool trp__is_refusal(trp_status status)
{
    return status == TRP_E_LOST || status == TRP_E_DEPENDENCY || status == TRP_E_CANCELLED;
}

#endif
