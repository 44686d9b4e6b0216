#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_CUH

#include "actors/dnn/kernels/pool/pool.h"
#include "actors/dnn/kernels/common/packs.cuh"

#include "troupe/dnn.h"

/* What a thread has to do with: where in the batch, in the channels and in space. */
struct trp__pool_place {
    int64_t batch;
    int channel;
    int at[TRP__POOL_DIMS];

    TRP__DEVICE static uint32_t next(uint32_t *number, const trp__map_divisor &d)
    {
        const uint32_t n = *number;
        *number = (uint32_t)(((uint64_t)n * d.factor >> 32) + n) >> d.shift;
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
    if constexpr (RUN == 1) {
        v[0] = trp__load_float<T>(o.at, i, o.type);
    } else {
        TRP__ROWS_BY_TYPE(T, o.type, TRP__POOL_LOAD);
    }
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

/* That part of a window that is inside the input: its first element, and sizes. */
struct trp__pool_window {
    int first[TRP__POOL_DIMS]; /* of the window; outside, perhaps */
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

/* By what a sum is divided. Padding that is said counts in AVERAGE_PADDED; that which is there
 * because the size of the output was rounded up never does. */
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

/* Whether an element comes before the largest one so far: NaN does, but for another NaN. */
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
    /* Takes what the lane `by` away has found. */
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

/* The mean of a window whose sum left the range of the type, element k of a run: of its terms, each
 * divided first. Infinities and NaN come out as they are. */
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

/* A warp for what a thread has above. */
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
    for (int k = 0; k < TRP__POOL_DIMS; k++) { /* the windows that cover it */
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

/* --- Tensors of one type --- */

/* Adds up to TAPS elements of a window, which lie in their order. */
template <int TYPE, int V, int TAPS>
TRP__DEVICE void trp__pool_take(trp__pool_result<float, V> *r, const trp__pack<TYPE, V> v[TAPS],
                                const int tap[TAPS], int some, bool most, bool index)
{
    TRP__UNROLL
    for (int j = 0; j < V && !most; j++) { /* what is not there is 0 */
        float sum = 0;
        TRP__UNROLL
        for (int u = 0; u < TAPS; u++)
            sum += v[u].get(j);
        trp__exact_sum<float> s = {r->v[j], r->lost[j]};
        s.add(sum);
        r->v[j] = s.sum;
        r->lost[j] = s.lost;
    }
    TRP__UNROLL
    for (int u = 0; u < TAPS && most && index; u++) {
        TRP__UNROLL
        for (int j = 0; j < V && u < some; j++) {
            const float x = v[u].get(j);
            if (trp__pool_wins(x, r->v[j], r->best[j])) {
                r->v[j] = x;
                r->best[j] = tap[u];
            }
        }
    }
    TRP__UNROLL
    for (int u = 0; u < TAPS && most && !index; u++) {
        TRP__UNROLL
        for (int j = 0; j < V && u < some; j++) {
            const float x = v[u].get(j);
            r->v[j] = r->v[j] >= x || r->v[j] != r->v[j] ? r->v[j] : x;
        }
    }
}

/* An output, or those of V channels: reads 9 elements of the window before it looks at any. */
template <int TYPE, int V> TRP__DEVICE void trp__pool_forward_typed(const trp__pool &p)
{
    enum { TAPS = 9 };
    const uint32_t number = blockIdx.x * TRP__POOL_THREADS + threadIdx.x;
    const bool most = p.mode == TRP_DNN_POOL_MAX;
    trp__pool_place place;
    trp__pool_window w;
    trp__pool_result<float, V> r;
    if (number >= p.count)
        return;
    place.find(p, number, V);
    w.find(p, place.at);
    r.begin(most);
    const int all = (int)w.inside();
    int64_t at = place.base(p.x) + w.begin[0] * p.x.spatial[0] + w.begin[1] * p.x.spatial[1] +
                 w.begin[2] * p.x.spatial[2];
    const int64_t row = p.x.spatial[1] - (w.size[2] - 1) * p.x.spatial[2];
    const int64_t plane = p.x.spatial[0] - (w.size[1] - 1) * p.x.spatial[1] -
                          (w.size[2] - 1) * p.x.spatial[2];
    int tap = ((w.begin[0] - w.first[0]) * p.window[1] + w.begin[1] - w.first[1]) * p.window[2] +
              w.begin[2] - w.first[2];
    int column = 0, line = 0;
    for (int done = 0; done < all; done += TAPS) {
        trp__pack<TYPE, V> v[TAPS];
        int taps[TAPS];
        TRP__UNROLL
        for (int u = 0; u < TAPS; u++) {
            v[u].clear();
            taps[u] = tap;
            if (done + u < all)
                v[u].load(p.x.at, at, p.x.type);
            const bool ends = ++column == w.size[2], last = ends && line + 1 == w.size[1];
            at += last ? plane : ends ? row : p.x.spatial[2];
            tap += 1 + (ends ? p.window[2] - w.size[2] : 0) +
                   (last ? (p.window[1] - w.size[1]) * p.window[2] : 0);
            column = ends ? 0 : column;
            line = last ? 0 : line + (ends ? 1 : 0);
        }
        trp__pool_take<TYPE, V, TAPS>(&r, v, taps, all - done, most, p.index.at != 0);
    }
    trp__pool_finish<float, V>(p, place, w, &r);
}

/* The windows that cover elements `at` to `to` of a dimension. */
TRP__DEVICE void trp__pool_cover(const trp__pool &p, int k, int at, int to, int *begin, int *end)
{
    const trp__map_divisor &d = p.by_stride[k];
    const int before = at + p.pad[k] - p.window[k];
    const uint32_t first = before > 0 ? (uint32_t)before : 0, last = (uint32_t)(to + p.pad[k]);
    const int next = (int)((uint32_t)(((uint64_t)last * d.factor >> 32) + last) >> d.shift) + 1;
    *begin = before < 0
                 ? 0
                 : (int)((uint32_t)(((uint64_t)first * d.factor >> 32) + first) >> d.shift) + 1;
    *end = next < p.out[k] ? next : p.out[k];
}

/* How much of a window counts, along a dimension. */
TRP__DEVICE float trp__pool_counted(const trp__pool &p, int k, int window)
{
    const int first = window * p.stride[k] - p.pad[k], end = first + p.window[k];
    const bool padded = p.mode == TRP_DNN_POOL_AVERAGE_PADDED;
    const int limit = padded ? p.end[k] : p.in[k], begin = padded || first > 0 ? first : 0;
    return (float)((end < limit ? end : limit) - begin);
}

/* V bytes of places of maxima. */
template <int V> TRP__DEVICE uint64_t trp__pool_bytes(const trp__pool_operand &o, int64_t i)
{
    if constexpr (V == 8)
        return trp__at<uint64_t>(o.at + (uint64_t)i, 0);
    else if constexpr (V == 4)
        return trp__at<uint32_t>(o.at + (uint64_t)i, 0);
    else
        return trp__at<uint8_t>(o.at, i);
}

/* An input, or those of V channels: reads what 4 windows have before it looks at any. Places of
 * maxima are i8. */
template <int TYPE, int V> TRP__DEVICE void trp__pool_backward_typed(const trp__pool &p)
{
    enum { WINDOWS = 4 };
    const uint32_t number = blockIdx.x * TRP__POOL_THREADS + threadIdx.x;
    const bool most = p.mode == TRP_DNN_POOL_MAX;
    trp__pool_place input;
    int begin[TRP__POOL_DIMS], end[TRP__POOL_DIMS], o[TRP__POOL_DIMS];
    float sum[V];
    if (number >= p.count)
        return;
    input.find(p, number, V);
    int all = 1;
    TRP__UNROLL
    for (int k = 0; k < TRP__POOL_DIMS; k++) {
        trp__pool_cover(p, k, input.at[k], input.at[k], &begin[k], &end[k]);
        all *= end[k] > begin[k] ? end[k] - begin[k] : 0;
        o[k] = begin[k];
    }
    TRP__UNROLL
    for (int j = 0; j < V; j++)
        sum[j] = 0;
    const int64_t base = input.base(p.y), index = input.base(p.index);
    for (int done = 0; done < all; done += WINDOWS) {
        trp__pack<TYPE, V> dy[WINDOWS];
        uint64_t best[WINDOWS];
        int tap[WINDOWS];
        float share[WINDOWS];
        TRP__UNROLL
        for (int u = 0; u < WINDOWS; u++) {
            dy[u].clear();
            best[u] = 0;
            tap[u] = 0;
            share[u] = 0;
            if (done + u >= all)
                continue;
            dy[u].load(p.y.at,
                       base + o[0] * p.y.spatial[0] + o[1] * p.y.spatial[1] +
                           o[2] * p.y.spatial[2],
                       p.y.type);
            if (most) {
                best[u] = trp__pool_bytes<V>(p.index, index + o[0] * p.index.spatial[0] +
                                                          o[1] * p.index.spatial[1] +
                                                          o[2] * p.index.spatial[2]);
                for (int k = 0; k < TRP__POOL_DIMS; k++)
                    tap[u] = tap[u] * p.window[k] + input.at[k] + p.pad[k] - o[k] * p.stride[k];
            } else {
                share[u] = 1.0f / (trp__pool_counted(p, 0, o[0]) * trp__pool_counted(p, 1, o[1]) *
                           trp__pool_counted(p, 2, o[2]));
            }
            const bool ends = ++o[2] == end[2], last = ends && o[1] + 1 == end[1];
            o[0] += last ? 1 : 0;
            o[1] = last ? begin[1] : o[1] + (ends ? 1 : 0);
            o[2] = ends ? begin[2] : o[2];
        }
        TRP__UNROLL
        for (int u = 0; u < WINDOWS; u++) {
            if (done + u >= all)
                continue;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                const float v = dy[u].get(j);
                const bool mine = (int)(uint8_t)(best[u] >> (8 * j)) == tap[u];
                sum[j] += !most ? v * share[u] : mine ? v : 0.0f;
            }
        }
    }
    trp__pack<TYPE, V> out;
    out.set(sum);
    out.store(p.x.at, input.offset(p.x), p.x.type);
}

/* A strip of a row: 8 inputs that follow each other. The windows that cover any are visited once. */
template <int TYPE> TRP__DEVICE void trp__pool_backward_strip(const trp__pool &p)
{
    enum { WINDOWS = 5, RUN = TRP__POOL_RUN };
    const uint32_t number = blockIdx.x * TRP__POOL_THREADS + threadIdx.x;
    const bool most = p.mode == TRP_DNN_POOL_MAX;
    trp__pool_place input;
    int begin[TRP__POOL_DIMS], end[TRP__POOL_DIMS];
    float sum[RUN];
    if (number >= p.count)
        return;
    input.find(p, number, 1);
    const int from = input.at[2] * RUN, here = p.in[2] - from < RUN ? p.in[2] - from : RUN;
    trp__pool_cover(p, 0, input.at[0], input.at[0], &begin[0], &end[0]);
    trp__pool_cover(p, 1, input.at[1], input.at[1], &begin[1], &end[1]);
    trp__pool_cover(p, 2, from, from + here - 1, &begin[2], &end[2]);
    TRP__UNROLL
    for (int j = 0; j < RUN; j++)
        sum[j] = 0;
    for (int d = begin[0]; d < end[0]; d++) {
        for (int h = begin[1]; h < end[1]; h++) {
            const int64_t y = input.base(p.y) + d * p.y.spatial[0] + h * p.y.spatial[1];
            const int64_t index =
                input.base(p.index) + d * p.index.spatial[0] + h * p.index.spatial[1];
            const int taps = ((input.at[0] + p.pad[0] - d * p.stride[0]) * p.window[1] +
                              input.at[1] + p.pad[1] - h * p.stride[1]) *
                             p.window[2];
            const float lines = trp__pool_counted(p, 0, d) * trp__pool_counted(p, 1, h);
            for (int w = begin[2]; w < end[2]; w += WINDOWS) {
                trp__pack<TYPE, 1> dy[WINDOWS];
                int best[WINDOWS];
                TRP__UNROLL
                for (int u = 0; u < WINDOWS; u++) {
                    dy[u].clear();
                    best[u] = 0;
                    if (w + u < end[2]) {
                        dy[u].load(p.y.at, y + (w + u) * p.y.spatial[2], p.y.type);
                        if (most)
                            best[u] = (int)trp__pool_bytes<1>(p.index,
                                                              index + (w + u) * p.index.spatial[2]);
                    }
                }
                TRP__UNROLL
                for (int u = 0; u < WINDOWS; u++) {
                    if (w + u >= end[2])
                        continue;
                    /* The first of the window and how many of it are inputs of dy: one, or all. */
                    const int first = (w + u) * p.stride[2] - p.pad[2] - from;
                    const int tap = best[u] - taps;
                    const bool row = most && tap >= 0 && tap < p.window[2];
                    const int start = most ? first + tap : first;
                    const uint32_t length = most ? (row ? 1u : 0u) : (uint32_t)p.window[2];
                    const float v = most ? dy[u].get(0)
                                         : dy[u].get(0) / (lines * trp__pool_counted(p, 2, w + u));
                    TRP__UNROLL
                    for (int j = 0; j < RUN; j++)
                        sum[j] += (uint32_t)(j - start) < length ? v : 0.0f;
                }
            }
        }
    }
    const int64_t to = input.base(p.x) + input.at[0] * p.x.spatial[0] +
                       input.at[1] * p.x.spatial[1] + from;
    if (p.strip_runs) {
        trp__store_run<float, RUN>(p.x.at, to, TYPE, sum);
    } else {
        TRP__UNROLL
        for (int j = 0; j < RUN; j++) {
            if (j < here)
                trp__store_float<float>(p.x.at, to + j, TYPE, sum[j]);
        }
    }
}

/* All of a type and so many channels of a thread. */
#define TRP__POOL_KERNELS(name, TYPE, V)                                                           \
    TRP__GLOBAL(TRP__POOL_THREADS) name##_forward(const TRP__CONSTANT trp__pool p)                 \
    {                                                                                              \
        trp__pool_forward_typed<TYPE, V>(p);                                                       \
    }                                                                                              \
    TRP__GLOBAL(TRP__POOL_THREADS) name##_back(const TRP__CONSTANT trp__pool p)                    \
    {                                                                                              \
        trp__pool_backward_typed<TYPE, V>(p);                                                      \
    }
#define TRP__POOL_STRIP_KERNELS(name, TYPE)                                                        \
    TRP__GLOBAL(TRP__POOL_THREADS) name##_back(const TRP__CONSTANT trp__pool p)                    \
    {                                                                                              \
        trp__pool_backward_strip<TYPE>(p);                                                         \
    }

TRP__POOL_KERNELS(trp_pool_typed_f32_1, TRP_F32, 1)
TRP__POOL_KERNELS(trp_pool_typed_bf16_1, TRP_BF16, 1)
TRP__POOL_KERNELS(trp_pool_typed_f16_1, TRP_F16, 1)
TRP__POOL_KERNELS(trp_pool_typed_f32_4, TRP_F32, 4)
TRP__POOL_KERNELS(trp_pool_typed_bf16_8, TRP_BF16, 8)
TRP__POOL_KERNELS(trp_pool_typed_f16_8, TRP_F16, 8)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_f32, TRP_F32)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_bf16, TRP_BF16)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_f16, TRP_F16)

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_f32_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward<float, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f32_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<float, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f32_4(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<float, 4>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f32_8(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<float, 8>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_back_f32_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_backward<float, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_f64_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward<double, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f64_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<double, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_back_f64_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_backward<double, 1>(p);
}

#endif
