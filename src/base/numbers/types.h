/* Properties of element types. */
#ifndef TRP_BASE_NUMBERS_TYPES_H
#define TRP_BASE_NUMBERS_TYPES_H

#include <troupe/types.h>

#include <stdbool.h>
#include <stdint.h>

/* `type` is a trp_dtype; requests have it in 8 bits. */
static inline bool trp__is_complex(uint32_t type)
{
    return type == TRP_C64 || type == TRP_C128;
}

/* A scalar in the type of sums, from the real and imaginary part that requests have. */
typedef union trp__scalar {
    double f64[2];
    float f32[2];
    int32_t i32;
} trp__scalar;

static inline trp__scalar trp__scalar_of(uint32_t type, const double value[2])
{
    if (type == TRP_F64 || type == TRP_C128)
        return (trp__scalar){.f64 = {value[0], value[1]}};
    if (type == TRP_I32)
        return (trp__scalar){.i32 = (int32_t)value[0]};
    return (trp__scalar){.f32 = {(float)value[0], (float)value[1]}};
}

#endif
