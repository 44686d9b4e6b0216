/* Payloads of the random actor: checked, with defaults applied. */
#ifndef TRP_ACTORS_RANDOM_LAW_RANDOM_WIRE_H
#define TRP_ACTORS_RANDOM_LAW_RANDOM_WIRE_H

#include <troupe/random.h>

enum { TRP__RANDOM_NO_ACCESS = 0xff };

/* Dimensions in their order. Those of one element are left out, and neighbours are joined where the
 * outer one goes on where the inner one ends. */
typedef struct trp__random_dim {
    int64_t n, stride; /* stride: elements */
} trp__random_dim;

typedef struct trp__random {
    uint64_t seed, stream, offset;
    /* UNIFORM: low, high - low, the smallest and the largest result, none of them -0. NORMAL: loc,
     * its imaginary part (of real types loc again), scale of each part. Others: loc, nothing,
     * scale. */
    double number[4];
    /* INTEGERS: the smallest, and how many there are (0: 2^32 of the narrower types, 2^64 of i64).
     * BERNOULLI, DROPOUT: the bits of a result whose word is below `limit`, and of the others. */
    uint64_t whole[2];
    uint64_t limit;  /* INTEGERS: 2^32 or 2^64 modulo whole[1]; 0 where that is 0 */
    int64_t y_first; /* bytes from the begin of the access to the element of index 0 */
    uint8_t distribution, ends, type;
    uint8_t words; /* of an element */
    uint8_t rank;
    uint8_t access_y, access_state;
    trp__random_dim dim[TRP_RANDOM_RANK_MAX];
} trp__random;

/* Accesses: `from`, then `to`; one alone if they are the same place. */
typedef struct trp__random_advance {
    uint64_t words;
} trp__random_advance;

#endif
