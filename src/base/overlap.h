/* Tells whether strided arrays share a byte, by elements, so that interleaved views do not. */
#ifndef TRP_BASE_OVERLAP_H
#define TRP_BASE_OVERLAP_H

#include <stdint.h>

enum { TRP__OVERLAP_RANK = 8 };

typedef enum trp__overlap {
    TRP__OVERLAP_NONE,
    TRP__OVERLAP_SOME,
    TRP__OVERLAP_UNKNOWN, /* the search was stopped because of irregular strides */
} trp__overlap;

/* Strides are bytes, 0 or more. The array spans less than 2^62 bytes. */
typedef struct trp__strided {
    int rank;
    int64_t dim[TRP__OVERLAP_RANK], stride[TRP__OVERLAP_RANK];
    int64_t size; /* of an element */
} trp__strided;

/* `distance`: bytes from the first element of `a` to that of `b`. */
trp__overlap trp__overlap_between(const trp__strided *a, const trp__strided *b, int64_t distance);

/* Whether two elements of one array share a byte. */
trp__overlap trp__overlap_within(const trp__strided *a);

#endif
