#ifndef TRP_ACTORS_DNN_KERNELS_OPTIMIZER_OPTIMIZER_CUH
#define TRP_ACTORS_DNN_KERNELS_OPTIMIZER_OPTIMIZER_CUH

#include "actors/dnn/kernels/optimizer/optimizer.h"
#include "actors/dnn/kernels/common/rows.cuh"
#include "actors/dnn/kernels/common/runs.cuh"

/* The range that an element is in, or the gap between two ranges. */
struct trp__optimizer_range {
    int64_t begin, end;
    double rate, decay;
    bool inside;

    TRP__DEVICE void find(const trp__optimizer &p, int64_t i, double all_decay)
    {
        int64_t low = 0, high = p.segment_count;
        begin = 0;
        end = INT64_MAX;
        rate = 1;
        decay = all_decay;
        inside = true;
        if (high < 0)
            return;
        while (low < high) { /* find the first range that ends after element i */
            const int64_t middle = (low + high) / 2, at = middle * TRP__SEGMENT_COLUMNS;
            if (trp__at<double>(p.segments, at + TRP__SEGMENT_OFFSET) +
                    trp__at<double>(p.segments, at + TRP__SEGMENT_COUNT) >
                (double)i)
                high = middle;
            else
                low = middle + 1;
        }
        inside = false;
        begin = i;
        if (low == p.segment_count)
            return;
        const int64_t at = low * TRP__SEGMENT_COLUMNS;
        const double from = trp__at<double>(p.segments, at + TRP__SEGMENT_OFFSET);
        end = (int64_t)from;
        if (from > (double)i)
            return;
        inside = true;
        begin = (int64_t)from;
        end = (int64_t)(from + trp__at<double>(p.segments, at + TRP__SEGMENT_COUNT));
        rate = trp__at<double>(p.segments, at + TRP__SEGMENT_RATE);
        decay = trp__at<double>(p.segments, at + TRP__SEGMENT_DECAY);
    }
    TRP__DEVICE bool holds(int64_t i) const
    {
        return i >= begin && i < end;
    }
};

/* --- The norm --- */

/* Adds one element. Squares of f32 neither overflow nor vanish in f64. */
template <typename T>
TRP__DEVICE void trp__optimizer_square(T g, double sum[TRP__OPT_SUMS])
{
    const double v = (double)g;
    sum[TRP__OPT_SQUARES] = fma(v, v, sum[TRP__OPT_SQUARES]);
    if (sizeof(T) == 8) {
        const double less = v * 0x1p-600, more = v * 0x1p600;
        sum[TRP__OPT_SQUARES_LESS] = fma(less, less, sum[TRP__OPT_SQUARES_LESS]);
        sum[TRP__OPT_SQUARES_MORE] = fma(more, more, sum[TRP__OPT_SQUARES_MORE]);
    }
    sum[TRP__OPT_ZEROS] += (double)(g - g);
}

template <typename T> TRP__DEVICE void trp__optimizer_norm(const trp__optimizer &p)
{
    enum { RUN = TRP__OPTIMIZER_RUN, RUNS = TRP__OPTIMIZER_RUNS * 2, BLOCK = RUN * RUNS * 256 };
    const trp__optimizer_place &g = p.array[TRP__OPTIMIZER_DW];
    const int64_t from = (int64_t)blockIdx.x * p.part;
    const int64_t end = p.count - from < p.part ? p.count : from + p.part;
    double sum[TRP__OPT_SUMS] = {0, 0, 0, 0};
    trp__optimizer_range range;
    range.begin = 1;
    range.end = 0;
    for (int64_t at = from; at < end; at += BLOCK) {
        trp__runs_raw<T> raw[RUNS];
        const bool whole = p.runs && at + BLOCK <= end;
        TRP__UNROLL
        for (int r = 0; r < RUNS && whole; r++)
            raw[r].load(g.at, at + trp__runs_at(true, r, 0), g.type);
        TRP__EACH(r, RUNS) {
            T v[RUN];
            const int64_t first = at + trp__runs_at(whole, r, 0);
            if (whole) {
                raw[r].convert(g.type, v);
            } else {
                for (int j = 0; j < RUN; j++) {
                    const int64_t i = at + trp__runs_at(false, r, j);
                    v[j] = i < end ? trp__load_float<T>(g.at, i, g.type) : T(0);
                }
            }
            if (whole && range.holds(first) && range.holds(first + RUN - 1)) {
                for (int j = 0; j < RUN && range.inside; j++)
                    trp__optimizer_square<T>(v[j], sum);
                continue;
            }
            for (int j = 0; j < RUN; j++) {
                const int64_t i = at + trp__runs_at(whole, r, j);
                if (i < end && !range.holds(i))
                    range.find(p, i, 0);
                if (i < end && range.inside)
                    trp__optimizer_square<T>(v[j], sum);
            }
        }
    }
    trp__rows_together<trp__rows_sum, double, TRP__OPT_SUMS>(sum, TRP__OPTIMIZER_THREADS, 0.0);
    if (threadIdx.x == 0) {
        for (int k = 0; k < TRP__OPT_SUMS; k++)
            trp__to<double>(p.sums, TRP__OPT_SUMS * (int64_t)blockIdx.x + k) = sum[k];
    }
}

/* --- The numbers of a step --- */

enum {
    TRP__PREPARED_RATE,
    TRP__PREPARED_DECAY,
    TRP__PREPARED_FACTOR,
    TRP__PREPARED_CORRECTION1,
    TRP__PREPARED_CORRECTION2,
    TRP__PREPARED_FIRST,
    TRP__PREPARED_SKIP,
};

TRP__DEVICE double trp__optimizer_number(const trp__optimizer &p, int which, double none)
{
    const trp__optimizer_place &n = p.number[which];
    return !n.used ? none : n.at ? trp__load<double>(n.at, 0, n.type) : n.value;
}

TRP__DEVICE int64_t trp__optimizer_count(const trp__optimizer &p)
{
    const trp__optimizer_place &n = p.number[TRP__OPTIMIZER_COUNT];
    int64_t count = 0;
    if (n.used && n.at)
        return trp__at<int64_t>(n.at, 0);
    if (n.used)
        memcpy(&count, &n.value, sizeof count);
    return count;
}

TRP__GLOBAL(TRP__OPTIMIZER_THREADS) trp_optimizer_prepare(const TRP__CONSTANT trp__optimizer p)
{
    double sum[TRP__OPT_SUMS] = {0, 0, 0, 0};
    for (int i = (int)threadIdx.x; i < p.parts; i += TRP__OPTIMIZER_THREADS) {
        for (int k = 0; k < TRP__OPT_SUMS; k++)
            sum[k] += trp__at<double>(p.sums, TRP__OPT_SUMS * i + k);
    }
    trp__rows_together<trp__rows_sum, double, TRP__OPT_SUMS>(sum, TRP__OPTIMIZER_THREADS, 0.0);
    if (threadIdx.x != 0)
        return;
    const bool finite = sum[TRP__OPT_ZEROS] == 0;
    const double scale = trp__optimizer_number(p, TRP__OPTIMIZER_SCALE, 1);
    const double norm = fabs(scale) * trp__opt_root(sum);
    const bool skip = trp__optimizer_number(p, TRP__OPTIMIZER_FOUND, 0) != 0 ||
                      (p.skipped.used && !finite);
    const double factor = trp__opt_factor(scale, p.number[TRP__OPTIMIZER_LIMIT].used != 0,
                                          trp__optimizer_number(p, TRP__OPTIMIZER_LIMIT, 1), norm);
    const trp__opt_step s = trp__opt_step_of(
        &p.node, p.array[TRP__OPTIMIZER_MOMENT].used != 0,
        trp__optimizer_number(p, TRP__OPTIMIZER_RATE, 0),
        trp__optimizer_number(p, TRP__OPTIMIZER_DECAY, 0), factor, trp__optimizer_count(p));
    trp__to<double>(p.prepared, TRP__PREPARED_RATE) = s.rate;
    trp__to<double>(p.prepared, TRP__PREPARED_DECAY) = s.decay;
    trp__to<double>(p.prepared, TRP__PREPARED_FACTOR) = s.factor;
    trp__to<double>(p.prepared, TRP__PREPARED_CORRECTION1) = s.correction1;
    trp__to<double>(p.prepared, TRP__PREPARED_CORRECTION2) = s.correction2;
    trp__to<double>(p.prepared, TRP__PREPARED_FIRST) = s.first;
    trp__to<double>(p.prepared, TRP__PREPARED_SKIP) = skip;
    if (p.norm.used)
        trp__store<double>(p.norm.at, 0, p.norm.type, norm);
    if (p.skipped.used)
        trp__store<double>(p.skipped.at, 0, p.skipped.type, skip);
}

TRP__DEVICE trp__optimizer_step trp__optimizer_prepared(const trp__optimizer &p)
{
    trp__optimizer_step s = p.step;
    if (p.prepared) {
        s.step.rate = trp__at<double>(p.prepared, TRP__PREPARED_RATE);
        s.step.decay = trp__at<double>(p.prepared, TRP__PREPARED_DECAY);
        s.step.factor = trp__at<double>(p.prepared, TRP__PREPARED_FACTOR);
        s.step.correction1 = trp__at<double>(p.prepared, TRP__PREPARED_CORRECTION1);
        s.step.correction2 = trp__at<double>(p.prepared, TRP__PREPARED_CORRECTION2);
        s.step.first = trp__at<double>(p.prepared, TRP__PREPARED_FIRST) != 0;
        s.skip = trp__at<double>(p.prepared, TRP__PREPARED_SKIP) != 0;
    }
    return s;
}

/* --- The step --- */

/* The numbers of a range, in the type of the arithmetic. */
template <typename T> struct trp__optimizer_numbers {
    T rate, decay, keep, factor, beta1, rest1, beta2, rest2, root, epsilon;
    int mode;
    bool nesterov, first, has_moment;

    TRP__DEVICE void of(const trp__opt_step &s, const trp__optimizer_range &range)
    {
        const double all = s.rate * range.rate;
        const bool apart = s.mode == TRP_DNN_ADAMW || s.mode == TRP_DNN_LION;
        const bool adam = s.mode == TRP_DNN_ADAM || s.mode == TRP_DNN_ADAMW;
        mode = s.mode;
        nesterov = s.nesterov;
        first = s.first;
        has_moment = s.has_moment;
        rate = (T)(adam ? all / s.correction1 : all);
        decay = (T)(apart ? 0 : range.decay);
        keep = (T)(apart ? 1 - all * range.decay : 1);
        factor = (T)s.factor;
        beta1 = (T)s.beta1;
        rest1 = (T)(1 - s.beta1);
        beta2 = (T)s.beta2;
        rest2 = (T)(1 - s.beta2);
        root = (T)(1 / s.correction2);
        epsilon = (T)s.epsilon;
    }
    /* Updates one element, by the formulas of training/optimizer_real.h. */
    TRP__DEVICE void update(T &w, T g, T &m, T &v) const
    {
        const T now = factor * g + (decay != 0 || mode == TRP_DNN_SGD ? decay * w : T(0));
        if (mode == TRP_DNN_SGD) {
            if (!has_moment) {
                w -= rate * now;
                return;
            }
            m = first ? now : beta1 * m + beta2 * now;
            w -= rate * (nesterov ? now + beta1 * m : m);
        } else if (mode == TRP_DNN_LION) {
            const T way = beta1 * m + rest1 * now;
            const T sign = way > 0 ? T(1) : way < 0 ? T(-1) : way; /* a NaN stays one */
            m = beta2 * m + rest2 * now;
            w = keep * w - rate * sign;
        } else {
            m = beta1 * m + rest1 * now;
            v = beta2 * v + rest2 * now * now;
            w = keep * w - rate * m / (sqrt(v) * root + epsilon);
        }
    }
};

/* A run of a thread's elements, in all arrays. */
template <typename T> struct trp__optimizer_tile {
    enum { RUN = TRP__OPTIMIZER_RUN };
    T w[RUN], g[RUN], m[2][RUN];

    TRP__DEVICE void load(const trp__optimizer &p, int array, int64_t i, int j, T *to) const
    {
        if (p.array[array].used)
            to[j] = trp__load_float<T>(p.array[array].at, i, p.array[array].type);
    }
    TRP__DEVICE void store(const trp__optimizer &p, int array, int64_t i, const T *from,
                           bool whole, int j) const
    {
        const trp__optimizer_place &a = p.array[array];
        if (!a.used)
            return;
        if (whole)
            trp__store_run<T, RUN>(a.at, i, a.type, from);
        else
            trp__store_float<T>(a.at, i, a.type, from[j]);
    }
    TRP__DEVICE void store_all(const trp__optimizer &p, int64_t i, bool whole, int j) const
    {
        store(p, TRP__OPTIMIZER_NEW_W, i, w, whole, j);
        store(p, TRP__OPTIMIZER_NARROW, i, w, whole, j);
        store(p, TRP__OPTIMIZER_NEW_MOMENT, i, m[0], whole, j);
        store(p, TRP__OPTIMIZER_NEW_MOMENT + 1, i, m[1], whole, j);
    }
};

template <typename T> TRP__DEVICE void trp__optimizer_elements(const trp__optimizer &p)
{
    enum { RUN = TRP__OPTIMIZER_RUN, RUNS = TRP__OPTIMIZER_RUNS, ARRAYS = 4 };
    const int64_t at = p.first + (int64_t)blockIdx.x * TRP__OPTIMIZER_BLOCK;
    const bool whole = p.runs && at + TRP__OPTIMIZER_BLOCK <= p.count;
    trp__runs_raw<T> raw[RUNS][ARRAYS];
    trp__optimizer_range range;
    trp__optimizer_numbers<T> numbers;
    if (whole) {
        TRP__EACH(r, RUNS) {
            TRP__EACH(a, ARRAYS) {
                if (p.array[a].used)
                    raw[r][a].load(p.array[a].at, at + trp__runs_at(true, r, 0),
                                   p.array[a].type);
            }
        }
    }
    const trp__optimizer_step step = trp__optimizer_prepared(p);
    range.begin = 1;
    range.end = 0;
    TRP__EACH(r, RUNS) {
        trp__optimizer_tile<T> t = {};
        const int64_t first = at + trp__runs_at(whole, r, 0);
        if (whole) {
            TRP__EACH(a, ARRAYS) {
                if (p.array[a].used)
                    raw[r][a].convert(p.array[a].type, a == 0   ? t.w
                                                       : a == 1 ? t.g
                                                                : t.m[a - TRP__OPTIMIZER_MOMENT]);
            }
            if (!range.holds(first)) {
                range.find(p, first, step.step.decay);
                numbers.of(step.step, range);
            }
            if (range.holds(first + RUN - 1)) {
                TRP__EACH(j, RUN) {
                    if (range.inside && !step.skip)
                        numbers.update(t.w[j], t.g[j], t.m[0][j], t.m[1][j]);
                }
                t.store_all(p, first, true, 0);
                continue;
            }
        }
        TRP__EACH(j, RUN) {
            const int64_t i = at + trp__runs_at(whole, r, j);
            if (i >= p.count)
                continue;
            if (!whole) {
                t.load(p, TRP__OPTIMIZER_W, i, j, t.w);
                t.load(p, TRP__OPTIMIZER_DW, i, j, t.g);
                t.load(p, TRP__OPTIMIZER_MOMENT, i, j, t.m[0]);
                t.load(p, TRP__OPTIMIZER_MOMENT + 1, i, j, t.m[1]);
            }
            if (!range.holds(i)) {
                range.find(p, i, step.step.decay);
                numbers.of(step.step, range);
            }
            if (range.inside && !step.skip)
                numbers.update(t.w[j], t.g[j], t.m[0][j], t.m[1][j]);
            t.store_all(p, i, false, j);
        }
    }
}

TRP__ENTRY(trp_optimizer_norm_f32, trp__optimizer, (TRP__OPTIMIZER_THREADS),
           trp__optimizer_norm<float>)
TRP__ENTRY(trp_optimizer_norm_f64, trp__optimizer, (TRP__OPTIMIZER_THREADS),
           trp__optimizer_norm<double>)
TRP__ENTRY(trp_optimizer_f32, trp__optimizer, (TRP__OPTIMIZER_THREADS),
           trp__optimizer_elements<float>)
TRP__ENTRY(trp_optimizer_f64, trp__optimizer, (TRP__OPTIMIZER_THREADS),
           trp__optimizer_elements<double>)

#endif
