#ifndef TRP_ACTORS_DNN_KERNELS_SELECT_CUH
#define TRP_ACTORS_DNN_KERNELS_SELECT_CUH

#include "actors/dnn/kernels/packs.cuh"
#include "actors/dnn/kernels/select.h"
#include "actors/dnn/train_pick.h"

/* --- Marks --- */

TRP__DEVICE uint32_t trp__select_key(float value, bool smallest, uint32_t nan)
{
    const uint32_t bits = trp__f32_bits(value + 0.0F); /* -0 becomes 0 */
    const uint32_t key = bits ^ (uint32_t)((int32_t)bits >> 31 | INT32_MIN);
    return value != value ? nan : smallest ? ~key : key;
}

TRP__DEVICE uint64_t trp__select_mark(uint32_t key, int64_t number)
{
    return (uint64_t)key << 32 | (0xffffffffu - (uint32_t)number);
}

TRP__DEVICE int64_t trp__select_number_of(uint64_t mark)
{
    return (int64_t)(0xffffffffu - (uint32_t)mark);
}

struct trp__select_max {
    static TRP__DEVICE uint64_t of(uint64_t a, uint64_t b)
    {
        return a > b ? a : b;
    }
};

struct trp__select_row {
    int64_t at[TRP__SELECT_OPERANDS]; /* where it begins, in elements */
    uint64_t x;
    int64_t step;
    int shift; /* elements between a multiple of 8 and the first one */
    uint8_t type;
    bool smallest;
    uint32_t nan;

    TRP__DEVICE trp__select_row(const trp__select &p, int64_t row)
    {
        const trp__rows_operand &o = p.io[TRP__SELECT_X];
        trp__rows_find<TRP__SELECT_OPERANDS>(p.space, row, p.io, at);
        x = o.at + (uint64_t)(at[TRP__SELECT_X] * trp__element_bytes(o.type));
        step = o.step;
        shift = p.runs ? (int)(at[TRP__SELECT_X] % TRP__ROWS_RUN) : 0;
        type = o.type;
        smallest = p.smallest != 0;
        nan = p.smallest && !p.nan_first ? 0 : 0xffffffffu;
    }
    /* Its element k, one by one. */
    template <int TYPE> TRP__DEVICE uint32_t key(int64_t k) const
    {
        if constexpr (TYPE == TRP_DTYPE_NONE) {
            const uint32_t key =
                (uint32_t)(int32_t)trp__load<double>(x, k * step, type) ^ 0x80000000u;
            return smallest ? ~key : key;
        } else {
            return trp__select_key(trp__load_float<float>(x, k * step, TYPE), smallest, nan);
        }
    }
    TRP__DEVICE double value(int64_t k) const
    {
        return trp__load_float<double>(x, k * step, type);
    }
};

TRP__DEVICE void trp__select_put(const trp__select &p, int64_t at, int64_t number)
{
    const trp__rows_operand &o = p.io[TRP__SELECT_INDEX];
    if (o.type == TRP_I64)
        trp__to<int64_t>(o.at, at) = number;
    else
        trp__to<int32_t>(o.at, at) = (int32_t)number;
}

/* --- The first largest --- */

/* Of elements from `begin` to before `end`; a NaN wins. A thread reads runs of 8, DEEP of them at a time, where
 * begin + shift is a multiple of 8: then begin may be as low as -shift. */
template <int TYPE, int DEEP>
TRP__DEVICE uint64_t trp__select_first(const trp__select_row &r, int64_t begin, int64_t end,
                                       bool runs)
{
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    uint64_t best = 0;
    if (!runs || TYPE == TRP_DTYPE_NONE) {
#pragma unroll 4
        for (int64_t k = begin + thread; k < end; k += threads)
            best = trp__select_max::of(best, trp__select_mark(r.key<TYPE>(k), k));
        return best;
    }
    if constexpr (TYPE != TRP_DTYPE_NONE) {
        const uint32_t turned = !r.smallest ? 0 : TYPE == TRP_F32 ? 0x80000000u : 0x80008000u;
        float most = 0;
        int64_t where = -1; /* none yet */
        for (int64_t c = begin + thread * TRP__ROWS_RUN; c < end;
             c += (int64_t)threads * TRP__ROWS_RUN * DEEP) {
            trp__pack<TYPE, TRP__ROWS_RUN> raw[DEEP];
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                const int64_t k = c + (int64_t)d * threads * TRP__ROWS_RUN;
                if (k >= 0 && k + TRP__ROWS_RUN <= end)
                    raw[d].load(r.x, k, TYPE);
                else
                    raw[d].clear();
            }
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                const int64_t k = c + (int64_t)d * threads * TRP__ROWS_RUN;
                if (k >= 0 && k + TRP__ROWS_RUN <= end) {
                    raw[d].flip(turned);
                    most = where < 0 ? raw[d].get(0) : most;
                    int32_t in = -1; /* the place in this run of a larger one */
                    TRP__UNROLL
                    for (int j = 0; j < TRP__ROWS_RUN; j++) {
                        const float x = raw[d].get(j);
                        const bool larger = most == most && !(x <= most);
                        in = larger ? j : in;
                        most = larger ? x : most;
                    }
                    where = where < 0 ? k : where;
                    where = in >= 0 ? k + in : where;
                } else {
                    for (int j = 0; j < TRP__ROWS_RUN; j++) {
                        if (k + j >= 0 && k + j < end)
                            best = trp__select_max::of(best,
                                                       trp__select_mark(r.key<TYPE>(k + j), k + j));
                    }
                }
            }
        }
        if (where >= 0)
            best = trp__select_max::of(
                best, trp__select_mark(trp__select_key(most, false, 0xffffffffu), where));
    }
    return best;
}

template <int TYPE, int DEEP> TRP__DEVICE void trp__select_arg(const trp__select &p)
{
    const int64_t row = blockIdx.x / p.parts, part = blockIdx.x - row * p.parts;
    const trp__select_row r(p, p.first + row);
    const int64_t begin = part * p.part - r.shift, end = begin + p.part;
    uint64_t best = trp__select_first<TYPE, DEEP>(r, begin, end < p.n ? end : p.n, p.runs != 0);
    best = trp__rows_together<trp__select_max, uint64_t>(best, (int)blockDim.x, 0);
    if (threadIdx.x != 0)
        return;
    if (p.to)
        trp__to<uint64_t>(p.to, blockIdx.x) = best;
    else
        trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
}

TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_arg_f32(const TRP__CONSTANT trp__select p)
{
    trp__select_arg<TRP_F32, 2>(p);
}
TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_arg_bf16(const TRP__CONSTANT trp__select p)
{
    trp__select_arg<TRP_BF16, 4>(p);
}
TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_arg_f16(const TRP__CONSTANT trp__select p)
{
    trp__select_arg<TRP_F16, 4>(p);
}
TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_arg_any(const TRP__CONSTANT trp__select p)
{
    trp__select_arg<TRP_DTYPE_NONE, 1>(p);
}

/* A warp for each row. */
TRP__GLOBAL(32) trp_select_arg_finish(const TRP__CONSTANT trp__select p)
{
    const trp__select_row r(p, p.first + blockIdx.x);
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < p.parts; i += 32)
        best = trp__select_max::of(best, trp__at<uint64_t>(p.to, blockIdx.x * p.parts + i));
    best = trp__rows_together<trp__select_max, uint64_t>(best, 32, 0);
    if (threadIdx.x == 0)
        trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
}

/* --- Tiles --- */

/* What the threads of a block share. */
struct trp__select_shared {
    uint64_t list[TRP__SELECT_LIST];
    uint32_t bin[256];
    uint32_t count; /* of the list */
    uint32_t digit, left,
        in; /* of a digit that was found: how many of its bin are wanted, are in */
};

/* The bin of the wanted-th largest: bins are counted. False: there are fewer. Warp 0 looks. */
TRP__DEVICE bool trp__select_find(trp__select_shared *s, uint32_t wanted)
{
    enum { BINS = 8 };
    __syncthreads();
    if (threadIdx.x < 32) {
        const int lane = (int)threadIdx.x, top = 255 - lane * BINS;
        uint32_t own = 0;
        TRP__UNROLL
        for (int i = 0; i < BINS; i++)
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

/* The wanted-th largest of COUNT marks of each thread, or less: no more than `digits` digits of it
 * are looked at. 0: there are not so many. */
template <int COUNT>
TRP__DEVICE uint64_t trp__select_bound(trp__select_shared *s, const uint64_t mark[COUNT],
                                       uint32_t wanted, int digits)
{
    uint64_t prefix = 0;
    for (int shift = 56; digits > 0; digits--, shift -= 8) {
        trp__select_clear(s);
        TRP__UNROLL
        for (int i = 0; i < COUNT; i++) {
            const bool same = shift == 56 || (mark[i] >> (shift + 8)) == (prefix >> (shift + 8));
            if (mark[i] && same)
                atomicAdd(&s->bin[(uint32_t)(mark[i] >> shift) & 255], 1u);
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

/* Lists the marks that are not below a bound; returns how many there are, of which no more than fit
 * are listed. */
TRP__DEVICE uint32_t trp__select_gather(trp__select_shared *s,
                                        const uint64_t mark[TRP__SELECT_EACH], uint64_t bound)
{
    __syncthreads();
    if (threadIdx.x == 0)
        s->count = 0;
    __syncthreads();
    TRP__UNROLL
    for (int i = 0; i < TRP__SELECT_EACH; i++) {
        if (mark[i] && mark[i] >= bound) {
            const uint32_t at = atomicAdd(&s->count, 1u);
            if (at < TRP__SELECT_LIST)
                s->list[at] = mark[i];
        }
    }
    __syncthreads();
    return s->count;
}

/* Sorts the list and writes its first marks; 0 behind the last. Each mark of a short list counts
 * those before it. */
TRP__DEVICE void trp__select_sort(trp__select_shared *s, uint32_t count, uint32_t picked,
                                  uint64_t to)
{
    enum { SHORT = 256 };
    const uint32_t thread = threadIdx.x, threads = blockDim.x;
    for (uint32_t i = count + thread; i < picked; i += threads)
        trp__to<uint64_t>(to, i) = 0;
    if (count <= SHORT) {
        for (uint32_t i = thread; i < count; i += threads) {
            const uint64_t mine = s->list[i];
            uint32_t rank = 0;
            for (uint32_t k = 0; k < count; k++)
                rank += s->list[k] > mine;
            if (rank < picked)
                trp__to<uint64_t>(to, rank) = mine;
        }
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
        trp__to<uint64_t>(to, i) = s->list[i];
}

/* The largest marks of a tile. A bound from the largest of each thread leaves few more than those:
 * only where many are equal, or large ones lie together, the exact one is looked for. */
TRP__DEVICE void trp__select_tile(trp__select_shared *s, const uint64_t mark[TRP__SELECT_EACH],
                                  uint32_t picked, uint64_t to)
{
    enum { GROUPS = 4, GROUP = TRP__SELECT_EACH / GROUPS, DIGITS = 2, ALL = 8 };
    uint64_t most[GROUPS], bound = 0;
    TRP__UNROLL
    for (int i = 0; i < GROUPS; i++) {
        most[i] = mark[i * GROUP];
        TRP__UNROLL
        for (int j = 1; j < GROUP; j++)
            most[i] = trp__select_max::of(most[i], mark[i * GROUP + j]);
    }
    if (picked * 2 <= blockDim.x) {
        uint64_t one[1] = {0};
        TRP__UNROLL
        for (int i = 0; i < GROUPS; i++)
            one[0] = trp__select_max::of(one[0], most[i]);
        bound = trp__select_bound<1>(s, one, picked, DIGITS);
    } else if (picked <= blockDim.x * GROUPS) {
        bound = trp__select_bound<GROUPS>(s, most, picked, DIGITS);
    }
    uint32_t count = trp__select_gather(s, mark, bound);
    if (count > TRP__SELECT_LIST) {
        bound = trp__select_bound<TRP__SELECT_EACH>(s, mark, picked, ALL);
        count = trp__select_gather(s, mark, bound);
    }
    trp__select_sort(s, count, picked, to);
}

/* Where a block leaves its marks. */
TRP__DEVICE uint64_t trp__select_place(const trp__select &p)
{
    return p.to + (uint64_t)blockIdx.x * (uint64_t)p.picked * sizeof(uint64_t);
}

template <int TYPE> TRP__DEVICE void trp__select_tiles(const trp__select &p, trp__select_shared *s)
{
    enum { RUNS = TRP__SELECT_EACH / TRP__ROWS_RUN };
    const int64_t row = blockIdx.x / p.parts, tile = blockIdx.x - row * p.parts;
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    const trp__select_row r(p, p.first + row);
    const int64_t begin = tile * threads * TRP__SELECT_EACH - r.shift;
    trp__pack<TYPE, TRP__ROWS_RUN> raw[RUNS];
    uint64_t mark[TRP__SELECT_EACH];
    TRP__UNROLL
    for (int c = 0; c < RUNS; c++) {
        const int64_t k = begin + (int64_t)(c * threads + thread) * TRP__ROWS_RUN;
        if (p.runs && k >= 0 && k + TRP__ROWS_RUN <= p.n)
            raw[c].load(r.x, k, TYPE);
        else
            raw[c].clear();
    }
    TRP__UNROLL
    for (int c = 0; c < RUNS; c++) {
        const int64_t k = begin + (int64_t)(c * threads + thread) * TRP__ROWS_RUN;
        if (p.runs && k >= 0 && k + TRP__ROWS_RUN <= p.n) {
            TRP__UNROLL
            for (int j = 0; j < TRP__ROWS_RUN; j++)
                mark[c * TRP__ROWS_RUN + j] =
                    trp__select_mark(trp__select_key(raw[c].get(j), r.smallest, r.nan), k + j);
        } else {
            TRP__UNROLL
            for (int j = 0; j < TRP__ROWS_RUN; j++) {
                const int64_t own =
                    p.runs ? k + j : begin + (int64_t)(c * TRP__ROWS_RUN + j) * threads + thread;
                mark[c * TRP__ROWS_RUN + j] =
                    own >= 0 && own < p.n ? trp__select_mark(r.key<TYPE>(own), own) : 0;
            }
        }
    }
    trp__select_tile(s, mark, (uint32_t)p.picked, trp__select_place(p));
}

/* Kernels of all types, whose names begin with `prefix`. */
#define TRP__SELECT_KERNELS(prefix, KERNEL)                                                        \
    KERNEL(f32, TRP_F32)                                                                           \
    KERNEL(bf16, TRP_BF16)                                                                         \
    KERNEL(f16, TRP_F16)

#define TRP__SELECT_TILES(name, type)                                                              \
    TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_tiles_##name(const TRP__CONSTANT trp__select p)      \
    {                                                                                              \
        __shared__ trp__select_shared s;                                                           \
        trp__select_tiles<type>(p, &s);                                                            \
    }
TRP__SELECT_KERNELS(trp_select_tiles, TRP__SELECT_TILES)

TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_merge(const TRP__CONSTANT trp__select p)
{
    __shared__ trp__select_shared s;
    const int64_t row = blockIdx.x / p.parts, tile = blockIdx.x - row * p.parts;
    const int64_t begin = tile * blockDim.x * TRP__SELECT_EACH;
    uint64_t mark[TRP__SELECT_EACH];
    TRP__UNROLL
    for (int i = 0; i < TRP__SELECT_EACH; i++) {
        const int64_t k = begin + (int64_t)i * blockDim.x + threadIdx.x;
        mark[i] = k < p.length ? trp__at<uint64_t>(p.from, row * p.length + k) : 0;
    }
    trp__select_tile(&s, mark, (uint32_t)p.picked, trp__select_place(p));
}

/* A thread for each result. */
TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_write(const TRP__CONSTANT trp__select p)
{
    const trp__rows_operand &y = p.io[TRP__SELECT_Y];
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = i / p.picked, rank = i - row * p.picked;
    if (row >= p.rows)
        return;
    const trp__select_row r(p, p.first + row);
    const int64_t number = trp__select_number_of(trp__at<uint64_t>(p.from, i));
    trp__select_put(p, r.at[TRP__SELECT_INDEX] + rank * p.io[TRP__SELECT_INDEX].step, number);
    if (p.used_y)
        trp__store_float<double>(y.at, r.at[TRP__SELECT_Y] + rank * y.step, y.type,
                                 r.value(number));
}

#include "actors/dnn/kernels/select_draw.cuh"

#endif
