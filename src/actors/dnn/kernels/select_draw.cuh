/* Classes drawn of rows: a part of select.cuh. */
#ifndef TRP_ACTORS_DNN_KERNELS_SELECT_DRAW_CUH
#define TRP_ACTORS_DNN_KERNELS_SELECT_DRAW_CUH

#include "actors/dnn/kernels/select.cuh"

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

/* The shares of some parts of a row, each added by a warp. All warps of a block share the parts. */
template <int TYPE>
TRP__DEVICE void trp__select_share_parts(const trp__select &p, const trp__select_row &r,
                                         const trp__select_draws &d, int64_t row, int64_t first,
                                         int64_t count)
{
    const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    const int64_t last = first + count < p.shares ? first + count : p.shares;
    if (trp__pick_is_fixed(&d.what, d.most))
        return;
    for (int64_t part = first + (int)threadIdx.x / 32; part < last; part += warps) {
        uint64_t sum = 0;
        int64_t begin, end;
        trp__select_part(p, r, part, &begin, &end);
#pragma unroll 4
        for (int64_t k = begin + lane; k < end; k += 32)
            sum += d.share(trp__load_float<double>(
                r.x, k * r.step, TYPE == TRP_DTYPE_NONE ? r.type : (uint8_t)TYPE));
        for (int by = 16; by > 0; by /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, by);
        if (lane == 0)
            trp__to<uint64_t>(p.sums, row * p.shares + part) = sum;
    }
}

TRP__GLOBAL(TRP__SELECT_THREADS) trp_select_shares(const TRP__CONSTANT trp__select p)
{
    const int64_t warps = (int)blockDim.x / 32, blocks = (p.shares + warps - 1) / warps;
    const int64_t row = blockIdx.x / blocks, part = (blockIdx.x - row * blocks) * warps;
    const trp__select_row r(p, p.first + row);
    const trp__select_draws d(p, r, trp__select_best(p, row));
    trp__select_share_parts<TRP_DTYPE_NONE>(p, r, d, row, part, warps);
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
TRP__DEVICE void trp__select_draw(const trp__select &p, const trp__select_row &r,
                                  const trp__select_draws &d, int64_t row, uint64_t best)
{
    __shared__ int64_t which;
    __shared__ uint64_t before;
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    const double u = trp__pick_uniform(&d.what, p.first + row);
    uint64_t base = 0, all;
    int64_t begin, end;
    if (trp__pick_is_fixed(&d.what, d.most)) {
        if (thread == 0)
            trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
        return;
    }
    const double reach = u * (double)trp__select_total(p, row);
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
    __syncthreads();
    trp__select_part(p, r, which, &begin, &end);
    const int64_t each = (end - begin + threads - 1) / threads;
    const int64_t from = begin + thread * each, to = from + each < end ? from + each : end;
    uint64_t own = 0;
    for (int64_t k = from; k < to; k++)
        own += d.share(r.value(k));
    uint64_t sum = before + trp__select_sums(own, &all);
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

/* A class of a row: its largest logit, the sums of its shares, then where u lies among them. */
template <int TYPE> TRP__DEVICE void trp__select_class(const trp__select &p, int team)
{
    const int64_t row = blockIdx.x / team, block = blockIdx.x - row * team;
    const int64_t parts = (p.shares + team - 1) / team; /* of a block */
    const trp__select_row r(p, p.first + row);
    if (p.phases & 1) {
        const int64_t begin = block * parts * p.part - r.shift, end = begin + parts * p.part;
        uint64_t best =
            trp__select_first<TYPE, 2>(r, begin, end < p.n ? end : p.n, p.runs != 0);
        best = trp__rows_together<trp__select_max, uint64_t>(best, (int)blockDim.x, 0);
        if (threadIdx.x == 0)
            trp__to<uint64_t>(p.to, blockIdx.x) = best;
    }
    trp__select_meet(p, team);
    const uint64_t best = p.phases == 1 ? 0 : trp__select_best(p, row);
    if (p.phases == 1)
        return;
    const trp__select_draws d(p, r, best);
    if (p.phases & 2)
        trp__select_share_parts<TYPE>(p, r, d, row, block * parts, parts);
    trp__select_meet(p, team);
    if (p.phases & 4 && block == 0)
        trp__select_draw(p, r, d, row, best);
}

#define TRP__SELECT_CLASS(name, type)                                                              \
    TRP__SELECT_TEAM_GLOBAL(TRP__SELECT_THREADS)                                                   \
    trp_select_class_##name(const TRP__CONSTANT trp__select p)                                     \
    {                                                                                              \
        trp__select_class<type>(p, TRP__SELECT_TEAM);                                              \
    }                                                                                              \
    TRP__GLOBAL(TRP__SELECT_THREADS)                                                               \
    trp_select_class_alone_##name(const TRP__CONSTANT trp__select p)                               \
    {                                                                                              \
        trp__select_class<type>(p, 1);                                                             \
    }
TRP__SELECT_KERNELS(trp_select_class, TRP__SELECT_CLASS)

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
