/* Elements of any type, loaded to f64 and stored from it, rounded once: for the reference kernels,
 * which NVRTC compiles and tests compile as C. Complex numbers are pairs of their parts' type.
 * Types of 4 bits are left out, which costs less code, unless TRP__ELEMENTS_OF_4_BITS is defined.
 */
#ifndef TRP_BASE_NUMBERS_ELEMENTS_H
#define TRP_BASE_NUMBERS_ELEMENTS_H

#include "base/numbers/half.h"
#include "base/numbers/narrow.h"

#include <troupe/types.h>

#include <math.h>

static double trp__element_load(uint8_t type, const void *from, int64_t at)
{
    switch (type) {
    case TRP_F64:
        return ((const double *)from)[at];
    case TRP_F32:
        return (double)((const float *)from)[at];
    case TRP_F16:
        return (double)trp__f16_to_f32(((const uint16_t *)from)[at]);
    case TRP_BF16:
        return (double)trp__bf16_to_f32(((const uint16_t *)from)[at]);
    case TRP_F8E4M3:
        return (double)trp__f8e4m3_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E5M2:
        return (double)trp__f8e5m2_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E8M0:
        return (double)trp__ue8m0_to_f32(((const uint8_t *)from)[at]);
#ifdef TRP__ELEMENTS_OF_4_BITS
    case TRP_F4E2M1:
        return (double)trp__f4e2m1_load((const uint8_t *)from, (size_t)at);
    case TRP_I4:
        return trp__i4_load((const uint8_t *)from, (size_t)at);
#endif
    case TRP_I8:
        return ((const int8_t *)from)[at];
    case TRP_I32:
        return ((const int32_t *)from)[at];
    case TRP_BOOL:
        return ((const uint8_t *)from)[at] != 0;
    default: /* u8 */
        return ((const uint8_t *)from)[at];
    }
}

/* Returns the nearest integer from least to most; 0 for NaN. */
static double trp__element_integer(double value, double least, double most)
{
    const double nearest = rint(value);
    return nearest != nearest ? 0 : nearest < least ? least : nearest > most ? most : nearest;
}

/* Types of 4 bits are never stored. */
static void trp__element_store(uint8_t type, void *to, int64_t at, double value)
{
    switch (type) {
    case TRP_F64:
        ((double *)to)[at] = value;
        break;
    case TRP_F32:
        ((float *)to)[at] = (float)value;
        break;
    case TRP_F16:
        ((uint16_t *)to)[at] = trp__f64_to_f16(value);
        break;
    case TRP_BF16:
        ((uint16_t *)to)[at] = trp__f64_to_bf16(value);
        break;
    case TRP_F8E4M3:
        ((uint8_t *)to)[at] = trp__f32_to_f8e4m3(trp__f64_to_f32_odd(value));
        break;
    case TRP_F8E5M2:
        ((uint8_t *)to)[at] = trp__f32_to_f8e5m2(trp__f64_to_f32_odd(value));
        break;
    case TRP_F8E8M0: /* only powers of two are stored exactly */
        ((uint8_t *)to)[at] = trp__f32_to_ue8m0((float)value);
        break;
    case TRP_I8:
        ((int8_t *)to)[at] = (int8_t)trp__element_integer(value, INT8_MIN, INT8_MAX);
        break;
    case TRP_I32:
        ((int32_t *)to)[at] = (int32_t)trp__element_integer(value, INT32_MIN, INT32_MAX);
        break;
    case TRP_BOOL:
        ((uint8_t *)to)[at] = value != 0; /* as in AND, OR and SELECT; also NaN */
        break;
    default: /* u8 */
        ((uint8_t *)to)[at] = (uint8_t)trp__element_integer(value, 0, UINT8_MAX);
    }
}

#endif
