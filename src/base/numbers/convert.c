/* Arrays of one element type to another, in blocks: source to f32 or f64, whichever holds it
 * exactly, and from there to the target, rounded once. */
#include "base/error.h"
#include "base/numbers/half.h"
#include "base/numbers/narrow.h"
#include "base/numbers/types.h"

#include <troupe/convert.h>

#include <math.h>

/* Even, so that blocks of f4e2m1 and i4 begin with a byte. */
enum { BLOCK = 256 };

static bool is_real(trp_dtype type)
{
    return (type >= TRP_F64 && type <= TRP_I8) || type == TRP_I32 || type == TRP_F8E8M0 ||
           type == TRP_I4;
}

/* Returns the offset of element `index` in bytes. */
static size_t byte_of(trp_dtype type, size_t index)
{
    return index * trp_dtype_bits(type) / 8;
}

/* Converts types whose values f32 holds exactly. */
static void widen_f32(trp_dtype type, const void *from, float *to, size_t count)
{
    switch (type) {
    case TRP_F32:
        memcpy(to, from, count * sizeof *to);
        break;
    case TRP_F16:
        trp__f16_to_f32_array(from, to, count);
        break;
    case TRP_BF16:
        trp__bf16_to_f32_array(from, to, count);
        break;
    case TRP_F8E4M3:
        trp__f8e4m3_to_f32_array(from, to, count);
        break;
    case TRP_F8E5M2:
        trp__f8e5m2_to_f32_array(from, to, count);
        break;
    case TRP_F4E2M1:
        trp__f4e2m1_to_f32_array(from, to, count);
        break;
    case TRP_F8E8M0:
        for (size_t i = 0; i < count; i++)
            to[i] = trp__ue8m0_to_f32(((const uint8_t *)from)[i]);
        break;
    case TRP_I4:
        for (size_t i = 0; i < count; i++)
            to[i] = trp__i4_load(from, i);
        break;
    default: /* i8 */
        for (size_t i = 0; i < count; i++)
            to[i] = ((const int8_t *)from)[i];
    }
}

/* Converts f64 and i32. */
static void widen_f64(trp_dtype type, const void *from, double *to, size_t count)
{
    if (type == TRP_F64)
        memcpy(to, from, count * sizeof *to);
    for (size_t i = 0; type == TRP_I32 && i < count; i++)
        to[i] = ((const int32_t *)from)[i];
}

/* Returns the nearest integer from least to most. */
static int32_t to_integer(double value, int32_t least, int32_t most)
{
    double rounded = nearbyint(value);
    if (rounded != rounded)
        return 0;
    return rounded <= least ? least : rounded >= most ? most : (int32_t)rounded;
}

/* Two to a byte; the unused half of the last byte is 0. */
static void narrow_i4(const double *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i += 2) {
        const uint32_t low = (uint32_t)to_integer(from[i], -8, 7) & 15u;
        const uint32_t high = i + 1 < count ? (uint32_t)to_integer(from[i + 1], -8, 7) & 15u : 0u;
        to[i / 2] = (uint8_t)(low | high << 4);
    }
}

static void narrow_f32(trp_dtype type, const float *from, void *to, size_t count)
{
    double wide[BLOCK];
    switch (type) {
    case TRP_F64:
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] = (double)from[i];
        break;
    case TRP_I4:
        for (size_t i = 0; i < count; i++)
            wide[i] = (double)from[i];
        narrow_i4(wide, to, count);
        break;
    case TRP_F32:
        memcpy(to, from, count * sizeof *from);
        break;
    case TRP_F16:
        trp__f32_to_f16_array(from, to, count);
        break;
    case TRP_BF16:
        trp__f32_to_bf16_array(from, to, count);
        break;
    case TRP_F8E4M3:
        trp__f32_to_f8e4m3_array(from, to, count);
        break;
    case TRP_F8E5M2:
        trp__f32_to_f8e5m2_array(from, to, count);
        break;
    case TRP_F4E2M1:
        trp__f32_to_f4e2m1_array(from, to, count);
        break;
    case TRP_F8E8M0:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = trp__f32_to_ue8m0(from[i]);
        break;
    case TRP_I8:
        for (size_t i = 0; i < count; i++)
            ((int8_t *)to)[i] = (int8_t)to_integer((double)from[i], INT8_MIN, INT8_MAX);
        break;
    default: /* i32 */
        for (size_t i = 0; i < count; i++)
            ((int32_t *)to)[i] = to_integer((double)from[i], INT32_MIN, INT32_MAX);
    }
}

/* A float not below the magnitude, which trp__f32_to_ue8m0() rounds up to the same power of two. */
static float not_below(double value)
{
    const float near = (float)fabs(value);
    return (double)near < fabs(value) ? nextafterf(near, INFINITY) : near;
}

static void narrow_f64(trp_dtype type, const double *from, void *to, size_t count)
{
    float part[BLOCK];
    switch (type) {
    case TRP_F64:
        memcpy(to, from, count * sizeof *from);
        return;
    case TRP_F16:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = trp__f64_to_f16(from[i]);
        return;
    case TRP_BF16:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = trp__f64_to_bf16(from[i]);
        return;
    case TRP_I8:
        for (size_t i = 0; i < count; i++)
            ((int8_t *)to)[i] = (int8_t)to_integer(from[i], INT8_MIN, INT8_MAX);
        return;
    case TRP_I32:
        for (size_t i = 0; i < count; i++)
            ((int32_t *)to)[i] = to_integer(from[i], INT32_MIN, INT32_MAX);
        return;
    case TRP_I4:
        narrow_i4(from, to, count);
        return;
    default:
        for (size_t i = 0; i < count; i++)
            part[i] = type == TRP_F32      ? (float)from[i]
                      : type == TRP_F8E8M0 ? not_below(from[i])
                                           : trp__f64_to_f32_odd(from[i]);
        narrow_f32(type, part, to, count);
    }
}

static void convert_block(trp_dtype source_type, const void *source, trp_dtype target_type,
                          void *target, size_t count)
{
    float f32[BLOCK];
    double f64[BLOCK];
    if (source_type == TRP_F64 || source_type == TRP_I32) {
        widen_f64(source_type, source, f64, count);
        narrow_f64(target_type, f64, target, count);
    } else {
        widen_f32(source_type, source, f32, count);
        narrow_f32(target_type, f32, target, count);
    }
}

/* A complex array is a real one of twice the length. */
static trp_dtype part_of(trp_dtype type)
{
    return type == TRP_C64 ? TRP_F32 : type == TRP_C128 ? TRP_F64 : type;
}

trp_status trp_convert(trp_dtype source_type, const void *source, trp_dtype target_type,
                       void *target, size_t count)
{
    bool complex = trp__is_complex(source_type);
    if (!is_real(source_type) && !complex)
        return trp__fail(TRP_E_ARGUMENT,
                         "source_type: expected a floating type, i4, i8 or i32, got %s",
                         trp_dtype_name(source_type));
    if (complex ? !trp__is_complex(target_type) : !is_real(target_type))
        return trp__fail(TRP_E_ARGUMENT, "target_type: expected %s for a source of %s, got %s",
                         complex ? "c64 or c128" : "a real floating type, i4, i8 or i32",
                         trp_dtype_name(source_type), trp_dtype_name(target_type));
    if (count != 0 && (!source || !target))
        return trp__fail(TRP_E_ARGUMENT, "%s: expected an array, got NULL",
                         source ? "target" : "source");
    source_type = part_of(source_type);
    target_type = part_of(target_type);
    size_t parts = complex ? 2 * count : count;
    for (size_t done = 0; done < parts; done += BLOCK)
        convert_block(source_type, (const char *)source + byte_of(source_type, done), target_type,
                      (char *)target + byte_of(target_type, done),
                      parts - done < BLOCK ? parts - done : BLOCK);
    return TRP_OK;
}
