/* Softmax of rows of one type, in packs: in registers, in parts, or in slices of a cluster. */
#ifndef TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_PACKS_CUH

#include "actors/dnn/kernels/common/row_packs.cuh"
#include "actors/dnn/kernels/common/slices.cuh"
#include "actors/dnn/kernels/softmax/softmax_sums.cuh"

/* e^x. For 16-bit results, a rounded product with log2(e) is exact enough. */
template <int TYPE> TRP__DEVICE float trp__softmax_exp(float x)
{
    return TYPE == TRP_F32 ? exp(x) : exp2f(x * TRP__LOG2E);
}

/* e^x of x <= 0, for 16-bit types times 2^64, as a term of a sum and a share of it. */
template <int TYPE> TRP__DEVICE float trp__softmax_term(float x)
{
    return trp__exp_raised<TYPE, 64>(x);
}

/* Returns the factor of the elements of a row from the sum of such terms: 1 / sum, or its
 * logarithm. */
template <int TYPE> TRP__DEVICE float trp__softmax_factor(const trp__softmax &p, float sum)
{
    if (p.log)
        return log(TYPE == TRP_F32 ? sum : sum * 5.421010862427522e-20f); /* 2^-64 */
    return 1 / sum;
}

/* A thread's part of a row: its packs, and the addresses in the operands that they count from. */
template <int TYPE> struct trp__softmax_place : trp__row_packs<TYPE> {
    typedef trp__row_packs<TYPE> packs;
    uint64_t at[3];

    TRP__DEVICE void find(const trp__softmax &p)
    {
        const int thread = (int)threadIdx.x, rows = (int)blockDim.x / p.threads;
        const int group = rows > 1 ? thread / p.threads : 0;
        const int64_t row = (p.first + blockIdx.x) * rows + group;
        int64_t from[3];
        trp__row_packs_find<3>(p.space, (uint32_t)row, p.io, from);
        packs::begin = (int)(from[0] % packs::V);
        packs::end = row < p.space.rows ? packs::begin + (int)p.n : 0;
        packs::first = (thread - group * p.threads) * packs::V;
        packs::step = p.threads * packs::V;
        TRP__EACH(o, 3)
            at[o] = p.io[o].at + (uint64_t)((from[o] - packs::begin) * packs::SIZE);
    }
};

template <int TYPE, int PACKS> TRP__DEVICE void trp__softmax_forward(const trp__softmax &p)
{
    typedef trp__softmax_place<TYPE> R;
    R r;
    typename R::pack v[PACKS];
    float most = -INFINITY, sum = 0;
    r.find(p);
    r.template read<PACKS>(r.at[0], -INFINITY, v);
    TRP__EACH(c, PACKS) {
        TRP__EACH(j, R::V)
            most = fmax(most, v[c].get(j));
        v[c].forget();
    }
    most = trp__rows_together<trp__rows_most, float>(most, p.threads, -INFINITY);
    TRP__EACH(c, PACKS) {
        float e[R::V];
        TRP__EACH(j, R::V) {
            e[j] = trp__softmax_term<TYPE>(v[c].get(j) - most);
            sum += e[j];
        }
        if (TYPE == TRP_F32 && !p.log)
            v[c].set(e);
        v[c].forget();
    }
    sum = trp__rows_together<trp__rows_sum, float>(sum, p.threads, 0.0f);
    sum = trp__softmax_factor<TYPE>(p, sum);
    TRP__EACH(c, PACKS) {
        float y[R::V];
        TRP__EACH(j, R::V) {
            const float x = v[c].get(j);
            if (p.log)
                y[j] = (x - most) - sum;
            else
                y[j] = (TYPE == TRP_F32 ? x : trp__softmax_term<TYPE>(x - most)) * sum;
        }
        v[c].set(y);
        r.write(r.at[2], c, v[c]);
    }
}

template <int TYPE, int PACKS> TRP__DEVICE void trp__softmax_backward(const trp__softmax &p)
{
    typedef trp__softmax_place<TYPE> R;
    R r;
    typename R::pack v[PACKS], dy[PACKS];
    float sum = 0;
    r.find(p);
    r.template read<PACKS>(r.at[0], 0.0f, v);
    r.template read<PACKS>(r.at[1], 0.0f, dy);
    TRP__EACH(c, PACKS) {
        TRP__EACH(j, R::V)
            sum += p.log ? dy[c].get(j) : dy[c].get(j) * v[c].get(j);
        v[c].forget();
        dy[c].forget();
    }
    sum = trp__rows_together<trp__rows_sum, float>(sum, p.threads, 0.0f);
    TRP__EACH(c, PACKS) {
        float dx[R::V];
        TRP__EACH(j, R::V) {
            const float y = v[c].get(j), d = dy[c].get(j);
            dx[j] = p.log ? d - trp__softmax_exp<TYPE>(y) * sum : (d - sum) * y;
        }
        v[c].set(dx);
        r.write(r.at[2], c, v[c]);
    }
}

/* --- Parts of rows --- */

/* A block's part of a row. The block goes over it by tiles: forwards to add up, and backwards to
 * apply, since the tiles read last are still in the cache. */
template <int TYPE, bool BACK, int THREADS, int DEEP_> struct trp__softmax_part {
    typedef trp__row_packs<TYPE> R;
    typedef typename R::pack pack;
    enum { DEEP = DEEP_, TILE = THREADS * R::V * DEEP };
    const trp__softmax &p;
    R r;
    uint64_t at[3];
    int64_t row, part;

    TRP__DEVICE void find(int64_t block)
    {
        int64_t from[3];
        row = block / p.parts;
        part = block % p.parts;
        trp__row_packs_find<3>(p.space, (uint32_t)row, p.io, from);
        const int shift = (int)(from[0] % R::V);
        const int64_t base = part * p.part;
        r.begin = part > 0 ? 0 : shift;
        r.end = (int)(part + 1 < p.parts ? p.part : p.n + shift - base);
        r.step = THREADS * R::V;
        TRP__EACH(o, 3)
            at[o] = p.io[o].at + (uint64_t)((from[o] - shift + base) * R::SIZE);
    }
    TRP__DEVICE void read(int tile, pack x[DEEP], pack dy[DEEP])
    {
        r.first = tile * TILE + (int)threadIdx.x * R::V;
        r.template read<DEEP>(at[0], BACK ? 0.0f : -INFINITY, x);
        if constexpr (BACK)
            r.template read<DEEP>(at[1], 0.0f, dy);
    }
    TRP__DEVICE int tiles() const
    {
        return (r.end + TILE - 1) / TILE;
    }
    TRP__DEVICE void add(trp__softmax_sum<float> *s, pack x[DEEP], pack dy[DEEP]) const
    {
        float top = s->most, some = 0;
        if constexpr (!BACK) {
            TRP__EACH(c, DEEP) {
                TRP__EACH(j, R::V)
                    top = fmax(top, x[c].get(j));
                x[c].forget();
            }
            if (top > s->most)
                s->rise(top);
            top = trp__softmax_base(s->most);
        }
        TRP__EACH(c, DEEP) {
            TRP__EACH(j, R::V) {
                if constexpr (BACK)
                    some += p.log ? dy[c].get(j) : dy[c].get(j) * x[c].get(j);
                else
                    some += trp__softmax_term<TYPE>(x[c].get(j) - top);
            }
        }
        s->add(some);
    }
    TRP__DEVICE void apply(float most, float sum, pack x[DEEP], pack dy[DEEP]) const
    {
        TRP__EACH(c, DEEP) {
            float y[R::V];
            TRP__EACH(j, R::V) {
                const float v = x[c].get(j), d = BACK ? dy[c].get(j) : 0.0f;
                if constexpr (BACK)
                    y[j] = p.log ? d - trp__softmax_exp<TYPE>(v) * sum : (d - sum) * v;
                else
                    y[j] = p.log ? (v - most) - sum : trp__softmax_term<TYPE>(v - most) * sum;
            }
            x[c].set(y);
            r.write(at[2], c, x[c]);
        }
    }
};

template <int TYPE, bool BACK> TRP__DEVICE void trp__softmax_parts_packed(const trp__softmax &p)
{
    typedef trp__softmax_part<TYPE, BACK, TRP__SOFTMAX_PACKED_THREADS, BACK ? 2 : 4> P;
    const int64_t number = p.first + blockIdx.x;
    const int64_t block = p.pass == TRP__SOFTMAX_APPLY ? p.last - number : number;
    P part = {p};
    typename P::pack x[P::DEEP], dy[P::DEEP];
    trp__softmax_sum<float> s;
    part.find(block);
    s.begin();
    if (p.pass == TRP__SOFTMAX_APPLY) {
        for (int64_t i = (int)threadIdx.x; i < p.parts; i += TRP__SOFTMAX_PACKED_THREADS)
            s.join(trp__at<float>(p.sums, (part.row * p.parts + i) * 2),
                   trp__at<float>(p.sums, (part.row * p.parts + i) * 2 + 1), BACK);
    } else {
        for (int t = 0; t < part.tiles(); t++) {
            part.read(t, x, dy);
            part.add(&s, x, dy);
        }
    }
    trp__softmax_together(&s, BACK);
    if (p.pass == TRP__SOFTMAX_SUMS) {
        if (threadIdx.x == 0) {
            trp__to<float>(p.sums, block * 2) = s.most;
            trp__to<float>(p.sums, block * 2 + 1) = s.sum;
        }
        return;
    }
    const float sum = BACK ? s.sum : trp__softmax_factor<TYPE>(p, s.sum);
    for (int t = part.tiles() - 1; t >= 0; t--) {
        part.read(t, x, dy);
        part.apply(s.most, sum, x, dy);
    }
}

/* --- Rows that the blocks of a cluster share --- */

template <int TYPE, bool BACK> TRP__DEVICE void trp__softmax_slices(const trp__softmax &p)
{
    typedef trp__row_tiles<TYPE, true, BACK ? 2 : 1> T;
    typedef trp__softmax_part<TYPE, BACK, 1, T::DEEP> P;
    TRP__DYNAMIC(trp__pack16, shared);
    const int blocks = (int)p.parts;
    P part = {p};
    T tiles;
    typename P::pack x[P::DEEP], dy[P::DEEP];
    trp__softmax_sum<float> s;
    part.find(p.first + blockIdx.x);
    tiles.begin = part.r.begin;
    tiles.end = part.r.end;
    tiles.shared = shared;
    tiles.other = BACK ? 0.0f : -INFINITY;
    for (int o = 0; o < (BACK ? 2 : 1); o++)
        tiles.at[o] = part.at[o];
    s.begin();
    const trp__slice_tiles ring = {tiles.tiles(), p.room};
    ring.begin(tiles);
    for (int t = 0; t < ring.tiles; t++) {
        const int slot = ring.next(t);
        tiles.take(0, t, slot, x);
        if constexpr (BACK)
            tiles.take(1, t, slot, dy);
        part.add(&s, x, dy);
        ring.copy_behind(tiles, t);
    }
    trp__softmax_together(&s, BACK);
    double all[2] = {(double)s.most, (double)s.sum};
    const double none[2] = {-INFINITY, 0};
    trp__cluster_gather(all, blocks, none, 0);
    trp__cluster_leave(blocks);
    const float top = trp__rows_together<trp__rows_most, float>((float)all[0], 32, -INFINITY);
    float sum = (float)all[1];
    if constexpr (!BACK)
        sum *= trp__exp((float)all[0] - trp__softmax_base(top));
    sum = trp__rows_together<trp__rows_sum, float>(sum, 32, 0.0f);
    if constexpr (!BACK)
        sum = trp__softmax_factor<TYPE>(p, sum);
    for (int t = ring.tiles - 1; t >= 0; t--) {
        const int slot = ring.before(t);
        tiles.take(0, t, slot, x);
        if constexpr (BACK)
            tiles.take(1, t, slot, dy);
        part.r.first = tiles.first;
        part.r.step = tiles.step;
        part.apply(top, sum, x, dy);
        ring.copy_before(tiles, t);
    }
    trp__cluster_end(blocks);
}

/* Launch bounds: threads of a block at most, and blocks of a multiprocessor at least. */
#define TRP__SOFTMAX_BOUNDS_2    TRP__SOFTMAX_THREADS, 3
#define TRP__SOFTMAX_BOUNDS_4    TRP__SOFTMAX_THREADS, 3
#define TRP__SOFTMAX_BOUNDS_8    1024
#define TRP__SOFTMAX_BOUNDS_BACK 1024
#define TRP__SOFTMAX_BOUNDS_HELD TRP__SLICE_THREADS

#define TRP__SOFTMAX_PACKED(name, bounds, kernel, ...)                                             \
    TRP__ENTRY(name, trp__softmax, (TRP__SOFTMAX_BOUNDS_##bounds),                                 \
               trp__softmax_##kernel<__VA_ARGS__>)

#define TRP__SOFTMAX_KERNELS(name, TYPE)                                                           \
    TRP__SOFTMAX_PACKED(name##_2, 2, forward, TYPE, 2)                                             \
    TRP__SOFTMAX_PACKED(name##_4, 4, forward, TYPE, 4)                                             \
    TRP__SOFTMAX_PACKED(name##_8, 8, forward, TYPE, 8)                                             \
    TRP__SOFTMAX_PACKED(name##_parts, 8, parts_packed, TYPE, false)                                \
    TRP__SOFTMAX_PACKED(name##_back_2, 2, backward, TYPE, 2)                                       \
    TRP__SOFTMAX_PACKED(name##_back_4, BACK, backward, TYPE, 4)                                    \
    TRP__SOFTMAX_PACKED(name##_back_parts, BACK, parts_packed, TYPE, true)                         \
    TRP__SOFTMAX_PACKED(name##_slices, HELD, slices, TYPE, false)                                  \
    TRP__SOFTMAX_PACKED(name##_back_slices, HELD, slices, TYPE, true)

TRP__SOFTMAX_KERNELS(trp_softmax_f32, TRP_F32)
TRP__SOFTMAX_KERNELS(trp_softmax_bf16, TRP_BF16)
TRP__SOFTMAX_KERNELS(trp_softmax_f16, TRP_F16)

#endif
