#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_CUH
#define TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_CUH

#include "actors/dnn/kernels/losses/entropy_packs.cuh"

/* --- Runs of a row --- */

/* Eight logits as they lie in memory; -infinity outside the row. */
template <typename T, int TYPE> struct trp__entropy_raw {
    enum {
        SIZE = TYPE == TRP_F64 ? 8 : TYPE == TRP_F32 ? 4 : 2,
        PACKS = SIZE * TRP__ROWS_RUN / 16,
    };
    trp__pack16 p[PACKS];

    TRP__DEVICE void load(const trp__rows_lanes &l, int c, uint64_t at, int n)
    {
        const int k = l.place(c, 0);
        if (l.runs && k >= 0 && k + TRP__ROWS_RUN <= n) {
            TRP__EACH(i, PACKS)
                p[i] = trp__at<trp__pack16>(at + (uint64_t)((int64_t)k * SIZE), i);
        } else {
            load_each(l, c, at, n);
        }
    }
    TRP__DEVICE void load_each(const trp__rows_lanes &l, int c, uint64_t at, int n)
    {
        TRP__EACH(j, TRP__ROWS_RUN) {
            const int k = l.place(c, j);
            const bool inside = k >= 0 && k < n;
            if (SIZE == 8) {
                const uint64_t bits =
                    inside ? trp__at<uint64_t>(at, k) : UINT64_C(0xfff0000000000000);
                p[j / 2 % PACKS].word[j % 2 * 2] = (uint32_t)bits;
                p[j / 2 % PACKS].word[j % 2 * 2 + 1] = (uint32_t)(bits >> 32);
            } else if (SIZE == 4) {
                p[j / 4 % PACKS].word[j % 4] = inside ? trp__at<uint32_t>(at, k) : 0xff800000u;
            } else {
                const uint32_t bits = inside ? trp__at<uint16_t>(at, k)
                                      : TYPE == TRP_BF16 ? 0xff80u
                                                         : 0xfc00u;
                uint32_t &word = p[0].word[j / 2];
                word = j % 2 ? word | bits << 16 : bits;
            }
        }
    }
    TRP__DEVICE void convert(T v[TRP__ROWS_RUN]) const
    {
        TRP__EACH(j, TRP__ROWS_RUN) {
            if (SIZE == 8) {
                const uint64_t bits = p[j / 2 % PACKS].word[j % 2 * 2] |
                                      (uint64_t)p[j / 2 % PACKS].word[j % 2 * 2 + 1] << 32;
                double value;
                memcpy(&value, &bits, sizeof value);
                v[j] = (T)value;
            } else if (SIZE == 4) {
                v[j] = (T)trp__f32_from_bits(p[j / 4 % PACKS].word[j % 4]);
            } else {
                const uint32_t word = p[0].word[j / 2];
                v[j] = TYPE == TRP_BF16
                           ? (T)trp__f32_from_bits(j % 2 ? word & 0xffff0000u : word << 16)
                           : (T)trp__half_value((uint16_t)(j % 2 ? word >> 16 : word));
            }
        }
    }
};

/* Reads a run of probabilities of any float type; 0 outside the row. */
template <typename T>
TRP__DEVICE void trp__entropy_read(const trp__rows_lanes &l, int c, uint64_t at, uint8_t type,
                                   int n, T v[TRP__ROWS_RUN])
{
    const int first = l.place(c, 0);
    if (l.runs && first >= 0 && first + TRP__ROWS_RUN <= n) {
        trp__load_run<T, TRP__ROWS_RUN>(at, first, type, v);
        return;
    }
    for (int j = 0; j < TRP__ROWS_RUN; j++) {
        const int k = l.place(c, j);
        v[j] = k >= 0 && k < n ? trp__load_float<T>(at, k, type) : T(0);
    }
}

template <typename T>
TRP__DEVICE void trp__entropy_write(const trp__rows_lanes &l, int c, uint64_t at, uint8_t type,
                                    int n, const T v[TRP__ROWS_RUN])
{
    const int first = l.place(c, 0);
    if (l.runs && first >= 0 && first + TRP__ROWS_RUN <= n) {
        trp__store_run<T, TRP__ROWS_RUN>(at, first, type, v);
        return;
    }
    for (int j = 0; j < TRP__ROWS_RUN; j++) {
        const int k = l.place(c, j);
        if (k >= 0 && k < n)
            trp__store_float<T>(at, k, type, v[j]);
    }
}

/* --- Rows --- */

/* Sets all gradients of a row to one number. */
template <typename T>
TRP__DEVICE void trp__entropy_fill(const trp__entropy &p, const trp__entropy_row<T> &r, T value)
{
    T v[TRP__ROWS_RUN];
    for (int j = 0; j < TRP__ROWS_RUN; j++)
        v[j] = value;
    for (int c = 0; c < r.runs && p.used[TRP__ENTROPY_DX]; c++)
        trp__entropy_write<T>(r.l, c, r.place(p, TRP__ENTROPY_DX), p.io[TRP__ENTROPY_DX].type, r.n,
                              v);
}

/* Adds smoothed probabilities of DEEP runs, like trp__entropy_packs::weigh_smooth(). */
template <typename T, int DEEP>
TRP__DEVICE void trp__entropy_weigh(const trp__entropy &p, const trp__entropy_row<T> &r, int c,
                                    const T v[DEEP][TRP__ROWS_RUN], trp__entropy_sums<T> *sums)
{
    const T share = (T)(1 - p.smooth), even = (T)p.even, base = sums->base();
    T some = 0, away = 0;
    for (int d = 0; d < DEEP; d++) {
        T t[TRP__ROWS_RUN];
        trp__entropy_read<T>(r.l, c + d, r.place(p, TRP__ENTROPY_T), p.io[TRP__ENTROPY_T].type,
                             r.n, t);
        TRP__EACH(j, TRP__ROWS_RUN) {
            const int k = r.l.place(c + d, j);
            const T q = k >= 0 && k < r.n ? share * t[j] + even : T(0);
            some += q;
            away += q != 0 ? q * (base - v[d][j]) : T(0);
        }
    }
    sums->total.add(some);
    sums->away.add(away);
}

template <typename T, int TYPE, int DEEP>
TRP__DEVICE void trp__entropy_first(const trp__entropy &p, const trp__entropy_row<T> &r,
                                    trp__pack16 *cache, trp__entropy_sums<T> *sums)
{
    enum { RUN = TRP__ROWS_RUN, PACKS = trp__entropy_raw<T, TYPE>::PACKS };
    const uint64_t x = r.place(p, TRP__ENTROPY_X);
    const int threads = (int)blockDim.x, thread = (int)threadIdx.x;
    for (int c = 0; c < r.runs; c += DEEP) {
        trp__entropy_raw<T, TYPE> raw[DEEP];
        T v[DEEP][RUN], top = sums->most, some = 0;
        TRP__EACH(d, DEEP)
            raw[d].load(r.l, c + d, x, r.n);
        TRP__EACH(d, DEEP) {
            raw[d].convert(v[d]);
            TRP__EACH(j, RUN)
                top = fmax(top, v[d][j]);
            TRP__EACH(i, PACKS) {
                if (c + d < p.cached)
                    cache[((c + d) * PACKS + i) * threads + thread] = raw[d].p[i];
            }
        }
        sums->rise(top);
        TRP__EACH(d, DEEP) {
            TRP__EACH(j, RUN)
                some += trp__exp(v[d][j] - sums->base());
        }
        sums->sum.add(some);
        if (p.smooth > 0) {
            some = 0;
            TRP__EACH(d, DEEP) {
                TRP__EACH(j, RUN) {
                    const int k = r.l.place(c + d, j);
                    some += k >= 0 && k < r.n ? v[d][j] : T(0);
                }
            }
            sums->linear.add(some);
        }
        if (p.used[TRP__ENTROPY_T])
            trp__entropy_weigh<T, DEEP>(p, r, c, v, sums);
    }
}

/* Writes the gradient of a row, in the second pass. */
template <typename T, int TYPE, int DEEP>
TRP__DEVICE void trp__entropy_last(const trp__entropy &p, const trp__entropy_row<T> &r,
                                     double factor, double log_sum, const trp__pack16 *cache)
{
    enum { RUN = TRP__ROWS_RUN, PACKS = trp__entropy_raw<T, TYPE>::PACKS };
    const uint64_t x = r.place(p, TRP__ENTROPY_X);
    const int threads = (int)blockDim.x, thread = (int)threadIdx.x;
    trp__entropy_factors<T> f;
    f.find(p, r, factor, log_sum);
    const T most = r.most;
    const int label = (int)r.label;
    for (int c = 0; c < r.runs; c += DEEP) {
        trp__entropy_raw<T, TYPE> raw[DEEP];
        TRP__EACH(d, DEEP) {
            if (c + d < p.cached) {
                TRP__EACH(i, PACKS)
                    raw[d].p[i] = cache[((c + d) * PACKS + i) * threads + thread];
            } else {
                raw[d].load(r.l, c + d, x, r.n);
            }
        }
        TRP__EACH(d, DEEP) {
            T v[RUN], out[RUN], t[RUN];
            const int first = r.l.place(c + d, 0);
            raw[d].convert(v);
            TRP__EACH(j, RUN)
                out[j] = f.scale * trp__exp(v[j] - most) - f.rest;
            if (label >= 0 && (!r.l.runs || (label >= first && label < first + RUN))) {
                TRP__EACH(j, RUN)
                    out[j] -= r.l.place(c + d, j) == label ? f.share : T(0);
            }
            if (p.used[TRP__ENTROPY_T]) {
                trp__entropy_read<T>(r.l, c + d, r.place(p, TRP__ENTROPY_T),
                                     p.io[TRP__ENTROPY_T].type, r.n, t);
                TRP__EACH(j, RUN)
                    out[j] -= f.share * t[j];
            }
            trp__entropy_write<T>(r.l, c + d, r.place(p, TRP__ENTROPY_DX),
                                  p.io[TRP__ENTROPY_DX].type, r.n, out);
        }
    }
}

/* Returns the factor of the gradients of a row. */
TRP__DEVICE double trp__entropy_factor(const trp__entropy &p, int64_t at)
{
    const double divisor = p.count ? trp__at<double>(p.count, 0) : p.divisor;
    const trp__rows_operand &dy = p.io[TRP__ENTROPY_DY];
    const double factor = dy.at ? trp__load_float<double>(dy.at, p.each ? at : 0, dy.type) : p.dy;
    return divisor > 0 ? factor / divisor : 0;
}

/* The loss and the gradient of a row: a block for each. DEEP: runs that a thread reads at a time;
 * 0: by trp__entropy_packs<TYPE, TARGET>. */
template <typename T, int TYPE, int DEEP, int TARGET = 0>
TRP__DEVICE void trp__entropy_rows(const trp__entropy &p)
{
    TRP__DYNAMIC(trp__pack16, cache);
    const int64_t row = p.first + blockIdx.x;
    trp__entropy_row<T> r;
    double loss = 0, log_sum = 0, over = 0;
    trp__entropy_begin<T>(p, row, &r);
    const double factor = trp__entropy_factor(p, r.at[TRP__ENTROPY_DY]);
    if (r.wrong)
        loss = NAN;
    if (r.ignored || r.wrong)
        trp__entropy_fill<T>(p, r, (T)loss);
    if (!r.ignored && (!r.wrong || p.used[TRP__ENTROPY_STATS])) {
        trp__entropy_sums<T> sums;
        sums.begin();
        if constexpr (DEEP == 0)
            trp__entropy_packs<TYPE, TARGET>(p, r, cache).first_pass(p, r, &sums);
        else
            trp__entropy_first<T, TYPE, DEEP>(p, r, cache, &sums);
        sums.join(p, &r);
        if (p.z != 0 || threadIdx.x == 0)
            over = trp__entropy_log(r.sum);
        log_sum = (double)r.most + over;
    }
    if (!r.ignored && !r.wrong) {
        if (p.used[TRP__ENTROPY_DX]) {
            if constexpr (DEEP == 0)
                trp__entropy_packs<TYPE, TARGET>(p, r, cache).last_pass(p, r, factor, log_sum);
            else
                trp__entropy_last<T, TYPE, DEEP>(p, r, factor, log_sum, cache);
        }
        if (p.used[TRP__ENTROPY_T])
            loss = r.away + (r.total != 0 ? over * r.total : 0);
        if (threadIdx.x == 0 && r.label >= 0) {
            loss = p.smooth < 1
                       ? (1 - p.smooth) * (((double)r.most - (double)r.own) + over)
                       : 0;
            loss += p.smooth > 0 ? p.smooth * (log_sum - r.linear / (double)p.classes) : 0;
        }
        loss += p.z != 0 ? p.z * log_sum * log_sum : 0;
    }
    if (threadIdx.x != 0)
        return;
    trp__to<double>(p.losses, row) = loss;
    r.put(p, TRP__ENTROPY_ROWS, loss);
    r.put(p, TRP__ENTROPY_STATS, r.ignored ? 0 : log_sum);
    if (p.each)
        r.put(p, TRP__ENTROPY_Y, loss);
}

/* --- All rows --- */

TRP__GLOBAL(TRP__ENTROPY_THREADS) trp_entropy_count(const TRP__CONSTANT trp__entropy p)
{
    double count = 0;
#pragma unroll 4
    for (int64_t row = (int)threadIdx.x; row < p.space.rows; row += TRP__ENTROPY_THREADS) {
        int64_t at[1];
        trp__rows_find<1>(p.space, row, &p.io[TRP__ENTROPY_INDEX], at);
        count += trp__entropy_label(p, at[0]) != p.ignore;
    }
    count = trp__rows_together<trp__rows_sum, double>(count, TRP__ENTROPY_THREADS, 0.0);
    if (threadIdx.x == 0)
        trp__to<double>(p.count, 0) = count;
}

TRP__GLOBAL(TRP__ENTROPY_THREADS) trp_entropy_total(const TRP__CONSTANT trp__entropy p)
{
    const trp__rows_operand &y = p.io[TRP__ENTROPY_Y];
    double sum = 0;
#pragma unroll 4
    for (int64_t row = (int)threadIdx.x; row < p.space.rows; row += TRP__ENTROPY_THREADS)
        sum += trp__at<double>(p.losses, row);
    sum = trp__rows_together<trp__rows_sum, double>(sum, TRP__ENTROPY_THREADS, 0.0);
    if (threadIdx.x == 0)
        trp__store<double>(y.at, 0, y.type,
                           sum / (p.count ? trp__at<double>(p.count, 0) : p.divisor));
}

/* Kernels of packs, for each type of logits and gradients. */
#define TRP__ENTROPY_KERNELS(name, bounds, ...)                                                    \
    TRP__ENTRY(name##_f32, trp__entropy, bounds, trp__entropy_rows<float, TRP_F32, 0, __VA_ARGS__>)\
    TRP__ENTRY(name##_bf16, trp__entropy, bounds,                                                  \
               trp__entropy_rows<float, TRP_BF16, 0, __VA_ARGS__>)                                 \
    TRP__ENTRY(name##_f16, trp__entropy, bounds, trp__entropy_rows<float, TRP_F16, 0, __VA_ARGS__>)

/* packs: with labels. targets: with probabilities, two blocks per multiprocessor, whose rows shared
 * memory holds. long: with probabilities and longer rows, one block per multiprocessor, as the L2
 * cache holds the rows of a few blocks only. */
TRP__ENTROPY_KERNELS(trp_entropy_packs, (1024), 0)
TRP__ENTROPY_KERNELS(trp_entropy_targets, (TRP__ENTROPY_PAIRED, 2), TRP__ENTROPY_DEEP / 2)
TRP__ENTROPY_KERNELS(trp_entropy_long, (TRP__ENTROPY_PAIRED), TRP__ENTROPY_DEEP)

TRP__ENTRY(trp_entropy_f32, trp__entropy, (1024), trp__entropy_rows<float, TRP_F32, 2>)
TRP__ENTRY(trp_entropy_bf16, trp__entropy, (1024), trp__entropy_rows<float, TRP_BF16, 2>)
TRP__ENTRY(trp_entropy_f16, trp__entropy, (1024), trp__entropy_rows<float, TRP_F16, 2>)
TRP__ENTRY(trp_entropy_f64, trp__entropy, (512), trp__entropy_rows<double, TRP_F64, 1>)

#endif
