/* The largest elements of rows: a part of select.cuh. */
#ifndef TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_TILES_CUH
#define TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_TILES_CUH

#include "actors/dnn/kernels/common/cluster.cuh"
#include "actors/dnn/kernels/select/select.cuh"

/* --- Tiles --- */

/* The shared memory of a block. */
struct trp__select_shared {
    uint64_t list[TRP__SELECT_LIST];
    uint32_t bin[256];
    uint32_t count; /* length of the list */
    uint32_t digit, left,
        in; /* of the digit found: marks of its bin that are wanted, all of them */
};

/* Finds the bin of the wanted-th largest mark, once all bins are counted; warp 0 does so for all
 * threads. False: there are fewer marks. */
TRP__DEVICE bool trp__select_find(trp__select_shared *s, uint32_t wanted)
{
    enum { BINS = 8 };
    __syncthreads();
    if (threadIdx.x < 32) {
        const int lane = (int)threadIdx.x, top = 255 - lane * BINS;
        uint32_t own = 0;
        TRP__EACH(i, BINS)
            own += s->bin[top - i];
        uint32_t all = own;
        TRP__UNROLL
        for (int by = 1; by < 32; by *= 2) {
            const uint32_t before = __shfl_up_sync(0xffffffffu, all, by);
            all += lane >= by ? before : 0;
        }
        if (lane == 31 && all < wanted)
            s->in = 0;
        if (all - own < wanted && wanted <= all) {
            uint32_t above = all - own;
            int i = 0;
            for (; above + s->bin[top - i] < wanted; i++)
                above += s->bin[top - i];
            s->digit = (uint32_t)(top - i);
            s->left = wanted - above;
            s->in = s->bin[top - i];
        }
    }
    __syncthreads();
    return s->in != 0;
}

TRP__DEVICE void trp__select_clear(trp__select_shared *s)
{
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 256; i += (int)blockDim.x)
        s->bin[i] = 0;
    __syncthreads();
}

/* Finds the wanted-th largest of all threads' marks, COUNT each, or a smaller bound that no more
 * marks reach. 0: there are fewer marks. */
template <int COUNT, typename ELEMENTS>
TRP__DEVICE uint64_t trp__select_bound(trp__select_shared *s, ELEMENTS &e, uint32_t wanted)
{
    uint64_t prefix = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        trp__select_clear(s);
        e.forget();
        TRP__EACH(i, COUNT) {
            const uint64_t mark = e.mark(i);
            const bool same = shift == 56 || (mark >> (shift + 8)) == (prefix >> (shift + 8));
            if (mark && same)
                atomicAdd(&s->bin[(uint32_t)(mark >> shift) & 255], 1u);
        }
        if (!trp__select_find(s, wanted))
            return 0;
        prefix |= (uint64_t)s->digit << shift;
        wanted = s->left;
        if (s->in == wanted)
            break;
    }
    return prefix;
}

/* Returns a key that at least `wanted` of all threads' keys, COUNT each, reach. Leaves its lower
 * bits 0 once few more than `wanted` keys reach it. 0: there are fewer keys. */
template <int COUNT>
TRP__DEVICE uint32_t trp__select_guess(const uint32_t key[COUNT], uint32_t wanted)
{
    const uint32_t enough = wanted + wanted / 2 + 8;
    uint32_t bound = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        uint32_t count = 0;
        TRP__EACH(i, COUNT)
            count += (uint32_t)__syncthreads_count(key[i] >= (bound | bit));
        bound |= count >= wanted ? bit : 0;
        if (count >= wanted && count <= enough)
            break;
    }
    return bound;
}

/* Lists the marks that are not below a bound. Skips groups, and then elements, whose keys are below
 * that of the bound. Returns how many marks there are; only as many as fit are listed. */
template <int GROUPS, int GROUP, typename ELEMENTS>
TRP__DEVICE uint32_t trp__select_gather(trp__select_shared *s, ELEMENTS &e,
                                        const uint32_t most[GROUPS], uint64_t bound)
{
    const uint32_t least = (uint32_t)(bound >> 32);
    const typename ELEMENTS::limit limit = e.limit_of(least);
    __syncthreads();
    if (threadIdx.x == 0)
        s->count = 0;
    e.forget();
    __syncthreads();
    TRP__EACH(c, GROUPS) {
        if (most[c] < least)
            continue;
        TRP__EACH(j, GROUP) {
            if (e.is_below(c * GROUP + j, limit))
                continue;
            const uint64_t mark = e.mark(c * GROUP + j);
            if (mark == 0 || mark < bound)
                continue;
            const uint32_t at = atomicAdd(&s->count, 1u);
            if (at < TRP__SELECT_LIST)
                s->list[at] = mark;
        }
    }
    __syncthreads();
    return s->count;
}

/* Threads that look for the rank of a mark together. */
enum { TRP__SELECT_LANES = 4 };

/* Calls `give` with the rank and the mark, for each listed mark of a rank below `picked`. */
template <typename GIVE>
TRP__DEVICE void trp__select_rank(const trp__select_shared *s, uint32_t count, uint32_t picked,
                                  const GIVE &give)
{
    enum { LANES = TRP__SELECT_LANES };
    const uint32_t lane = threadIdx.x % LANES, marks = blockDim.x / LANES;
    for (uint32_t i = threadIdx.x / LANES; i - threadIdx.x / LANES < count; i += marks) {
        const uint64_t mine = i < count ? s->list[i] : 0;
        uint32_t rank = 0;
        for (uint32_t k = lane; k < count; k += LANES)
            rank += s->list[k] > mine;
        for (int by = 1; by < LANES; by *= 2)
            rank += __shfl_xor_sync(0xffffffffu, rank, by);
        if (lane == 0 && mine && rank < picked)
            give(rank, mine);
    }
}

/* Returns how many marks of a tile, which are in order, are larger than `mine`. */
TRP__DEVICE uint32_t trp__select_larger_ones(const uint64_t *list, uint32_t picked, uint64_t mine)
{
    uint32_t low = 0, high = picked;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (list[middle] > mine)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does the same as trp__select_rank(), but sorts a list of many marks. */
template <typename GIVE>
TRP__DEVICE void trp__select_sort(trp__select_shared *s, uint32_t count, uint32_t picked,
                                  const GIVE &give)
{
    enum { SHORT = 256 };
    const uint32_t thread = threadIdx.x, threads = blockDim.x;
    if (count <= SHORT) {
        trp__select_rank(s, count, picked, give);
        return;
    }
    uint32_t size = SHORT;
    while (size < count)
        size *= 2;
    for (uint32_t i = count + thread; i < size; i += threads)
        s->list[i] = 0;
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t by = run / 2; by > 0; by /= 2) {
            __syncthreads();
            for (uint32_t i = thread; i < size / 2; i += threads) {
                const uint32_t a = 2 * i - (i & (by - 1)), b = a + by;
                const uint64_t x = s->list[a], y = s->list[b];
                if ((x < y) == ((a & run) == 0)) {
                    s->list[a] = y;
                    s->list[b] = x;
                }
            }
        }
    }
    __syncthreads();
    for (uint32_t i = thread; i < picked && i < count; i += threads)
        give(i, s->list[i]);
}

/* Lists the `picked` largest marks of a tile, and some more; returns how many. A bound from the
 * largest key of each thread, or of each group of its elements, usually lets few more pass than are
 * wanted. The exact bound is searched only where more pass than the list holds: many marks have
 * equal keys, or large ones lie together. */
template <typename ELEMENTS>
TRP__DEVICE uint32_t trp__select_tile(trp__select_shared *s, ELEMENTS &e, uint32_t picked)
{
    enum { GROUPS = ELEMENTS::GROUPS, GROUP = ELEMENTS::COUNT / GROUPS };
    uint32_t most[GROUPS], bound = 0;
    TRP__EACH(c, GROUPS)
        most[c] = e.most(c);
    if (picked * 2 <= blockDim.x) {
        uint32_t one[1] = {0};
        TRP__EACH(c, GROUPS)
            one[0] = most[c] > one[0] ? most[c] : one[0];
        bound = trp__select_guess<1>(one, picked);
    } else if (picked <= blockDim.x * GROUPS) {
        bound = trp__select_guess<GROUPS>(most, picked);
    }
    uint32_t count = trp__select_gather<GROUPS, GROUP>(s, e, most, (uint64_t)bound << 32);
    if (count > TRP__SELECT_LIST) {
        const uint64_t exact = trp__select_bound<GROUPS * GROUP>(s, e, picked);
        count = trp__select_gather<GROUPS, GROUP>(s, e, most, exact);
    }
    return count;
}

/* Stores a mark by its rank in the row: as a result or, for later kernels, in a list in the
 * order of ranks. */
TRP__DEVICE void trp__select_give(const trp__select &p, const trp__select_row &r, int64_t row,
                                  uint32_t rank, uint64_t mark)
{
    const trp__rows_operand &y = p.io[TRP__SELECT_Y];
    const int64_t number = trp__select_number_of(mark);
    if (p.ranked) {
        trp__to<uint64_t>(p.ranked, row * p.picked + rank) = mark;
        return;
    }
    trp__select_put(p, r.at[TRP__SELECT_INDEX] + rank * p.io[TRP__SELECT_INDEX].step, number);
    if (p.used_y)
        trp__store_float<double>(y.at, r.at[TRP__SELECT_Y] + rank * y.step, y.type,
                                 r.value(number));
}

/* Finds the largest marks of a row whose blocks are a cluster: each block ranks the marks of its
 * tile among those of all. */
TRP__DEVICE void trp__select_meet(const trp__select &p, trp__select_shared *s,
                                  const trp__select_row &r, int64_t row)
{
    const uint32_t picked = (uint32_t)p.picked, all = (uint32_t)p.parts * picked;
    const uint32_t tile = (uint32_t)(blockIdx.x - row * p.parts);
    trp__cluster_arrive();
    trp__cluster_wait();
    for (uint32_t i = threadIdx.x; i < all; i += blockDim.x)
        s->list[i] = trp__at<uint64_t>(p.to, row * all + i);
    __syncthreads();
    enum { LANES = TRP__SELECT_LANES };
    const uint32_t lane = threadIdx.x % LANES, marks = blockDim.x / LANES;
    for (uint32_t i = threadIdx.x / LANES; i - threadIdx.x / LANES < picked; i += marks) {
        const uint64_t mine = i < picked ? s->list[tile * picked + i] : 0;
        uint32_t rank = 0;
        for (uint32_t k = lane; k < (uint32_t)p.parts; k += LANES)
            rank += trp__select_larger_ones(s->list + k * picked, picked, mine);
        for (int by = 1; by < LANES; by *= 2)
            rank += __shfl_xor_sync(0xffffffffu, rank, by);
        if (lane == 0 && mine && rank < picked)
            trp__select_give(p, r, row, rank, mine);
    }
}

/* Stores the largest of a tile's listed marks: as results if the row has one tile, else for the
 * kernel that merges tiles or for the cluster. */
TRP__DEVICE void trp__select_finish(const trp__select &p, trp__select_shared *s,
                                    const trp__select_row &r, int64_t row, uint32_t count)
{
    const uint32_t picked = (uint32_t)p.picked;
    if (p.parts == 1) {
        trp__select_sort(s, count, picked, [&](uint32_t rank, uint64_t mark) {
            trp__select_give(p, r, row, rank, mark);
        });
        return;
    }
    const int64_t place = (int64_t)blockIdx.x * picked;
    for (uint32_t i = count + threadIdx.x; i < picked; i += blockDim.x)
        trp__to<uint64_t>(p.to, place + i) = 0;
    trp__select_sort(s, count, picked, [&](uint32_t rank, uint64_t mark) {
        trp__to<uint64_t>(p.to, place + rank) = mark;
    });
    if (p.meets)
        trp__select_meet(p, s, r, row);
}

/* A thread's elements of a tile, in runs of 8. Elements outside the row have the lowest key. Places
 * count from the tile's first element. */
template <int TYPE> struct trp__select_elements {
    enum { COUNT = TRP__SELECT_EACH, GROUPS = COUNT / TRP__ROWS_RUN };
    trp__pack<TYPE, TRP__ROWS_RUN> raw[GROUPS];
    int64_t begin;
    int32_t low, high; /* places inside the row are from `low` to before `high` */
    uint32_t nan;

    TRP__DEVICE trp__select_elements(const trp__select_row &r) : begin(0), low(0), high(0), nan(r.nan)
    {
    }
    TRP__DEVICE void read(const trp__select &p, const trp__select_row &r, int64_t tile)
    {
        const uint32_t turned = r.turned(TYPE);
        begin = tile * p.tile - r.shift;
        low = begin < 0 ? (int32_t)-begin : 0;
        high = (int32_t)(p.n - begin < p.tile ? p.n - begin : p.tile);
        const uint64_t at = r.x + (uint64_t)(begin * (TYPE == TRP_F32 ? 4 : 2));
        TRP__EACH(c, GROUPS) { /* all loads are in flight together */
            if (is_whole(p, c))
                raw[c].load(at, place(c * TRP__ROWS_RUN), TYPE);
            else
                raw[c].clear();
        }
        TRP__EACH(c, GROUPS) {
            if (!is_whole(p, c))
                read_some(r, c, turned);
            raw[c].flip(turned);
        }
    }
    TRP__DEVICE bool is_whole(const trp__select &p, int c) const
    {
        const int32_t k = place(c * TRP__ROWS_RUN);
        return p.runs && k >= low && k + TRP__ROWS_RUN <= high;
    }
    TRP__DEVICE void read_some(const trp__select_row &r, int c, uint32_t turned)
    {
        raw[c].fill(nan ? -(float)INFINITY : (float)NAN);
        raw[c].flip(turned);
        TRP__EACH(j, TRP__ROWS_RUN) {
            const int32_t k = place(c * TRP__ROWS_RUN + j);
            if (k >= low && k < high)
                raw[c].put(j, r.x, (begin + k) * r.step);
        }
    }
    TRP__DEVICE void forget()
    {
        TRP__EACH(c, GROUPS)
            raw[c].forget();
    }
    TRP__DEVICE int32_t place(int i) const
    {
        const int32_t run = i / TRP__ROWS_RUN * (int32_t)blockDim.x + (int32_t)threadIdx.x;
        return run * TRP__ROWS_RUN + i % TRP__ROWS_RUN;
    }
    TRP__DEVICE uint32_t key(int i) const
    {
        return trp__select_key(raw[i / TRP__ROWS_RUN].get(i % TRP__ROWS_RUN), false, nan);
    }
    TRP__DEVICE uint64_t mark(int i) const
    {
        const int32_t k = place(i);
        return k >= low && k < high ? trp__select_mark(key(i), begin + k) : 0;
    }
    /* Returns the element that has a key, for comparisons; -infinity for keys below those of all
     * elements. */
    typedef float limit;
    TRP__DEVICE float limit_of(uint32_t least) const
    {
        const uint32_t lowest = 0x007fffffu, highest = 0xff800000u; /* keys of infinities */
        const uint32_t k = least < lowest ? lowest : least > highest ? highest : least;
        return trp__f32_from_bits(k & 0x80000000u ? k ^ 0x80000000u : ~k);
    }
    TRP__DEVICE bool is_below(int i, float least) const
    {
        return raw[i / TRP__ROWS_RUN].get(i % TRP__ROWS_RUN) < least;
    }
    /* Returns the largest key of a group, or a larger one. */
    TRP__DEVICE uint32_t most(int c) const
    {
        return trp__select_key(nan ? raw[c].template most<true>() : raw[c].template most<false>(),
                               false, nan);
    }
};

template <int TYPE> TRP__DEVICE void trp__select_tiles(const trp__select &p, trp__select_shared *s)
{
    const int64_t row = blockIdx.x / (uint32_t)p.parts;
    const trp__select_row r(p, p.first + row);
    trp__select_elements<TYPE> e(r);
    e.read(p, r, blockIdx.x - row * p.parts);
    trp__select_finish(p, s, r, row, trp__select_tile(s, e, (uint32_t)p.picked));
}

#define TRP__SELECT_TILES(name, type)                                                              \
    TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_tiles_##name(const TRP__CONSTANT trp__select p)      \
    {                                                                                              \
        __shared__ trp__select_shared s;                                                           \
        trp__select_tiles<type>(p, &s);                                                            \
    }
TRP__SELECT_KERNELS(trp_select_tiles, TRP__SELECT_TILES)

/* A thread's marks, of those that earlier kernels have left of a row. */
struct trp__select_left {
    enum { COUNT = TRP__SELECT_MARKS, GROUPS = 4 };
    uint64_t own[COUNT];

    TRP__DEVICE void forget()
    {
    }
    typedef uint32_t limit;
    TRP__DEVICE uint32_t limit_of(uint32_t least) const
    {
        return least;
    }
    TRP__DEVICE bool is_below(int i, uint32_t least) const
    {
        return key(i) < least;
    }
    TRP__DEVICE uint32_t key(int i) const
    {
        return (uint32_t)(own[i] >> 32);
    }
    TRP__DEVICE uint64_t mark(int i) const
    {
        return own[i];
    }
    TRP__DEVICE uint32_t most(int c) const
    {
        uint32_t out = 0;
        TRP__EACH(j, COUNT / GROUPS) {
            const uint32_t other = key(c * (COUNT / GROUPS) + j);
            out = other > out ? other : out;
        }
        return out;
    }
};

TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_merge(const TRP__CONSTANT trp__select p)
{
    __shared__ trp__select_shared s;
    const int64_t row = blockIdx.x / (uint32_t)p.parts, tile = blockIdx.x - row * p.parts;
    const int64_t begin = tile * blockDim.x * TRP__SELECT_MARKS;
    const trp__select_row r(p, p.first + row);
    trp__select_left e;
    TRP__EACH(i, TRP__SELECT_MARKS) {
        const int64_t k = begin + (int64_t)i * blockDim.x + threadIdx.x;
        e.own[i] = k < p.length ? trp__at<uint64_t>(p.from, row * p.length + k) : 0;
    }
    trp__select_finish(p, &s, r, row, trp__select_tile(&s, e, (uint32_t)p.picked));
}

#endif
