/* Batch norm of groups of columns, in passes over memory: see batch.h. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_COLUMNS_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_COLUMNS_CUH

#include "actors/dnn/kernels/norm/batch.cuh"
#include "actors/dnn/kernels/common/packs.cuh"

/* A block's columns, `across` loads of V each, and its part of their elements. Each load has a
 * thread in each of `lanes` lanes; lane l has every `lanes`-th element from element l on. */
template <int TYPE, int V> struct trp__batch_columns {
    typedef trp__pack<TYPE, V> pack;
    const trp__batch &p;
    trp__batch_place place;
    int64_t outer, part, first, column, begin, end; /* first: the first column of the block */
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
        TRP__EACH(d, DEEP)
            v[d].load(p.io[o].at, offset(o, k + d * lanes), p.io[o].type);
    }
    TRP__DEVICE int64_t group() const
    {
        return outer * p.columns + column;
    }
    /* Adds up the sums of a block's lanes for each column, and writes them for trp_batch_finish. */
    TRP__DEVICE void leave(const double s[2][V]) const
    {
        __shared__ double shared[2][TRP__BATCH_THREADS * V];
        const int t = (int)threadIdx.x, width = p.across * V, slices = TRP__BATCH_THREADS / width;
        const int slice = t / width, c = t - slice * width;
        double all[2] = {0, 0};
        TRP__EACH(j, V) {
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

/* Adds up a thread's differences from the pivot in a column, and their squares, in f64, where
 * squares do not fit f32. at: offset of the column in x. */
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

/* Adds up a thread's dy h and dy of a column in f64. x, dy: offsets of the column. */
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

/* The moments of V columns of a thread. A batch has DEEP loads: one half is in flight while the
 * other is added. */
template <int TYPE, int V> struct trp__batch_column_moments {
    typedef trp__batch_columns<TYPE, V> B;
    typedef typename B::pack pack;
    enum { DEEP = TRP__BATCH_DEEP, HALF = DEEP / 2 };
    trp__batch_moments m[V];
    float s1[V], s2[V], count;

    TRP__DEVICE void begin()
    {
        count = 0;
        TRP__EACH(j, V)
            m[j] = {0, 0, 0};
    }
    TRP__DEVICE void begin_batch(const pack &v)
    {
        TRP__EACH(j, V) {
            m[j].mid = count > 0 ? m[j].mid : v.get(j);
            s1[j] = s2[j] = 0;
        }
    }
    template <int COUNT> TRP__DEVICE void add(const pack v[COUNT])
    {
        TRP__EACH(d, COUNT) {
            TRP__EACH(j, V) {
                const float away = v[d].get(j) - m[j].mid;
                s1[j] += away;
                s2[j] = fmaf(away, away, s2[j]);
            }
        }
    }
    TRP__DEVICE void end_batch(float some)
    {
        count += some;
        const float share = 1.0f / count;
        TRP__EACH(j, V)
            m[j].join(s1[j], s2[j], some, share);
    }
    TRP__DEVICE void add_all(const B &b)
    {
        int64_t k = b.begin;
        const int64_t last = b.end - (DEEP - 1) * b.lanes; /* batches begin before it */
        pack v[HALF], w[HALF];
        if (k < last)
            b.template read<HALF>(TRP__BATCH_X, k, v);
        for (; k < last; k += DEEP * b.lanes) {
            b.template read<HALF>(TRP__BATCH_X, k + HALF * b.lanes, w);
            begin_batch(v[0]);
            add<HALF>(v);
            if (k + DEEP * b.lanes < last)
                b.template read<HALF>(TRP__BATCH_X, k + DEEP * b.lanes, v);
            add<HALF>(w);
            end_batch(DEEP);
        }
        for (; k < b.end; k += b.lanes) {
            b.template read<1>(TRP__BATCH_X, k, v);
            begin_batch(v[0]);
            add<1>(v);
            end_batch(1);
        }
    }
};

template <int TYPE, int V> TRP__DEVICE void trp__batch_moments_columns(const trp__batch &p)
{
    typedef trp__batch_columns<TYPE, V> B;
    B b = {p};
    trp__batch_column_moments<TYPE, V> all;
    double s[2][V];
    b.start(p.first + blockIdx.x);
    all.begin();
    all.add_all(b);
    typename B::pack first[1];
    b.template read<1>(TRP__BATCH_X, 0, first);
    TRP__EACH(j, V) {
        double both[2];
        const float pivot = trp__batch_pivot(first[0].get(j));
        all.m[j].sums(all.count, pivot, both);
        if (all.m[j].fails(p))
            trp__batch_precise_column(p, b.offset(TRP__BATCH_X, 0) + j, b.begin, b.end, b.lanes,
                                      pivot, both);
        s[0][j] = both[0];
        s[1][j] = both[1];
    }
    b.leave(s);
}

/* Sums of dy h and dy of V columns of a thread. */
template <int TYPE, int V> struct trp__batch_column_sums {
    typedef trp__batch_columns<TYPE, V> B;
    typedef typename B::pack pack;
    enum { DEEP = TRP__BATCH_DEEP / 2, HALF = DEEP / 2 };
    trp__batch_factors<V> f;
    trp__exact_sum<float> sum_h[V], sum[V];
    float some_h[V], some[V];

    TRP__DEVICE void begin()
    {
        TRP__EACH(j, V)
            sum_h[j] = sum[j] = {0, 0};
    }
    TRP__DEVICE void begin_batch()
    {
        TRP__EACH(j, V)
            some_h[j] = some[j] = 0;
    }
    template <int COUNT> TRP__DEVICE void add(const pack x[COUNT], const pack dy[COUNT])
    {
        TRP__EACH(d, COUNT) {
            TRP__EACH(j, V) {
                some_h[j] = fmaf(dy[d].get(j), f.normal(j, x[d].get(j)), some_h[j]);
                some[j] += dy[d].get(j);
            }
        }
    }
    TRP__DEVICE void end_batch()
    {
        TRP__EACH(j, V) {
            sum_h[j].add(some_h[j]);
            sum[j].add(some[j]);
        }
    }
    template <int COUNT>
    TRP__DEVICE static void read(const B &b, int64_t k, pack x[COUNT], pack dy[COUNT])
    {
        b.template read<COUNT>(TRP__BATCH_X, k, x);
        b.template read<COUNT>(TRP__BATCH_Y, k, dy);
    }
    TRP__DEVICE void add_all(const B &b)
    {
        int64_t k = b.begin;
        const int64_t last = b.end - (DEEP - 1) * b.lanes; /* batches begin before it */
        pack x[2][HALF], dy[2][HALF];
        if (k < last)
            read<HALF>(b, k, x[0], dy[0]);
        for (; k < last; k += DEEP * b.lanes) {
            read<HALF>(b, k + HALF * b.lanes, x[1], dy[1]);
            begin_batch();
            add<HALF>(x[0], dy[0]);
            if (k + DEEP * b.lanes < last)
                read<HALF>(b, k + DEEP * b.lanes, x[0], dy[0]);
            add<HALF>(x[1], dy[1]);
            end_batch();
        }
        for (; k < b.end; k += b.lanes) {
            read<1>(b, k, x[0], dy[0]);
            begin_batch();
            add<1>(x[0], dy[0]);
            end_batch();
        }
    }
};

template <int TYPE, int V> TRP__DEVICE void trp__batch_sums_columns(const trp__batch &p)
{
    typedef trp__batch_columns<TYPE, V> B;
    B b = {p};
    trp__batch_column_sums<TYPE, V> all;
    double s[2][V];
    b.start(p.first + blockIdx.x);
    all.f.find(p, b.group(), false);
    all.begin();
    all.add_all(b);
    TRP__EACH(j, V) {
        const trp__exact_sum<float> &h = all.sum_h[j], &one = all.sum[j];
        double both[2] = {(double)h.sum - (double)h.lost, (double)one.sum - (double)one.lost};
        if (!trp__batch_is_finite(both))
            trp__batch_precise_back_column(p, 2.0 * (double)all.f.mean[j], (double)all.f.inverse[j],
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
    TRP__EACH(d, DEEP) {
        f.template apply<BACK>(&x[d], &dy[d]);
        x[d].store(b.p.io[OUT].at, b.offset(OUT, k + d * b.lanes), b.p.io[OUT].type);
    }
}

template <int TYPE, int V, bool BACK> TRP__DEVICE void trp__batch_apply_columns(const trp__batch &p)
{
    enum { DEEP = 4 };
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

#endif
