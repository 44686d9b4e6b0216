/* Forward norms of rows of one type that the blocks of a cluster share, a slice each: see
 * kernels/common/slices.cuh. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_SLICES_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_SLICES_CUH

#include "actors/dnn/kernels/norm/norm_packs.cuh"
#include "actors/dnn/kernels/common/slices.cuh"

template <int TYPE, typename A> struct trp__norm_slice : trp__norm_packs<TYPE, A> {
    typedef trp__norm_packs<TYPE, A> rows;
    typedef typename rows::packs packs;

    TRP__DEVICE void find_slice(const trp__norm &p)
    {
        const int64_t number = p.first + blockIdx.x;
        int64_t from[2];
        rows::row = number / p.blocks;
        const int block = (int)(number - rows::row * p.blocks), base = block * p.slice;
        trp__row_packs_find<2>(p.space, (uint32_t)rows::row, p.io, from);
        packs::begin = 0;
        packs::end = count(p, block);
        rows::thread = (int)threadIdx.x;
        rows::leads = block == 0 && rows::thread == 0;
        rows::from = base;
        rows::x = p.io[TRP__NORM_X].at + (uint64_t)((from[TRP__NORM_X] + rows::from) * packs::SIZE);
        rows::y = p.io[TRP__NORM_Y].at + (uint64_t)((from[TRP__NORM_Y] + rows::from) * packs::SIZE);
    }
    /* Returns the elements of a block's slice. */
    TRP__DEVICE int count(const trp__norm &p, int block) const
    {
        return block + 1 < p.blocks ? p.slice : (int)p.n - block * p.slice;
    }
    /* Joins the means and the sums of squared differences of all slices into those of the row, and
     * settles its statistics; false: see settle(). Where nothing is centred, the means are 0. */
    TRP__DEVICE bool join(const trp__norm &p, double mean, double squares)
    {
        const int lane = (int)threadIdx.x % 32;
        const double none[2] = {0, 0}, share = 1 / (double)p.n;
        double all[2] = {mean, squares};
        trp__cluster_gather(all, p.blocks, none, 0);
        trp__cluster_leave(p.blocks);
        const double own = lane < p.blocks ? (double)count(p, lane) : 0.0;
        mean = trp__rows_together<trp__rows_sum, double>(own * all[0], 32, 0.0) * share;
        const double away = all[0] - mean;
        squares = trp__rows_together<trp__rows_sum, double>(all[1] + own * away * away, 32, 0.0);
        rows::mean = (float)mean;
        rows::more = (float)(mean - (double)rows::mean);
        return rows::settle(p, (float)(squares * share));
    }
};

template <int TYPE> TRP__DEVICE void trp__norm_slices(const trp__norm &p)
{
    typedef trp__norm_slice<TYPE, trp__norm_each> R;
    typedef trp__row_tiles<TYPE, false, 1> T;
    TRP__DYNAMIC(trp__pack16, shared);
    R r;
    T tiles;
    typename R::pack v[T::DEEP];
    float s[2] = {0, 0};
    r.find_slice(p);
    tiles.begin = r.begin;
    tiles.end = r.end;
    tiles.shared = shared;
    tiles.at[0] = r.x;
    tiles.other = 0;
    const trp__slice_tiles ring = {tiles.tiles(), p.room};
    ring.begin(tiles);
    r.mean = 0;
    for (int t = 0; t < ring.tiles; t++) {
        tiles.take(0, t, ring.next(t), v);
        r.first = tiles.first;
        r.step = tiles.step;
        if (t == 0 && p.centred) { /* the mean of the first tile is near that of the slice */
            const int own = tiles.end < tiles.size() ? tiles.end : tiles.size();
            r.mean = trp__rows_together<trp__rows_sum, float>(r.template sum<T::DEEP>(v),
                                                              p.threads, 0.0f) /
                     (float)own;
        }
        r.template add<T::DEEP>(v, s);
        ring.copy_behind(tiles, t);
    }
    trp__rows_together<trp__rows_sum, float, 2>(s, p.threads, 0.0f);
    const double move = p.centred ? (double)s[0] / (double)r.end : 0.0;
    if (r.join(p, (double)r.mean + move, (double)s[1] - (double)s[0] * move)) {
        for (int t = ring.tiles - 1; t >= 0; t--) {
            tiles.take(0, t, ring.before(t), v);
            r.first = tiles.first;
            TRP__EACH(c, T::DEEP)
                r.apply(p, c, &v[c]);
            ring.copy_before(tiles, t);
        }
    } else if (r.from == 0) { /* the first block does the whole row; all blocks have read it */
        r.wide(p);
    }
    trp__cluster_end(p.blocks);
}

/* Slices that the registers of a block hold. */
template <int TYPE, typename A> TRP__DEVICE void trp__norm_held(const trp__norm &p)
{
    typedef trp__norm_slice<TYPE, A> R;
    enum { PACKS = TRP__NORM_HELD_PACKS };
    R r;
    typename R::pack v[PACKS];
    float s[2] = {0, 0};
    r.find_slice(p);
    r.first = (int)threadIdx.x * R::V;
    r.step = p.threads * R::V;
    r.template read<PACKS>(r.x, 0.0f, v);
    r.affine.begin(p, r.row, 0, r.thread);
    r.mean = 0;
    if (p.centred)
        r.mean = trp__rows_together<trp__rows_sum, float>(r.template sum<PACKS>(v), p.threads,
                                                          0.0f) /
                 (float)r.end;
    r.template add<PACKS>(v, s);
    trp__rows_together<trp__rows_sum, float, 2>(s, p.threads, 0.0f);
    const double move = p.centred ? (double)s[0] / (double)r.end : 0.0;
    if (r.join(p, (double)r.mean + move, (double)s[1] - (double)s[0] * move)) {
        TRP__EACH(c, PACKS)
            r.apply(p, c, &v[c]);
    } else if (r.from == 0) {
        r.wide(p);
    }
    trp__cluster_end(p.blocks);
}

#define TRP__NORM_SLICES(name, TYPE)                                                               \
    TRP__ENTRY(name##_slices, trp__norm, (TRP__SLICE_THREADS), trp__norm_slices<TYPE>)
#define TRP__NORM_HELD(name, TYPE, AFFINE)                                                         \
    TRP__ENTRY(name##_held, trp__norm, (TRP__NORM_HELD_THREADS, 2), trp__norm_held<TYPE, AFFINE>)

TRP__NORM_SLICES(trp_norm_f32_each, TRP_F32)
TRP__NORM_SLICES(trp_norm_bf16_each, TRP_BF16)
TRP__NORM_SLICES(trp_norm_f16_each, TRP_F16)

TRP__NORM_HELD(trp_norm_f32_each, TRP_F32, trp__norm_each)
TRP__NORM_HELD(trp_norm_bf16_each, TRP_BF16, trp__norm_each)
TRP__NORM_HELD(trp_norm_f16_each, TRP_F16, trp__norm_each)
TRP__NORM_HELD(trp_norm_f32_row, TRP_F32, trp__norm_row_affine<false>)
TRP__NORM_HELD(trp_norm_bf16_row, TRP_BF16, trp__norm_row_affine<false>)
TRP__NORM_HELD(trp_norm_f16_row, TRP_F16, trp__norm_row_affine<false>)

#endif
