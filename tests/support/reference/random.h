/* SplitMix64 (Steele, Lea, Flood 2014): random numbers for tests that can be repeated from one
 * number, which is both seed and state. Needs no library. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_RANDOM_H
#define TESTS_SUPPORT_REFERENCE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In 0 .. limit - 1; `limit` is at least 1. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(random_next(state) % limit);
}

/* Of any magnitude from `least` to `most` bits, at least 1. (With two draws in one expression, the
 * compiler would choose their order.) */
static inline uint64_t random_bits(uint64_t *state, uint32_t least, uint32_t most)
{
    const uint32_t bits = least + random_below(state, most - least + 1);
    return random_next(state) >> (64 - bits);
}

#endif
