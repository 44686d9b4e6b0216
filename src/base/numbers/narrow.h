/*
 * Conversions between float32 and the floating formats of 8 and 4 bits. A value travels as its bits
 * in a uint8_t.
 *
 *   f8e4m3   sign, 4 bits of exponent (bias 7), 3 of fraction; no infinities, largest 448; NaN is
 *            all ones, with either sign
 *   f8e5m2   sign, 5 bits of exponent (bias 15), 2 of fraction; as IEEE 754: infinities and NaN;
 *            largest finite 57344
 *   f4e2m1   sign, 2 bits of exponent (bias 1), 1 of fraction: 0, 0.5, 1, 1.5, 2, 3, 4 and 6
 *   ue4m3    f8e4m3 without its sign, for scale factors
 *   ue8m0    2^(bits - 127), for scale factors; 255 is NaN
 *
 * Narrowing rounds to nearest, ties to even, and saturates: values that are too large, infinities
 * included, become the largest finite value of their sign. NaN becomes the NaN 0x7f without a sign,
 * and in f4e2m1, which has none, +6. ue8m0 rounds up, so that a quotient by the scale factor does
 * not overflow. CUDA's conversions with __NV_SATFINITE do the same. Widening is exact; each NaN
 * becomes the quiet NaN 0x7fc00000.
 *
 * As in half.h all of it is integer arithmetic, but for one exact product.
 *
 * Source: OCP 8-bit Floating Point Specification (OFP8) 1.0; OCP Microscaling Formats (MX) 1.0;
 * CUDA's cuda_fp8.hpp and cuda_fp4.hpp. */
#ifndef TRP_BASE_NUMBERS_NARROW_H
#define TRP_BASE_NUMBERS_NARROW_H

#include "base/numbers/half.h"

#define TRP__F8E4M3_MAX 448.0f
#define TRP__F8E5M2_MAX 57344.0f
#define TRP__F4E2M1_MAX 6.0f

/*
 * |value| of a float32 that is not a NaN, as bits of a format with `fraction` bits of fraction and
 * the given bias, at most `max`. All but the first are constants where it is called, and nothing
 * returns early: so loops over it vectorise.
 */
static inline uint32_t trp__narrow_magnitude(uint32_t magnitude, uint32_t fraction, uint32_t bias,
                                             uint32_t max)
{
    const uint32_t drop = 23u - fraction;
    const uint32_t smallest = 128u - bias; /* float32's exponent of the smallest normal result */
    const uint32_t exponent = magnitude >> 23;

    /* A carry out of the fraction goes into the exponent, as rounding asks for. */
    const uint32_t normal = (magnitude - ((smallest - 1u) << 23) + (1u << (drop - 1u)) - 1u +
                             ((magnitude >> drop) & 1u)) >>
                            drop;

    /* Below, the result counts units of 2^(1 - bias - fraction), and the significand those of
     * 2^(exponent - 150). A shift of 25 leaves nothing; the clamp keeps the shift defined, also
     * where `normal` is taken. */
    const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t distance = exponent < smallest ? 151u - bias - fraction - exponent : 1u;
    const uint32_t shift = distance < 25u ? distance : 25u;
    const uint32_t subnormal =
        (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;

    const uint32_t result = exponent < smallest ? subnormal : normal;
    return result < max ? result : max;
}

/* The float32 of a finite value's bits without the sign. */
static inline uint32_t trp__widen_magnitude(uint32_t magnitude, uint32_t fraction, uint32_t bias,
                                            float unit)
{
    const uint32_t normal = (magnitude << (23u - fraction)) + ((127u - bias) << 23);
    /* A small integer times 2^(1 - bias - fraction): exact, and normal. */
    const uint32_t subnormal = trp__f32_bits((float)(int32_t)magnitude * unit);
    return magnitude < (1u << fraction) ? subnormal : normal;
}

static inline uint8_t trp__f32_to_f8e4m3(float value)
{
    const uint32_t bits = trp__f32_bits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t result =
        ((bits >> 24) & 0x80u) | trp__narrow_magnitude(magnitude, 3u, 7u, 0x7eu);
    return (uint8_t)(magnitude > 0x7f800000u ? 0x7fu : result);
}

static inline float trp__f8e4m3_to_f32(uint8_t narrow)
{
    const uint32_t magnitude = narrow & 0x7fu;
    const uint32_t sign = ((uint32_t)narrow & 0x80u) << 24;
    const uint32_t result = sign | trp__widen_magnitude(magnitude, 3u, 7u, 0x1p-9f);
    return trp__f32_from_bits(magnitude == 0x7fu ? 0x7fc00000u : result);
}

static inline uint8_t trp__f32_to_f8e5m2(float value)
{
    const uint32_t bits = trp__f32_bits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t result =
        ((bits >> 24) & 0x80u) | trp__narrow_magnitude(magnitude, 2u, 15u, 0x7bu);
    return (uint8_t)(magnitude > 0x7f800000u ? 0x7fu : result);
}

static inline float trp__f8e5m2_to_f32(uint8_t narrow)
{
    const uint32_t magnitude = narrow & 0x7fu;
    const uint32_t sign = ((uint32_t)narrow & 0x80u) << 24;
    uint32_t result = sign | trp__widen_magnitude(magnitude, 2u, 15u, 0x1p-16f);
    result = magnitude == 0x7cu ? sign | 0x7f800000u : result;
    return trp__f32_from_bits(magnitude > 0x7cu ? 0x7fc00000u : result);
}

/* Result and argument are in the low four bits. */
static inline uint8_t trp__f32_to_f4e2m1(float value)
{
    const uint32_t bits = trp__f32_bits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t result = ((bits >> 28) & 0x8u) | trp__narrow_magnitude(magnitude, 1u, 1u, 0x7u);
    return (uint8_t)(magnitude > 0x7f800000u ? 0x7u : result);
}

static inline float trp__f4e2m1_to_f32(uint8_t narrow)
{
    const uint32_t sign = ((uint32_t)narrow & 0x8u) << 28;
    return trp__f32_from_bits(sign | trp__widen_magnitude(narrow & 0x7u, 1u, 1u, 0.5f));
}

/* Negative values become 0. */
static inline uint8_t trp__f32_to_ue4m3(float value)
{
    const uint8_t narrow = trp__f32_to_f8e4m3(value);
    return narrow < 0x80u ? narrow : 0u;
}

/* Ignores the highest bit. */
static inline float trp__ue4m3_to_f32(uint8_t narrow)
{
    return trp__f8e4m3_to_f32(narrow & 0x7fu);
}

/* The least power of two that is not below |value|: the sign is dropped. From 2^-127 to 2^127. */
static inline uint8_t trp__f32_to_ue8m0(float value)
{
    const uint32_t magnitude = trp__f32_bits(value) & 0x7fffffffu;
    /* Up where there is a fraction. Up to 2^-127, which is a subnormal's fraction, the result is 0;
     * a fraction above it makes 2^-126. */
    const uint32_t least = magnitude > 0x400000u ? magnitude + 0x7fffffu : 0u;
    const uint32_t result = (least >> 23) < 0xfeu ? least >> 23 : 0xfeu;
    return (uint8_t)(magnitude > 0x7f800000u ? 0xffu : result);
}

static inline float trp__ue8m0_to_f32(uint8_t narrow)
{
    const uint32_t result = narrow == 0u ? 0x400000u : (uint32_t)narrow << 23;
    return trp__f32_from_bits(narrow == 0xffu ? 0x7fc00000u : result);
}

/*
 * A float64 as a float32 that rounds to the same narrow value: towards zero, but with the last bit
 * set if anything was lost. float32 has enough bits behind those of any format here that this one
 * tells on which side of a halfway point the value is. So
 * trp__f32_to_f8e4m3(trp__f64_to_f32_odd(x)) rounds once.
 */
static inline float trp__f64_to_f32_odd(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 32) & 0x80000000u;
    const uint64_t magnitude = bits & INT64_MAX;
    uint32_t result;
    if (magnitude > UINT64_C(0x7ff0000000000000))
        result = 0x7fc00000u;
    else if (magnitude >= (UINT64_C(1023) + 128u) << 52)
        result = 0x7f800000u;
    else if (magnitude < (UINT64_C(1023) - 126u) << 52)
        result = magnitude != 0u; /* below float32's normals: far below half of any unit here */
    else
        result = (uint32_t)((magnitude - ((UINT64_C(1023) - 127u) << 52)) >> 29) |
                 ((magnitude & 0x1fffffffu) != 0u);
    return trp__f32_from_bits(sign | result);
}

/* A 4-bit integer of an array that is packed as one of f4e2m1. */
static inline int8_t trp__i4_load(const uint8_t *array, size_t index)
{
    const int code = array[index / 2u] >> (index % 2u * 4u) & 15;
    return (int8_t)(code < 8 ? code : code - 16);
}

/* f4e2m1 in memory: two to a byte, the one of even index in the low four bits. */
static inline float trp__f4e2m1_load(const uint8_t *array, size_t index)
{
    return trp__f4e2m1_to_f32((uint8_t)(array[index / 2u] >> (index % 2u * 4u)));
}

/* Leaves the other half of the byte unchanged: two threads must not store into one byte. */
static inline void trp__f4e2m1_store(uint8_t *array, size_t index, float value)
{
    const unsigned shift = (unsigned)(index % 2u) * 4u;
    const unsigned kept = array[index / 2u] & (0xf0u >> shift);
    array[index / 2u] = (uint8_t)(kept | ((unsigned)trp__f32_to_f4e2m1(value) << shift));
}

/* `count` elements, which must not overlap. Any thread; nothing is allocated. */
void trp__f32_to_f8e4m3_array(const float *in, uint8_t *out, size_t count);
void trp__f8e4m3_to_f32_array(const uint8_t *in, float *out, size_t count);
void trp__f32_to_f8e5m2_array(const float *in, uint8_t *out, size_t count);
void trp__f8e5m2_to_f32_array(const uint8_t *in, float *out, size_t count);
/* From and to the beginning of a byte; the last high half of an odd count is made 0. */
void trp__f32_to_f4e2m1_array(const float *in, uint8_t *out, size_t count);
void trp__f4e2m1_to_f32_array(const uint8_t *in, float *out, size_t count);

#endif
