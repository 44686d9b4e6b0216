/* Pooling of tensors of one type. */
#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_TYPED_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_TYPED_CUH

#include "actors/dnn/kernels/pool/pool_any.cuh"

/* Takes the next elements of a window into its result, in order: TAPS, or the last `some`. */
template <int TYPE, int V, int TAPS>
TRP__DEVICE void trp__pool_take(trp__pool_result<float, V> *r, const trp__pack<TYPE, V> v[TAPS],
                                const int tap[TAPS], int some, bool most, bool index)
{
    TRP__UNROLL
    for (int j = 0; j < V && !most; j++) { /* missing elements are 0 */
        float sum = 0;
        TRP__EACH(u, TAPS)
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

/* A thread computes an output, or those of V channels. It loads 9 elements of the window before it
 * uses any. */
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
        TRP__EACH(u, TAPS) {
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
    const int next = (int)trp__map_quotient(last, &d) + 1;
    *begin = before < 0 ? 0 : (int)trp__map_quotient(first, &d) + 1;
    *end = next < p.out[k] ? next : p.out[k];
}

/* Loads the places of V maxima, of one byte each. */
template <int V> TRP__DEVICE uint64_t trp__pool_bytes(const trp__pool_operand &o, int64_t i)
{
    if constexpr (V == 8)
        return trp__at<uint64_t>(o.at + (uint64_t)i, 0);
    else if constexpr (V == 4)
        return trp__at<uint32_t>(o.at + (uint64_t)i, 0);
    else
        return trp__at<uint8_t>(o.at, i);
}

/* A thread computes the gradient of an input, or of V channels of it. It loads the operands of 4
 * windows before it uses any. Places of maxima are i8. */
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
    TRP__EACH(k, TRP__POOL_DIMS) {
        trp__pool_cover(p, k, input.at[k], input.at[k], &begin[k], &end[k]);
        all *= end[k] > begin[k] ? end[k] - begin[k] : 0;
        o[k] = begin[k];
    }
    TRP__EACH(j, V)
        sum[j] = 0;
    const int64_t base = input.base(p.y), index = input.base(p.index);
    for (int done = 0; done < all; done += WINDOWS) {
        trp__pack<TYPE, V> dy[WINDOWS];
        uint64_t best[WINDOWS];
        int tap[WINDOWS];
        float share[WINDOWS];
        TRP__EACH(u, WINDOWS) {
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
        TRP__EACH(u, WINDOWS) {
            if (done + u >= all)
                continue;
            TRP__EACH(j, V) {
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

/* A thread computes the gradients of a strip, 8 neighbouring inputs of a row. It visits each window
 * that covers any of them once. */
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
    TRP__EACH(j, RUN)
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
                TRP__EACH(u, WINDOWS) {
                    dy[u].clear();
                    best[u] = 0;
                    if (w + u < end[2]) {
                        dy[u].load(p.y.at, y + (w + u) * p.y.spatial[2], p.y.type);
                        if (most)
                            best[u] = (int)trp__pool_bytes<1>(p.index,
                                                              index + (w + u) * p.index.spatial[2]);
                    }
                }
                TRP__EACH(u, WINDOWS) {
                    if (w + u >= end[2])
                        continue;
                    /* dy belongs to `length` inputs of the strip from `start` on: to one, or to all
                     * of the window. */
                    const int first = (w + u) * p.stride[2] - p.pad[2] - from;
                    const int tap = best[u] - taps;
                    const bool row = most && tap >= 0 && tap < p.window[2];
                    const int start = most ? first + tap : first;
                    const uint32_t length = most ? (row ? 1u : 0u) : (uint32_t)p.window[2];
                    const float v = most ? dy[u].get(0)
                                         : dy[u].get(0) / (lines * trp__pool_counted(p, 2, w + u));
                    TRP__EACH(j, RUN)
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
        TRP__EACH(j, RUN) {
            if (j < here)
                trp__store_float<float>(p.x.at, to + j, TYPE, sum[j]);
        }
    }
}

#endif
