/* The loops of vmath.h, for one instruction set. vmath.c and vmath_avx2.c include this, with
 * VMATH(name), a function's name, and LINKAGE. The functions of one element have no branches, so
 * that compilers make vector instructions of their loops. */
#include "base/numbers/vmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

static const double LOG2_E = 1.4426950408889634074, LN_2 = 0.69314718055994530942;
static const double SQRT_HALF = 0.70710678118654752440, SQRT_2_PI = 0.79788456080286535588;
static const double GELU_CUBE = 0.044715;
static const double ROUND = 0x1.8p52; /* a sum with this is rounded to an integer */

INLINE double with_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Both are computed: compilers make a branch of a plain conditional where one side is costly, and
 * then no vector instructions. */
INLINE double choose(int condition, double yes, double no)
{
    const uint64_t mask = -(uint64_t)(condition != 0);
    return with_bits((bits_of(yes) & mask) | (bits_of(no) & ~mask));
}

/* exp(x) to 2e-11; beyond f32's range something that rounds to 0 or to infinity. */
INLINE double exp_of(double x)
{
    x = x > 700 ? 700 : x;
    x = x < -700 ? -700 : x; /* NaN stays */
    const double n = x * LOG2_E + ROUND;
    const double r = x - (n - ROUND) * LN_2;
    double p = 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    return p * with_bits((bits_of(n) + 1023) << 52);
}

/* 2 atanh(s), for |s| up to 0.1716. */
INLINE double twice_atanh(double s)
{
    const double z = s * s;
    double p = 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return 2 * (s + s * z * p);
}

/* The logarithm of an f32, whose denormals are normal numbers in f64. */
INLINE double log_of(double x)
{
    const uint64_t bits = bits_of(x) - 0x3fe6a09e00000000; /* sqrt(1/2): 0 up to sqrt(2) */
    const double e = with_bits((bits + 0x4000000000000000) >> 52 | 0x4330000000000000);
    const double exponent = e - (0x1p52 + 1024);
    const double m = with_bits((bits & 0x000fffffffffffff) + 0x3fe6a09e00000000);
    double y = exponent * LN_2 + twice_atanh((m - 1) / (m + 1));
    y = x > 3.5e38 ? x : y;
    y = x == 0 ? -INFINITY : y;
    y = x >= 0 ? y : NAN;
    return y;
}

/* log(1 + e) for e from 0 to 1, of full relative precision. */
INLINE double log1p_of(double e)
{
    const double large = twice_atanh((e - 1) / (e + 3)) + LN_2, small = twice_atanh(e / (2 + e));
    return choose(e > 0.41421356, large, small);
}

INLINE double tanh_of(double x)
{
    const double a = fabs(x), z = x * x;
    const double small = x * (1 + z * (-1.0 / 3 + z * (2.0 / 15 - z * (17.0 / 315))));
    const double large = copysign(1 - 2 / (exp_of(2 * a) + 1), x);
    return choose(a < 0.02, small, large);
}

INLINE double sigmoid_of(double x)
{
    return 1 / (1 + exp_of(-x));
}

/* s(u) s(-u), where s is the sigmoid, without subtracting numbers near 1. */
INLINE double bend_of(double u)
{
    const double e = exp_of(-fabs(u)), d = 1 / (1 + e);
    return e * d * d;
}

INLINE double sigmoid_slope_of(double x)
{
    return bend_of(x);
}

INLINE double tanh_slope_of(double x)
{
    return 4 * bend_of(2 * x);
}

/* exp(x) - 1 */
INLINE double expm1_of(double x)
{
    const double small = x * (1 + x * (0.5 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120)))));
    return choose(fabs(x) < 0.02, small, exp_of(x) - 1);
}

/* erfc(z) for z of 0 and more: t exp(-z^2 + P(t)) with t = 2 / (2 + z). P interpolates at
 * Chebyshev's points of z from 0 to 15; the error is 3e-13 of the result. */
INLINE double erfc_of(double z)
{
    static const double c[] = {
        -0.5920823665804957,    0.6015705405772255,      0.02344957606314667,
        -0.03453904933333621,   -0.0026974107745358824,  0.005020356544474999,
        -6.74040264892284e-05,  -0.0009059685255020612,  0.0001724089333077927,
        0.0001490032973282496,  -7.002913211522355e-05,  -1.4496585720280564e-05,
        1.882088782167557e-05,  -1.8234386698168235e-06, -3.4160318318754432e-06,
        1.1028737571905367e-06, 3.255062620155513e-07,   -1.7025464330799877e-07};
    const double t = 2 / (2 + z), u = (t - 0.5588235294117647) * 2.2666666666666666;
    double p = c[17];
    p = p * u + c[16];
    p = p * u + c[15];
    p = p * u + c[14];
    p = p * u + c[13];
    p = p * u + c[12];
    p = p * u + c[11];
    p = p * u + c[10];
    p = p * u + c[9];
    p = p * u + c[8];
    p = p * u + c[7];
    p = p * u + c[6];
    p = p * u + c[5];
    p = p * u + c[4];
    p = p * u + c[3];
    p = p * u + c[2];
    p = p * u + c[1];
    p = p * u + c[0];
    return t * exp_of(p - z * z);
}

INLINE double erf_of(double x)
{
    const double a = fabs(x), z = x * x;
    double p = -1.0 / 75600;
    p = p * z + 1.0 / 9360;
    p = p * z - 1.0 / 1320;
    p = p * z + 1.0 / 216;
    p = p * z - 1.0 / 42;
    p = p * z + 1.0 / 10;
    p = p * z - 1.0 / 3;
    const double small = 1.1283791670955125739 * x * (1 + z * p);
    const double large = copysign(1 - erfc_of(a), x);
    return choose(a < 0.25, small, large);
}

/* The probability of a normal number below x. */
INLINE double phi_of(double x)
{
    const double tail = 0.5 * erfc_of(fabs(x) * SQRT_HALF);
    return choose(x < 0, tail, 1 - tail);
}

INLINE double gelu_of(double x)
{
    return x * phi_of(x);
}

INLINE double gelu_slope_of(double x)
{
    return phi_of(x) + x * exp_of(-0.5 * x * x) * (SQRT_2_PI * 0.5);
}

INLINE double gelu_tanh_of(double x)
{
    return x * sigmoid_of(2 * SQRT_2_PI * (x + GELU_CUBE * x * x * x));
}

/* s(u) + x s(u) s(-u) u', with s the sigmoid of u = 2 sqrt(2 / pi) (x + 0.044715 x^3). */
INLINE double gelu_tanh_slope_of(double x)
{
    const double u = 2 * SQRT_2_PI * (x + GELU_CUBE * x * x * x);
    const double du = 2 * SQRT_2_PI * (1 + 3 * GELU_CUBE * x * x);
    const double e = exp_of(-fabs(u)), d = 1 / (1 + e);
    return choose(u < 0, e * d, d) + x * (e * d * d) * du;
}

INLINE double swish_of(double x, double p)
{
    return x * sigmoid_of(p * x);
}

INLINE double swish_slope_of(double x, double p)
{
    const double u = p * x, e = exp_of(-fabs(u)), d = 1 / (1 + e);
    return choose(u < 0, e * d, d) + u * (e * d * d);
}

INLINE double softplus_of(double x, double p)
{
    const double u = p * x;
    return ((u > 0 ? u : 0) + log1p_of(exp_of(-fabs(u)))) / p;
}

INLINE double softplus_slope_of(double x, double p)
{
    return sigmoid_of(p * x);
}

INLINE double elu_slope_of(double x, double p)
{
    return choose(x > 0, 1, p * exp_of(x));
}

INLINE double elu_of(double x, double p)
{
    return choose(x > 0, x, p * expm1_of(x));
}

enum { VMATH_BLOCK = 64 };

/* The inner loop has a constant trip count, so compilers make no remainder loop. The last elements
 * go through a block of their own. */
#define VMATH_ARRAY(...)                                                                           \
    do {                                                                                           \
        float from[VMATH_BLOCK] = {0}, to[VMATH_BLOCK];                                            \
        for (size_t at = 0; at < count; at += VMATH_BLOCK) {                                       \
            const size_t some = count - at < VMATH_BLOCK ? count - at : VMATH_BLOCK;               \
            if (some == VMATH_BLOCK)                                                               \
                memcpy(from, in + at, sizeof from);                                                \
            else                                                                                   \
                memcpy(from, in + at, some * sizeof *from);                                        \
            for (int i = 0; i < VMATH_BLOCK; i++) {                                                \
                const double x = (double)from[i];                                                  \
                to[i] = (float)(__VA_ARGS__);                                                      \
            }                                                                                      \
            if (some == VMATH_BLOCK)                                                               \
                memcpy(out + at, to, sizeof to);                                                   \
            else                                                                                   \
                memcpy(out + at, to, some * sizeof *to);                                           \
        }                                                                                          \
    } while (0)

#define VMATH_DEFINE(name)                                                                         \
    LINKAGE void VMATH(name)(const float *in, float *out, size_t count)                            \
    {                                                                                              \
        VMATH_ARRAY(name##_of(x));                                                                 \
    }
#define VMATH_DEFINE_WITH_NUMBER(name)                                                             \
    LINKAGE void VMATH(name)(const float *in, double p, float *out, size_t count)                  \
    {                                                                                              \
        VMATH_ARRAY(name##_of(x, p));                                                              \
    }
TRP__VMATH_FUNCTIONS(VMATH_DEFINE)
TRP__VMATH_FUNCTIONS_WITH_NUMBER(VMATH_DEFINE_WITH_NUMBER)
