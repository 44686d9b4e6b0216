#ifndef TRP_ACTORS_DNN_KERNELS_BATCH_CUH
#define TRP_ACTORS_DNN_KERNELS_BATCH_CUH

#include "actors/dnn/kernels/batch.h"
#include "actors/dnn/kernels/norm_add.cuh"
#include "actors/dnn/kernels/packs.cuh"

/* How many blocks a processor has at a time, at least: enough loads are under way then. */
#define TRP__BATCH_rows_MOMENTS    TRP__BATCH_THREADS, 4
#define TRP__BATCH_rows_APPLY      TRP__BATCH_THREADS, 4
#define TRP__BATCH_columns_MOMENTS TRP__BATCH_THREADS, 2
#define TRP__BATCH_columns_APPLY   TRP__BATCH_THREADS, 3

TRP__DEVICE double trp__batch_value(const trp__batch_number &n)
{
    return n.at ? trp__load_float<double>(n.at, 0, n.type) : n.value;
}

/* Where the groups of a block are. */
struct trp__batch_place {
    int64_t at[TRP__BATCH_OPERANDS];

    TRP__DEVICE void find(const trp__batch &p, int64_t outer)
    {
        trp__rows_find<TRP__BATCH_OPERANDS>(p.space, outer, p.io, at);
    }
    TRP__DEVICE double load(const trp__batch &p, int o, int64_t column, double without) const
    {
        return p.io[o].at ? trp__load_float<double>(p.io[o].at, at[o] + column * p.column_step[o],
                                                    p.io[o].type)
                          : without;
    }
    TRP__DEVICE void store(const trp__batch &p, int o, int64_t column, double value) const
    {
        if (p.io[o].at)
            trp__store_float<double>(p.io[o].at, at[o] + column * p.column_step[o], p.io[o].type,
                                     value);
    }
};

/* What differences are taken from: any number will do that is not far from the group's. */
TRP__DEVICE float trp__batch_pivot(float first)
{
    return first - first == 0 ? first : 0.0f;
}

/* Mean and sum of squared differences from it, of elements that come in batches: the mean in two
 * parts, mid and rest, of which the second is a rounding of the first. A batch is taken from `mid`
 * as a whole: no more than a share of its squares is taken away again, so nothing is lost. */
struct trp__batch_moments {
    float mid, rest, squares;

    /* s1 and s2: sums of the differences of `some` elements from mid, and of their squares; `all`:
     * elements with these. */
    TRP__DEVICE void join(float s1, float s2, float some, float share)
    {
        const float sum = s1 - some * rest;
        const float move = sum * share, by = rest + move;
        squares += (s2 - rest * (s1 + sum)) - move * sum;
        const float next = mid + by, back = next - mid;
        rest = (mid - (next - back)) + (by - back);
        mid = next;
    }
    /* The sums of differences from a pivot, and of their squares. */
    TRP__DEVICE void sums(float count, float pivot, double out[2]) const
    {
        const double away = count > 0 ? ((double)mid - (double)pivot) + (double)rest : 0.0;
        out[0] = (double)count * away;
        out[1] = count > 0 ? (double)squares + out[0] * away : 0.0;
    }
    /* Where f32 does not do. */
    TRP__DEVICE bool fails(const trp__batch &p) const
    {
        return p.precise || !(squares <= 1e37f);
    }
};

/* The factors of V groups that follow each other. The mean and its rest are halved, in the backward
 * pass the bias and the slope too (the scale is doubled), and half of a number is what they are taken from: the difference
 * of the largest numbers has no f32. */
template <int V> struct trp__batch_factors {
    float mean[V], rest[V], inverse[V], scale[V], bias[V], slope[V];

    TRP__DEVICE static void load(const trp__batch &p, int which, int64_t group, float v[V])
    {
        const uint64_t at = p.factors + (uint64_t)(which * p.pitch) * 4;
        if constexpr (V > 1) {
            trp__load_run<float, V>(at, group, TRP_F32, v);
        } else {
            v[0] = trp__at<float>(at, group);
        }
    }
    TRP__DEVICE void find(const trp__batch &p, int64_t group, bool apply)
    {
        load(p, TRP__BATCH_F_MEAN, group, mean);
        load(p, TRP__BATCH_F_INVERSE, group, inverse);
        if (!p.back)
            load(p, TRP__BATCH_F_REST, group, rest);
        if (apply) {
            load(p, TRP__BATCH_F_SCALE, group, scale);
            load(p, TRP__BATCH_F_BIAS, group, bias);
            if (p.back)
                load(p, TRP__BATCH_F_SLOPE, group, slope);
        }
        halve(p.back, apply);
    }
    /* The same of numbers that are there already. */
    TRP__DEVICE void set(bool back, const float number[TRP__BATCH_FACTORS])
    {
        mean[0] = number[TRP__BATCH_F_MEAN];
        rest[0] = number[TRP__BATCH_F_REST];
        inverse[0] = number[TRP__BATCH_F_INVERSE];
        scale[0] = number[TRP__BATCH_F_SCALE];
        bias[0] = number[TRP__BATCH_F_BIAS];
        slope[0] = number[TRP__BATCH_F_SLOPE];
        halve(back, true);
    }
    TRP__DEVICE void halve(bool back, bool apply)
    {
        TRP__UNROLL
        for (int j = 0; j < V; j++) {
            mean[j] *= 0.5f;
            rest[j] = back ? 0 : rest[j] * 0.5f;
        }
        if (!apply || !back)
            return;
        TRP__UNROLL
        for (int j = 0; j < V; j++) {
            bias[j] *= 0.5f;
            slope[j] *= 0.5f;
            scale[j] *= 2.0f;
        }
    }
    TRP__DEVICE float forward(int j, float x) const
    {
        return ((0.5f * x - mean[j]) - rest[j]) * inverse[j] * 2.0f * scale[j] + bias[j];
    }
    /* A given mean is one number. */
    TRP__DEVICE float normal(int j, float x) const
    {
        return (0.5f * x - mean[j]) * inverse[j] * 2.0f;
    }
    TRP__DEVICE float backward(int j, float x, float dy) const
    {
        return inverse[j] * scale[j] * (0.5f * dy - bias[j] - normal(j, x) * slope[j]);
    }
};

/* --- Rows --- */

/* A part of a group for a block, of which each thread has one of as many loads as there are threads. Places count from the
 * run that the part begins in, so that they have 32 bits. */
template <int TYPE, int V> struct trp__batch_rows {
    typedef trp__pack<TYPE, V> pack;
    enum { SPAN = TRP__BATCH_THREADS * V };
    const trp__batch &p;
    trp__batch_place place;
    int64_t group;
    uint32_t begin, end;
    uint64_t from[3]; /* addresses of the run, of x, y and dx */

    TRP__DEVICE void start(int64_t block)
    {
        group = block / p.parts;
        const int64_t part = block - group * p.parts, first = part * p.part;
        const int64_t run = first / p.run.by, rest = first - run * p.run.by;
        const int64_t length = part + 1 < p.parts ? p.part : p.n - first;
        begin = (uint32_t)rest + threadIdx.x * V;
        end = (uint32_t)(rest + length);
        place.find(p, group);
        TRP__UNROLL
        for (int o = TRP__BATCH_X; o <= TRP__BATCH_DX; o++)
            from[o] = p.io[o].at + (uint64_t)((place.at[o] + run * p.again[o]) *
                                              trp__element_bytes(p.io[o].type));
    }
    TRP__DEVICE int64_t offset(int o, uint32_t e) const
    {
        const uint32_t run = (uint32_t)(((uint64_t)e * p.run.factor >> 32) + e) >> p.run.shift;
        return run * p.again[o] + (e - run * p.run.by);
    }
    template <int DEEP> TRP__DEVICE void read(int o, uint32_t e, pack v[DEEP]) const
    {
        TRP__UNROLL
        for (int u = 0; u < DEEP; u++) {
            v[u].clear();
            if (e + u * SPAN < end)
                v[u].load(from[o], offset(o, e + u * SPAN), p.io[o].type);
        }
    }
};

/* In f64, where squares do not fit f32. */
TRP__SHARED_CODE void trp__batch_precise_rows(const trp__batch &p, int v, float pivot, double s[2])
{
    trp__batch_rows<TRP_DTYPE_NONE, 1> r = {p};
    r.start(p.first + blockIdx.x);
    s[0] = s[1] = 0;
    for (uint32_t e = r.begin + threadIdx.x * (v - 1); e < r.end; e += blockDim.x * v) {
        for (int j = 0; j < v; j++) {
            const double away = (double)trp__load_float<float>(r.from[TRP__BATCH_X],
                                                               r.offset(TRP__BATCH_X, e + j),
                                                               p.io[TRP__BATCH_X].type) -
                                (double)pivot;
            s[0] += away;
            s[1] += away * away;
        }
    }
}

TRP__DEVICE bool trp__batch_is_finite(const double s[2])
{
    return s[0] - s[0] == 0 && s[1] - s[1] == 0;
}

/* The same for the backward pass: dy h and dy, where a sum of them does not fit f32. */
TRP__SHARED_CODE void trp__batch_precise_back(const trp__batch &p, double mean, double inverse,
                                              uint64_t x, uint64_t dy, double s[2])
{
    const double slope = trp__load_float<float>(dy, 0, p.io[TRP__BATCH_Y].type);
    const double from = trp__load_float<float>(x, 0, p.io[TRP__BATCH_X].type);
    s[0] += slope * ((from - mean) * inverse);
    s[1] += slope;
}

TRP__SHARED_CODE void trp__batch_precise_back_rows(const trp__batch &p, int v, double mean,
                                                   double inverse, double s[2])
{
    trp__batch_rows<TRP_DTYPE_NONE, 1> r = {p};
    r.start(p.first + blockIdx.x);
    s[0] = s[1] = 0;
    for (uint32_t e = r.begin + threadIdx.x * (v - 1); e < r.end; e += blockDim.x * v) {
        for (int j = 0; j < v; j++)
            trp__batch_precise_back(
                p, mean, inverse,
                r.from[TRP__BATCH_X] + (uint64_t)r.offset(TRP__BATCH_X, e + j) *
                                           trp__element_bytes(p.io[TRP__BATCH_X].type),
                r.from[TRP__BATCH_Y] + (uint64_t)r.offset(TRP__BATCH_Y, e + j) *
                                           trp__element_bytes(p.io[TRP__BATCH_Y].type),
                s);
    }
}

/* The sums of a block, left for trp_batch_finish. */
TRP__DEVICE void trp__batch_leave(const trp__batch &p, double s[2])
{
    trp__rows_together<trp__rows_sum, double, 2>(s, TRP__BATCH_THREADS, 0.0);
    if (threadIdx.x == 0) {
        trp__to<double>(p.sums, (p.first + blockIdx.x) * 2) = s[0];
        trp__to<double>(p.sums, (p.first + blockIdx.x) * 2 + 1) = s[1];
    }
}

template <int TYPE, int V> TRP__DEVICE void trp__batch_moments_rows(const trp__batch &p)
{
    typedef trp__batch_rows<TYPE, V> R;
    enum { DEEP = V == 8 ? 4 : 8 };
    R r = {p};
    trp__batch_moments m = {0, 0, 0};
    float count = 0;
    double s[2];
    r.start(p.first + blockIdx.x);
    for (uint32_t from = r.begin; from < r.end; from += DEEP * R::SPAN) {
        typename R::pack v[DEEP];
        float s1 = 0, s2 = 0, some = 0;
        r.template read<DEEP>(TRP__BATCH_X, from, v);
        m.mid = count > 0 ? m.mid : v[0].get(0);
        TRP__UNROLL
        for (int u = 0; u < DEEP; u++) {
            if (from + u * R::SPAN >= r.end)
                continue;
            some += V;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                const float away = v[u].get(j) - m.mid;
                s1 += away;
                s2 += away * away;
            }
        }
        count += some;
        m.join(s1, s2, some, 1.0f / count);
    }
    const float pivot = trp__batch_pivot((float)r.place.load(p, TRP__BATCH_X, 0, 0));
    m.sums(count, pivot, s);
    if (m.fails(p))
        trp__batch_precise_rows(p, V, pivot, s);
    trp__batch_leave(p, s);
}

template <int TYPE, int V> TRP__DEVICE void trp__batch_sums_rows(const trp__batch &p)
{
    typedef trp__batch_rows<TYPE, V> R;
    enum { DEEP = V == 8 || TYPE == TRP_F32 ? 2 : 4 };
    R r = {p};
    trp__batch_factors<1> f;
    trp__exact_sum<float> sum_h = {0, 0}, sum = {0, 0};
    r.start(p.first + blockIdx.x);
    f.find(p, r.group, false);
    for (uint32_t from = r.begin; from < r.end; from += DEEP * R::SPAN) {
        typename R::pack x[DEEP], dy[DEEP];
        float some_h = 0, some = 0;
        r.template read<DEEP>(TRP__BATCH_X, from, x);
        r.template read<DEEP>(TRP__BATCH_Y, from, dy);
        TRP__UNROLL
        for (int u = 0; u < DEEP; u++) {
            if (from + u * R::SPAN >= r.end)
                continue;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                some_h += dy[u].get(j) * f.normal(0, x[u].get(j));
                some += dy[u].get(j);
            }
        }
        sum_h.add(some_h);
        sum.add(some);
    }
    double s[2] = {(double)sum_h.sum - (double)sum_h.lost, (double)sum.sum - (double)sum.lost};
    if (!trp__batch_is_finite(s))
        trp__batch_precise_back_rows(p, V, 2.0 * (double)f.mean[0], (double)f.inverse[0], s);
    trp__batch_leave(p, s);
}

template <int TYPE, int V, bool BACK> TRP__DEVICE void trp__batch_apply_rows(const trp__batch &p)
{
    typedef trp__batch_rows<TYPE, V> R;
    enum { DEEP = V == 8 || (BACK && TYPE == TRP_F32) ? 2 : 4, OUT = BACK ? TRP__BATCH_DX : TRP__BATCH_Y };
    R r = {p};
    trp__batch_factors<1> f;
    r.start(p.last - (p.first + blockIdx.x));
    f.find(p, r.group, true);
    for (uint32_t from = r.begin; from < r.end; from += DEEP * R::SPAN) {
        typename R::pack x[DEEP], dy[DEEP];
        r.template read<DEEP>(TRP__BATCH_X, from, x);
        if constexpr (BACK)
            r.template read<DEEP>(TRP__BATCH_Y, from, dy);
        TRP__UNROLL
        for (int u = 0; u < DEEP; u++) {
            float v[V];
            const uint32_t e = from + u * R::SPAN;
            if (e >= r.end)
                continue;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                if constexpr (BACK)
                    v[j] = f.backward(0, x[u].get(j), dy[u].get(j));
                else
                    v[j] = f.forward(0, x[u].get(j));
            }
            x[u].set(v);
            x[u].store(r.from[OUT], r.offset(OUT, e), p.io[OUT].type);
        }
    }
}

/* --- Columns --- */

/* `across` loads of V columns and a part of their elements for a block: of these each lane of
 * threads has every `lanes`th. */
template <int TYPE, int V> struct trp__batch_columns {
    typedef trp__pack<TYPE, V> pack;
    const trp__batch &p;
    trp__batch_place place;
    int64_t outer, part, first, column, begin, end; /* first: column of the block */
    int lane, lanes;

    TRP__DEVICE void start(int64_t block)
    {
        const int64_t width = (int64_t)p.across * V, tiles = (p.columns + width - 1) / width;
        first = block % tiles * width;
        part = block / tiles % p.parts;
        outer = block / tiles / p.parts;
        lanes = TRP__BATCH_THREADS / p.across;
        lane = (int)threadIdx.x / p.across;
        column = first + ((int)threadIdx.x - lane * p.across) * V;
        begin = part * p.part + lane;
        end = part + 1 < p.parts ? (part + 1) * p.part : p.n;
        if (lane >= lanes || column >= p.columns) {
            column = 0;
            end = begin;
        }
        place.find(p, outer);
    }
    TRP__DEVICE int64_t offset(int o, int64_t k) const
    {
        return place.at[o] + column + k * p.io[o].step;
    }
    template <int DEEP> TRP__DEVICE void read(int o, int64_t k, pack v[DEEP]) const
    {
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++)
            v[d].load(p.io[o].at, offset(o, k + d * lanes), p.io[o].type);
    }
    TRP__DEVICE int64_t group() const
    {
        return outer * p.columns + column;
    }
    /* Adds up what the lanes of a block have for each column, and leaves it. */
    TRP__DEVICE void leave(const double s[2][V]) const
    {
        __shared__ double shared[2][TRP__BATCH_THREADS * V];
        const int t = (int)threadIdx.x, width = p.across * V, slices = TRP__BATCH_THREADS / width;
        const int slice = t / width, c = t - slice * width;
        double all[2] = {0, 0};
        TRP__UNROLL
        for (int j = 0; j < V; j++) {
            shared[0][t * V + j] = s[0][j];
            shared[1][t * V + j] = s[1][j];
        }
        __syncthreads();
        for (int l = slice; l < lanes && slice < slices; l += slices) {
            all[0] += shared[0][l * width + c];
            all[1] += shared[1][l * width + c];
        }
        __syncthreads();
        shared[0][t] = all[0];
        shared[1][t] = all[1];
        __syncthreads();
        if (slice > 0 || first + c >= p.columns)
            return;
        for (int i = 1; i < slices; i++) {
            all[0] += shared[0][i * width + c];
            all[1] += shared[1][i * width + c];
        }
        const int64_t to = ((outer * p.columns + first + c) * p.parts + part) * 2;
        trp__to<double>(p.sums, to) = all[0];
        trp__to<double>(p.sums, to + 1) = all[1];
    }
};

/* Column `column` of a thread, in f64. */
TRP__SHARED_CODE void trp__batch_precise_column(const trp__batch &p, int64_t at, int64_t begin,
                                                int64_t end, int lanes, float pivot, double s[2])
{
    s[0] = s[1] = 0;
    for (int64_t k = begin; k < end; k += lanes) {
        const double away =
            (double)trp__load_float<float>(p.io[TRP__BATCH_X].at, at + k * p.io[TRP__BATCH_X].step,
                                           p.io[TRP__BATCH_X].type) -
            (double)pivot;
        s[0] += away;
        s[1] += away * away;
    }
}

/* The same for the backward pass. */
TRP__SHARED_CODE void trp__batch_precise_back_column(const trp__batch &p, double mean,
                                                     double inverse, int64_t x, int64_t dy,
                                                     int64_t begin, int64_t end, int lanes,
                                                     double s[2])
{
    const trp__rows_operand &from = p.io[TRP__BATCH_X], &slope = p.io[TRP__BATCH_Y];
    s[0] = s[1] = 0;
    for (int64_t k = begin; k < end; k += lanes)
        trp__batch_precise_back(
            p, mean, inverse, from.at + (uint64_t)((x + k * from.step) * trp__element_bytes(from.type)),
            slope.at + (uint64_t)((dy + k * slope.step) * trp__element_bytes(slope.type)), s);
}

template <int V, int DEEP, typename P>
TRP__DEVICE void trp__batch_take(trp__batch_moments m[V], const P v[DEEP], float *count)
{
    const bool begins = *count == 0;
    *count += DEEP;
    const float share = 1.0f / *count;
    TRP__UNROLL
    for (int j = 0; j < V; j++) {
        float s1 = 0, s2 = 0;
        m[j].mid = begins ? v[0].get(j) : m[j].mid;
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++) {
            const float away = v[d].get(j) - m[j].mid;
            s1 += away;
            s2 += away * away;
        }
        m[j].join(s1, s2, DEEP, share);
    }
}

template <int TYPE, int V> TRP__DEVICE void trp__batch_moments_columns(const trp__batch &p)
{
    typedef trp__batch_columns<TYPE, V> B;
    enum { DEEP = TRP__BATCH_DEEP };
    B b = {p};
    trp__batch_moments m[V];
    double s[2][V];
    float count = 0;
    b.start(p.first + blockIdx.x);
    TRP__UNROLL
    for (int j = 0; j < V; j++)
        m[j] = {0, 0, 0};
    int64_t k = b.begin;
    for (; k + (DEEP - 1) * b.lanes < b.end; k += DEEP * b.lanes) {
        typename B::pack v[DEEP];
        b.template read<DEEP>(TRP__BATCH_X, k, v);
        trp__batch_take<V, DEEP>(m, v, &count);
    }
    for (; k < b.end; k += b.lanes) {
        typename B::pack v[1];
        b.template read<1>(TRP__BATCH_X, k, v);
        trp__batch_take<V, 1>(m, v, &count);
    }
    typename B::pack first[1];
    b.template read<1>(TRP__BATCH_X, 0, first);
    TRP__UNROLL
    for (int j = 0; j < V; j++) {
        double both[2];
        const float pivot = trp__batch_pivot(first[0].get(j));
        m[j].sums(count, pivot, both);
        if (m[j].fails(p))
            trp__batch_precise_column(p, b.offset(TRP__BATCH_X, 0) + j, b.begin, b.end, b.lanes,
                                      pivot, both);
        s[0][j] = both[0];
        s[1][j] = both[1];
    }
    b.leave(s);
}

/* Adds dy h and dy of some elements of V columns. */
template <int V, int DEEP, typename P>
TRP__DEVICE void trp__batch_add(const trp__batch_factors<V> &f, const P x[DEEP], const P dy[DEEP],
                                trp__exact_sum<float> sum_h[V], trp__exact_sum<float> sum[V])
{
    TRP__UNROLL
    for (int j = 0; j < V; j++) {
        float some_h = 0, some = 0;
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++) {
            some_h += dy[d].get(j) * f.normal(j, x[d].get(j));
            some += dy[d].get(j);
        }
        sum_h[j].add(some_h);
        sum[j].add(some);
    }
}

template <int TYPE, int V> TRP__DEVICE void trp__batch_sums_columns(const trp__batch &p)
{
    typedef trp__batch_columns<TYPE, V> B;
    enum { DEEP = TRP__BATCH_DEEP / 2 };
    B b = {p};
    trp__batch_factors<V> f;
    trp__exact_sum<float> sum_h[V], sum[V];
    double s[2][V];
    b.start(p.first + blockIdx.x);
    f.find(p, b.group(), false);
    TRP__UNROLL
    for (int j = 0; j < V; j++)
        sum_h[j] = sum[j] = {0, 0};
    int64_t k = b.begin;
    for (; k + (DEEP - 1) * b.lanes < b.end; k += DEEP * b.lanes) {
        typename B::pack x[DEEP], dy[DEEP];
        b.template read<DEEP>(TRP__BATCH_X, k, x);
        b.template read<DEEP>(TRP__BATCH_Y, k, dy);
        trp__batch_add<V, DEEP>(f, x, dy, sum_h, sum);
    }
    for (; k < b.end; k += b.lanes) {
        typename B::pack x[1], dy[1];
        b.template read<1>(TRP__BATCH_X, k, x);
        b.template read<1>(TRP__BATCH_Y, k, dy);
        trp__batch_add<V, 1>(f, x, dy, sum_h, sum);
    }
    TRP__UNROLL
    for (int j = 0; j < V; j++) {
        double both[2] = {(double)sum_h[j].sum - (double)sum_h[j].lost,
                          (double)sum[j].sum - (double)sum[j].lost};
        if (!trp__batch_is_finite(both))
            trp__batch_precise_back_column(p, 2.0 * (double)f.mean[j], (double)f.inverse[j],
                                           b.offset(TRP__BATCH_X, 0) + j, b.offset(TRP__BATCH_Y, 0) + j,
                                           b.begin, b.end, b.lanes, both);
        s[0][j] = both[0];
        s[1][j] = both[1];
    }
    b.leave(s);
}

template <int TYPE, int V, bool BACK, int DEEP>
TRP__DEVICE void trp__batch_apply_some(const trp__batch_columns<TYPE, V> &b,
                                       const trp__batch_factors<V> &f, int64_t k)
{
    enum { OUT = BACK ? TRP__BATCH_DX : TRP__BATCH_Y };
    trp__pack<TYPE, V> x[DEEP], dy[DEEP];
    b.template read<DEEP>(TRP__BATCH_X, k, x);
    if constexpr (BACK)
        b.template read<DEEP>(TRP__BATCH_Y, k, dy);
    TRP__UNROLL
    for (int d = 0; d < DEEP; d++) {
        float v[V];
        TRP__UNROLL
        for (int j = 0; j < V; j++) {
            if constexpr (BACK)
                v[j] = f.backward(j, x[d].get(j), dy[d].get(j));
            else
                v[j] = f.forward(j, x[d].get(j));
        }
        x[d].set(v);
        x[d].store(b.p.io[OUT].at, b.offset(OUT, k + d * b.lanes), b.p.io[OUT].type);
    }
}

template <int TYPE, int V, bool BACK> TRP__DEVICE void trp__batch_apply_columns(const trp__batch &p)
{
    enum { DEEP = BACK ? 2 : 4 };
    trp__batch_columns<TYPE, V> b = {p};
    trp__batch_factors<V> f;
    b.start(p.last - (p.first + blockIdx.x));
    f.find(p, b.group(), true);
    int64_t k = b.begin;
    for (; k + (DEEP - 1) * b.lanes < b.end; k += DEEP * b.lanes)
        trp__batch_apply_some<TYPE, V, BACK, DEEP>(b, f, k);
    for (; k < b.end; k += b.lanes)
        trp__batch_apply_some<TYPE, V, BACK, 1>(b, f, k);
}

/* --- Groups --- */

TRP__DEVICE void trp__batch_factor(const trp__batch &p, int which, int64_t group, double value)
{
    trp__to<float>(p.factors, which * p.pitch + group) = (float)value;
}

/* Statistics that are given: a thread for each group. */
TRP__GLOBAL(TRP__BATCH_THREADS) trp_batch_prepare(const TRP__CONSTANT trp__batch p)
{
    const int64_t group = (p.first + blockIdx.x) * TRP__BATCH_THREADS + threadIdx.x;
    const int64_t outer = group / p.columns, column = group - outer * p.columns;
    trp__batch_place place;
    if (group >= p.space.rows * p.columns)
        return;
    place.find(p, outer);
    trp__batch_factor(p, TRP__BATCH_F_MEAN, group, place.load(p, TRP__BATCH_MEAN, column, 0));
    trp__batch_factor(p, TRP__BATCH_F_REST, group, 0);
    trp__batch_factor(p, TRP__BATCH_F_INVERSE, group, place.load(p, TRP__BATCH_INVERSE, column, 0));
    trp__batch_factor(p, TRP__BATCH_F_SCALE, group, place.load(p, TRP__BATCH_SCALE, column, 1));
    if (!p.back)
        trp__batch_factor(p, TRP__BATCH_F_BIAS, group, place.load(p, TRP__BATCH_BIAS, column, 0));
}

TRP__DEVICE void trp__batch_write(const trp__batch &p, const trp__batch_place &place,
                                  int64_t column, double mean, double variance, double inverse)
{
    place.store(p, TRP__BATCH_MEAN, column, mean);
    place.store(p, TRP__BATCH_INVERSE, column, inverse);
    if (!p.io[TRP__BATCH_RUNNING_MEAN].at)
        return;
    const double factor = trp__batch_value(p.average), n = (double)p.n;
    const double all = p.n > 1 ? variance * n / (n - 1) : variance;
    place.store(p, TRP__BATCH_NEW_MEAN, column,
                (1 - factor) * place.load(p, TRP__BATCH_RUNNING_MEAN, column, 0) + factor * mean);
    place.store(p, TRP__BATCH_NEW_VARIANCE, column,
                (1 - factor) * place.load(p, TRP__BATCH_RUNNING_VARIANCE, column, 0) +
                    factor * all);
}

/* What the sums of a group say: statistics or, backward, the means of dy and of dy h. */
struct trp__batch_found {
    double mean, variance, inverse, slope;

    /* Sets what elements are computed with, but for what is given. */
    TRP__DEVICE void set(const trp__batch &p, float out[TRP__BATCH_FACTORS]) const
    {
        if (p.back) {
            out[TRP__BATCH_F_BIAS] = (float)mean;
            out[TRP__BATCH_F_SLOPE] = (float)slope;
            return;
        }
        out[TRP__BATCH_F_MEAN] = (float)mean;
        out[TRP__BATCH_F_REST] = (float)(mean - (double)(float)mean);
        out[TRP__BATCH_F_INVERSE] = (float)inverse;
    }
};

TRP__DEVICE trp__batch_found trp__batch_solve(const trp__batch &p, float pivot, const double s[2])
{
    const double n = (double)p.n, away = s[0] / n;
    if (p.back)
        return {s[1] / n, 0, 0, away};
    double variance = s[1] / n - away * away;
    variance = variance < 0 ? 0 : variance; /* NaN stays */
    return {(double)pivot + away, variance, 1 / sqrt(variance + trp__batch_value(p.epsilon)), 0};
}

/* A warp adds up the parts of each group. */
TRP__GLOBAL(TRP__BATCH_THREADS) trp_batch_finish(const TRP__CONSTANT trp__batch p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t number = (p.first + blockIdx.x) * TRP__BATCH_WARPS + (int)threadIdx.x / 32;
    const int64_t groups = p.space.rows * p.columns, group = number < groups ? number : 0;
    const int64_t outer = group / p.columns, column = group - outer * p.columns;
    trp__batch_place place;
    float out[TRP__BATCH_FACTORS];
    double s[2] = {0, 0};
    place.find(p, outer);
#pragma unroll 4
    for (int64_t i = lane; i < p.parts; i += 32) {
        s[0] += trp__at<double>(p.sums, (group * p.parts + i) * 2);
        s[1] += trp__at<double>(p.sums, (group * p.parts + i) * 2 + 1);
    }
    trp__rows_together<trp__rows_sum, double, 2>(s, 32, 0.0);
    if (lane != 0 || number >= groups)
        return;
    const float pivot =
        p.back ? 0.0f : trp__batch_pivot((float)place.load(p, TRP__BATCH_X, column, 0));
    const trp__batch_found found = trp__batch_solve(p, pivot, s);
    found.set(p, out);
    if (p.back) {
        trp__to<double>(p.totals, group * 2) = s[0];
        trp__to<double>(p.totals, group * 2 + 1) = s[1];
        trp__batch_factor(p, TRP__BATCH_F_BIAS, group, (double)out[TRP__BATCH_F_BIAS]);
        trp__batch_factor(p, TRP__BATCH_F_SLOPE, group, (double)out[TRP__BATCH_F_SLOPE]);
        return;
    }
    trp__batch_write(p, place, column, found.mean, found.variance, found.inverse);
    TRP__UNROLL
    for (int which = TRP__BATCH_F_MEAN; which <= TRP__BATCH_F_INVERSE; which++)
        trp__batch_factor(p, which, group, (double)out[which]);
    trp__batch_factor(p, TRP__BATCH_F_SCALE, group, place.load(p, TRP__BATCH_SCALE, column, 1));
    trp__batch_factor(p, TRP__BATCH_F_BIAS, group, place.load(p, TRP__BATCH_BIAS, column, 0));
}

TRP__GLOBAL(TRP__NORM_SUM_WARPS * 32) trp_batch_add(const TRP__CONSTANT trp__norm_sum p)
{
    trp__norm_add<double>(p);
}

/* All passes of a way to read elements. */
#define TRP__BATCH_KERNELS(name, way, TYPE, V)                                                     \
    TRP__GLOBAL(TRP__BATCH_##way##_MOMENTS)                                                        \
    name##_moments(const TRP__CONSTANT trp__batch p)                                               \
    {                                                                                              \
        trp__batch_moments_##way<TYPE, V>(p);                                                      \
    }                                                                                              \
    TRP__GLOBAL(TRP__BATCH_##way##_MOMENTS)                                                        \
    name##_sums(const TRP__CONSTANT trp__batch p)                                                  \
    {                                                                                              \
        trp__batch_sums_##way<TYPE, V>(p);                                                         \
    }                                                                                              \
    TRP__GLOBAL(TRP__BATCH_##way##_APPLY)                                                          \
    name##_apply(const TRP__CONSTANT trp__batch p)                                                 \
    {                                                                                              \
        trp__batch_apply_##way<TYPE, V, false>(p);                                                 \
    }                                                                                              \
    TRP__GLOBAL(TRP__BATCH_##way##_APPLY)                                                          \
    name##_back(const TRP__CONSTANT trp__batch p)                                                  \
    {                                                                                              \
        trp__batch_apply_##way<TYPE, V, true>(p);                                                  \
    }

TRP__BATCH_KERNELS(trp_batch_rows_f32_4, rows, TRP_F32, 4)
TRP__BATCH_KERNELS(trp_batch_rows_bf16_8, rows, TRP_BF16, 8)
TRP__BATCH_KERNELS(trp_batch_rows_bf16_4, rows, TRP_BF16, 4)
TRP__BATCH_KERNELS(trp_batch_rows_f16_8, rows, TRP_F16, 8)
TRP__BATCH_KERNELS(trp_batch_rows_f16_4, rows, TRP_F16, 4)
TRP__BATCH_KERNELS(trp_batch_rows_any_1, rows, TRP_DTYPE_NONE, 1)
TRP__BATCH_KERNELS(trp_batch_columns_f32_4, columns, TRP_F32, 4)
TRP__BATCH_KERNELS(trp_batch_columns_bf16_8, columns, TRP_BF16, 8)
TRP__BATCH_KERNELS(trp_batch_columns_f16_8, columns, TRP_F16, 8)
TRP__BATCH_KERNELS(trp_batch_columns_any_1, columns, TRP_DTYPE_NONE, 1)

#endif
