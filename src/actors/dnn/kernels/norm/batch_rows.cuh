/* Batch norm of groups of rows, in passes over memory: see batch.h. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_ROWS_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_ROWS_CUH

#include "actors/dnn/kernels/norm/batch.cuh"
#include "actors/dnn/kernels/common/packs.cuh"

/* A block's part of a group, whose loads are dealt out to its threads in turn. Indices of elements
 * count from the start of the run that the part begins in, so that 32 bits hold them. */
template <int TYPE, int V> struct trp__batch_rows {
    typedef trp__pack<TYPE, V> pack;
    enum { SPAN = TRP__BATCH_THREADS * V };
    const trp__batch &p;
    int64_t run; /* run that the part begins in */
    uint32_t begin, end;
    uint64_t from[3]; /* addresses of the run in x, y and dx */

    TRP__DEVICE void part(int64_t number)
    {
        const int64_t first = number * p.part;
        const int64_t length = number + 1 < p.parts ? p.part : p.n - first;
        run = first / p.run.by;
        begin = (uint32_t)(first - run * p.run.by) + threadIdx.x * V;
        end = begin - threadIdx.x * V + (uint32_t)length;
    }
    /* Returns the address of the run in an operand in which the group begins at element `at`. */
    TRP__DEVICE uint64_t address(int o, int64_t at) const
    {
        return p.io[o].at + (uint64_t)((at + run * p.again[o]) * trp__element_bytes(p.io[o].type));
    }
    TRP__DEVICE void find(int64_t group)
    {
        int64_t at[3];
        trp__rows_find<3>(p.space, group, p.io, at);
        TRP__UNROLL
        for (int o = TRP__BATCH_X; o <= TRP__BATCH_DX; o++)
            from[o] = address(o, at[o]);
    }
    /* Finds the part of a block, and returns its group. */
    TRP__DEVICE int64_t start(int64_t block)
    {
        const int64_t group = block / p.parts;
        part(block - group * p.parts);
        find(group);
        return group;
    }
    TRP__DEVICE int64_t offset(int o, uint32_t e) const
    {
        const uint32_t run = trp__map_quotient(e, &p.run);
        return run * p.again[o] + (e - run * p.run.by);
    }
    template <int DEEP> TRP__DEVICE void read(int o, uint32_t e, pack v[DEEP]) const
    {
        TRP__EACH(u, DEEP) {
            v[u].clear();
            if (e + u * SPAN < end)
                v[u].load(from[o], offset(o, e + u * SPAN), p.io[o].type);
        }
    }
};

/* Adds up a thread's differences from the pivot and their squares in f64, where squares do not fit
 * f32. v: elements of a load. */
TRP__SHARED_CODE void trp__batch_precise_rows(const trp__batch &p, int64_t group, int64_t part,
                                              int v, float pivot, double s[2])
{
    trp__batch_rows<TRP_DTYPE_NONE, 1> r = {p};
    r.part(part);
    r.find(group);
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

/* Adds up a thread's dy h and dy in f64. v: elements of a load. */
TRP__SHARED_CODE void trp__batch_precise_back_rows(const trp__batch &p, int64_t group, int64_t part,
                                                   int v, double mean, double inverse, double s[2])
{
    trp__batch_rows<TRP_DTYPE_NONE, 1> r = {p};
    r.part(part);
    r.find(group);
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

/* Adds up the sums of a block's threads and writes them for trp_batch_finish. */
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
    const int64_t block = p.first + blockIdx.x, group = r.start(block);
    for (uint32_t from = r.begin; from < r.end; from += DEEP * R::SPAN) {
        typename R::pack v[DEEP];
        float s1 = 0, s2 = 0, some = 0;
        r.template read<DEEP>(TRP__BATCH_X, from, v);
        m.mid = count > 0 ? m.mid : v[0].get(0);
        TRP__EACH(u, DEEP) {
            if (from + u * R::SPAN >= r.end)
                continue;
            some += V;
            TRP__EACH(j, V) {
                const float away = v[u].get(j) - m.mid;
                s1 += away;
                s2 += away * away;
            }
        }
        count += some;
        m.join(s1, s2, some, 1.0f / count);
    }
    trp__batch_place place;
    place.find(p, group);
    const float pivot = trp__batch_pivot((float)place.load(p, TRP__BATCH_X, 0, 0));
    m.sums(count, pivot, s);
    if (m.fails(p))
        trp__batch_precise_rows(p, group, block - group * p.parts, V, pivot, s);
    trp__batch_leave(p, s);
}

template <int TYPE, int V> TRP__DEVICE void trp__batch_sums_rows(const trp__batch &p)
{
    typedef trp__batch_rows<TYPE, V> R;
    enum { DEEP = V == 8 || TYPE == TRP_F32 ? 2 : 4 };
    R r = {p};
    trp__batch_factors<1> f;
    trp__exact_sum<float> sum_h = {0, 0}, sum = {0, 0};
    const int64_t block = p.first + blockIdx.x, group = r.start(block);
    f.find(p, group, false);
    for (uint32_t from = r.begin; from < r.end; from += DEEP * R::SPAN) {
        typename R::pack x[DEEP], dy[DEEP];
        float some_h = 0, some = 0;
        r.template read<DEEP>(TRP__BATCH_X, from, x);
        r.template read<DEEP>(TRP__BATCH_Y, from, dy);
        TRP__EACH(u, DEEP) {
            if (from + u * R::SPAN >= r.end)
                continue;
            TRP__EACH(j, V) {
                some_h += dy[u].get(j) * f.normal(0, x[u].get(j));
                some += dy[u].get(j);
            }
        }
        sum_h.add(some_h);
        sum.add(some);
    }
    double s[2] = {(double)sum_h.sum - (double)sum_h.lost, (double)sum.sum - (double)sum.lost};
    if (!trp__batch_is_finite(s))
        trp__batch_precise_back_rows(p, group, block - group * p.parts, V,
                                     2.0 * (double)f.mean[0], (double)f.inverse[0], s);
    trp__batch_leave(p, s);
}

template <int TYPE, int V, bool BACK> TRP__DEVICE void trp__batch_apply_rows(const trp__batch &p)
{
    typedef trp__batch_rows<TYPE, V> R;
    enum { DEEP = V == 8 || (BACK && TYPE == TRP_F32) ? 2 : 4, OUT = BACK ? TRP__BATCH_DX : TRP__BATCH_Y };
    R r = {p};
    trp__batch_factors<1> f;
    f.find(p, r.start(p.last - (p.first + blockIdx.x)), true);
    for (uint32_t from = r.begin; from < r.end; from += DEEP * R::SPAN) {
        typename R::pack x[DEEP], dy[DEEP];
        r.template read<DEEP>(TRP__BATCH_X, from, x);
        if constexpr (BACK)
            r.template read<DEEP>(TRP__BATCH_Y, from, dy);
        TRP__EACH(u, DEEP) {
            const uint32_t e = from + u * R::SPAN;
            if (e >= r.end)
                continue;
            f.template apply<BACK>(&x[u], &dy[u]);
            x[u].store(r.from[OUT], r.offset(OUT, e), p.io[OUT].type);
        }
    }
}

#endif
