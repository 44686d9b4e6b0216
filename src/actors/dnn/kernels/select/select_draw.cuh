/* Classes drawn from rows: a part of select.cuh. */
#ifndef TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_DRAW_CUH
#define TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_DRAW_CUH

#include "actors/dnn/kernels/select/select_tiles.cuh"

/* --- Drawing --- */

TRP__DEVICE double trp__select_real(const trp__select_number &v, double none)
{
    return !v.used ? none : v.at ? trp__load_float<double>(v.at, 0, v.type) : v.value;
}

TRP__DEVICE uint64_t trp__select_word(const trp__select_number &v)
{
    return !v.used ? 0 : v.at ? trp__at<uint64_t>(v.at, 0) : v.bits;
}

/* The draw from a row: its parameters, and those of the shares of classes. */
struct trp__select_draws {
    trp__pick_sample what;
    trp__pick_shares shares;
    float most;
    double uniform, reach; /* u; the sum of shares that the drawn class is the first to exceed */

    TRP__DEVICE void set(const trp__select &p, int64_t row)
    {
        what.seed = trp__select_word(p.number[TRP__SELECT_SEED]);
        what.offset = trp__select_word(p.number[TRP__SELECT_OFFSET]);
        what.temperature = trp__select_real(p.number[TRP__SELECT_TEMPERATURE], 1);
        what.limit = trp__select_real(p.number[TRP__SELECT_LIMIT], 1);
        what.count = (int64_t)trp__select_word(p.number[TRP__SELECT_COUNT]);
        what.sorted = p.number[TRP__SELECT_COUNT].used || p.number[TRP__SELECT_LIMIT].used;
        shares = trp__pick_shares_of(what.temperature, p.n);
        uniform = trp__pick_uniform(&what, row);
    }
    TRP__DEVICE bool is_fixed() const
    {
        return trp__pick_is_fixed(&what, (double)most);
    }
    TRP__DEVICE uint64_t share(float x) const
    {
        return trp__pick_share(&shares, x - most);
    }
};

/* Returns the sum of the values of all lanes up to this one. */
TRP__DEVICE uint64_t trp__select_upto(uint64_t v)
{
    for (int by = 1; by < 32; by *= 2) {
        const uint64_t before = __shfl_up_sync(0xffffffffu, v, by);
        v += (int)threadIdx.x % 32 >= by ? before : 0;
    }
    return v;
}

/* Returns the sum of the values of all threads up to this one. All threads of the block, at most
 * 1024, call this. */
TRP__DEVICE uint64_t trp__select_sums(uint64_t v, uint64_t *total)
{
    __shared__ uint64_t part[32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32;
    v = trp__select_upto(v);
    __syncthreads();
    if (lane == 31)
        part[warp] = v;
    __syncthreads();
    *total = 0;
    for (int i = 0; i < warps; i++) {
        v += i < warp ? part[i] : 0;
        *total += part[i];
    }
    return v;
}

/* Adds up the shares of each part of a row, with a warp for each part. */
template <int TYPE> TRP__DEVICE void trp__select_parts(const trp__select &p)
{
    const int64_t warps = (int)blockDim.x / 32, blocks = (p.shares + warps - 1) / warps;
    const int64_t row = blockIdx.x / blocks;
    const int64_t part = (blockIdx.x - row * blocks) * warps + (int)threadIdx.x / 32;
    const trp__select_row r(p, p.first + row);
    const uint64_t best = trp__at<uint64_t>(p.from, row * p.length);
    trp__select_draws d;
    d.set(p, p.first + row);
    d.most = (float)r.value(trp__select_number_of(best));
    const int64_t begin = part * p.part, end = begin + p.part < p.n ? begin + p.part : p.n;
    if (part >= p.shares || d.is_fixed())
        return;
    uint64_t sum = 0;
#pragma unroll 4
    for (int64_t k = begin + (int)threadIdx.x % 32; k < end; k += 32)
        sum += d.share(trp__load_float<float>(r.x, k * r.step, TYPE));
    for (int by = 16; by > 0; by /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0)
        trp__to<uint64_t>(p.sums, row * p.shares + part) = sum;
}

#define TRP__SELECT_SHARES_KERNEL(name, type)                                                      \
    TRP__ENTRY(trp_select_shares_##name, trp__select, (TRP__SELECT_THREADS),                       \
               trp__select_parts<type>)
TRP__SELECT_KERNELS(trp_select_shares, TRP__SELECT_SHARES_KERNEL)

/* Returns the sum of the shares of all parts of a row. */
TRP__DEVICE uint64_t trp__select_total(const trp__select &p, int64_t row)
{
    uint64_t sum = 0, total;
    for (int64_t i = (int)threadIdx.x; i < p.shares; i += (int)blockDim.x)
        sum += trp__at<uint64_t>(p.sums, row * p.shares + i);
    trp__select_sums(sum, &total);
    return total;
}

/* The operator max, for which a NaN is larger than all numbers. */
struct trp__select_larger {
    template <typename T> static TRP__DEVICE T of(T a, T b)
    {
        return b > a || b != b ? b : a;
    }
};

/* Sums of the shares of a tile. Lane c * warps + i of each warp has the sum of the runs c of warp
 * i, which precede the runs c + 1 of all warps. */
struct trp__select_lanes {
    uint64_t own, upto; /* sum of the lane; sum of all lanes up to it */
};

/* Finds these sums and, as `own`, those of each run of a thread. Returns the sum of the tile. */
template <int TYPE, int GROUPS>
TRP__DEVICE uint64_t trp__select_tile_sums(uint64_t sums[32], trp__select_elements<TYPE> &e,
                                           const trp__select_draws &d, uint64_t own[GROUPS],
                                           trp__select_lanes *lanes)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32;
    e.forget();
    __syncthreads();
    TRP__EACH(c, GROUPS) {
        own[c] = 0;
        TRP__EACH(j, TRP__ROWS_RUN)
            own[c] += d.share(e.raw[c].get(j));
        uint64_t sum = own[c];
        for (int by = 16; by > 0; by /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, by);
        if (lane == 0)
            sums[c * warps + warp] = sum;
    }
    __syncthreads();
    lanes->own = lane < GROUPS * warps ? sums[lane] : 0;
    lanes->upto = trp__select_upto(lanes->own);
    return __shfl_sync(0xffffffffu, lanes->upto, 31);
}

/* Tells whether a sum exceeds `reach`, but does not without its last term. */
TRP__DEVICE bool trp__select_is_there(uint64_t sum, uint64_t last, double reach)
{
    return (double)sum > reach && !((double)(sum - last) > reach);
}

/* Writes the number of the first element of a tile at which the sum of shares, with those `before`
 * the tile, exceeds `reach`. The warp that has this element finds the lane, and the lane the
 * element. */
template <int TYPE, int GROUPS>
TRP__DEVICE void trp__select_reached(const trp__select &p, const trp__select_row &r,
                                     const trp__select_lanes &lanes,
                                     const trp__select_elements<TYPE> &e,
                                     const trp__select_draws &d, const uint64_t own[GROUPS],
                                     uint64_t before)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32;
    int which = trp__select_is_there(before + lanes.upto, lanes.own, d.reach) ? lane : -1;
    for (int by = 16; by > 0; by /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, which, by);
        which = other > which ? other : which;
    }
    before += __shfl_sync(0xffffffffu, lanes.upto - lanes.own, which);
    if (which % warps != warp)
        return;
    trp__pack<TYPE, TRP__ROWS_RUN> run = e.raw[0];
    uint64_t mine = own[0];
    TRP__UNROLL
    for (int c = 1; c < GROUPS; c++) { /* a variable index would move the array to memory */
        mine = c == which / warps ? own[c] : mine;
        TRP__EACH(k, run.WORDS)
            run.word[k] = c == which / warps ? e.raw[c].word[k] : run.word[k];
    }
    uint64_t sum = trp__select_upto(mine) + before;
    if (!trp__select_is_there(sum, mine, d.reach))
        return;
    sum -= mine;
    int at = -1;
    TRP__EACH(j, TRP__ROWS_RUN) {
        sum += d.share(run.get(j));
        at = at < 0 && (double)sum > d.reach ? j : at;
    }
    trp__select_put(p, r.at[TRP__SELECT_INDEX],
                    e.begin + e.place(which / warps * TRP__ROWS_RUN + at));
}

/* Draws a class of a row by a cluster, each of whose blocks has some tiles, ideally one. Finds the
 * largest logit, the sum of the shares of each block, and then the block, the tile and the element
 * at which the sum of shares exceeds u times the total. */
template <int TYPE> TRP__DEVICE void trp__select_class(const trp__select &p)
{
    enum { GROUPS = trp__select_elements<TYPE>::GROUPS };
    static_assert(GROUPS * TRP__SELECT_THREADS / 32 <= 32, "a lane for each");
    __shared__ uint64_t sums[32];
    __shared__ trp__select_draws draws;
    const int blocks = (int)p.parts, block = (int)(blockIdx.x % (uint32_t)p.parts), tiles = (int)p.part;
    const int64_t row = blockIdx.x / (uint32_t)p.parts, first = (int64_t)block * tiles;
    const trp__select_row r(p, p.first + row);
    const double least[TRP__CLUSTER_NUMBERS] = {-INFINITY, 0}, none[TRP__CLUSTER_NUMBERS] = {};
    double both[TRP__CLUSTER_NUMBERS] = {};
    uint64_t own[GROUPS], sum = 0, before = 0, all = 0;
    trp__select_elements<TYPE> e(r);
    float most = -(float)INFINITY;
    e.read(p, r, first);
    if (threadIdx.x == 0) /* while the loads are in flight */
        draws.set(p, p.first + row);
    trp__select_lanes lanes = {};
    for (int t = 0; t < tiles; t++) {
        if (t > 0)
            e.read(p, r, first + t);
        TRP__EACH(c, GROUPS)
            most = trp__select_larger::of(most, e.raw[c].template most<true>());
    }
    both[0] = (double)trp__rows_together<trp__select_larger>(most, (int)blockDim.x,
                                                             -(float)INFINITY);
    __syncthreads();
    trp__select_draws d;
    d.shares = draws.shares;
    d.uniform = draws.uniform;
    d.what.temperature = draws.what.temperature;
    trp__cluster_gather(both, blocks, least, 0);
    for (int by = 16; by > 0; by /= 2)
        both[0] = trp__select_larger::of(both[0], __shfl_xor_sync(0xffffffffu, both[0], by));
    d.most = (float)both[0];
    if (d.is_fixed()) {
        uint64_t best = block == 0 ? trp__select_first<TYPE, 2>(r, -r.shift, p.n, p.runs != 0) : 0;
        best = trp__rows_together<trp__select_max, uint64_t>(best, (int)blockDim.x, 0);
        if (block == 0 && threadIdx.x == 0)
            trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
        trp__cluster_leave(blocks);
        trp__cluster_end(blocks);
        return;
    }
    for (int t = 0; t < tiles; t++) {
        if (tiles > 1)
            e.read(p, r, first + t);
        sum += trp__select_tile_sums<TYPE, GROUPS>(sums, e, d, own, &lanes);
    }
    memcpy(both, &sum, sizeof sum);
    trp__cluster_gather(both, blocks, none, 1);
    trp__cluster_leave(blocks);
    memcpy(&sum, both, sizeof sum);
    for (int i = 0; i < blocks; i++) {
        const uint64_t other = __shfl_sync(0xffffffffu, sum, i);
        before += i < block ? other : 0;
        all += other;
    }
    d.reach = d.uniform * (double)all;
    for (int t = 0; t < tiles && !((double)before > d.reach); t++) {
        uint64_t here = __shfl_sync(0xffffffffu, sum, block);
        if (tiles > 1) {
            e.read(p, r, first + t);
            here = trp__select_tile_sums<TYPE, GROUPS>(sums, e, d, own, &lanes);
        }
        if ((double)(before + here) > d.reach)
            trp__select_reached<TYPE, GROUPS>(p, r, lanes, e, d, own, before);
        before += here;
    }
    trp__cluster_end(blocks);
}

#define TRP__SELECT_CLASS(name, type)                                                              \
    TRP__ENTRY(trp_select_class_##name, trp__select, (TRP__SELECT_BOUND), trp__select_class<type>)
TRP__SELECT_KERNELS(trp_select_class, TRP__SELECT_CLASS)

/* Returns how many marks of a row are not below a bound, or the sum of their shares. */
TRP__DEVICE uint64_t trp__select_above(const trp__select &p, const trp__select_row &r,
                                       const trp__select_draws &d, uint64_t bound, bool count)
{
    uint64_t sum = 0, total;
    for (int64_t k = (int)threadIdx.x; k < p.n; k += (int)blockDim.x) {
        const float x = trp__load_float<float>(r.x, k * r.step, r.type);
        if (trp__select_mark(trp__select_key(x, r.smallest, r.nan), k) >= bound)
            sum += count ? 1 : d.share(x);
    }
    trp__select_sums(sum, &total);
    return total;
}

/* Finds the largest bound that enough marks reach: at least `need` marks with `count`, else marks
 * whose shares add up to at least `need` or, with `exceed`, to more. The bound is the mark of an
 * element. */
TRP__DEVICE uint64_t trp__select_search(const trp__select &p, const trp__select_row &r,
                                        const trp__select_draws &d, double need, bool count,
                                        bool exceed)
{
    int low = 0; /* bits of the lower half from this one on are set in all marks */
    while ((p.n - 1) >> low != 0)
        low++;
    uint64_t bound = 0;
    for (int bit = 63; bit >= 0; bit--) {
        const uint64_t next = bound | (uint64_t)1 << bit;
        bool enough = bit < 32 && bit >= low;
        if (!enough) {
            const double sum = (double)trp__select_above(p, r, d, next, count);
            enough = exceed ? sum > need : sum >= need;
        }
        bound = enough ? next : bound;
    }
    return bound;
}

/* Draws a class of a row from its largest marks, which lie in order at `from`. A row of which more
 * marks are needed, which is rare, is searched bit by bit. */
TRP__GLOBAL(TRP__SELECT_DRAW) trp_select_draw_ranked(const TRP__CONSTANT trp__select p)
{
    __shared__ uint64_t sums[TRP__SELECT_MOST];
    __shared__ uint32_t first;
    const int64_t row = p.first + blockIdx.x;
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    const uint64_t list = p.from + (uint64_t)blockIdx.x * (uint64_t)p.picked * sizeof(uint64_t);
    const trp__select_row r(p, row);
    const uint64_t best = trp__at<uint64_t>(list, 0);
    trp__select_draws d;
    d.set(p, row);
    d.most = (float)r.value(trp__select_number_of(best));
    const int64_t some = d.what.count > 0 && d.what.count < p.n ? d.what.count : p.n;
    const int ranked = p.picked < some ? p.picked : (int)some;
    uint64_t head = 0, total, sum;
    if (d.is_fixed()) {
        if (thread == 0)
            trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
        return;
    }
    for (int i = 0; i < ranked; i += threads) {
        const bool inside = i + thread < ranked;
        const uint64_t mark = inside ? trp__at<uint64_t>(list, i + thread) : 0;
        sum = trp__select_sums(inside ? d.share((float)r.value(trp__select_number_of(mark))) : 0, &total);
        if (inside)
            sums[i + thread] = head + sum;
        head += total;
    }
    total = head;
    if (some > ranked) {
        const uint64_t last =
            some < p.n ? trp__select_search(p, r, d, (double)some, true, false) : 0;
        total = p.sums ? trp__select_total(p, blockIdx.x)
                       : trp__select_above(p, r, d, last, false);
    }
    if (d.what.limit < 1) {
        const double enough = d.what.limit * (double)total;
        if (ranked == some || (double)head >= enough) {
            __syncthreads();
            if (thread == 0)
                first = 0;
            __syncthreads();
            for (int i = thread; i < ranked; i += threads) {
                if (i == 0 || (double)sums[i - 1] < enough)
                    atomicAdd(&first, 1u);
            }
            __syncthreads();
            total = sums[first - 1];
        } else {
            total = trp__select_above(p, r, d, trp__select_search(p, r, d, enough, false, false),
                                      false);
        }
    }
    const double reach = d.uniform * (double)total;
    uint64_t mark;
    if ((double)head > reach) {
        __syncthreads();
        if (thread == 0)
            first = 0;
        __syncthreads();
        for (int i = thread; i < ranked; i += threads) {
            if (!((double)sums[i] > reach))
                atomicAdd(&first, 1u);
        }
        __syncthreads();
        mark = trp__at<uint64_t>(list, first);
    } else {
        mark = trp__select_search(p, r, d, reach, false, true);
    }
    if (thread == 0)
        trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(mark));
}

#endif
