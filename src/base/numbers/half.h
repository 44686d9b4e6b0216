/*
 * Conversions between float32 and the two 16-bit floating formats: IEEE binary16 ("f16") and
 * bfloat16 ("bf16"). A 16-bit value travels as its bits in a uint16_t.
 *
 * Narrowing rounds to nearest, ties to even; what is too large becomes an infinity, what is too
 * small a subnormal or a zero of the same sign. Every conversion turns a NaN into a quiet NaN that
 * keeps the sign and the leading payload bits, as the F16C instructions do, so the array functions
 * give the same bits on every machine. All of it is integer arithmetic, but for one product that is
 * exact: neither the rounding mode, nor flush-to-zero, nor -ffast-math changes a result.
 */
#ifndef TRP_BASE_NUMBERS_HALF_H
#define TRP_BASE_NUMBERS_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t trp__f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float trp__f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The selects below are written without early returns, so that a loop over them vectorises. */
static inline uint16_t trp__f32_to_f16(float value)
{
    const uint32_t bits = trp__f32_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;

    /* Normal halves: the exponent moves from bias 127 to bias 15; a carry out of the fraction goes
     * into the exponent, and out of the largest exponent into infinity, which is what rounding asks
     * for. */
    const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;

    /* Below 2^-14 the result counts units of 2^-24: shift the significand (its unit is 2^(exponent
     * - 150)) there. A shift of 25 or more leaves nothing, whatever is shifted out; the clamp keeps
     * the shift defined. */
    const uint32_t exponent = magnitude >> 23;
    const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t distance = exponent < 113u ? 126u - exponent : 1u;
    const uint32_t shift = distance < 25u ? distance : 25u;
    const uint32_t subnormal =
        (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;

    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);

    uint32_t result = exponent < 113u ? subnormal : normal;
    /* 65536 and above. From 65520 up to there the carry has made it infinite already. */
    result = magnitude >= 0x47800000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? nan : result;
    return (uint16_t)(sign | result);
}

static inline float trp__f16_to_f32(uint16_t half)
{
    const uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
    const uint32_t magnitude = (uint32_t)half & 0x7fffu;

    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t special = (magnitude << 13) | 0x7f800000u; /* infinity or NaN */
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;

    /* A subnormal is an integer below 2^10 times 2^-24: both the conversion and the product are
     * exact and normal. */
    const uint32_t subnormal = trp__f32_bits((float)(int32_t)magnitude * 0x1p-24f);

    uint32_t result = magnitude < 0x400u ? subnormal : normal;
    result = magnitude >= 0x7c00u ? special | quiet : result;
    return trp__f32_from_bits(sign | result);
}

static inline uint16_t trp__f32_to_bf16(float value)
{
    const uint32_t bits = trp__f32_bits(value);
    /* Same exponent range as float32, so subnormals and overflow follow from the carry alone. */
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float trp__bf16_to_f32(uint16_t half)
{
    const uint32_t quiet = ((uint32_t)half & 0x7fffu) > 0x7f80u ? 0x400000u : 0u;
    return trp__f32_from_bits(((uint32_t)half << 16) | quiet);
}

/*
 * Rounds a float64 once to a 16-bit format of `fraction_bits` fraction bits and an exponent of the
 * remaining 15 - fraction_bits bits. Going through float32 would round twice and be wrong next to a
 * halfway point.
 */
static inline uint16_t trp__f64_to_16(double value, unsigned fraction_bits)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t sign = (bits >> 48) & 0x8000u;
    const uint64_t magnitude = bits & INT64_MAX;
    const unsigned drop = 52u - fraction_bits;
    const uint64_t infinity = 0x7fffu & ~((UINT64_C(1) << fraction_bits) - 1u);

    if (magnitude > UINT64_C(0x7ff0000000000000)) {
        const uint64_t payload = (magnitude >> drop) & ~infinity & 0x7fffu;
        return (uint16_t)(sign | infinity | (UINT64_C(1) << (fraction_bits - 1u)) | payload);
    }
    const int bias = (1 << (14u - fraction_bits)) - 1;
    const int exponent =
        (int)(magnitude >> 52) - 1023 + bias; /* as it would be stored in the result */
    if (exponent >= 2 * bias + 1) {
        return (uint16_t)(sign | infinity);
    }
    /* Below the smallest normal the unit stays the same, so a smaller exponent shifts further. A
     * float64 subnormal is so far below that the implicit bit it is wrongly given is shifted out as
     * well. */
    const unsigned extra = exponent < 1 ? (unsigned)(1 - exponent) : 0u;
    const unsigned shift = drop + extra < 54u ? drop + extra : 54u;
    const uint64_t significand = (magnitude & ((UINT64_C(1) << 52) - 1u)) | (UINT64_C(1) << 52);
    const uint64_t rounded =
        (significand + (UINT64_C(1) << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;
    /* `rounded` of a normal value holds the implicit bit, worth one exponent step: hence the 1. */
    const uint64_t base = exponent > 1 ? (uint64_t)(exponent - 1) << fraction_bits : 0u;
    return (uint16_t)(sign | (base + rounded));
}

static inline uint16_t trp__f64_to_f16(double value)
{
    return trp__f64_to_16(value, 10u);
}

static inline uint16_t trp__f64_to_bf16(double value)
{
    return trp__f64_to_16(value, 7u);
}

/*
 * `count` elements from `in` to `out`, which must not overlap; no alignment beyond that of the
 * element type. Any thread; nothing is allocated. They use AVX2 and F16C where the processor has
 * them.
 */
void trp__f32_to_f16_array(const float *in, uint16_t *out, size_t count);
void trp__f16_to_f32_array(const uint16_t *in, float *out, size_t count);
void trp__f32_to_bf16_array(const float *in, uint16_t *out, size_t count);
void trp__bf16_to_f32_array(const uint16_t *in, float *out, size_t count);

/* Versions for processors without those instructions; declared for the tests. */
void trp__f32_to_f16_array_portable(const float *in, uint16_t *out, size_t count);
void trp__f16_to_f32_array_portable(const uint16_t *in, float *out, size_t count);
void trp__f32_to_bf16_array_portable(const float *in, uint16_t *out, size_t count);
void trp__bf16_to_f32_array_portable(const uint16_t *in, float *out, size_t count);

#endif
