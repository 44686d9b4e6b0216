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

/* Of elements from `begin` to before `end`. A thread reads runs of 8, DEEP of them at a time, where
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
        uint32_t most = 0, where = 0xffffffffu;
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
                    TRP__UNROLL
                    for (int j = 0; j < TRP__ROWS_RUN; j++) {
                        const uint32_t key = trp__select_key(raw[d].get(j), r.smallest, r.nan);
                        where = key > most ? (uint32_t)k + (uint32_t)j : where;
                        most = key > most ? key : most;
                    }
                } else {
                    for (int j = 0; j < TRP__ROWS_RUN; j++) {
                        if (k + j >= 0 && k + j < end)
                            best = trp__select_max::of(best,
                                                       trp__select_mark(r.key<TYPE>(k + j), k + j));
                    }
                }
            }
        }
        /* no key of ARG is 0 */
        best = most ? trp__select_max::of(best, trp__select_mark(most, where)) : best;
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
    trp__select_arg<TRP_BF16, 2>(p);
}
TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_arg_f16(const TRP__CONSTANT trp__select p)
{
    trp__select_arg<TRP_F16, 2>(p);
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

template <int TYPE> TRP__DEVICE void trp__select_tiles(const trp__select &p)
{
    enum { RUNS = TRP__SELECT_EACH / TRP__ROWS_RUN };
    __shared__ trp__select_shared s;
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
    trp__select_tile(&s, mark, (uint32_t)p.picked, trp__select_place(p));
}

TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_tiles_f32(const TRP__CONSTANT trp__select p)
{
    trp__select_tiles<TRP_F32>(p);
}
TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_tiles_bf16(const TRP__CONSTANT trp__select p)
{
    trp__select_tiles<TRP_BF16>(p);
}
TRP__GLOBAL(TRP__SELECT_BOUND) trp_select_tiles_f16(const TRP__CONSTANT trp__select p)
{
    trp__select_tiles<TRP_F16>(p);
}

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

/* --- Drawing --- */

TRP__DEVICE double trp__select_real(const trp__select_number &v, double none)
{
    return !v.used ? none : v.at ? trp__load_float<double>(v.at, 0, v.type) : v.value;
}

TRP__DEVICE uint64_t trp__select_word(const trp__select_number &v)
{
    return !v.used ? 0 : v.at ? trp__at<uint64_t>(v.at, 0) : v.bits;
}

/* What is known of a row: its shares. */
struct trp__select_draws {
    trp__pick_sample what;
    double most, inverse, scale;

    TRP__DEVICE trp__select_draws(const trp__select &p, const trp__select_row &r, uint64_t best)
    {
        what.seed = trp__select_word(p.number[TRP__SELECT_SEED]);
        what.offset = trp__select_word(p.number[TRP__SELECT_OFFSET]);
        what.temperature = trp__select_real(p.number[TRP__SELECT_TEMPERATURE], 1);
        what.limit = trp__select_real(p.number[TRP__SELECT_LIMIT], 1);
        what.count = (int64_t)trp__select_word(p.number[TRP__SELECT_COUNT]);
        what.sorted = p.number[TRP__SELECT_COUNT].used || p.number[TRP__SELECT_LIMIT].used;
        most = r.value(trp__select_number_of(best));
        inverse = 1 / what.temperature;
        scale = trp__pick_scale(p.n);
    }
    TRP__DEVICE uint64_t share(double x) const
    {
        return trp__pick_share(x - most, inverse, scale);
    }
};

/* The sum of all threads' up to its own. All threads of a block of up to 1024 call this. */
TRP__DEVICE uint64_t trp__select_sums(uint64_t v, uint64_t *total)
{
    __shared__ uint64_t part[32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32;
    for (int by = 1; by < 32; by *= 2) {
        const uint64_t before = __shfl_up_sync(0xffffffffu, v, by);
        v += lane >= by ? before : 0;
    }
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

/* The largest mark of a row, of those that were left of it. All threads get it. */
TRP__DEVICE uint64_t trp__select_best(const trp__select &p, int64_t row)
{
    uint64_t best = 0;
    for (int64_t i = (int)threadIdx.x; i < p.heads; i += (int)blockDim.x)
        best = trp__select_max::of(best, trp__at<uint64_t>(p.from, row * p.length + i));
    return trp__rows_together<trp__select_max, uint64_t>(best, (int)blockDim.x, 0);
}

/* Where a part of a row begins and ends. */
TRP__DEVICE void trp__select_part(const trp__select &p, const trp__select_row &r, int64_t part,
                                  int64_t *begin, int64_t *end)
{
    *begin = part * p.part - r.shift;
    *end = *begin + p.part < p.n ? *begin + p.part : p.n;
    *begin = *begin > 0 ? *begin : 0;
}

TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_shares(const TRP__CONSTANT trp__select p)
{
    const int64_t row = blockIdx.x / p.shares, part = blockIdx.x - row * p.shares;
    const trp__select_row r(p, p.first + row);
    const trp__select_draws d(p, r, trp__select_best(p, row));
    uint64_t sum = 0, total;
    int64_t begin, end;
    if (trp__pick_is_fixed(&d.what, d.most))
        return;
    trp__select_part(p, r, part, &begin, &end);
#pragma unroll 4
    for (int64_t k = begin + (int)threadIdx.x; k < end; k += (int)blockDim.x)
        sum += d.share(r.value(k));
    trp__select_sums(sum, &total);
    if (threadIdx.x == 0)
        trp__to<uint64_t>(p.sums, blockIdx.x) = total;
}

/* The sum of all parts of a row. */
TRP__DEVICE uint64_t trp__select_total(const trp__select &p, int64_t row)
{
    uint64_t sum = 0, total;
    for (int64_t i = (int)threadIdx.x; i < p.shares; i += (int)blockDim.x)
        sum += trp__at<uint64_t>(p.sums, row * p.shares + i);
    trp__select_sums(sum, &total);
    return total;
}

/* The part with the class, then the run of a thread, then the class. */
TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_draw(const TRP__CONSTANT trp__select p)
{
    __shared__ int64_t which;
    __shared__ uint64_t before;
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    const int64_t row = blockIdx.x;
    const trp__select_row r(p, p.first + row);
    const uint64_t best = trp__select_best(p, row);
    const trp__select_draws d(p, r, best);
    const double u = trp__pick_uniform(&d.what, p.first + row);
    uint64_t total = 0, base = 0, all;
    int64_t begin, end;
    if (trp__pick_is_fixed(&d.what, d.most)) {
        if (thread == 0)
            trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
        return;
    }
    if (thread == 0)
        which = 0;
    if (p.shares > 1) {
        total = trp__select_total(p, row);
        const double reach = u * (double)total;
        for (int64_t i = 0; i < p.shares; i += threads) {
            const uint64_t own = i + thread < p.shares
                                     ? trp__at<uint64_t>(p.sums, row * p.shares + i + thread)
                                     : 0;
            const uint64_t sum = base + trp__select_sums(own, &all);
            if ((double)sum > reach && !((double)(sum - own) > reach)) {
                which = i + thread;
                before = sum - own;
            }
            base += all;
        }
    }
    __syncthreads();
    base = p.shares > 1 ? before : 0;
    trp__select_part(p, r, which, &begin, &end);
    const int64_t each = (end - begin + threads - 1) / threads;
    const int64_t from = begin + thread * each, to = from + each < end ? from + each : end;
    uint64_t own = 0;
    for (int64_t k = from; k < to; k++)
        own += d.share(r.value(k));
    uint64_t sum = base + trp__select_sums(own, &all);
    const double reach = u * (double)(p.shares > 1 ? total : all);
    if (!((double)sum > reach) || (double)(sum - own) > reach)
        return;
    sum -= own;
    int64_t k = from;
    for (; k < to - 1; k++) {
        sum += d.share(r.value(k));
        if ((double)sum > reach)
            break;
    }
    trp__select_put(p, r.at[TRP__SELECT_INDEX], k);
}

/* How many marks of a row are not below a bound, and what their shares are together. */
TRP__DEVICE uint64_t trp__select_above(const trp__select &p, const trp__select_row &r,
                                       const trp__select_draws &d, uint64_t bound, bool count)
{
    uint64_t sum = 0, total;
    for (int64_t k = (int)threadIdx.x; k < p.n; k += (int)blockDim.x) {
        const float x = trp__load_float<float>(r.x, k * r.step, r.type);
        if (trp__select_mark(trp__select_key(x, r.smallest, r.nan), k) >= bound)
            sum += count ? 1 : d.share((double)x);
    }
    trp__select_sums(sum, &total);
    return total;
}

/* The largest bound above which lies enough: as many marks, or shares that reach `need`, or exceed
 * it. It is the mark of an element. */
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

/* The largest marks of the row are there, in order. Few rows need more of them than that: those are
 * searched bit by bit. */
TRP__GLOBAL(TRP__SELECT_DRAW) trp_select_draw_ranked(const TRP__CONSTANT trp__select p)
{
    __shared__ uint64_t sums[TRP__SELECT_MOST];
    __shared__ uint32_t first;
    const int64_t row = p.first + blockIdx.x;
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    const uint64_t list = p.from + (uint64_t)blockIdx.x * (uint64_t)p.picked * sizeof(uint64_t);
    const trp__select_row r(p, row);
    const uint64_t best = trp__at<uint64_t>(list, 0);
    const trp__select_draws d(p, r, best);
    const int64_t some = d.what.count > 0 && d.what.count < p.n ? d.what.count : p.n;
    const int ranked = p.picked < some ? p.picked : (int)some;
    uint64_t head = 0, total, sum;
    if (trp__pick_is_fixed(&d.what, d.most)) {
        if (thread == 0)
            trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
        return;
    }
    for (int i = 0; i < ranked; i += threads) {
        const bool inside = i + thread < ranked;
        const uint64_t mark = inside ? trp__at<uint64_t>(list, i + thread) : 0;
        sum = trp__select_sums(inside ? d.share(r.value(trp__select_number_of(mark))) : 0, &total);
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
    const double reach = trp__pick_uniform(&d.what, row) * (double)total;
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
