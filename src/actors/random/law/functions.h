/* Elementary functions in f64 for random numbers. The host and kernels for GPUs share this text and
 * get equal bits: every step is one that IEEE 754 rounds correctly, and what a compiler could fuse
 * is written as fused. No branches, so that loops over them become vector instructions. Relative
 * errors are a few 2^-53. */
#ifndef TRP_ACTORS_RANDOM_LAW_FUNCTIONS_H
#define TRP_ACTORS_RANDOM_LAW_FUNCTIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double trp__random_with_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t trp__random_bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Both are computed, without a branch. */
static inline double trp__random_choose(int condition, double yes, double no)
{
    const uint64_t mask = 0 - (uint64_t)(condition != 0);
    return trp__random_with_bits((trp__random_bits_of(yes) & mask) |
                                 (trp__random_bits_of(no) & ~mask));
}

/* A fraction between 0 and 1, neither of both: an odd multiple of 2^-53. Without a conversion of 64
 * bits, for which AVX2 has no instruction; every step is exact. */
static inline double trp__random_fraction_of_64(uint64_t pair)
{
    return trp__random_with_bits(pair >> 12 | UINT64_C(0x3ff0000000000000)) - 1 + 0x1p-53;
}

/* log(x) of a positive normal number: x is 2^e m, m from sqrt(1/2) to sqrt(2), and log(m) is 2
 * atanh((m - 1) / (m + 1)), of full precision also near 1. */
static inline double trp__random_log(double x)
{
    const uint64_t half = UINT64_C(0x3fe6a09e00000000); /* sqrt(1/2) */
    const uint64_t bits = trp__random_bits_of(x) - half;
    const double e = trp__random_with_bits((bits + UINT64_C(0x4000000000000000)) >> 52 |
                                           UINT64_C(0x4330000000000000)) -
                     (0x1p52 + 1024);
    const double m = trp__random_with_bits((bits & UINT64_C(0x000fffffffffffff)) + half);
    const double s = (m - 1) / (m + 1), z = s * s;
    double p = 1.0 / 23;
    p = fma(p, z, 1.0 / 21);
    p = fma(p, z, 1.0 / 19);
    p = fma(p, z, 1.0 / 17);
    p = fma(p, z, 1.0 / 15);
    p = fma(p, z, 1.0 / 13);
    p = fma(p, z, 1.0 / 11);
    p = fma(p, z, 1.0 / 9);
    p = fma(p, z, 1.0 / 7);
    p = fma(p, z, 1.0 / 5);
    p = fma(p, z, 1.0 / 3);
    const double twice = s + s;
    return fma(e, 0.69314718055994530942, fma(twice * z, p, twice));
}

/* exp(x) of any number that is not NaN; 0 and infinity where f64 has no other. */
static inline double trp__random_exp(double x)
{
    const double round = 0x1.8p52; /* a sum with this is rounded to an integer */
    x = trp__random_choose(x > 800, 800, x);
    x = trp__random_choose(x < -800, -800, x);
    const double shifted = fma(x, 1.4426950408889634074, round), n = shifted - round;
    double r = fma(n, -0x1.62e42fefa39efp-1, x);
    r = fma(n, -0x1.abc9e3b39803fp-56, r);
    double p = 1.0 / 6227020800;
    p = fma(p, r, 1.0 / 479001600);
    p = fma(p, r, 1.0 / 39916800);
    p = fma(p, r, 1.0 / 3628800);
    p = fma(p, r, 1.0 / 362880);
    p = fma(p, r, 1.0 / 40320);
    p = fma(p, r, 1.0 / 5040);
    p = fma(p, r, 1.0 / 720);
    p = fma(p, r, 1.0 / 120);
    p = fma(p, r, 1.0 / 24);
    p = fma(p, r, 1.0 / 6);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1);
    p = fma(p, r, 1);
    /* 2^n in two steps: n is beyond f64's exponents, and the last product may be subnormal. With
     * 4096 added, n is positive and its half exact. */
    const uint64_t whole = (trp__random_bits_of(shifted) & 0xffff) + 4096;
    const uint64_t first = (whole & 0xffff) >> 1, second = (whole & 0xffff) - first;
    p *= trp__random_with_bits((first + 1023 - 2048) << 52);
    return p * trp__random_with_bits((second + 1023 - 2048) << 52);
}

/* sin(pi t) and cos(pi t) for |t| up to 1/4. */
static inline double trp__random_sinpi(double t)
{
    const double x = t * 3.14159265358979323846, z = x * x;
    double p = -1.0 / 1307674368000;
    p = fma(p, z, 1.0 / 6227020800);
    p = fma(p, z, -1.0 / 39916800);
    p = fma(p, z, 1.0 / 362880);
    p = fma(p, z, -1.0 / 5040);
    p = fma(p, z, 1.0 / 120);
    p = fma(p, z, -1.0 / 6);
    return fma(x * z, p, x);
}

static inline double trp__random_cospi(double t)
{
    const double x = t * 3.14159265358979323846, z = x * x;
    double p = 1.0 / 20922789888000;
    p = fma(p, z, -1.0 / 87178291200);
    p = fma(p, z, 1.0 / 479001600);
    p = fma(p, z, -1.0 / 3628800);
    p = fma(p, z, 1.0 / 40320);
    p = fma(p, z, -1.0 / 720);
    p = fma(p, z, 1.0 / 24);
    p = fma(p, z, -0.5);
    return fma(z, p, 1);
}

/* Two independent normal numbers from two pairs of words (Box and Muller). The first two bits of
 * `turn` choose a quarter of the circle. */
static inline void trp__random_normal_two(uint64_t far, uint64_t turn, double out[2])
{
    const double radius = sqrt(-2 * trp__random_log(trp__random_fraction_of_64(far)));
    const double t = fma(trp__random_fraction_of_64(turn << 2), 0.5, -0.25);
    const double s = radius * trp__random_sinpi(t), c = radius * trp__random_cospi(t);
    const int swap = (int)(turn >> 62 & 1);
    const uint64_t sign = turn & UINT64_C(0x8000000000000000);
    const double first = trp__random_choose(swap, s, c), second = trp__random_choose(swap, c, s);
    /* Half of the quarters turned by a half turn; swapping mirrors a quarter, so that the four
     * cover the circle once: angles -1/4 to 1/4, 1/4 to 3/4, and both with the sign. */
    out[0] = trp__random_with_bits(trp__random_bits_of(first) ^ sign);
    out[1] = trp__random_with_bits(trp__random_bits_of(second) ^ sign);
}

/* Numbers of distributions with parameters 0 and 1, from a fraction u between 0 and 1 of which 1 -
 * u is exact. */
static inline double trp__random_exponential(double u)
{
    return -trp__random_log(u);
}

static inline double trp__random_laplace(double u)
{
    const double least = trp__random_choose(u < 0.5, u, 1 - u), e = trp__random_log(least + least);
    return trp__random_choose(u < 0.5, e, -e);
}

/* tan(pi (u - 1/2)), by the cotangent of the smaller of u and 1 - u. */
static inline double trp__random_cauchy(double u)
{
    const double least = trp__random_choose(u < 0.5, u, 1 - u);
    const int above = least > 0.25;
    const double t = trp__random_choose(above, 0.5 - least, least);
    const double s = trp__random_sinpi(t), c = trp__random_cospi(t);
    const double y = trp__random_choose(above, s, c) / trp__random_choose(above, c, s);
    return trp__random_choose(u < 0.5, -y, y);
}

static inline double trp__random_gumbel(double u)
{
    return -trp__random_log(-trp__random_log(u));
}

#endif
