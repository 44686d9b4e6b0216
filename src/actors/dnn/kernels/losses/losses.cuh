#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_LOSSES_CUH
#define TRP_ACTORS_DNN_KERNELS_LOSSES_LOSSES_CUH

#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/losses/losses.h"
#include "actors/dnn/kernels/common/row_packs.cuh"
#include "actors/dnn/kernels/common/runs.cuh"

#include <troupe/dnn.h>

/* The formulas of actors/dnn/math/loss.h, in the type that the node computes in. */

/* log(1 + e) of an e from 0 to 1, to 2 ulp: 2 atanh(e / (2 + e)). */
TRP__DEVICE float trp__losses_log1p(float e)
{
    const float q = trp__part(e, fmaf(e, 0.5f, 1.0f)), w = q * q;
    float rest = 0.12196954042011512f / 1024;
    rest = fmaf(rest, w, 0.10699280253339272f / 256);
    rest = fmaf(rest, w, 0.14310103704218619f / 64);
    rest = fmaf(rest, w, 0.19999355623431167f / 16);
    rest = fmaf(rest, w, 0.33333339513216986f / 4);
    return fmaf(rest * w, q, q);
}
TRP__DEVICE double trp__losses_log1p(double e)
{
    return log1p(e);
}

/* TYPE of a formula is the type of all arrays, of which those of 16 bits need fewer digits;
 * TRP_DTYPE_NONE: arrays may have any types. */

TRP__DEVICE constexpr bool trp__losses_is_narrow(int type)
{
    return type == TRP_BF16 || type == TRP_F16;
}

/* log(1 + e) for elements of 16 bits, to 2^-19. */
TRP__DEVICE float trp__losses_log1p_narrow(float e)
{
    float rest = 0.01414105761796236f;
    rest = fmaf(rest, e, -0.0664018988609314f);
    rest = fmaf(rest, e, 0.14922398328781128f);
    rest = fmaf(rest, e, -0.2350386679172516f);
    rest = fmaf(rest, e, 0.33109450340270996f);
    rest = fmaf(rest, e, -0.4998696446418762f);
    rest = fmaf(rest, e, 0.9999987483024597f);
    return rest * e;
}
template <int TYPE, typename T> TRP__DEVICE T trp__losses_log1p_of(T e)
{
    if constexpr (trp__losses_is_narrow(TYPE))
        return trp__losses_log1p_narrow(e);
    else
        return trp__losses_log1p(e);
}

/* e^x of x <= 0. For 16 bits to 2^-19, and raised by 2^32 meanwhile, since the instruction flushes
 * denormal results to 0. */
template <int TYPE, typename T> TRP__DEVICE T trp__losses_exp(T x)
{
    if constexpr (trp__losses_is_narrow(TYPE))
        return trp__exp2_flushed(fmaf(x, 1.44269504088896340736f, 32.0f)) * 0x1p-32f;
    else
        return exp(x);
}

/* beta and its reciprocal, by which kernels of a TYPE multiply: both are far from overflow and
 * underflow. */
template <typename T> struct trp__losses_beta {
    T beta, inverse;

    /* Returns n / beta, for n from -beta to beta. */
    template <int TYPE> TRP__DEVICE T share(T n) const
    {
        if constexpr (TYPE == TRP_DTYPE_NONE)
            return n / beta;
        const T q = n * inverse;
        return fma(fma(-beta, q, n), inverse, q);
    }
};

template <int MODE, typename T, int TYPE>
TRP__DEVICE T trp__losses_value(const trp__losses_beta<T> &beta, T x, T t, T b)
{
    const T away = x - t;
    if constexpr (MODE == TRP_DNN_MSE) {
        return away * away;
    } else if constexpr (MODE == TRP_DNN_L1) {
        return fabs(away);
    } else if constexpr (MODE == TRP_DNN_SMOOTH_L1) {
        const T half = away / 2;
        return fabs(away) < beta.beta ? half * beta.template share<TYPE>(away)
                                      : fabs(away) - beta.beta / 2;
    } else if constexpr (MODE == TRP_DNN_BCE_LOGITS) {
        const T both = trp__losses_log1p_of<TYPE, T>(trp__losses_exp<TYPE, T>(-fabs(x)));
        return (t == 1 ? T(0) : (1 - t) * (fmax(x, T(0)) + both)) +
               (t == 0 ? T(0) : b * t * (fmax(-x, T(0)) + both));
    } else if constexpr (MODE == TRP_DNN_KL) {
        return t == 0 ? T(0) : t * (log(t) - x);
    } else {
        const T q = exp(t);
        return q == 0 ? T(0) : q * (t - x);
    }
}

/* Returns 1 / d, for d from 1 to 2. */
template <int TYPE, typename T> TRP__DEVICE T trp__losses_share(T d)
{
    if constexpr (trp__losses_is_narrow(TYPE))
        return trp__near_reciprocal(d);
    else
        return trp__part(T(1), d);
}

/* Returns the derivative by x or, for MSE, a quarter of it: the difference of the largest numbers
 * overflows T, where its share of a mean does not. */
template <int MODE, typename T, int TYPE>
TRP__DEVICE T trp__losses_slope(const trp__losses_beta<T> &beta, T x, T t, T b)
{
    const T away = x - t, sign = away > 0 ? T(1) : away < 0 ? T(-1) : away;
    if constexpr (MODE == TRP_DNN_MSE) {
        return T(0.5) * x - T(0.5) * t;
    } else if constexpr (MODE == TRP_DNN_L1) {
        return sign;
    } else if constexpr (MODE == TRP_DNN_SMOOTH_L1) {
        return fabs(away) < beta.beta ? beta.template share<TYPE>(away) : sign;
    } else if constexpr (MODE == TRP_DNN_BCE_LOGITS) {
        const T e = trp__losses_exp<TYPE, T>(-fabs(x));
        const T more = trp__losses_share<TYPE, T>(1 + e), less = e * more;
        return (1 - t) * (x >= 0 ? more : less) - b * t * (x >= 0 ? less : more);
    } else if constexpr (MODE == TRP_DNN_KL) {
        return -t;
    } else {
        return -exp(t);
    }
}

/* Returns the number of an operand that has one for all elements. */
template <typename T> TRP__DEVICE T trp__losses_one(const trp__losses_operand &o)
{
    return o.at ? trp__load_float<T>(o.at, 0, o.type) : (T)o.value;
}

/* Numbers that are the same for all elements. */
template <typename T> struct trp__losses_all {
    T one[TRP__LOSSES_READ]; /* of operands that have one number */
    T share;
    trp__losses_beta<T> beta;

    TRP__DEVICE void find(const trp__losses &p)
    {
        TRP__EACH(o, TRP__LOSSES_READ)
            one[o] = o < TRP__LOSSES_W ? T(0) : p.io[o].many ? T(1) : trp__losses_one<T>(p.io[o]);
        beta = {(T)p.beta, (T)p.beta_inverse};
        share = (T)((p.io[TRP__LOSSES_DY].many ? 1 : (double)one[TRP__LOSSES_DY]) * p.share);
    }
    template <int MODE, int TYPE> TRP__DEVICE T value(const T v[TRP__LOSSES_READ]) const
    {
        return trp__losses_value<MODE, T, TYPE>(beta, v[TRP__LOSSES_X], v[TRP__LOSSES_T],
                                                v[TRP__LOSSES_B]) *
               v[TRP__LOSSES_W];
    }
    template <int MODE, int TYPE> TRP__DEVICE T slope(const T v[TRP__LOSSES_READ], bool each) const
    {
        return trp__losses_slope<MODE, T, TYPE>(beta, v[TRP__LOSSES_X], v[TRP__LOSSES_T],
                                                v[TRP__LOSSES_B]) *
               v[TRP__LOSSES_W] * (MODE == TRP_DNN_MSE ? 4 * share : share) *
               (each ? v[TRP__LOSSES_DY] : T(1));
    }
};

/* Writes the sum of a block, if the total is wanted. */
template <typename T>
TRP__DEVICE void trp__losses_keep(const trp__losses &p, const trp__exact_sum<T> &sum)
{
    if (!p.total)
        return;
    const double all = trp__rows_together<trp__rows_sum, double>(
        (double)sum.sum - (double)sum.lost, TRP__LOSSES_THREADS, 0.0);
    if (threadIdx.x == 0)
        trp__to<double>(p.sums, blockIdx.x) = all;
}

/* --- Elements of one type, 16 bytes at a time --- */

/* x, t and dx are arrays. Other operands have one number; the sum is the only other result. */
template <int MODE, int TYPE> struct trp__losses_packs {
    typedef typename trp__row_type<TYPE>::pack pack;
    enum {
        V = trp__row_type<TYPE>::V,
        DEEP = 2,
        STEP = TRP__LOSSES_THREADS * V,
    };
    const trp__losses &p;
    trp__losses_all<float> all;
    trp__exact_sum<float> sum;

    TRP__DEVICE float value(float x, float t) const
    {
        const float v[TRP__LOSSES_READ] = {x, t, all.one[TRP__LOSSES_W], all.one[TRP__LOSSES_B], 1};
        return all.template value<MODE, TYPE>(v);
    }
    TRP__DEVICE float slope(float x, float t) const
    {
        const float v[TRP__LOSSES_READ] = {x, t, all.one[TRP__LOSSES_W], all.one[TRP__LOSSES_B], 1};
        return all.template slope<MODE, TYPE>(v, false);
    }
    /* Adds the losses of the pack at element i, and writes its gradients. */
    template <bool GRADIENT> TRP__DEVICE void run(int64_t i, const pack &x, const pack &t)
    {
        float out[V], some = 0;
        TRP__UNROLL
        for (int j = 0; j < V; j += 2) {
            some += value(x.get(j), t.get(j)) + value(x.get(j + 1), t.get(j + 1));
            TRP__UNROLL
            for (int k = j; k < j + 2 && GRADIENT; k++)
                out[k] = slope(x.get(k), t.get(k));
        }
        sum.add(some);
        if constexpr (GRADIENT) {
            pack dx;
            dx.set(out);
            dx.store(p.io[TRP__LOSSES_DX].at, i, TYPE);
        }
    }
    template <bool GRADIENT> TRP__DEVICE void walk(int64_t from, int64_t end)
    {
        const int64_t whole = end - end % V;
        for (int64_t at = from + threadIdx.x * V; at < whole; at += DEEP * STEP) {
            pack x[DEEP], t[DEEP];
            TRP__EACH(d, DEEP) {
                if (at + d * STEP < whole) {
                    x[d].load(p.io[TRP__LOSSES_X].at, at + d * STEP, TYPE);
                    t[d].load(p.io[TRP__LOSSES_T].at, at + d * STEP, TYPE);
                }
            }
            TRP__EACH(d, DEEP) {
                if (at + d * STEP < whole)
                    run<GRADIENT>(at + d * STEP, x[d], t[d]);
            }
        }
        const int64_t i = whole + threadIdx.x; /* the last elements, which do not fill a pack */
        if (i >= end)
            return;
        const float x = trp__load_float<float>(p.io[TRP__LOSSES_X].at, i, TYPE);
        const float t = trp__load_float<float>(p.io[TRP__LOSSES_T].at, i, TYPE);
        sum.add(value(x, t));
        if constexpr (GRADIENT)
            trp__store_float<float>(p.io[TRP__LOSSES_DX].at, i, TYPE, slope(x, t));
    }
    /* A block for each part. */
    TRP__DEVICE void part()
    {
        const int64_t from = (int64_t)blockIdx.x * p.part;
        const int64_t end = p.count - from < p.part ? p.count : from + p.part;
        all.find(p);
        sum = {0, 0};
        if (p.io[TRP__LOSSES_DX].at)
            walk<true>(from, end);
        else
            walk<false>(from, end);
        trp__losses_keep<float>(p, sum);
    }
};

#define TRP__LOSSES_PACKED(name, MODE, TYPE)                                                       \
    TRP__GLOBAL(TRP__LOSSES_BOUNDS) name(const TRP__CONSTANT trp__losses p)                        \
    {                                                                                              \
        trp__losses_packs<MODE, TYPE> packs = {p};                                                 \
        packs.part();                                                                              \
    }
#define TRP__LOSSES_KERNELS(name, MODE)                                                            \
    TRP__LOSSES_PACKED(name##_f32, MODE, TRP_F32)                                                  \
    TRP__LOSSES_PACKED(name##_bf16, MODE, TRP_BF16)                                                \
    TRP__LOSSES_PACKED(name##_f16, MODE, TRP_F16)

/* Launch bounds: threads of a block at most, and blocks of a multiprocessor at least. */
#define TRP__LOSSES_BOUNDS TRP__LOSSES_THREADS, 4

TRP__LOSSES_KERNELS(trp_losses_mse, TRP_DNN_MSE)
TRP__LOSSES_KERNELS(trp_losses_l1, TRP_DNN_L1)
TRP__LOSSES_KERNELS(trp_losses_smooth_l1, TRP_DNN_SMOOTH_L1)
TRP__LOSSES_KERNELS(trp_losses_bce, TRP_DNN_BCE_LOGITS)
TRP__LOSSES_KERNELS(trp_losses_kl, TRP_DNN_KL)
TRP__LOSSES_KERNELS(trp_losses_kl_log, TRP_DNN_KL_LOG)

/* --- Elements of any types --- */

/* RUN elements of an operand as they lie in memory: one load, of 4 elements or of 8 of 16 bits. */
template <typename T, int RUN> struct trp__losses_raw {
    enum { PARTS = RUN / TRP__RUNS_EACH };
    trp__runs_raw<T> part[PARTS];

    TRP__DEVICE void load(uint64_t at, int64_t i, uint8_t type)
    {
        if constexpr (PARTS == 1) {
            part[0].load(at, i, type);
            return;
        }
        const trp__pack16 q = trp__at<trp__pack16>(at + (uint64_t)i * 2, 0);
        TRP__EACH(k, PARTS) {
            part[k].p[0].word[0] = q.word[2 * k];
            part[k].p[0].word[1] = q.word[2 * k + 1];
        }
    }
};

/* Goes over a part by runs of elements, and over the rest one by one. FORMULA: the TYPE of
 * formulas; one of 16 bits is the type of all arrays. */
template <int MODE, typename T, int FORMULA> struct trp__losses_mixed {
    enum {
        EACH = TRP__RUNS_EACH,
        RUN = trp__losses_is_narrow(FORMULA) ? 2 * EACH : EACH,
        READ = TRP__LOSSES_READ,
        BLOCK = RUN * TRP__LOSSES_THREADS,
    };
    const trp__losses &p;
    trp__losses_all<T> all;
    trp__exact_sum<T> sum;

    TRP__DEVICE uint8_t type_of(int o) const
    {
        return trp__losses_is_narrow(FORMULA) ? (uint8_t)FORMULA : p.io[o].type;
    }
    TRP__DEVICE void put(int o, int64_t i, const T v[RUN]) const
    {
        if (p.io[o].at)
            trp__store_run<T, RUN>(p.io[o].at, i, type_of(o), v);
    }
    TRP__DEVICE void put_one(int o, int64_t i, T v) const
    {
        if (p.io[o].at)
            trp__store_float<T>(p.io[o].at, i, type_of(o), v);
    }
    TRP__DEVICE void run(int64_t i)
    {
        const bool gradient = p.io[TRP__LOSSES_DX].at != 0, each = p.io[TRP__LOSSES_DY].many;
        trp__losses_raw<T, RUN> raw[READ];
        T value[RUN], slope[RUN];
        TRP__EACH(o, READ) {
            if (p.io[o].many)
                raw[o].load(p.io[o].at, i, type_of(o));
        }
        TRP__UNROLL
        for (int k = 0; k < RUN; k += EACH) {
            T v[READ][EACH];
            TRP__EACH(o, READ) {
                TRP__EACH(j, EACH)
                    v[o][j] = all.one[o];
                if (p.io[o].many)
                    raw[o].part[k / EACH].convert(type_of(o), v[o]);
            }
            TRP__EACH(j, EACH) {
                const T one[READ] = {v[0][j], v[1][j], v[2][j], v[3][j], v[4][j]};
                value[k + j] = all.template value<MODE, FORMULA>(one);
                if (gradient)
                    slope[k + j] = all.template slope<MODE, FORMULA>(one, each);
            }
            if (p.total)
                sum.add((value[k] + value[k + 1]) + (value[k + 2] + value[k + 3]));
        }
        if (gradient)
            put(TRP__LOSSES_DX, i, slope);
        put(TRP__LOSSES_ROWS, i, value);
        put(TRP__LOSSES_EACH, i, value);
    }
    TRP__DEVICE void element(int64_t i)
    {
        T one[READ];
        TRP__EACH(o, READ)
            one[o] = p.io[o].many ? trp__load_float<T>(p.io[o].at, i, type_of(o)) : all.one[o];
        const T value = all.template value<MODE, FORMULA>(one);
        sum.add(value);
        if (p.io[TRP__LOSSES_DX].at)
            put_one(TRP__LOSSES_DX, i,
                    all.template slope<MODE, FORMULA>(one, p.io[TRP__LOSSES_DY].many));
        put_one(TRP__LOSSES_ROWS, i, value);
        put_one(TRP__LOSSES_EACH, i, value);
    }
    /* A block for each part. */
    TRP__DEVICE void part()
    {
        const int64_t end =
            p.count - (int64_t)blockIdx.x * p.part < p.part ? p.count : (blockIdx.x + 1) * p.part;
        int64_t at = (int64_t)blockIdx.x * p.part;
        all.find(p);
        sum = {0, 0};
        for (; p.runs && at + BLOCK <= end; at += BLOCK)
            run(at + (int64_t)threadIdx.x * RUN);
        TRP__ROLLED
        for (at += threadIdx.x; at < end; at += TRP__LOSSES_THREADS)
            element(at);
        trp__losses_keep<T>(p, sum);
    }
};

template <typename T, int FORMULA> TRP__DEVICE void trp__losses_elements(const trp__losses &p)
{
#define TRP__LOSSES_PART(MODE)                                                                     \
    case MODE: {                                                                                   \
        trp__losses_mixed<MODE, T, FORMULA> mixed = {p};                                           \
        mixed.part();                                                                              \
        break;                                                                                     \
    }
    switch (p.mode) {
        TRP__LOSSES_PART(TRP_DNN_MSE)
        TRP__LOSSES_PART(TRP_DNN_L1)
        TRP__LOSSES_PART(TRP_DNN_SMOOTH_L1)
        TRP__LOSSES_PART(TRP_DNN_BCE_LOGITS)
        TRP__LOSSES_PART(TRP_DNN_KL)
        TRP__LOSSES_PART(TRP_DNN_KL_LOG)
    }
#undef TRP__LOSSES_PART
}

TRP__ENTRY(trp_losses_f32, trp__losses, (TRP__LOSSES_BOUNDS),
           trp__losses_elements<float, TRP_DTYPE_NONE>)

/* Kernels for arrays that all have one type of 16 bits. */
TRP__ENTRY(trp_losses_narrow_bf16, trp__losses, (TRP__LOSSES_BOUNDS),
           trp__losses_elements<float, TRP_BF16>)
TRP__ENTRY(trp_losses_narrow_f16, trp__losses, (TRP__LOSSES_BOUNDS),
           trp__losses_elements<float, TRP_F16>)
TRP__ENTRY(trp_losses_f64, trp__losses, (TRP__LOSSES_THREADS),
           trp__losses_elements<double, TRP_DTYPE_NONE>)

TRP__GLOBAL(TRP__LOSSES_THREADS) trp_losses_total(const TRP__CONSTANT trp__losses p)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < p.parts; i += TRP__LOSSES_THREADS)
        sum += trp__at<double>(p.sums, i);
    sum = trp__rows_together<trp__rows_sum, double>(sum, TRP__LOSSES_THREADS, 0.0);
    if (threadIdx.x == 0)
        trp__store<double>(p.total, 0, p.type, sum / p.divisor);
}

#endif
