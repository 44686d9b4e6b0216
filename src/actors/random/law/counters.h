/* The law of counters of <troupe/random.h>, and fractions made of words. The host and kernels for
 * GPUs share this text: it uses no C library but fma(), and its steps are those that IEEE 754
 * rounds correctly. */
#ifndef TRP_ACTORS_RANDOM_LAW_COUNTERS_H
#define TRP_ACTORS_RANDOM_LAW_COUNTERS_H

#include "base/numbers/philox.h"

#include <math.h>
#include <stdint.h>

/* Blocks of a stream; their numbers wrap. */
#define TRP__RANDOM_BLOCKS (UINT64_C(1) << 62)

/* Elements are numbered from the begin of the stream in units of their own words. */
static inline uint64_t trp__random_first_element(uint64_t offset, uint32_t words)
{
    return offset / words + (offset % words != 0);
}

/* Replaces a block by that of the next try. */
static inline void trp__random_again(uint64_t seed, uint32_t block[TRP__PHILOX_WORDS])
{
    const uint32_t counter[4] = {block[0], block[1], block[2], block[3]};
    const uint32_t key[2] = {~(uint32_t)seed, ~(uint32_t)(seed >> 32)};
    trp__philox(counter, key, block);
}

static inline uint64_t trp__random_pair(const uint32_t *word)
{
    return (uint64_t)word[1] << 32 | word[0];
}

/* A fraction between 0 and 1, neither of both: an odd multiple of 2^-33. */
static inline double trp__random_fraction_of_32(uint32_t word)
{
    return fma((double)word, 0x1p-32, 0x1p-33);
}

/* One try for an integer below `range`, by a multiplication (Lemire): false if the word is one of
 * those that would make some integers more probable. `limit` is 2^32 (or 2^64) modulo `range`. A
 * range of 0, with a limit of 0, is that of all words. */
static inline int trp__random_try_32(uint32_t word, uint32_t range, uint32_t limit, uint32_t *out)
{
    const uint64_t product = (uint64_t)word * range;
    *out = range ? (uint32_t)(product >> 32) : word;
    return (uint32_t)product >= limit;
}

static inline int trp__random_try_64(uint64_t pair, uint64_t range, uint64_t limit, uint64_t *out)
{
    /* 64 x 64 bits to 128, by halves. */
    const uint64_t a = pair >> 32, b = (uint32_t)pair, c = range >> 32, d = (uint32_t)range;
    const uint64_t bd = b * d, ad = a * d, bc = b * c;
    const uint64_t middle = (bd >> 32) + (uint32_t)ad + (uint32_t)bc;
    const uint64_t low = middle << 32 | (uint32_t)bd;
    *out = range ? a * c + (ad >> 32) + (bc >> 32) + (middle >> 32) : pair;
    return low >= limit;
}

#endif
