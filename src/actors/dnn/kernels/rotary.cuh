#ifndef TRP_ACTORS_DNN_KERNELS_ROTARY_CUH
#define TRP_ACTORS_DNN_KERNELS_ROTARY_CUH

#include "actors/dnn/kernels/map_operands.cuh"
#include "actors/dnn/kernels/rotary.h"
#include "actors/dnn/kernels/rows.cuh"
#include "actors/dnn/train_rotary.h"

/* The position of a row of the table. */
TRP__DEVICE int64_t trp__rotary_position(const trp__rotary &p, int64_t entry)
{
    int64_t at = 0;
    if (!p.index)
        return entry + (p.begin_at ? trp__at<int64_t>(p.begin_at, 0) : p.begin);
    for (int i = p.index_rank - 1; i >= 0; i--) {
        at += entry % p.index_dim[i] * p.index_stride[i];
        entry /= p.index_dim[i];
    }
    return p.wide_index ? trp__at<int64_t>(p.index, at) : (int64_t)trp__at<int32_t>(p.index, at);
}

template <typename T> TRP__DEVICE void trp__rotary_fill(const trp__rotary &p)
{
    const int64_t all = p.entries * p.half;
    const int64_t i = (int64_t)blockIdx.x * TRP__ROTARY_THREADS + threadIdx.x;
    if (i >= all)
        return;
    const int64_t entry = i / p.half, pair = i - entry * p.half;
    const int64_t position = trp__rotary_position(p, entry);
    double cosine = NAN, sine = NAN;
    if (!p.cosines) {
        const double angle = trp__rotary_angle(&p.node, 2 * (int64_t)p.half, position, pair);
        cosine = cos(angle);
        sine = sin(angle);
    } else if (position >= 0 && position < p.positions) {
        cosine = trp__load_float<double>(
            p.cosines, position * p.cosine_stride[0] + pair * p.cosine_stride[1], p.cosine_type);
        sine = trp__load_float<double>(
            p.sines, position * p.sine_stride[0] + pair * p.sine_stride[1], p.sine_type);
    }
    trp__to<T>(p.table, 2 * i) = (T)cosine;
    trp__to<T>(p.table, 2 * i + 1) = (T)(p.back ? -sine : sine);
}

template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__rotary_read(uint64_t at, int64_t i, T v[RUN])
{
    if (RUN == 1)
        v[0] = trp__load_float<T>(at, i, TYPE);
    else
        trp__load_run<T, RUN == 1 ? 4 : RUN>(at, i, TYPE, v);
}

template <typename T, int RUN>
TRP__DEVICE void trp__rotary_write(uint64_t at, int64_t i, uint8_t type, const T v[RUN])
{
    if (RUN == 1)
        trp__store_float<T>(at, i, type, v[0]);
    else
        trp__store_run<T, RUN == 1 ? 4 : RUN>(at, i, type, v);
}

/* Where a thread's rows are, and which chunk of them it has. */
struct trp__rotary_item {
    int64_t at[TRP__ROTARY_OPERANDS];
    int chunk, rows;
};

template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__rotary_turn(const trp__rotary &p, const trp__rotary_item &item)
{
    enum { DEEP = TRP__ROTARY_DEEP };
    const int64_t pair = (int64_t)item.chunk * RUN;
    const int64_t first = p.pairs ? 2 * pair : pair, second = p.pairs ? first + RUN : pair + p.half;
    const uint8_t type = p.io[TRP__ROTARY_TO].type;
    T cosine[RUN], sine[RUN], a[DEEP][RUN], b[DEEP][RUN];
    const int64_t entry = 2 * (item.at[TRP__ROTARY_ENTRY] * p.half + pair);
    if (RUN == 1) {
        cosine[0] = trp__at<T>(p.table, entry);
        sine[0] = trp__at<T>(p.table, entry + 1);
    } else {
        T turns[2 * RUN];
        TRP__UNROLL
        for (int k = 0; k < 2 * RUN; k += 4)
            trp__load_run<T, 4>(p.table, entry + k, sizeof(T) == 8 ? TRP_F64 : TRP_F32, turns + k);
        TRP__UNROLL
        for (int k = 0; k < RUN; k++) {
            cosine[k] = turns[2 * k];
            sine[k] = turns[2 * k + 1];
        }
    }
    TRP__UNROLL
    for (int d = 0; d < DEEP; d++) {
        const int64_t from = item.at[TRP__ROTARY_FROM] + d * p.apart[0];
        if (d < item.rows) {
            trp__rotary_read<T, RUN, TYPE>(p.io[TRP__ROTARY_FROM].at, from + first, a[d]);
            trp__rotary_read<T, RUN, TYPE>(p.io[TRP__ROTARY_FROM].at, from + second, b[d]);
        }
    }
    TRP__UNROLL
    for (int d = 0; d < DEEP; d++) {
        const int64_t to = item.at[TRP__ROTARY_TO] + d * p.apart[1];
        if (d >= item.rows)
            continue;
        TRP__UNROLL
        for (int k = 0; k < RUN; k++) {
            if (p.pairs && RUN > 1) { /* a and b are pairs one behind the other */
                T *const pair_at = k < RUN / 2 ? &a[d][2 * k % RUN] : &b[d][2 * k % RUN];
                const T u = pair_at[0], v = pair_at[1];
                pair_at[0] = u * cosine[k] - v * sine[k];
                pair_at[1] = u * sine[k] + v * cosine[k];
            } else {
                const T u = a[d][k], v = b[d][k];
                a[d][k] = u * cosine[k] - v * sine[k];
                b[d][k] = u * sine[k] + v * cosine[k];
            }
        }
        trp__rotary_write<T, RUN>(p.io[TRP__ROTARY_TO].at, to + first, type, a[d]);
        trp__rotary_write<T, RUN>(p.io[TRP__ROTARY_TO].at, to + second, type, b[d]);
    }
}

/* Elements behind those that turn. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__rotary_stay(const trp__rotary &p, const trp__rotary_item &item)
{
    const int64_t at = 2 * (int64_t)p.half + (int64_t)(item.chunk - p.pair_chunks) * RUN;
    for (int d = 0; d < item.rows; d++) {
        T v[RUN];
        trp__rotary_read<T, RUN, TYPE>(p.io[TRP__ROTARY_FROM].at,
                                       item.at[TRP__ROTARY_FROM] + d * p.apart[0] + at, v);
        trp__rotary_write<T, RUN>(p.io[TRP__ROTARY_TO].at,
                                  item.at[TRP__ROTARY_TO] + d * p.apart[1] + at,
                                  p.io[TRP__ROTARY_TO].type, v);
    }
}

template <typename T, int RUN> TRP__DEVICE void trp__rotary_rows(const trp__rotary &p)
{
    const int64_t i = p.first + (int64_t)blockIdx.x * TRP__ROTARY_THREADS + threadIdx.x;
    const uint8_t type = p.io[TRP__ROTARY_FROM].type;
    trp__rotary_item item;
    if (i >= p.items)
        return;
    const uint32_t group = trp__quotient((uint32_t)i, p.chunks);
    item.chunk = (int)((uint32_t)i - group * p.chunks.by);
    trp__rows_find<TRP__ROTARY_OPERANDS>(p.space, group, p.io, item.at);
    const int64_t left = p.shared - item.at[TRP__ROTARY_ALONG];
    item.rows = left < TRP__ROTARY_DEEP ? (int)left : TRP__ROTARY_DEEP;
#define TRP__ROTARY_RUN(TYPE)                                                                      \
    if (item.chunk < p.pair_chunks)                                                                \
        trp__rotary_turn<T, RUN, TYPE>(p, item);                                                   \
    else                                                                                           \
        trp__rotary_stay<T, RUN, TYPE>(p, item);
    if (type == TRP_F32) {
        TRP__ROTARY_RUN(TRP_F32)
    } else if (type == TRP_BF16) {
        TRP__ROTARY_RUN(TRP_BF16)
    } else if (type == TRP_F16) {
        TRP__ROTARY_RUN(TRP_F16)
    } else if (sizeof(T) == 8) {
        TRP__ROTARY_RUN(TRP_F64)
    }
#undef TRP__ROTARY_RUN
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_table_f32(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_fill<float>(p);
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_table_f64(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_fill<double>(p);
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_f32_1(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_rows<float, 1>(p);
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_f32_4(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_rows<float, 4>(p);
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_f32_8(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_rows<float, 8>(p);
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_f64_1(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_rows<double, 1>(p);
}

TRP__GLOBAL(TRP__ROTARY_THREADS) trp_rotary_f64_4(const TRP__CONSTANT trp__rotary p)
{
    trp__rotary_rows<double, 4>(p);
}

#endif
