/* Block scales and scaled elements, for the host and for kernels: both use this text and so get
 * equal bits. */
#ifndef TRP_ACTORS_DNN_MATH_BLOCKS_H
#define TRP_ACTORS_DNN_MATH_BLOCKS_H

#include "actors/dnn/graph/graph.h"
#include "base/numbers/narrow.h"

#include <math.h>

/* Returns the larger magnitude, ignoring NaN. */
static inline double trp__blocks_amax(double most, double x)
{
    return fabs(x) > most ? fabs(x) : most;
}

/* Returns the smallest f32 not below a non-negative number, or the largest f32. */
static inline float trp__blocks_above(double value)
{
    const float most = 0x1.fffffep127F;
    const float near = value < (double)most ? (float)value : most;
    return (double)near < value && near < most ? trp__f32_from_bits(trp__f32_bits(near) + 1) : near;
}

/* Returns the scale of a block. */
static inline double trp__blocks_scale(uint8_t type, uint8_t narrow, double amax)
{
    const float most = narrow == TRP_F8E4M3 ? TRP__F8E4M3_MAX : TRP__F8E5M2_MAX;
    const float above = trp__blocks_above(amax / (double)most);
    if (type == TRP_F8E8M0)
        return (double)trp__ue8m0_to_f32(trp__f32_to_ue8m0(above));
    if (type == TRP_F32)
        return (double)above;
    uint8_t bits = trp__f32_to_f8e4m3(above);
    if (trp__f8e4m3_to_f32(bits) < above && bits < 0x7e)
        bits++;
    return (double)trp__f8e4m3_to_f32(bits);
}

/* Converts an element to a block's type. With a scale of 0 the results are zeros and NaN. */
static inline double trp__blocks_narrow(uint8_t narrow, double x, double scale)
{
    const float exact = trp__f64_to_f32_odd(scale == 0 ? x : x / scale);
    return narrow == TRP_F8E4M3 ? (double)trp__f8e4m3_to_f32(trp__f32_to_f8e4m3(exact))
                                : (double)trp__f8e5m2_to_f32(trp__f32_to_f8e5m2(exact));
}

/* Converts back, in f32 if the node computes in f32. */
static inline double trp__blocks_widen(const trp__dnn_node *n, double x, double scale)
{
    return n->compute == TRP_F64 ? x * scale : (double)(float)(x * scale);
}

#endif
