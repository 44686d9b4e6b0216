/* Philox4x32-10: random numbers as a function of a counter and a key, so that any element of a
 * tensor can be drawn independently, in any order and repeatedly.
 *
 * Source: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
 *
 * The host and kernels for GPUs share this text. NVRTC compiles it, so it uses no C library. */
#ifndef TRP_BASE_NUMBERS_PHILOX_H
#define TRP_BASE_NUMBERS_PHILOX_H

#include <stdint.h>

enum { TRP__PHILOX_WORDS = 4 };

/* Computes the two words of a product. With a 64-bit product NVRTC adds a zero word to each. */
static inline void trp__philox_product(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
#ifdef __CUDACC_RTC__
    asm("{ .reg .b64 both; mul.wide.u32 both, %2, %3; mov.b64 {%0, %1}, both; }"
        : "=r"(*low), "=r"(*high)
        : "r"(a), "r"(b));
#else
    const uint64_t both = (uint64_t)a * b;
    *high = (uint32_t)(both >> 32);
    *low = (uint32_t)both;
#endif
}

static inline void trp__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint32_t high0, low0, high2, low2;
        trp__philox_product(UINT32_C(0xd2511f53), c0, &high0, &low0);
        trp__philox_product(UINT32_C(0xcd9e8d57), c2, &high2, &low2);
        c0 = high2 ^ c1 ^ k0;
        c1 = low2;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Returns four words of the sequence of a seed and an offset: word n of the sequence is word n % 4
 * of block n / 4. */
static inline void trp__philox_block(uint64_t seed, uint64_t offset, uint64_t number,
                                     uint32_t out[TRP__PHILOX_WORDS])
{
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), (uint32_t)offset,
                                 (uint32_t)(offset >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    trp__philox(counter, key, out);
}

/* Returns a number from 0 to below 1 in steps of 2^-24, which f32 represents exactly. */
static inline float trp__philox_uniform(uint32_t word)
{
    return (float)(word >> 8) * (1.0F / 16777216.0F);
}

#endif
