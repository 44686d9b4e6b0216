/* Computes two normally distributed numbers from two words of Philox (Box and Muller) in f32: the
 * host and kernels for GPUs use this text and get equal bits. Every step is one that IEEE 754
 * rounds correctly; products and sums that a compiler could fuse are written as fused. */
#ifndef TRP_BASE_NUMBERS_NORMAL_H
#define TRP_BASE_NUMBERS_NORMAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t trp__normal_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float trp__normal_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns sqrt(x) for x from 2^-100 to 2^100, correctly rounded: sqrtf() of a GPU without the test
 * of its argument. */
static inline float trp__normal_root(float x)
{
#ifdef __CUDACC_RTC__
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    const float near = x * y;
    return fmaf(fmaf(-near, near, x), y * 0.5F, near);
#else
    return sqrtf(x);
#endif
}

/* Returns the larger of two numbers that are not NaN, for which fmaxf() would keep compilers from
 * making vector instructions. */
static inline float trp__normal_larger(float a, float b)
{
#ifdef __CUDACC_RTC__
    return fmaxf(a, b);
#else
    return a > b ? a : b;
#endif
}

/* Returns sqrt(-2 log(x)) for x from 2^-100 to 1, with a relative error of 2^-22.5; for x = 1 it is
 * 2^-50. x is 2^e (1 + r), |r| at most 1/3; the polynomial is -2 log(1 + r) / r to 2^-25. */
static inline float trp__normal_far(float x)
{
    const uint32_t bits = trp__normal_bits(x);
    const uint32_t power = (bits - UINT32_C(0x3f2aaaab)) & UINT32_C(0xff800000);
    const float r = trp__normal_float(bits - power) - 1.0F;
    float p = -0x1.1fde48p-2F;
    p = fmaf(p, r, 0x1.3b7510p-2F);
    p = fmaf(p, r, -0x1.1e77a0p-2F);
    p = fmaf(p, r, 0x1.50224ep-2F);
    p = fmaf(p, r, -0x1.99d838p-2F);
    p = fmaf(p, r, 0x1.00150ap-1F);
    p = fmaf(p, r, -0x1.5554e6p-1F);
    p = fmaf(p, r, 0x1.ffffd2p-1F);
    p = fmaf(p, r, -2.0F);
    return trp__normal_root(
        trp__normal_larger(fmaf((float)(int32_t)power, -0x1.62e430p-23F, r * p), 0x1p-100F));
}

/* Computes the cosine and sine of 2 pi u to 2^-22.5, except for the sign, which is the first bit:
 * t, from -1/2 to below 1/2, is the excess of the other 23 bits over a quarter turn, in half
 * turns. */
static inline void trp__normal_turn(uint32_t word, float turn[2])
{
    const float t =
        trp__normal_float((word >> 8 & UINT32_C(0x7fffff)) | UINT32_C(0x3f800000)) - 1.5F;
    const float z = t * t;
    float s = -0x1.3c5b62p-4F, c = 0x1.c1f066p-3F;
    s = fmaf(s, z, 0x1.323436p-1F);
    s = fmaf(s, z, -0x1.46677ep+1F);
    s = fmaf(s, z, 0x1.4abbb6p+2F);
    s = fmaf(s, z, -0x1.921fb4p+1F);
    c = fmaf(c, z, -0x1.54f61ap+0F);
    c = fmaf(c, z, 0x1.03bd06p+2F);
    c = fmaf(c, z, -0x1.3bd3a6p+2F);
    c = fmaf(c, z, 0x1.fffffep-1F);
    turn[0] = t * s;
    turn[1] = c;
}

typedef struct trp__normal {
    float mean, deviation;
} trp__normal;

static inline trp__normal trp__normal_of(double mean, double deviation)
{
    const double most = 0x1.fffffep+127;
    const trp__normal n = {(float)fmax(fmin(mean, most), -most), (float)fmin(deviation, most)};
    return n;
}

/* Computes mean + deviation z, with z of TRP_DNN_NORMAL, for an even element, from its word and the
 * next one, and for the following element. 24 bits of a word are used. */
static inline void trp__normal_two(trp__normal n, uint32_t word, uint32_t next, float out[2])
{
    float turn[2];
    const uint32_t sign = next & UINT32_C(0x80000000);
    const float part = fmaf((float)(word >> 8), -0x1p-24F, 1.0F); /* 1 - u */
    const float far = trp__normal_float(trp__normal_bits(trp__normal_far(part)) ^ sign);
    trp__normal_turn(next, turn);
    out[0] = fmaf(n.deviation, far * turn[0], n.mean);
    out[1] = fmaf(n.deviation, far * turn[1], n.mean);
}

#endif
