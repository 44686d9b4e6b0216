/* The base of all fast kernels: elements by their type, which is known at run time. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_ELEMENT_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_ELEMENT_CUH

#include "base/numbers/narrow.h"
#include "compile/kernel.cuh"

#include <troupe/types.h>

/* --- One element, by its type at run time --- */

template <typename T> TRP__DEVICE T trp__clamp_integer(T value, T least, T most)
{
    const T nearest = rint(value);
    return nearest != nearest ? T(0) : nearest < least ? least : nearest > most ? most : nearest;
}

/* Rounds a number to the nearest i32. Saturates; NaN becomes 0. */
TRP__DEVICE int32_t trp__to_i32(double value)
{
    return (int32_t)trp__clamp_integer<double>(value, -2147483648.0, 2147483647.0);
}

/* Loads an element of a less common type; not inlined, to keep kernels small. */
template <typename T> TRP__SHARED_CODE T trp__load_rare(uint64_t address, int64_t i, uint8_t type)
{
    switch (type) {
    case TRP_F8E4M3:
        return (T)trp__f8e4m3_to_f32(trp__at<uint8_t>(address, i));
    case TRP_F8E5M2:
        return (T)trp__f8e5m2_to_f32(trp__at<uint8_t>(address, i));
    case TRP_I8:
        return (T)trp__at<int8_t>(address, i);
    case TRP_I32:
        return (T)trp__at<int32_t>(address, i);
    case TRP_I64:
        return (T)trp__at<int64_t>(address, i);
    case TRP_BOOL:
        return trp__at<uint8_t>(address, i) ? T(1) : T(0);
    default: /* u8 */
        return (T)trp__at<uint8_t>(address, i);
    }
}

template <typename T> TRP__DEVICE T trp__load(uint64_t address, int64_t i, uint8_t type)
{
    if (type == TRP_F32)
        return (T)trp__at<float>(address, i);
    if (type == TRP_BF16)
        return (T)trp__bf16_to_f32(trp__at<uint16_t>(address, i));
    if (type == TRP_F16)
        return (T)trp__half_value(trp__at<uint16_t>(address, i));
    if (type == TRP_F64)
        return (T)trp__at<double>(address, i);
    return trp__load_rare<T>(address, i, type);
}

TRP__DEVICE uint16_t trp__to_f16(float value)
{
    return trp__half_bits(value);
}
TRP__DEVICE uint16_t trp__to_f16(double value)
{
    return trp__f64_to_f16(value);
}
TRP__DEVICE uint16_t trp__to_bf16(float value)
{
    return trp__bfloat_bits(value);
}
TRP__DEVICE uint16_t trp__to_bf16(double value)
{
    return trp__f64_to_bf16(value);
}
TRP__DEVICE uint32_t trp__to_f16_pair(float low, float high)
{
    return trp__half_pair(low, high);
}
TRP__DEVICE uint32_t trp__to_f16_pair(double low, double high)
{
    return trp__f64_to_f16(low) | (uint32_t)trp__f64_to_f16(high) << 16;
}
TRP__DEVICE uint32_t trp__to_bf16_pair(float low, float high)
{
    return trp__bfloat_pair(low, high);
}
TRP__DEVICE uint32_t trp__to_bf16_pair(double low, double high)
{
    return trp__f64_to_bf16(low) | (uint32_t)trp__f64_to_bf16(high) << 16;
}
TRP__DEVICE float trp__to_odd(float value)
{
    return value;
}
TRP__DEVICE float trp__to_odd(double value)
{
    return trp__f64_to_f32_odd(value);
}

template <typename T>
TRP__SHARED_CODE void trp__store_rare(uint64_t address, int64_t i, uint8_t type, T value)
{
    switch (type) {
    case TRP_F8E4M3:
        trp__to<uint8_t>(address, i) = trp__f32_to_f8e4m3(trp__to_odd(value));
        break;
    case TRP_F8E5M2:
        trp__to<uint8_t>(address, i) = trp__f32_to_f8e5m2(trp__to_odd(value));
        break;
    case TRP_I8:
        trp__to<int8_t>(address, i) = (int8_t)trp__clamp_integer<T>(value, -128, 127);
        break;
    case TRP_I32:
        trp__to<int32_t>(address, i) = trp__to_i32((double)value);
        break;
    case TRP_BOOL:
        trp__to<uint8_t>(address, i) = value != T(0); /* NaN becomes true */
        break;
    default: /* u8 */
        trp__to<uint8_t>(address, i) = (uint8_t)trp__clamp_integer<T>(value, 0, 255);
    }
}

template <typename T>
TRP__DEVICE void trp__store(uint64_t address, int64_t i, uint8_t type, T value)
{
    if (type == TRP_F32)
        trp__to<float>(address, i) = (float)value;
    else if (type == TRP_BF16)
        trp__to<uint16_t>(address, i) = trp__to_bf16(value);
    else if (type == TRP_F16)
        trp__to<uint16_t>(address, i) = trp__to_f16(value);
    else if (type == TRP_F64)
        trp__to<double>(address, i) = (double)value;
    else
        trp__store_rare<T>(address, i, type, value);
}

/* Rounds a number to a type. */
template <typename T> TRP__SHARED_CODE T trp__rounded_rare(uint8_t type, T value)
{
    switch (type) {
    case TRP_F8E4M3:
        return (T)trp__f8e4m3_to_f32(trp__f32_to_f8e4m3(trp__to_odd(value)));
    case TRP_F8E5M2:
        return (T)trp__f8e5m2_to_f32(trp__f32_to_f8e5m2(trp__to_odd(value)));
    case TRP_I8:
        return trp__clamp_integer<T>(value, -128, 127);
    case TRP_I32:
        return (T)trp__to_i32((double)value);
    case TRP_BOOL:
        return value != T(0) ? T(1) : T(0);
    default:
        return trp__clamp_integer<T>(value, 0, 255);
    }
}

template <typename T> TRP__DEVICE T trp__rounded(uint8_t type, T value)
{
    if (type == TRP_F32)
        return (T)(float)value;
    if (type == TRP_BF16)
        return (T)trp__bf16_to_f32(trp__to_bf16(value));
    if (type == TRP_F16)
        return (T)trp__half_value(trp__to_f16(value));
    if (type == TRP_F64)
        return value;
    return trp__rounded_rare<T>(type, value);
}

/* --- Several elements that follow each other: 16-byte accesses --- */

/* Loads N elements of a type from element i on, whose address is a multiple of their bytes, or of
 * 16 if that is less. */
template <typename T, int N>
TRP__DEVICE void trp__load_run(uint64_t address, int64_t i, uint8_t type, T out[N])
{
    if (type == TRP_F32) {
        trp__pack16 p[(N + 3) / 4];
        TRP__EACH(k, N / 4)
            p[k] = trp__at<trp__pack16>(address + (uint64_t)i * 4, k);
        TRP__EACH(k, N)
            out[k] = (T)trp__f32_from_bits(p[k / 4].word[k % 4]);
    } else if (type == TRP_BF16 || type == TRP_F16) {
        uint32_t p[N / 2];
        if (N == 8) {
            const trp__pack16 q = trp__at<trp__pack16>(address + (uint64_t)i * 2, 0);
            TRP__EACH(k, 4)
                p[k % (N / 2)] = q.word[k];
        } else {
            TRP__EACH(k, N / 4) {
                const uint64_t q = trp__at<uint64_t>(address + (uint64_t)i * 2, k);
                p[2 * k] = (uint32_t)q;
                p[2 * k + 1] = (uint32_t)(q >> 32);
            }
        }
        if (type == TRP_BF16) {
            TRP__EACH(k, N)
                out[k] = (T)trp__f32_from_bits(k % 2 ? p[k / 2] & 0xffff0000u : p[k / 2] << 16);
        } else {
            TRP__EACH(k, N)
                out[k] = (T)trp__half_value((uint16_t)(k % 2 ? p[k / 2] >> 16 : p[k / 2]));
        }
    } else if (type == TRP_F64) {
        TRP__EACH(k, N / 2) {
            const trp__pack16 p = trp__at<trp__pack16>(address + (uint64_t)i * 8, k);
            double v[2];
            memcpy(v, &p, sizeof v);
            out[2 * k] = (T)v[0];
            out[2 * k + 1] = (T)v[1];
        }
    } else {
        TRP__EACH(k, N)
            out[k] = trp__load<T>(address, i + k, type);
    }
}

template <typename T, int N>
TRP__DEVICE void trp__store_run(uint64_t address, int64_t i, uint8_t type, const T value[N])
{
    if (type == TRP_F32) {
        TRP__EACH(k, N / 4) {
            trp__pack16 p;
            TRP__EACH(j, 4)
                p.word[j] = trp__f32_bits((float)value[4 * k + j]);
            trp__to<trp__pack16>(address + (uint64_t)i * 4, k) = p;
        }
    } else if (type == TRP_BF16 || type == TRP_F16) {
        uint32_t p[N / 2];
        TRP__EACH(k, N / 2)
            p[k] = type == TRP_BF16 ? trp__to_bf16_pair(value[2 * k], value[2 * k + 1])
                                    : trp__to_f16_pair(value[2 * k], value[2 * k + 1]);
        if (N == 8) {
            trp__pack16 q;
            TRP__EACH(k, 4)
                q.word[k] = p[k % (N / 2)];
            trp__to<trp__pack16>(address + (uint64_t)i * 2, 0) = q;
        } else {
            TRP__EACH(k, N / 4)
                trp__to<uint64_t>(address + (uint64_t)i * 2, k) = p[2 * k] | (uint64_t)p[2 * k + 1]
                                                                                 << 32;
        }
    } else if (type == TRP_F64) {
        TRP__EACH(k, N / 2) {
            const double v[2] = {(double)value[2 * k], (double)value[2 * k + 1]};
            trp__pack16 p;
            memcpy(&p, v, sizeof p);
            trp__to<trp__pack16>(address + (uint64_t)i * 8, k) = p;
        }
    } else {
        TRP__EACH(k, N)
            trp__store<T>(address, i + k, type, value[k]);
    }
}

/* --- Elements of floating types --- */

template <typename T> TRP__DEVICE T trp__load_float(uint64_t address, int64_t i, uint8_t type)
{
    return type == TRP_F32   ? (T)trp__at<float>(address, i)
           : type == TRP_F16 ? (T)trp__half_value(trp__at<uint16_t>(address, i))
           : type == TRP_F64 ? (T)trp__at<double>(address, i)
                             : (T)trp__bf16_to_f32(trp__at<uint16_t>(address, i));
}

template <typename T>
TRP__DEVICE void trp__store_float(uint64_t address, int64_t i, uint8_t type, T value)
{
    if (type == TRP_F32)
        trp__to<float>(address, i) = (float)value;
    else if (type == TRP_F64)
        trp__to<double>(address, i) = (double)value;
    else
        trp__to<uint16_t>(address, i) = type == TRP_F16 ? trp__to_f16(value) : trp__to_bf16(value);
}

/* Loads one element, or a run of N. */
template <typename T, int N>
TRP__DEVICE void trp__load_some(uint64_t address, int64_t i, uint8_t type, T out[N])
{
    if constexpr (N == 1)
        out[0] = trp__load_float<T>(address, i, type);
    else
        trp__load_run<T, N>(address, i, type, out);
}

template <typename T, int N>
TRP__DEVICE void trp__store_some(uint64_t address, int64_t i, uint8_t type, const T value[N])
{
    if constexpr (N == 1)
        trp__store_float<T>(address, i, type, value[0]);
    else
        trp__store_run<T, N>(address, i, type, value);
}

/* Returns the bytes of an element. */
TRP__DEVICE int trp__element_bytes(uint8_t type)
{
    switch (type) {
    case TRP_F64:
    case TRP_I64:
        return 8;
    case TRP_F32:
    case TRP_I32:
        return 4;
    case TRP_F16:
    case TRP_BF16:
        return 2;
    default:
        return 1;
    }
}

#endif
