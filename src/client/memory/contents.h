/* What is known of the contents of buffers, byte by byte.
 *
 * Five words, each the ticket of a request, 0 for none; they only rise. What holds for a byte is
 * the larger of two: the word of its buffer, which a request raises whose range is all of it, and
 * the word of the *part* that the byte lies in. Parts are made as requests name ranges. A buffer
 * whose requests name all of it has none, and nobody takes a lock for it.
 *
 * A buffer has up to TRP__PARTS_MAX parts. If it would have more, parts that say nothing any more
 * go; if that is not enough, neighbours become one, with what is worst for both and for the bytes
 * between them. The same happens where there is no memory for a part. So a reader may be refused
 * who need not be, until the range is written anew, and none reads what it should not. */
#ifndef TRP_CLIENT_MEMORY_CONTENTS_H
#define TRP_CLIENT_MEMORY_CONTENTS_H

#include "base/ranges.h"
#include "wire/layout.h"

#include <pthread.h>

enum { TRP__PARTS_MAX = 4096, TRP__CONTENT_LOCKS = 64 };

typedef enum trp__word {
    TRP__LOST,     /* the last request that may have half-written it */
    TRP__POISON,   /* the last that should have written it and failed, */
    TRP__ACCEPTED, /* and the last of those whose failure was told */
    TRP__COVERED,  /* the last request sent that writes all of it */
    TRP__GOOD,     /* the last of those that succeeded */
    TRP__WORDS,
} trp__word;

/* The last request that was judged when a worker had died: it was one that failed, or one that goes
 * on and writes all of it. The supervisor's. */
typedef struct trp__judged {
    uint64_t order; /* of two notes the one with the larger number counts; 0: none */
    uint64_t ticket;
    uint64_t cover; /* the last of the latter */
    uint32_t incarnation;
    uint32_t generation; /* of the buffer of the slot */
    bool bad;
} trp__judged;

/* A range of bytes of which the same is known. */
typedef struct trp__part {
    trp__range range;
    uint64_t word[TRP__WORDS];
    trp__judged judged;
} trp__part;

typedef struct trp__contents {
    _Atomic uint64_t word[TRP__WORDS]; /* of all bytes */
    _Atomic uint32_t parts;            /* how many there are in `map` */
    _Atomic bool damaged;              /* some byte is lost or poisoned, or was */
    trp__ranges map;                   /* of trp__part; under the buffer's content lock */
    trp__judged judged;                /* of all bytes; likewise */
} trp__contents;

struct trp_device;

void trp__contents_init(struct trp_device *device);
void trp__contents_destroy(struct trp_device *device);

/* Of a new buffer, of which nothing is known; and of one that is gone. */
void trp__contents_reset(struct trp_device *device, uint32_t slot);

void trp__raise_ticket(_Atomic uint64_t *word, uint64_t ticket);

/* Raises a word of the range of an access to a ticket. */
void trp__contents_raise(struct trp_device *device, const trp__access *access, trp__word word,
                         uint64_t ticket);

/* Notes that a request was judged, for the range of an access. */
void trp__contents_judge(struct trp_device *device, const trp__access *access, uint64_t ticket,
                         bool bad);

/* The same for all of a buffer, as neither bad nor covered; and forgets which requests that write
 * it have succeeded. */
void trp__contents_judge_all(struct trp_device *device, uint32_t slot, uint64_t ticket);

/* If that says the one ticket of all of a buffer of that generation, in this recovery, has it say
 * the other. */
bool trp__contents_rejudge(struct trp_device *device, uint32_t slot, uint32_t generation,
                           uint64_t from, uint64_t to);

/* Goes through a range, from front to end: trp__walk_begin(), then trp__walk_next() as long as it
 * gives parts. A walk may hold the buffer's content lock, so it is short, and takes no other lock;
 * it ends with the NULL of trp__walk_next(), or before with trp__walk_end(). */
typedef struct trp__walk {
    const trp__contents *contents;
    pthread_mutex_t *lock; /* NULL: not held */
    bool judges;           /* `judged` of its parts is wanted, too; only by the supervisor */
    uint64_t reached, end;
    uint32_t next;
    trp__part now;
} trp__walk;

trp__walk trp__walk_begin(struct trp_device *device, uint32_t slot, uint64_t begin, uint64_t end);
trp__walk trp__walk_judged(struct trp_device *device, const trp__access *access);
const trp__part *trp__walk_next(trp__walk *walk);
void trp__walk_end(trp__walk *walk);

static inline trp__walk trp__walk_access(struct trp_device *device, const trp__access *access)
{
    return trp__walk_begin(device, access->slot, access->offset, access->offset + access->bytes);
}

/* Whether some byte of a buffer is, or has been, lost or poisoned. If not there is nothing to walk
 * for but what covers it. */
static inline bool trp__is_damaged(const trp__contents *contents)
{
    return atomic_load_explicit(&contents->damaged, memory_order_acquire);
}

#endif
