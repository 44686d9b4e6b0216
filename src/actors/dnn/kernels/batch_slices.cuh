/* Groups of rows that are a cluster's, in one pass: see slices.cuh. And the module's other kernels. */
#ifndef TRP_ACTORS_DNN_KERNELS_BATCH_SLICES_CUH
#define TRP_ACTORS_DNN_KERNELS_BATCH_SLICES_CUH

#include "actors/dnn/kernels/batch.cuh"
#include "actors/dnn/kernels/slices.cuh"

/* The tiles of a slice, whose elements lie in runs. */
template <int TYPE, int V, bool BACK>
struct trp__batch_tiles : trp__batch_rows<TYPE, V> {
    typedef trp__batch_rows<TYPE, V> R;
    typedef typename R::pack pack;
    typedef typename trp__raw<V * pack::SIZE>::type raw;
    enum {
        OPERANDS = BACK ? 2 : 1,
        DEEP = TRP__SLICE_BYTES / (OPERANDS * (int)sizeof(raw)),
    };
    raw *shared;

    TRP__DEVICE uint32_t element(int tile, int c) const
    {
        return R::begin + (uint32_t)(tile * DEEP + c) * (blockDim.x * V);
    }
    TRP__DEVICE int tiles() const
    {
        const uint32_t length = R::end - (R::begin - threadIdx.x * V);
        return (int)((length + DEEP * V * blockDim.x - 1) / (DEEP * V * blockDim.x));
    }
    TRP__DEVICE raw *spot(int o, int slot, int c) const
    {
        return shared + ((slot * DEEP + c) * OPERANDS + o) * (int)blockDim.x + (int)threadIdx.x;
    }
    TRP__DEVICE void copy(int tile, int slot)
    {
        TRP__UNROLL
        for (int c = 0; c < DEEP; c++) {
            const uint32_t e = element(tile, c);
            TRP__UNROLL
            for (int o = 0; o < OPERANDS; o++) {
                if (e < R::end)
                    trp__async_copy(spot(o, slot, c),
                                    R::from[o] + (uint64_t)R::offset(o, e) * pack::SIZE);
            }
        }
        trp__async_commit();
    }
    /* False: the slice has ended before. */
    TRP__DEVICE bool take(int o, int tile, int slot, int c, pack *v) const
    {
        if (element(tile, c) >= R::end)
            return false;
        v->take(*spot(o, slot, c));
        return true;
    }
};

/* The sums of a block's slice. */
template <typename T>
TRP__DEVICE void trp__batch_slice_moments(const trp__batch &p, T &r, const trp__slice_tiles &ring,
                                          float pivot, double s[2])
{
    enum { V = T::pack::ELEMENTS };
    trp__batch_moments m = {0, 0, 0};
    float count = 0;
    for (int t = 0; t < ring.tiles; t++) {
        const int slot = ring.next(t);
        float s1 = 0, s2 = 0, some = 0;
        TRP__UNROLL
        for (int c = 0; c < T::DEEP; c++) {
            typename T::pack x;
            if (!r.take(0, t, slot, c, &x))
                continue;
            m.mid = count + some > 0 ? m.mid : x.get(0);
            some += V;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                const float away = x.get(j) - m.mid;
                s1 += away;
                s2 = fmaf(away, away, s2);
            }
        }
        ring.copy_behind(r, t);
        count += some;
        if (some > 0)
            m.join(s1, s2, some, 1.0f / count);
    }
    m.sums(count, pivot, s);
    if (m.fails(p))
        trp__batch_precise_rows(p, V, pivot, s);
}

/* The same of the backward pass. */
template <typename T>
TRP__DEVICE void trp__batch_slice_sums(const trp__batch &p, T &r, const trp__slice_tiles &ring,
                                       const float number[TRP__BATCH_FACTORS], double s[2])
{
    enum { V = T::pack::ELEMENTS };
    trp__batch_factors<1> f;
    trp__exact_sum<float> sum_h = {0, 0}, sum = {0, 0};
    f.set(true, number);
    for (int t = 0; t < ring.tiles; t++) {
        const int slot = ring.next(t);
        float some_h = 0, some = 0;
        TRP__UNROLL
        for (int c = 0; c < T::DEEP; c++) {
            typename T::pack x, dy;
            if (!r.take(0, t, slot, c, &x) || !r.take(1, t, slot, c, &dy))
                continue;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                some_h = fmaf(dy.get(j), f.normal(0, x.get(j)), some_h);
                some += dy.get(j);
            }
        }
        ring.copy_behind(r, t);
        sum_h.add(some_h);
        sum.add(some);
    }
    s[0] = (double)sum_h.sum - (double)sum_h.lost;
    s[1] = (double)sum.sum - (double)sum.lost;
    if (!trp__batch_is_finite(s))
        trp__batch_precise_back_rows(p, V, (double)number[TRP__BATCH_F_MEAN],
                                     (double)number[TRP__BATCH_F_INVERSE], s);
}

template <int TYPE, int V, bool BACK> TRP__DEVICE void trp__batch_slices(const trp__batch &p)
{
    typedef trp__batch_tiles<TYPE, V, BACK> T;
    enum { OUT = BACK ? TRP__BATCH_DX : TRP__BATCH_Y };
    __shared__ float number[TRP__BATCH_FACTORS];
    TRP__DYNAMIC(typename T::raw, shared);
    const int blocks = (int)p.parts;
    const double none[2] = {0, 0};
    T r = {p};
    double s[2];
    float pivot = 0;
    r.start(p.first + blockIdx.x);
    r.shared = shared;
    const trp__slice_tiles ring = {r.tiles(), p.room};
    ring.begin(r);
    trp__batch_place place; /* found again later, as it takes many registers */
    place.find(p, r.group);
    if (threadIdx.x == 0) {
        number[TRP__BATCH_F_MEAN] = (float)(BACK ? place.load(p, TRP__BATCH_MEAN, 0, 0) : 0);
        number[TRP__BATCH_F_REST] = number[TRP__BATCH_F_SLOPE] = 0;
        number[TRP__BATCH_F_INVERSE] = (float)(BACK ? place.load(p, TRP__BATCH_INVERSE, 0, 0) : 0);
        number[TRP__BATCH_F_SCALE] = (float)place.load(p, TRP__BATCH_SCALE, 0, 1);
        number[TRP__BATCH_F_BIAS] = (float)(BACK ? 0 : place.load(p, TRP__BATCH_BIAS, 0, 0));
    }
    if constexpr (BACK) {
        __syncthreads();
        trp__batch_slice_sums(p, r, ring, number, s);
    } else { /* the pivot before any block writes, as y may lie where x does */
        pivot = trp__batch_pivot((float)place.load(p, TRP__BATCH_X, 0, 0));
        trp__batch_slice_moments(p, r, ring, pivot, s);
    }
    trp__rows_together<trp__rows_sum, double, 2>(s, (int)blockDim.x, 0.0);
    trp__cluster_gather(s, blocks, none);
    trp__rows_together<trp__rows_sum, double, 2>(s, 32, 0.0);
    trp__batch_found found = {0, 0, 0, 0};
    if (threadIdx.x == 0) {
        found = trp__batch_solve(p, pivot, s);
        found.set(p, number);
    }
    __syncthreads();
    if (threadIdx.x == 0 && (int64_t)(p.first + blockIdx.x) == r.group * blocks) {
        place.find(p, r.group);
        if (BACK) {
            trp__to<double>(p.totals, r.group * 2) = s[0];
            trp__to<double>(p.totals, r.group * 2 + 1) = s[1];
        } else {
            trp__batch_write(p, place, 0, found.mean, found.variance, found.inverse);
        }
    }
    trp__batch_factors<1> f;
    f.set(BACK, number);
    for (int t = ring.tiles - 1; t >= 0; t--) {
        const int slot = ring.before(t);
        TRP__UNROLL
        for (int c = 0; c < T::DEEP; c++) {
            typename T::pack x, dy;
            float v[V];
            if (!r.take(0, t, slot, c, &x) || (BACK && !r.take(1, t, slot, c, &dy)))
                continue;
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                if constexpr (BACK)
                    v[j] = f.backward(0, x.get(j), dy.get(j));
                else
                    v[j] = f.forward(0, x.get(j));
            }
            x.set(v);
            x.store(r.from[OUT], r.offset(OUT, r.element(t, c)), TYPE);
        }
        ring.copy_before(r, t);
    }
    trp__cluster_end(blocks);
}

#define TRP__BATCH_SLICES(name, TYPE, V)                                                           \
    TRP__GLOBAL(TRP__SLICE_THREADS) name##_slices(const TRP__CONSTANT trp__batch p)           \
    {                                                                                              \
        trp__batch_slices<TYPE, V, false>(p);                                                      \
    }                                                                                              \
    TRP__GLOBAL(TRP__SLICE_THREADS) name##_back_slices(const TRP__CONSTANT trp__batch p)      \
    {                                                                                              \
        trp__batch_slices<TYPE, V, true>(p);                                                       \
    }

TRP__BATCH_SLICES(trp_batch_rows_f32_4, TRP_F32, 4)
TRP__BATCH_SLICES(trp_batch_rows_bf16_8, TRP_BF16, 8)
TRP__BATCH_SLICES(trp_batch_rows_bf16_4, TRP_BF16, 4)
TRP__BATCH_SLICES(trp_batch_rows_f16_8, TRP_F16, 8)
TRP__BATCH_SLICES(trp_batch_rows_f16_4, TRP_F16, 4)

#endif
