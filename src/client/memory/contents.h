/* The state of the contents of buffers, byte by byte.
 *
 * A byte has five words, each the ticket of a request, 0 for none; they only rise. Each is the
 * larger of two: the word of the buffer, raised by requests on the whole buffer, and the word of
 * the *part* in which the byte lies. Parts are made as requests name ranges. A buffer whose
 * requests name all of it has no parts and needs no lock.
 *
 * A buffer has up to TRP__PARTS_MAX parts. Beyond that, or without memory for a part, obsolete
 * parts are dropped; if that is not enough, neighbours are joined, with the worst state of both and
 * of the bytes between them. So a reader may be refused without need until the range is written
 * anew, but never reads bad contents. */
#ifndef TRP_CLIENT_MEMORY_CONTENTS_H
#define TRP_CLIENT_MEMORY_CONTENTS_H

#include "client/core/device.h"

void trp__contents_init(trp_device *device);
void trp__contents_destroy(trp_device *device);

/* Resets the state, for a new buffer and for one that is gone. */
void trp__contents_reset(trp_device *device, uint32_t slot);

void trp__raise_ticket(_Atomic uint64_t *word, uint64_t ticket);

/* Raises a word of the range of an access to a ticket. */
void trp__contents_raise(trp_device *device, const trp__access *access, trp__word word,
                         uint64_t ticket);

/* Notes that a request was judged, for the range of an access. */
void trp__contents_judge(trp_device *device, const trp__access *access, uint64_t ticket, bool bad);

/* The same for a whole buffer, as neither bad nor covered; and resets its TRP__GOOD. */
void trp__contents_judge_all(trp_device *device, uint32_t slot, uint64_t ticket);

/* Replaces the judged ticket `from` of a whole buffer by `to`, if it was set in this recovery for
 * that generation. True if so. */
bool trp__contents_rejudge(trp_device *device, uint32_t slot, uint32_t generation, uint64_t from,
                           uint64_t to);

/* Walks over the parts of a range, front to end: trp__walk_begin(), then trp__walk_next() until
 * NULL. A walk may hold the buffer's content lock, so it must be short and take no other lock;
 * trp__walk_end() ends it early. */
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

/* Returns whether some byte of a buffer is, or has been, lost or poisoned. If not, only
 * TRP__COVERED needs a walk. */
static inline bool trp__is_damaged(const trp__contents *contents)
{
    return atomic_load_explicit(&contents->damaged, memory_order_acquire);
}

#endif
