#ifndef TRP_ACTORS_DNN_KERNELS_BATCH_CUH
#define TRP_ACTORS_DNN_KERNELS_BATCH_CUH

#include "actors/dnn/kernels/batch.h"
#include "actors/dnn/kernels/norm_add.cuh"
#include "actors/dnn/kernels/rows.cuh"

/* How many blocks a processor has at a time, at least: enough loads are under way then. */
#define TRP__BATCH_ROWS_BOUNDS    TRP__BATCH_THREADS, 4
#define TRP__BATCH_COLUMNS_BOUNDS TRP__BATCH_THREADS, 2

TRP__DEVICE double trp__batch_value(const trp__batch_number &n)
{
    return n.at ? trp__load_float<double>(n.at, 0, n.type) : n.value;
}

/* A mean that moves by a share of the way to another number. Among infinities it is one of them, or
 * NaN; f32, whose results count only where all is finite, does without. */
template <typename A> TRP__DEVICE A trp__batch_move(A mean, A away, A share, A other)
{
    return sizeof(A) == 4 || away - away == 0 ? mean + away * share : mean + other;
}

/* Mean and sum of squared differences from it, of a number of elements. */
template <typename A> struct trp__batch_moments {
    A count, mean, squares;

    TRP__DEVICE void join(A other_count, A other_mean, A other_squares)
    {
        if (other_count == 0)
            return;
        const A all = count + other_count, share = other_count / all, away = other_mean - mean;
        squares += other_squares + away * away * (count * share);
        mean = count > 0 ? trp__batch_move<A>(mean, away, share, other_mean) : other_mean;
        count = all;
    }
    /* Several elements, of which some are none. */
    TRP__DEVICE void add(const float v[TRP__ROWS_RUN], const bool there[TRP__ROWS_RUN])
    {
        A some = 0, sum = 0, rest = 0, away = 0;
        for (int i = 0; i < TRP__ROWS_RUN; i++) {
            some += there[i] ? A(1) : A(0);
            sum += there[i] ? (A)v[i] : A(0);
        }
        if (some == 0)
            return;
        sum /= some;
        for (int i = 0; i < TRP__ROWS_RUN; i++) {
            const A d = there[i] ? (A)v[i] - sum : A(0);
            rest += d;
            away += d * d;
        }
        rest /= some;
        join(some, rest == rest ? sum + rest : sum, away - rest * rest * some);
    }
};

/* Where the groups of a block are. */
struct trp__batch_place {
    int64_t at[TRP__BATCH_OPERANDS];

    TRP__DEVICE void find(const trp__batch &p, int64_t outer)
    {
        trp__rows_find<TRP__BATCH_OPERANDS>(p.space, outer, p.io, at);
    }
    TRP__DEVICE float load(const trp__batch &p, int o, int64_t column, float without) const
    {
        return p.io[o].at ? trp__load_float<float>(p.io[o].at, at[o] + column * p.column_step[o],
                                                   p.io[o].type)
                          : without;
    }
    TRP__DEVICE double load_f64(const trp__batch &p, int o, int64_t column) const
    {
        return trp__load_float<double>(p.io[o].at, at[o] + column * p.column_step[o], p.io[o].type);
    }
    TRP__DEVICE void store(const trp__batch &p, int o, int64_t column, double value) const
    {
        if (p.io[o].at)
            trp__store_float<double>(p.io[o].at, at[o] + column * p.column_step[o], p.io[o].type,
                                     value);
    }
};

/* What an element of a group is computed with. The mean comes in two parts, as it may be far larger
 * than deviations. */
struct trp__batch_factors {
    float mean, rest, inverse, scale, bias, offset, slope;

    TRP__DEVICE void find(const trp__batch &p, const trp__batch_place &place, int64_t group,
                          int64_t column, bool apply)
    {
        const int64_t i = group * TRP__BATCH_FACTORS;
        rest = bias = offset = slope = 0;
        if (p.given || p.back) {
            mean = place.load(p, TRP__BATCH_MEAN, column, 0);
            inverse = place.load(p, TRP__BATCH_INVERSE, column, 0);
        } else {
            mean = trp__at<float>(p.factors, i);
            rest = trp__at<float>(p.factors, i + 1);
            inverse = trp__at<float>(p.factors, i + 2);
        }
        scale = place.load(p, TRP__BATCH_SCALE, column, 1);
        if (p.back && apply) {
            offset = trp__at<float>(p.factors, i);
            slope = trp__at<float>(p.factors, i + 1);
        } else if (!p.back) {
            bias = place.load(p, TRP__BATCH_BIAS, column, 0);
        }
    }
    TRP__DEVICE float normal(float x) const
    {
        return ((x - mean) - rest) * inverse;
    }
    TRP__DEVICE float forward(float x) const
    {
        return normal(x) * scale + bias;
    }
    TRP__DEVICE float backward(float x, float dy) const
    {
        return inverse * scale * (dy - offset - normal(x) * slope);
    }
};

/* --- Rows --- */

/* A part of a group for a block. */
struct trp__batch_rows {
    const trp__batch &p;
    trp__batch_place place;
    int64_t group, begin, end;

    /* Which element of the group a thread's number j is, that begins at `from`. */
    TRP__DEVICE int64_t element(int64_t from, int j) const
    {
        return p.runs ? from + (int)threadIdx.x * TRP__ROWS_RUN + j
                      : from + j * TRP__BATCH_THREADS + (int)threadIdx.x;
    }
    TRP__DEVICE int64_t offset(int o, int64_t e) const
    {
        const int64_t run =
            p.by.by
                ? (int64_t)((uint32_t)(((uint64_t)(uint32_t)e * p.by.factor >> 32) + (uint32_t)e) >>
                            p.by.shift)
                : e / p.run;
        return place.at[o] + run * p.again[o] + (e - run * p.run);
    }
    TRP__DEVICE void read(int o, int64_t from, float v[TRP__ROWS_RUN]) const
    {
        const int64_t e = element(from, 0);
#define TRP__BATCH_READ(TYPE) trp__load_run<float, TRP__ROWS_RUN>(p.io[o].at, offset(o, e), TYPE, v)
        if (!p.runs) {
            for (int j = 0; j < TRP__ROWS_RUN; j++) {
                const int64_t k = element(from, j);
                v[j] =
                    k < end ? trp__load_float<float>(p.io[o].at, offset(o, k), p.io[o].type) : 0.0f;
            }
        } else if (e < end) {
            TRP__ROWS_BY_TYPE(float, p.io[o].type, TRP__BATCH_READ);
        } else {
            for (int j = 0; j < TRP__ROWS_RUN; j++)
                v[j] = 0;
        }
#undef TRP__BATCH_READ
    }
    TRP__DEVICE void write(int o, int64_t from, const float v[TRP__ROWS_RUN]) const
    {
        const int64_t e = element(from, 0);
#define TRP__BATCH_WRITE(TYPE)                                                                     \
    trp__store_run<float, TRP__ROWS_RUN>(p.io[o].at, offset(o, e), TYPE, v)
        if (!p.runs) {
            for (int j = 0; j < TRP__ROWS_RUN; j++) {
                const int64_t k = element(from, j);
                if (k < end)
                    trp__store_float<float>(p.io[o].at, offset(o, k), p.io[o].type, v[j]);
            }
        } else if (e < end) {
            TRP__ROWS_BY_TYPE(float, p.io[o].type, TRP__BATCH_WRITE);
        }
#undef TRP__BATCH_WRITE
    }
    template <typename A> TRP__DEVICE void moments(trp__batch_moments<A> *m) const
    {
        *m = {A(0), A(0), A(0)};
        for (int64_t from = begin; from < end; from += 2 * TRP__BATCH_TILE) {
            float v[2][TRP__ROWS_RUN];
            read(TRP__BATCH_X, from, v[0]);
            read(TRP__BATCH_X, from + TRP__BATCH_TILE, v[1]);
            for (int u = 0; u < 2; u++) {
                bool there[TRP__ROWS_RUN];
                for (int j = 0; j < TRP__ROWS_RUN; j++)
                    there[j] = element(from + u * TRP__BATCH_TILE, p.runs ? 0 : j) < end;
                m->add(v[u], there);
            }
        }
    }
};

TRP__DEVICE void trp__batch_begin(const trp__batch &p, trp__batch_rows *r)
{
    const int64_t block = p.first + blockIdx.x, part = block % p.parts;
    r->group = block / p.parts;
    r->begin = part * p.part;
    r->end = part + 1 < p.parts ? r->begin + p.part : p.n;
    r->place.find(p, r->group);
}

/* Joins what the threads of a block know, or the lanes of a warp: in the first one's place. */
TRP__DEVICE void trp__batch_join_warp(trp__batch_moments<double> *m)
{
    for (int by = 16; by > 0; by /= 2) {
        const double count = __shfl_down_sync(0xffffffffu, m->count, by);
        const double mean = __shfl_down_sync(0xffffffffu, m->mean, by);
        const double squares = __shfl_down_sync(0xffffffffu, m->squares, by);
        if ((int)threadIdx.x % 32 < by)
            m->join(count, mean, squares);
    }
}

TRP__DEVICE void trp__batch_join(trp__batch_moments<double> *m)
{
    __shared__ double shared[3][TRP__BATCH_WARPS];
    const int warp = (int)threadIdx.x / 32;
    trp__batch_join_warp(m);
    if (threadIdx.x % 32 == 0) {
        shared[0][warp] = m->count;
        shared[1][warp] = m->mean;
        shared[2][warp] = m->squares;
    }
    __syncthreads();
    for (int w = 1; w < TRP__BATCH_WARPS && threadIdx.x == 0; w++)
        m->join(shared[0][w], shared[1][w], shared[2][w]);
}

/* In f64, where squares do not fit f32. */
TRP__SHARED_CODE trp__batch_moments<double> trp__batch_precise(const trp__batch &p)
{
    trp__batch_rows r = {p};
    trp__batch_moments<double> m;
    trp__batch_begin(p, &r);
    r.moments(&m);
    return m;
}

TRP__GLOBAL(TRP__BATCH_ROWS_BOUNDS) trp_batch_moments_rows(const TRP__CONSTANT trp__batch p)
{
    trp__batch_rows r = {p};
    trp__batch_moments<float> m;
    trp__batch_moments<double> all;
    trp__batch_begin(p, &r);
    r.moments(&m);
    all = {(double)m.count, (double)m.mean, (double)m.squares};
    if (p.precise || !(m.squares <= 1e37f))
        all = trp__batch_precise(p);
    trp__batch_join(&all);
    if (threadIdx.x == 0) {
        trp__to<double>(p.sums, (p.first + blockIdx.x) * 2) = all.mean;
        trp__to<double>(p.sums, (p.first + blockIdx.x) * 2 + 1) = all.squares;
    }
}

TRP__GLOBAL(TRP__BATCH_ROWS_BOUNDS) trp_batch_sums_rows(const TRP__CONSTANT trp__batch p)
{
    trp__batch_rows r = {p};
    trp__batch_factors f;
    trp__exact_sum<float> sum_h = {0, 0}, sum = {0, 0};
    trp__batch_begin(p, &r);
    f.find(p, r.place, r.group, 0, false);
    for (int64_t from = r.begin; from < r.end; from += TRP__BATCH_TILE) {
        float x[TRP__ROWS_RUN], dy[TRP__ROWS_RUN], some_h = 0, some = 0;
        r.read(TRP__BATCH_X, from, x);
        r.read(TRP__BATCH_Y, from, dy);
        for (int j = 0; j < TRP__ROWS_RUN; j++) { /* dy is 0 behind the last */
            some_h += dy[j] * f.normal(x[j]);
            some += dy[j];
        }
        sum_h.add(some_h);
        sum.add(some);
    }
    double s[2] = {(double)sum_h.sum - (double)sum_h.lost, (double)sum.sum - (double)sum.lost};
    trp__rows_together<trp__rows_sum, double, 2>(s, TRP__BATCH_THREADS, 0.0);
    if (threadIdx.x == 0) {
        trp__to<double>(p.sums, (p.first + blockIdx.x) * 2) = s[0];
        trp__to<double>(p.sums, (p.first + blockIdx.x) * 2 + 1) = s[1];
    }
}

TRP__GLOBAL(TRP__BATCH_ROWS_BOUNDS) trp_batch_apply_rows(const TRP__CONSTANT trp__batch p)
{
    trp__batch_rows r = {p};
    trp__batch_factors f;
    trp__batch_begin(p, &r);
    f.find(p, r.place, r.group, 0, true);
    for (int64_t from = r.begin; from < r.end; from += TRP__BATCH_TILE) {
        float x[TRP__ROWS_RUN], dy[TRP__ROWS_RUN];
        r.read(TRP__BATCH_X, from, x);
        if (p.back)
            r.read(TRP__BATCH_Y, from, dy);
        for (int j = 0; j < TRP__ROWS_RUN; j++)
            x[j] = p.back ? f.backward(x[j], dy[j]) : f.forward(x[j]);
        if (p.back)
            r.write(TRP__BATCH_DX, from, x);
        else
            r.write(TRP__BATCH_Y, from, x);
    }
}

/* --- Columns --- */

/* 256 columns and a part of their elements for a block: each warp has every 8th of these. */
struct trp__batch_columns {
    enum { COUNT = TRP__ROWS_RUN, WARPS = TRP__BATCH_WARPS, DEEP = TRP__BATCH_DEEP };
    const trp__batch &p;
    trp__batch_place place;
    trp__rows_lanes l;
    int64_t outer, part, column, begin, end;
    int width;

    TRP__DEVICE void start()
    {
        const int64_t tiles = (p.columns + TRP__BATCH_COLUMNS - 1) / TRP__BATCH_COLUMNS;
        const int64_t block = p.first + blockIdx.x;
        column = block % tiles * TRP__BATCH_COLUMNS;
        part = block / tiles % p.parts;
        outer = block / tiles / p.parts;
        l = {(int)threadIdx.x % 32, 32, 0, p.runs != 0, false};
        const int64_t left = p.columns - column;
        width = left < TRP__BATCH_COLUMNS ? (int)left : TRP__BATCH_COLUMNS;
        begin = part * p.part + (int)threadIdx.x / 32;
        end = part + 1 < p.parts ? (part + 1) * p.part : p.n;
        place.find(p, outer);
    }
    TRP__DEVICE uint64_t row(int o, int64_t k) const
    {
        return p.io[o].at + (uint64_t)((place.at[o] + column + k * p.io[o].step) *
                                       trp__element_bytes(p.io[o].type));
    }
    TRP__DEVICE void read(int o, int64_t k, float v[COUNT]) const
    {
        trp__rows_read<float, 1>(l, row(o, k), 1, p.io[o].type, k < end ? width : 0, 0.0f, v);
    }
    TRP__DEVICE void write(int o, int64_t k, const float v[COUNT]) const
    {
        trp__rows_write<float, 1>(l, row(o, k), 1, p.io[o].type, k < end ? width : 0, v);
    }
    /* The factors of a lane's columns. */
    TRP__DEVICE void find(trp__batch_factors f[COUNT], bool apply) const
    {
        for (int j = 0; j < COUNT; j++) {
            const int k = l.place(0, j) < width ? l.place(0, j) : 0;
            f[j].find(p, place, outer * p.columns + column + k, column + k, apply);
        }
    }
    template <typename A> TRP__DEVICE void moments(A *count, A mean[COUNT], A squares[COUNT]) const
    {
        *count = 0;
        for (int j = 0; j < COUNT; j++)
            mean[j] = squares[j] = 0;
        for (int64_t k = begin; k < end; k += WARPS * DEEP) {
            float v[DEEP][COUNT];
#pragma unroll
            for (int d = 0; d < DEEP; d++)
                read(TRP__BATCH_X, k + d * WARPS, v[d]);
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                if (k + d * WARPS >= end)
                    continue;
                *count += 1;
                const A share = 1 / *count;
                for (int j = 0; j < COUNT; j++) {
                    const A away = (A)v[d][j] - mean[j];
                    mean[j] = trp__batch_move<A>(mean[j], away, share, (A)v[d][j]);
                    squares[j] += away * ((A)v[d][j] - mean[j]);
                }
            }
        }
    }
    /* Where a part of a column leaves what it knows. */
    TRP__DEVICE int64_t sums(int64_t k) const
    {
        return ((outer * p.columns + column + k) * p.parts + part) * 2;
    }
};

TRP__GLOBAL(TRP__BATCH_COLUMNS_BOUNDS) trp_batch_moments_columns(const TRP__CONSTANT trp__batch p)
{
    typedef trp__batch_columns B;
    __shared__ double mean[B::WARPS][TRP__BATCH_COLUMNS], squares[B::WARPS][TRP__BATCH_COLUMNS];
    __shared__ double count[B::WARPS];
    B b = {p};
    float c, m[B::COUNT], s[B::COUNT], most = 0;
    double wide_c, wide_m[B::COUNT], wide_s[B::COUNT];
    const int warp = (int)threadIdx.x / 32;
    b.start();
    b.moments<float>(&c, m, s);
    wide_c = (double)c;
    for (int j = 0; j < B::COUNT; j++) {
        wide_m[j] = (double)m[j];
        wide_s[j] = (double)s[j];
        most = most != most || s[j] <= most ? most : s[j]; /* NaN stays */
    }
    if (p.precise || !(most <= 1e37f))
        b.moments<double>(&wide_c, wide_m, wide_s);
    for (int j = 0; j < B::COUNT; j++) {
        mean[warp][b.l.place(0, j)] = wide_m[j];
        squares[warp][b.l.place(0, j)] = wide_s[j];
    }
    if (b.l.thread == 0)
        count[warp] = wide_c;
    __syncthreads();
    const int k = (int)threadIdx.x;
    if (k >= b.width)
        return;
    trp__batch_moments<double> all = {0, 0, 0};
    for (int w = 0; w < B::WARPS; w++)
        all.join(count[w], mean[w][k], squares[w][k]);
    trp__to<double>(p.sums, b.sums(k)) = all.mean;
    trp__to<double>(p.sums, b.sums(k) + 1) = all.squares;
}

TRP__GLOBAL(TRP__BATCH_COLUMNS_BOUNDS) trp_batch_sums_columns(const TRP__CONSTANT trp__batch p)
{
    typedef trp__batch_columns B;
    __shared__ double shared[2][B::WARPS][TRP__BATCH_COLUMNS];
    B b = {p};
    trp__batch_factors f[B::COUNT];
    trp__exact_sum<float> sum_h[B::COUNT], sum[B::COUNT];
    const int warp = (int)threadIdx.x / 32, k = (int)threadIdx.x;
    b.start();
    b.find(f, false);
    for (int j = 0; j < B::COUNT; j++)
        sum_h[j] = sum[j] = {0, 0};
    for (int64_t i = b.begin; i < b.end; i += 2 * B::WARPS) {
        float x[2][B::COUNT], dy[2][B::COUNT];
#pragma unroll
        for (int d = 0; d < 2; d++) {
            b.read(TRP__BATCH_X, i + d * B::WARPS, x[d]);
            b.read(TRP__BATCH_Y, i + d * B::WARPS, dy[d]);
        }
        for (int j = 0; j < B::COUNT; j++) {
            sum_h[j].add(dy[0][j] * f[j].normal(x[0][j]) + dy[1][j] * f[j].normal(x[1][j]));
            sum[j].add(dy[0][j] + dy[1][j]);
        }
    }
    for (int j = 0; j < B::COUNT; j++) {
        shared[0][warp][b.l.place(0, j)] = (double)sum_h[j].sum - (double)sum_h[j].lost;
        shared[1][warp][b.l.place(0, j)] = (double)sum[j].sum - (double)sum[j].lost;
    }
    __syncthreads();
    for (int which = 0; which < 2 && k < b.width; which++) {
        double all = 0;
        for (int w = 0; w < B::WARPS; w++)
            all += shared[which][w][k];
        trp__to<double>(p.sums, b.sums(k) + which) = all;
    }
}

TRP__GLOBAL(TRP__BATCH_COLUMNS_BOUNDS) trp_batch_apply_columns(const TRP__CONSTANT trp__batch p)
{
    typedef trp__batch_columns B;
    B b = {p};
    trp__batch_factors f[B::COUNT];
    b.start();
    b.find(f, true);
    for (int64_t i = b.begin; i < b.end; i += 2 * B::WARPS) {
        float x[2][B::COUNT], dy[2][B::COUNT];
#pragma unroll
        for (int d = 0; d < 2; d++) {
            b.read(TRP__BATCH_X, i + d * B::WARPS, x[d]);
            if (p.back)
                b.read(TRP__BATCH_Y, i + d * B::WARPS, dy[d]);
        }
#pragma unroll
        for (int d = 0; d < 2; d++) {
            const int64_t k = i + d * B::WARPS;
            for (int j = 0; j < B::COUNT; j++)
                x[d][j] = p.back ? f[j].backward(x[d][j], dy[d][j]) : f[j].forward(x[d][j]);
            if (p.back)
                b.write(TRP__BATCH_DX, k, x[d]);
            else
                b.write(TRP__BATCH_Y, k, x[d]);
        }
    }
}

/* --- Groups: a warp joins the parts of each --- */

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
                (1 - factor) * place.load_f64(p, TRP__BATCH_RUNNING_MEAN, column) + factor * mean);
    place.store(p, TRP__BATCH_NEW_VARIANCE, column,
                (1 - factor) * place.load_f64(p, TRP__BATCH_RUNNING_VARIANCE, column) +
                    factor * all);
}

TRP__GLOBAL(TRP__BATCH_THREADS) trp_batch_finish(const TRP__CONSTANT trp__batch p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t number = (p.first + blockIdx.x) * TRP__BATCH_WARPS + (int)threadIdx.x / 32;
    const int64_t groups = p.space.rows * p.columns, group = number < groups ? number : 0;
    const int64_t column = group % p.columns;
    trp__batch_place place;
    trp__batch_moments<double> m = {0, 0, 0};
    double s[2] = {0, 0};
    place.find(p, group / p.columns);
    for (int64_t i = lane; i < p.parts; i += 32) {
        const int64_t at = (group * p.parts + i) * 2;
        const double first = trp__at<double>(p.sums, at), second = trp__at<double>(p.sums, at + 1);
        const int64_t count = i + 1 < p.parts ? p.part : p.n - i * p.part;
        if (p.back) {
            s[0] += first;
            s[1] += second;
        } else {
            m.join((double)count, first, second);
        }
    }
    if (p.back)
        trp__rows_together<trp__rows_sum, double, 2>(s, 32, 0.0);
    else
        trp__batch_join_warp(&m);
    if (lane != 0 || number >= groups)
        return;
    const int64_t to = group * TRP__BATCH_FACTORS;
    if (p.back) {
        trp__to<double>(p.totals, group * 2) = s[0];
        trp__to<double>(p.totals, group * 2 + 1) = s[1];
        trp__to<float>(p.factors, to) = (float)(s[1] / (double)p.n);
        trp__to<float>(p.factors, to + 1) = (float)(s[0] / (double)p.n);
        return;
    }
    const double variance = m.squares / (double)p.n;
    const double inverse = 1 / sqrt(variance + trp__batch_value(p.epsilon));
    trp__batch_write(p, place, column, m.mean, variance, inverse);
    trp__to<float>(p.factors, to) = (float)m.mean;
    trp__to<float>(p.factors, to + 1) = (float)(m.mean - (double)(float)m.mean);
    trp__to<float>(p.factors, to + 2) = (float)inverse;
}

TRP__GLOBAL(TRP__NORM_SUM_WARPS * 32) trp_batch_add(const TRP__CONSTANT trp__norm_sum p)
{
    trp__norm_add<double>(p);
}

#endif
