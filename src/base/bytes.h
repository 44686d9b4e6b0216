/* Numbers in files: little-endian, at any address. */
#ifndef TRP_BASE_BYTES_H
#define TRP_BASE_BYTES_H

#include <stdint.h>

static inline void trp__put32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static inline void trp__put64(unsigned char *to, uint64_t value)
{
    trp__put32(to, (uint32_t)value);
    trp__put32(to + 4, (uint32_t)(value >> 32));
}

static inline uint32_t trp__get32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static inline uint64_t trp__get64(const unsigned char *from)
{
    return trp__get32(from) | (uint64_t)trp__get32(from + 4) << 32;
}

#endif
