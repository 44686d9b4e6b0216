/* A sorted vector of disjoint ranges of bytes of a buffer, each with some words of the owner's.
 *
 * An element is a struct that begins with a trp__range; `stride` is its size. Elements are copied
 * when a range is cut, so they hold no pointers that are theirs alone. All bytes zero: an empty
 * vector. Not for several threads at a time. */
#ifndef TRP_BASE_RANGES_H
#define TRP_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct trp__range {
    uint64_t begin, end; /* begin < end */
} trp__range;

typedef struct trp__ranges {
    char *at;
    uint32_t count, room; /* elements */
} trp__ranges;

static inline void *trp__ranges_at(const trp__ranges *r, size_t stride, uint32_t index)
{
    return r->at + stride * index;
}

/* Returns the first element that ends after `offset`; `count` if there is none. */
uint32_t trp__ranges_find(const trp__ranges *r, size_t stride, uint64_t offset);

/* Makes the elements *first to *last - 1 cover begin to end exactly: an element that reaches beyond
 * is cut in two, and gaps are filled with elements whose words are zero. False, and nothing
 * changed, if memory is short or the vector would have more than `most` elements. */
bool trp__ranges_cut(trp__ranges *r, size_t stride, uint64_t begin, uint64_t end, uint32_t most,
                     uint32_t *first, uint32_t *last);

void trp__ranges_free(trp__ranges *r);

#endif
