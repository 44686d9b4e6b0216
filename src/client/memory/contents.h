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

#include "client/core/device.h"

void trp__contents_init(trp_device *device);
void trp__contents_destroy(trp_device *device);

/* Of a new buffer, of which nothing is known; and of one that is gone. */
void trp__contents_reset(trp_device *device, uint32_t slot);

void trp__raise_ticket(_Atomic uint64_t *word, uint64_t ticket);

/* Raises a word of the range of an access to a ticket. */
void trp__contents_raise(trp_device *device, const trp__access *access, trp__word word,
                         uint64_t ticket);

/* Notes that a request was judged, for the range of an access. */
void trp__contents_judge(trp_device *device, const trp__access *access, uint64_t ticket, bool bad);

/* The same for all of a buffer, as neither bad nor covered; and forgets which requests that write
 * it have succeeded. */
void trp__contents_judge_all(trp_device *device, uint32_t slot, uint64_t ticket);

/* If that says the one ticket of all of a buffer of that generation, in this recovery, has it say
 * the other. */
bool trp__contents_rejudge(trp_device *device, uint32_t slot, uint32_t generation, uint64_t from,
                           uint64_t to);

/* Goes through a range, from front to end: trp__walk_begin(), then trp__walk_next() as long as it
 * gives parts. A walk may hold the buffer's content lock, so it is short, and takes no other lock;
 * it ends with the NULL of trp__walk_next(), or before with trp__walk_end(). */
typedef struct trp__walk {
    const trp__contents *contents;
    trp__lock *lock; /* NULL: not held */
    bool judges;     /* `judged` of its parts is wanted, too; only by the supervisor */
    uint64_t reached, end;
    uint32_t next;
    trp__part now;
} trp__walk;

trp__walk trp__walk_begin(trp_device *device, uint32_t slot, uint64_t begin, uint64_t end);
trp__walk trp__walk_judged(trp_device *device, const trp__access *access);
const trp__part *trp__walk_next(trp__walk *walk);
void trp__walk_end(trp__walk *walk);

static inline trp__walk trp__walk_access(trp_device *device, const trp__access *access)
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
