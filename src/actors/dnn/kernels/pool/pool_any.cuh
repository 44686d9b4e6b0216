/* Pooling of tensors of any types: windows, results, and the gradient. */
#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_ANY_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_ANY_CUH

#include "actors/dnn/kernels/pool/pool.h"
#include "actors/dnn/kernels/common/packs.cuh"

#include "troupe/dnn.h"

/* The element of a thread: its indices in the batch, in the channels and in space. */
struct trp__pool_place {
    int64_t batch;
    int channel;
    int at[TRP__POOL_DIMS];

    TRP__DEVICE static uint32_t next(uint32_t *number, const trp__map_divisor &d)
    {
        const uint32_t n = *number;
        *number = trp__map_quotient(n, &d);
        return n - *number * d.by;
    }
    TRP__DEVICE void find(const trp__pool &p, uint32_t number, int run)
    {
        int i = 0;
        if (p.channels_last)
            channel = (int)next(&number, p.size[i++]) * run;
        for (int k = TRP__POOL_DIMS - 1; k >= 0; k--)
            at[k] = (int)next(&number, p.size[i++]);
        if (!p.channels_last)
            channel = (int)next(&number, p.size[i++]) * run;
        batch = p.batch + number;
    }
    TRP__DEVICE int64_t base(const trp__pool_operand &o) const
    {
        return batch * o.batch + channel * o.channel;
    }
    TRP__DEVICE int64_t offset(const trp__pool_operand &o) const
    {
        return base(o) + at[0] * o.spatial[0] + at[1] * o.spatial[1] + at[2] * o.spatial[2];
    }
};

template <typename T, int RUN>
TRP__DEVICE void trp__pool_load(const trp__pool_operand &o, int64_t i, T v[RUN])
{
#define TRP__POOL_LOAD(TYPE) trp__load_run<T, RUN>(o.at, i, TYPE, v)
    if constexpr (RUN == 1)
        v[0] = trp__load_float<T>(o.at, i, o.type);
    else
        TRP__ROWS_BY_TYPE(T, o.type, TRP__POOL_LOAD);
#undef TRP__POOL_LOAD
}

template <typename T, int RUN>
TRP__DEVICE void trp__pool_store(const trp__pool_operand &o, int64_t i, const T v[RUN])
{
#define TRP__POOL_STORE(TYPE) trp__store_run<T, RUN>(o.at, i, TYPE, v)
    if constexpr (RUN == 1) {
        trp__store_float<T>(o.at, i, o.type, v[0]);
    } else {
        TRP__ROWS_BY_TYPE(T, o.type, TRP__POOL_STORE);
    }
#undef TRP__POOL_STORE
}

template <int RUN>
TRP__DEVICE void trp__pool_store_index(const trp__pool_operand &o, int64_t i, const int v[RUN])
{
    if (o.type == TRP_I8 && RUN == 8) {
        uint64_t bytes = 0;
        for (int k = 0; k < RUN; k++)
            bytes |= (uint64_t)(uint8_t)v[k] << (8 * k);
        trp__to<uint64_t>(o.at + (uint64_t)i, 0) = bytes;
        return;
    }
    if (o.type == TRP_I8 && RUN == 4) {
        uint32_t bytes = 0;
        for (int k = 0; k < RUN; k++)
            bytes |= (uint32_t)(uint8_t)v[k] << (8 * k);
        trp__to<uint32_t>(o.at + (uint64_t)i, 0) = bytes;
        return;
    }
    for (int k = 0; k < RUN; k++) {
        if (o.type == TRP_I8)
            trp__to<int8_t>(o.at, i + k) = (int8_t)v[k];
        else
            trp__to<int32_t>(o.at, i + k) = v[k];
    }
}

template <int RUN>
TRP__DEVICE void trp__pool_load_index(const trp__pool_operand &o, int64_t i, int v[RUN])
{
    if (o.type == TRP_I8 && RUN == 8) {
        const uint64_t bytes = trp__at<uint64_t>(o.at + (uint64_t)i, 0);
        for (int k = 0; k < RUN; k++)
            v[k] = (int8_t)(uint8_t)(bytes >> (8 * k));
        return;
    }
    for (int k = 0; k < RUN; k++)
        v[k] = o.type == TRP_I8 ? (int)trp__at<int8_t>(o.at, i + k) : trp__at<int32_t>(o.at, i + k);
}

/* The part of a window that is inside the input: its first element and its sizes. */
struct trp__pool_window {
    int first[TRP__POOL_DIMS]; /* of the window, which may be outside of the input */
    int begin[TRP__POOL_DIMS], size[TRP__POOL_DIMS];

    TRP__DEVICE void find(const trp__pool &p, const int at[TRP__POOL_DIMS])
    {
        for (int k = 0; k < TRP__POOL_DIMS; k++) {
            first[k] = at[k] * p.stride[k] - p.pad[k];
            const int end = first[k] + p.window[k] < p.in[k] ? first[k] + p.window[k] : p.in[k];
            begin[k] = first[k] > 0 ? first[k] : 0;
            size[k] = end > begin[k] ? end - begin[k] : 0;
        }
    }
    TRP__DEVICE int64_t inside() const
    {
        return (int64_t)size[0] * size[1] * size[2];
    }
};

/* Returns the divisor of a sum. Padding of the node counts in AVERAGE_PADDED; padding that only a
 * rounded-up size of the output needs never counts. */
template <typename T> TRP__DEVICE T trp__pool_count(const trp__pool &p, const trp__pool_window &w)
{
    int64_t count = 1;
    if (p.mode != TRP_DNN_POOL_AVERAGE_PADDED)
        return (T)w.inside();
    for (int k = 0; k < TRP__POOL_DIMS; k++) {
        const int end = w.first[k] + p.window[k];
        count *= (end < p.end[k] ? end : p.end[k]) - w.first[k];
    }
    return (T)count;
}

/* Returns how many elements along dimension k of a window count. */
TRP__DEVICE float trp__pool_counted(const trp__pool &p, int k, int window)
{
    const int first = window * p.stride[k] - p.pad[k], end = first + p.window[k];
    const bool padded = p.mode == TRP_DNN_POOL_AVERAGE_PADDED;
    const int limit = padded ? p.end[k] : p.in[k], begin = padded || first > 0 ? first : 0;
    return (float)((end < limit ? end : limit) - begin);
}

/* Tells whether x replaces the largest element so far: it is the first of all, larger, or the first
 * NaN. */
template <typename T> TRP__DEVICE bool trp__pool_wins(T x, T most, int best)
{
    return best < 0 || (most == most && !(x <= most));
}

/* An output's maximum or sum. */
template <typename T, int RUN> struct trp__pool_result {
    T v[RUN], lost[RUN];
    int best[RUN];

    TRP__DEVICE void begin(bool most)
    {
        for (int k = 0; k < RUN; k++) {
            v[k] = most ? T(-INFINITY) : T(0);
            lost[k] = 0;
            best[k] = -1;
        }
    }
    TRP__DEVICE void take(const T x[RUN], bool most, int tap)
    {
        for (int k = 0; k < RUN; k++) {
            if (!most) {
                trp__exact_sum<T> s = {v[k], lost[k]};
                s.add(x[k]);
                v[k] = s.sum;
                lost[k] = s.lost;
            } else if (trp__pool_wins(x[k], v[k], best[k])) {
                v[k] = x[k];
                best[k] = tap;
            }
        }
    }
    /* Takes in the result of the lane whose number differs in bit `by`. */
    TRP__DEVICE void join(bool most, int by)
    {
        for (int k = 0; k < RUN; k++) {
            const T x = __shfl_xor_sync(0xffffffffu, v[k], by);
            if (!most) {
                v[k] = (v[k] - lost[k]) + (x - __shfl_xor_sync(0xffffffffu, lost[k], by));
                lost[k] = 0;
                continue;
            }
            const int other = __shfl_xor_sync(0xffffffffu, best[k], by);
            const bool nan = x != x, mine = v[k] != v[k];
            const bool same = (nan && mine) || x == v[k];
            if (other >= 0 &&
                (best[k] < 0 || (same ? other < best[k] : !mine && (nan || x > v[k])))) {
                v[k] = x;
                best[k] = other;
            }
        }
    }
};

/* Returns the mean of a window whose sum overflowed T: divides each term first. Infinities and NaN
 * stay. `base`: the offset of the window's plane in x. */
template <typename T>
TRP__SHARED_CODE T trp__pool_mean_divided(const trp__pool &p, const trp__pool_window &w,
                                          int64_t base, T count)
{
    T sum = 0;
    for (int d = w.begin[0]; d < w.begin[0] + w.size[0]; d++) {
        for (int h = w.begin[1]; h < w.begin[1] + w.size[1]; h++) {
            for (int i = w.begin[2]; i < w.begin[2] + w.size[2]; i++)
                sum += trp__load_float<T>(p.x.at,
                                          base + d * p.x.spatial[0] + h * p.x.spatial[1] +
                                              i * p.x.spatial[2],
                                          p.x.type) /
                       count;
        }
    }
    return sum;
}

template <typename T, int RUN>
TRP__DEVICE void trp__pool_finish(const trp__pool &p, const trp__pool_place &place,
                                  const trp__pool_window &w, trp__pool_result<T, RUN> *r)
{
    const T count = trp__pool_count<T>(p, w);
    for (int k = 0; k < RUN && p.mode != TRP_DNN_POOL_MAX; k++) {
        r->v[k] = count > 0 ? (r->v[k] - r->lost[k]) / count : T(0);
        if (r->v[k] - r->v[k] != 0) /* elements of a run follow each other */
            r->v[k] = trp__pool_mean_divided<T>(p, w, place.base(p.x) + k, count);
    }
    if (p.y.at)
        trp__pool_store<T, RUN>(p.y, place.offset(p.y), r->v);
    if (p.index.at)
        trp__pool_store_index<RUN>(p.index, place.offset(p.index), r->best);
}

template <typename T, int RUN> TRP__DEVICE void trp__pool_forward(const trp__pool &p)
{
    const uint32_t number = blockIdx.x * TRP__POOL_THREADS + threadIdx.x;
    const bool most = p.mode == TRP_DNN_POOL_MAX;
    trp__pool_place place;
    trp__pool_window w;
    trp__pool_result<T, RUN> r;
    if (number >= p.count)
        return;
    place.find(p, number, RUN);
    w.find(p, place.at);
    r.begin(most);
    const int64_t base = place.base(p.x);
    for (int d = w.begin[0]; d < w.begin[0] + w.size[0]; d++) {
        for (int h = w.begin[1]; h < w.begin[1] + w.size[1]; h++) {
            const int64_t row = base + d * p.x.spatial[0] + h * p.x.spatial[1];
            const int tap = ((d - w.first[0]) * p.window[1] + h - w.first[1]) * p.window[2];
#pragma unroll 4
            for (int i = w.begin[2]; i < w.begin[2] + w.size[2]; i++) {
                T x[RUN];
                trp__pool_load<T, RUN>(p.x, row + i * p.x.spatial[2], x);
                r.take(x, most, tap + i - w.first[2]);
            }
        }
    }
    trp__pool_finish<T, RUN>(p, place, w, &r);
}

/* A warp computes an output, or those of RUN channels, of a large window. */
template <typename T, int RUN> TRP__DEVICE void trp__pool_forward_warp(const trp__pool &p)
{
    const uint32_t number = blockIdx.x * (TRP__POOL_THREADS / 32) + threadIdx.x / 32;
    const bool most = p.mode == TRP_DNN_POOL_MAX;
    const int lane = (int)threadIdx.x % 32;
    trp__pool_place place;
    trp__pool_window w;
    trp__pool_result<T, RUN> r;
    place.find(p, number < p.count ? number : 0, RUN);
    w.find(p, place.at);
    r.begin(most);
    const int64_t base = place.base(p.x), inside = w.inside();
    for (int64_t i = lane; i < inside; i += 32) {
        const int row = (int)(i / w.size[2]), x = w.begin[2] + (int)(i - (int64_t)row * w.size[2]);
        const int d = w.begin[0] + row / w.size[1], h = w.begin[1] + row % w.size[1];
        T v[RUN];
        trp__pool_load<T, RUN>(
            p.x, base + d * p.x.spatial[0] + h * p.x.spatial[1] + x * p.x.spatial[2], v);
        r.take(v, most,
               ((d - w.first[0]) * p.window[1] + h - w.first[1]) * p.window[2] + x - w.first[2]);
    }
    for (int by = 1; by < 32; by *= 2)
        r.join(most, by);
    if (lane == 0 && number < p.count)
        trp__pool_finish<T, RUN>(p, place, w, &r);
}

template <typename T, int RUN> TRP__DEVICE void trp__pool_backward(const trp__pool &p)
{
    const uint32_t number = blockIdx.x * TRP__POOL_THREADS + threadIdx.x;
    const bool most = p.mode == TRP_DNN_POOL_MAX;
    trp__pool_place place;
    int begin[TRP__POOL_DIMS], end[TRP__POOL_DIMS];
    T sum[RUN];
    if (number >= p.count)
        return;
    place.find(p, number, RUN);
    for (int k = 0; k < TRP__POOL_DIMS; k++) { /* finds the windows that cover the input */
        const int away = place.at[k] + p.pad[k], before = away - p.window[k];
        begin[k] = before < 0 ? 0 : before / p.stride[k] + 1;
        end[k] = away / p.stride[k] + 1 < p.out[k] ? away / p.stride[k] + 1 : p.out[k];
    }
    for (int k = 0; k < RUN; k++)
        sum[k] = 0;
    const trp__pool_place input = place;
    for (place.at[0] = begin[0]; place.at[0] < end[0]; place.at[0]++) {
        for (place.at[1] = begin[1]; place.at[1] < end[1]; place.at[1]++) {
            for (place.at[2] = begin[2]; place.at[2] < end[2]; place.at[2]++) {
                trp__pool_window w;
                T dy[RUN];
                int best[RUN];
                w.find(p, place.at);
                trp__pool_load<T, RUN>(p.y, place.offset(p.y), dy);
                const int tap =
                    ((input.at[0] - w.first[0]) * p.window[1] + input.at[1] - w.first[1]) *
                        p.window[2] +
                    input.at[2] - w.first[2];
                if (most)
                    trp__pool_load_index<RUN>(p.index, place.offset(p.index), best);
                const T count = trp__pool_count<T>(p, w);
                for (int k = 0; k < RUN; k++)
                    sum[k] += !most ? dy[k] / count : best[k] == tap ? dy[k] : T(0);
            }
        }
    }
    trp__pool_store<T, RUN>(p.x, input.offset(p.x), sum);
}

#endif
