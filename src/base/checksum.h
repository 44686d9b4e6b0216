/* A checksum against damage by accident: a wild write, a truncated copy. Not against malice. */
#ifndef TRP_BASE_CHECKSUM_H
#define TRP_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Every byte, and its place, changes the result. `seed` is a checksum to go on from, or 0. */
static inline uint64_t trp__checksum(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    uint64_t h = seed ^ (UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)bytes + 1));
    for (; bytes > 0;) {
        uint64_t word = 0;
        size_t n = bytes < 8 ? bytes : 8;
        memcpy(&word, at, n);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 29;
        at += n;
        bytes -= n;
    }
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 32);
}

#endif
