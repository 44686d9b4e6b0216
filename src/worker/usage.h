/* The last uses of each range of a buffer, from which the dependencies of requests follow. A buffer
 * has one row for uses of the whole buffer; smaller ranges have rows of their own, the parts. A
 * request depends on the buffer's row and on the parts that it overlaps; one that writes the whole
 * buffer depends on all parts, and removes them.
 *
 * A part has room for a few readers; one more counts as a reader of the whole buffer. If a buffer
 * would have too many parts, or memory is short, the request counts as a user of the whole buffer.
 * So some order may be stricter than needed, but none is lost. */
#ifndef TRP_WORKER_USAGE_H
#define TRP_WORKER_USAGE_H

#include "base/ranges.h"
#include "wire/layout.h"

/* Tickets may be of requests that are done long ago. */
typedef struct trp__usage {
    uint64_t writer_ticket; /* the last request that has written all of it */
    uint32_t writer;
    uint64_t readers; /* bit a: actor a has read it since, last with reader_ticket[a] */
    uint64_t reader_ticket[TRP__ACTORS];
    trp__ranges parts;
} trp__usage;

struct trp__scheduler;
struct trp__pending;

/* Adds to a request that is being taken the dependencies of one access, and notes the access for
 * later requests. */
void trp__usage_note(struct trp__scheduler *s, struct trp__pending *p, const trp__record *record,
                     const trp__access *access);

void trp__usages_free(struct trp__scheduler *s);

#endif
