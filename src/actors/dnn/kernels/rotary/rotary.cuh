#ifndef TRP_ACTORS_DNN_KERNELS_ROTARY_ROTARY_CUH
#define TRP_ACTORS_DNN_KERNELS_ROTARY_ROTARY_CUH

#include "actors/dnn/kernels/map/operands.cuh"
#include "actors/dnn/kernels/rotary/rotary.h"
#include "actors/dnn/kernels/common/row_packs.cuh"
#include "actors/dnn/math/rotary.h"

/* --- Cosines and sines --- */

/* Not inlined, since f64 takes many instructions. */
TRP__SHARED_CODE double trp__rotary_cos(double angle)
{
    return cos(angle);
}
TRP__SHARED_CODE double trp__rotary_sin(double angle)
{
    return sin(angle);
}

/* Cosine and sine in f32 to 1 ulp: the angle is reduced in f64, by a quarter turn of 106 bits. */
TRP__DEVICE void trp__rotary_turn_by(double angle, float *cosine, float *sine)
{
    const double quarters = rint(angle * 0.63661977236758134308);
    if (!(fabs(quarters) < 1073741824.0)) { /* too large for that, infinite or NaN */
        *cosine = (float)trp__rotary_cos(angle);
        *sine = (float)trp__rotary_sin(angle);
        return;
    }
    const double near = fma(-quarters, 1.57079632679489661923, angle);
    const float x = (float)fma(-quarters, 6.123233995736766036e-17, near), z = x * x;
    const int quarter = (int)quarters;
    float s = fmaf(z, -1.9515295891e-4f, 8.3321608736e-3f);
    float c = fmaf(z, 2.443315711809948e-5f, -1.388731625493765e-3f);
    s = fmaf(fmaf(z, s, -1.6666654611e-1f) * z, x, x);
    c = fmaf(fmaf(z, c, 4.166664568298827e-2f), z * z, fmaf(z, -0.5f, 1.0f));
    *cosine = quarter & 1 ? s : c;
    *sine = quarter & 1 ? c : s;
    if ((quarter + 1) & 2)
        *cosine = -*cosine;
    if (quarter & 2)
        *sine = -*sine;
}

/* Returns base^(-2 pair / r): the product of the powers for each bit of `pair`. */
TRP__DEVICE double trp__rotary_power(const trp__rotary &p, uint32_t pair)
{
    double power = 1;
    for (int bit = 0; pair != 0; bit++, pair >>= 1) {
        if (pair & 1)
            power *= p.power[bit];
    }
    return power;
}

/* The work of a thread: chunk `chunk` of `rows` rows, the first of which begins at `at`. */
struct trp__rotary_item {
    int64_t at[TRP__ROTARY_OPERANDS];
    int chunk, rows;
};

TRP__DEVICE int64_t trp__rotary_position(const trp__rotary &p, const trp__rotary_item &item)
{
    const int64_t entry = item.at[TRP__ROTARY_ENTRY];
    return !p.index       ? entry + (p.begin_at ? trp__at<int64_t>(p.begin_at, 0) : p.begin)
           : p.wide_index ? trp__at<int64_t>(p.index, entry)
                          : (int64_t)trp__at<int32_t>(p.index, entry);
}

/* Loads RUN numbers of a row of cosines or sines, for the pairs from `pair` on; those of the
 * second half lie `apart` pairs further on. */
template <typename T, int RUN>
TRP__DEVICE void trp__rotary_row(const trp__rotary &p, uint64_t at, const int64_t stride[2],
                                 uint8_t type, int64_t position, int64_t pair, int64_t apart,
                                 T out[RUN])
{
    if (position < 0 || position >= p.positions) {
        TRP__EACH(k, RUN)
            out[k] = T(NAN);
        return;
    }
    if (RUN % 4 == 0 && p.table_runs && (RUN > 4 || apart == 0)) {
        TRP__UNROLL
        for (int k = 0; k < RUN; k += 4)
            trp__load_run<T, 4>(at, position * stride[0] + pair + k + (k < RUN / 2 ? 0 : apart),
                                type, out + k);
        return;
    }
    TRP__EACH(k, RUN)
        out[k] = trp__load_float<T>(
            at, position * stride[0] + (pair + k + (k < RUN / 2 ? 0 : apart)) * stride[1], type);
}

/* Finds the cosines and sines of RUN pairs. */
template <typename T, int RUN>
TRP__DEVICE void trp__rotary_find(const trp__rotary &p, const trp__rotary_item &item, int64_t pair,
                                  int64_t apart, T cosine[RUN], T sine[RUN])
{
    const int64_t position = trp__rotary_position(p, item);
    if (p.cosines) {
        trp__rotary_row<T, RUN>(p, p.cosines, p.cosine_stride, p.cosine_type, position, pair,
                                apart, cosine);
        trp__rotary_row<T, RUN>(p, p.sines, p.sine_stride, p.sine_type, position, pair, apart,
                                sine);
    } else if constexpr (sizeof(T) == 8) {
        for (int k = 0; k < RUN; k++) {
            const double angle =
                trp__rotary_angle(&p.node, 2 * (int64_t)p.half, position,
                                  pair + k + (k < RUN / 2 ? 0 : apart));
            cosine[k] = trp__rotary_cos(angle);
            sine[k] = trp__rotary_sin(angle);
        }
    } else {
        double power = 0;
        TRP__EACH(k, RUN) {
            if (k == 0 || (k == RUN / 2 && apart != 0))
                power = trp__rotary_power(p, (uint32_t)(pair + k + (k == 0 ? 0 : apart)));
            else
                power *= p.power[0];
            trp__rotary_turn_by((double)position * power, &cosine[k], &sine[k]);
        }
    }
    TRP__UNROLL
    for (int k = 0; k < RUN && p.back; k++)
        sine[k] = -sine[k];
}

/* --- Rows --- */

/* A pack of elements of any type, as T. */
template <typename T, int RUN> struct trp__rotary_any {
    T v[RUN];

    TRP__DEVICE void load(uint64_t at, int64_t i, uint8_t type)
    {
        trp__load_some<T, RUN>(at, i, type, v);
    }
    TRP__DEVICE T get(int j) const
    {
        return v[j];
    }
    TRP__DEVICE void set(const T from[RUN])
    {
        TRP__EACH(j, RUN)
            v[j] = from[j];
    }
    TRP__DEVICE void store(uint64_t at, int64_t i, uint8_t type) const
    {
        trp__store_some<T, RUN>(at, i, type, v);
    }
};

/* Turns pairs. A thread has two packs of each row, `half` elements apart, so that packs of adjacent
 * threads lie next to each other: the first and the second elements of its pairs or, if pairs are
 * adjacent elements, RUN / 2 pairs each. With RUN 1 it has the two elements of one pair, wherever
 * they lie. */
template <typename T, int RUN, typename PACK>
TRP__DEVICE void trp__rotary_turn(const trp__rotary &p, const trp__rotary_item &item)
{
    enum { DEEP = TRP__ROTARY_DEEP };
    const bool mixed = p.pairs && RUN > 1; /* a pack has whole pairs */
    const int64_t run = (int64_t)item.chunk * RUN;
    const int64_t first = p.pairs && RUN == 1 ? 2 * run : run;
    const int64_t second = p.pairs && RUN == 1 ? first + 1 : run + p.half;
    const trp__rows_operand &x = p.io[TRP__ROTARY_FROM], &y = p.io[TRP__ROTARY_TO];
    T cosine[RUN], sine[RUN];
    PACK a[DEEP], b[DEEP];
    TRP__EACH(d, DEEP) {
        const int64_t from = item.at[TRP__ROTARY_FROM] + d * p.apart[0];
        if (d < item.rows) {
            a[d].load(x.at, from + first, x.type);
            b[d].load(x.at, from + second, x.type);
        }
    }
    trp__rotary_find<T, RUN>(p, item, mixed ? run / 2 : run, mixed ? (p.half - RUN) / 2 : 0,
                             cosine, sine);
    TRP__EACH(d, DEEP) {
        const int64_t to = item.at[TRP__ROTARY_TO] + d * p.apart[1];
        T u[RUN], v[RUN];
        if (d >= item.rows)
            continue;
        TRP__EACH(k, RUN) {
            if (mixed) {
                T *const out = k < RUN / 2 ? &u[2 * k % RUN] : &v[2 * k % RUN];
                const PACK &in = k < RUN / 2 ? a[d] : b[d];
                const T left = in.get(2 * k % RUN), right = in.get((2 * k + 1) % RUN);
                out[0] = left * cosine[k] - right * sine[k];
                out[1] = left * sine[k] + right * cosine[k];
            } else {
                u[k] = a[d].get(k) * cosine[k] - b[d].get(k) * sine[k];
                v[k] = a[d].get(k) * sine[k] + b[d].get(k) * cosine[k];
            }
        }
        a[d].set(u);
        b[d].set(v);
        a[d].store(y.at, to + first, y.type);
        b[d].store(y.at, to + second, y.type);
    }
}

/* Copies the elements behind those that are turned. */
template <int RUN, typename PACK>
TRP__DEVICE void trp__rotary_stay(const trp__rotary &p, const trp__rotary_item &item)
{
    const int64_t at = 2 * (int64_t)p.half + (int64_t)(item.chunk - p.pair_chunks) * RUN;
    const trp__rows_operand &x = p.io[TRP__ROTARY_FROM], &y = p.io[TRP__ROTARY_TO];
    for (int d = 0; d < item.rows; d++) {
        PACK v;
        v.load(x.at, item.at[TRP__ROTARY_FROM] + d * p.apart[0] + at, x.type);
        v.store(y.at, item.at[TRP__ROTARY_TO] + d * p.apart[1] + at, y.type);
    }
}

template <typename T, int RUN, typename PACK> TRP__DEVICE void trp__rotary_rows(const trp__rotary &p)
{
    const int64_t i = p.first + (int64_t)blockIdx.x * TRP__ROTARY_THREADS + threadIdx.x;
    trp__rotary_item item;
    if (i >= p.items)
        return;
    const uint32_t group = trp__map_quotient((uint32_t)i, &p.chunks);
    item.chunk = (int)((uint32_t)i - group * p.chunks.by);
    trp__row_packs_find<TRP__ROTARY_OPERANDS>(p.space, group, p.io, item.at);
    const int64_t left = p.shared - item.at[TRP__ROTARY_ALONG];
    item.rows = left < TRP__ROTARY_DEEP ? (int)left : TRP__ROTARY_DEEP;
    if (item.chunk < p.pair_chunks)
        trp__rotary_turn<T, RUN, PACK>(p, item);
    else
        trp__rotary_stay<RUN, PACK>(p, item);
}

#define TRP__ROTARY_KERNEL(name, threads, T, RUN, ...)                                             \
    TRP__ENTRY(name, trp__rotary, (threads), trp__rotary_rows<T, RUN, __VA_ARGS__>)

/* Kernels of arrays of one type, in packs of 16 bytes, and of arrays of any types. */
#define TRP__ROTARY_KERNELS(name, threads)                                                         \
    TRP__ROTARY_KERNEL(name##_f32, threads, float, 4, trp__pack<TRP_F32, 4>)                       \
    TRP__ROTARY_KERNEL(name##_bf16, threads, float, 8, trp__pack<TRP_BF16, 8>)                     \
    TRP__ROTARY_KERNEL(name##_f16, threads, float, 8, trp__pack<TRP_F16, 8>)                       \
    TRP__ROTARY_KERNEL(name##_any_f32_1, threads, float, 1, trp__rotary_any<float, 1>)             \
    TRP__ROTARY_KERNEL(name##_any_f32_4, threads, float, 4, trp__rotary_any<float, 4>)             \
    TRP__ROTARY_KERNEL(name##_any_f64_1, threads, double, 1, trp__rotary_any<double, 1>)           \
    TRP__ROTARY_KERNEL(name##_any_f64_4, threads, double, 4, trp__rotary_any<double, 4>)

TRP__ROTARY_KERNELS(trp_rotary, TRP__ROTARY_THREADS)

#endif
