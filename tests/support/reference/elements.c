/* See elements.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A floating-point format: sign, exponent, fraction. Codes without the sign rise with their values.
 */
typedef struct format {
    trp_dtype type;
    int fraction; /* in bits */
    int bias;
    uint32_t sign;   /* bit of the sign */
    uint32_t finite; /* code of the largest finite value */
    bool specials;   /* codes above are an infinity (the first, if it has one) and NaN */
    bool infinity, saturates;
} format;

static const format formats[] = {
    {TRP_F16, 10, 15, 0x8000, 0x7bff, true, true, false},
    {TRP_BF16, 7, 127, 0x8000, 0x7f7f, true, true, false},
    {TRP_F8E4M3, 3, 7, 0x80, 0x7e, true, false, true},
    {TRP_F8E5M2, 2, 15, 0x80, 0x7b, true, true, true},
    {TRP_F4E2M1, 1, 1, 0x8, 0x7, false, false, true},
};

static const format *format_of(trp_dtype type)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].type == type)
            return &formats[i];
    }
    return NULL;
}

static const format *need_format(trp_dtype type)
{
    const format *f = format_of(type);
    if (!f)
        abort();
    return f;
}

/* 2^exponent of a normal number, from its bits: ldexp() took most of the time of a search. */
static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Returns the value of a code without its sign, as a number even if it is a special value. */
static double magnitude_of(const format *f, uint32_t code)
{
    const uint32_t one = 1u << f->fraction;
    const int exponent = (int)(code >> f->fraction);
    const uint32_t fraction = (code & (one - 1)) + (exponent > 0 ? one : 0);
    return fraction * power_of_two((exponent > 0 ? exponent : 1) - f->bias - f->fraction);
}

double ref_element_decode(trp_dtype type, uint32_t code)
{
    const format *f = need_format(type);
    uint32_t size = code & (f->sign - 1);
    double value = magnitude_of(f, size);
    if (f->specials && size > f->finite)
        value = f->infinity && size == f->finite + 1 ? INFINITY : NAN;
    return code & f->sign ? -value : value;
}

/* Searches the sorted codes for the nearest; of two, the even one. */
static uint32_t nearest(const format *f, double magnitude)
{
    uint32_t low = 0, high = f->finite + 1;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(magnitude_of(f, middle) <= magnitude ? &low : &high) = middle;
    }
    double below = magnitude - magnitude_of(f, low), above = magnitude_of(f, high) - magnitude;
    if (above < below || (above == below && low % 2 == 1))
        low = high;
    return f->saturates && low > f->finite ? f->finite : low;
}

uint32_t ref_element_encode(trp_dtype type, double value)
{
    const format *f = need_format(type);
    if (isnan(value))
        return f->sign - 1;
    return nearest(f, fabs(value)) | (signbit(value) ? f->sign : 0);
}

double ref_element_round(trp_dtype type, double value)
{
    switch (type) {
    case TRP_F64:
    case TRP_C128:
        return value;
    case TRP_F32:
    case TRP_C64:
        return (double)(float)value;
    case TRP_I4:
        return fmin(fmax(nearbyint(value), -8), 7);
    case TRP_I8:
        return fmin(fmax(nearbyint(value), INT8_MIN), INT8_MAX);
    case TRP_I32:
        return fmin(fmax(nearbyint(value), INT32_MIN), INT32_MAX);
    default:
        return ref_element_decode(type, ref_element_encode(type, value));
    }
}

static uint32_t get_code(trp_dtype type, const void *array, int64_t index)
{
    const uint8_t *bytes = array;
    uint16_t pair;
    switch (trp_dtype_bits(type)) {
    case 4:
        return (uint32_t)bytes[index / 2] >> index % 2 * 4 & 15u;
    case 8:
        return bytes[index];
    default:
        memcpy(&pair, bytes + 2 * index, sizeof pair);
        return pair;
    }
}

static void put_code(trp_dtype type, void *array, int64_t index, uint32_t code)
{
    uint8_t *bytes = array;
    uint16_t pair = (uint16_t)code;
    int shift = (int)(index % 2 * 4);
    switch (trp_dtype_bits(type)) {
    case 4:
        bytes[index / 2] = (uint8_t)((bytes[index / 2] & 0xf0u >> shift) | (code & 15u) << shift);
        break;
    case 8:
        bytes[index] = (uint8_t)code;
        break;
    default:
        memcpy(bytes + 2 * index, &pair, sizeof pair);
        break;
    }
}

ref_complex ref_element_load(trp_dtype type, const void *array, int64_t index)
{
    switch (type) {
    case TRP_F32:
    case TRP_F64:
    case TRP_C64:
    case TRP_C128:
        return ref_blas_load(type, array, index);
    case TRP_I4:
        return ((int)get_code(type, array, index) ^ 8) - 8;
    case TRP_I8:
        return ((const int8_t *)array)[index];
    case TRP_I32:
        return ((const int32_t *)array)[index];
    default:
        return ref_element_decode(type, get_code(type, array, index));
    }
}

void ref_element_store(trp_dtype type, void *array, int64_t index, ref_complex value)
{
    switch (type) {
    case TRP_F32:
    case TRP_F64:
    case TRP_C64:
    case TRP_C128:
        ref_blas_store(type, array, index, value);
        return;
    case TRP_I4:
        put_code(type, array, index, (uint32_t)(int32_t)ref_element_round(type, creal(value)));
        return;
    case TRP_I8:
        ((int8_t *)array)[index] = (int8_t)ref_element_round(type, creal(value));
        return;
    case TRP_I32:
        ((int32_t *)array)[index] = (int32_t)ref_element_round(type, creal(value));
        return;
    default:
        put_code(type, array, index, ref_element_encode(type, creal(value)));
    }
}

double ref_ue8m0(uint8_t code)
{
    return code == 255 ? (double)NAN : ldexp(1, code - 127);
}

double ref_ue4m3(uint8_t code)
{
    return ref_element_decode(TRP_F8E4M3, code & 0x7fu);
}
