/* What reference kernels of products share: elements of any type in f64, and sums of a block's
 * threads. Whoever includes this has defined what kernels.h lists. */
#ifndef TRP_MATRIX_REFERENCE_ELEMENTS_H
#define TRP_MATRIX_REFERENCE_ELEMENTS_H

#include "base/numbers/half.h"
#include "base/numbers/narrow.h"
#include "matrix/reference/problem.h"

#include <troupe/types.h>

#include <math.h>

typedef struct product_number {
    double re, im;
} product_number;

static double product_load(uint8_t type, const void *from, int64_t at)
{
    switch (type) {
    case TRP_F64:
        return ((const double *)from)[at];
    case TRP_F16:
        return (double)trp__f16_to_f32(((const uint16_t *)from)[at]);
    case TRP_BF16:
        return (double)trp__bf16_to_f32(((const uint16_t *)from)[at]);
    case TRP_F8E4M3:
        return (double)trp__f8e4m3_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E5M2:
        return (double)trp__f8e5m2_to_f32(((const uint8_t *)from)[at]);
    case TRP_F4E2M1:
        return (double)trp__f4e2m1_load((const uint8_t *)from, (size_t)at);
    case TRP_I4:
        return trp__i4_load((const uint8_t *)from, (size_t)at);
    case TRP_I8:
        return ((const int8_t *)from)[at];
    case TRP_I32:
        return ((const int32_t *)from)[at];
    default:
        return (double)((const float *)from)[at];
    }
}

static double product_rounded(double value, double least, double most)
{
    const double nearest = rint(value);
    return nearest != nearest ? 0 : nearest < least ? least : nearest > most ? most : nearest;
}

static void product_store(uint8_t type, void *to, int64_t at, double value)
{
    switch (type) {
    case TRP_F64:
        ((double *)to)[at] = value;
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
    case TRP_I8:
        ((int8_t *)to)[at] = (int8_t)product_rounded(value, INT8_MIN, INT8_MAX);
        break;
    default:
        ((float *)to)[at] = (float)value;
    }
}

/* Threads add up what each of them has. */
static product_number product_sum_of_block(product_number x)
{
    TRP__SHARED product_number part[TRP__PRODUCT_THREADS];
    TRP__SYNC(); /* what was summed before has been read */
    part[TRP__THREAD] = x;
    TRP__SYNC();
    for (int half = TRP__THREADS / 2; half > 0; half /= 2) {
        if (TRP__THREAD < half) {
            part[TRP__THREAD].re += part[TRP__THREAD + half].re;
            part[TRP__THREAD].im += part[TRP__THREAD + half].im;
        }
        TRP__SYNC();
    }
    return part[0];
}

#endif
