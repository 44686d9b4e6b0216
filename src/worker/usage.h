/* Who uses which bytes of a buffer: what a request has to wait for follows from that.
 *
 * Of all of a buffer there is one row, and that is all as long as requests use all of it. Ranges
 * that are less have rows of their own, the parts. A request comes after what the row of the buffer
 * says, and after what those parts say that it overlaps; one that writes all of the buffer comes
 * after all parts, and ends them.
 *
 * A part has room for a few readers; one more counts as a reader of all of the buffer. Where a
 * buffer would have too many parts, or there is no memory, the request counts as one that uses all
 * of it. So an order may be kept that need not be, and none is lost. */
#ifndef TRP_WORKER_USAGE_H
#define TRP_WORKER_USAGE_H

#include "base/ranges.h"
#include "wire/layout.h"

/* Tickets of the past may name requests that are done long ago. */
typedef struct trp__usage {
    uint64_t writer_ticket; /* the last request that has written all of it */
    uint32_t writer;
    uint64_t readers; /* bit a: actor a has read it since, last with reader_ticket[a] */
    uint64_t reader_ticket[TRP__ACTORS];
    trp__ranges parts;
} trp__usage;

struct trp__scheduler;
struct trp__pending;

/* Adds to a request that is being taken what follows from one of its accesses, and notes it for
 * those that come later. */
void trp__usage_note(struct trp__scheduler *s, struct trp__pending *p, const trp__record *record,
                     const trp__access *access);

void trp__usages_free(struct trp__scheduler *s);

#endif
