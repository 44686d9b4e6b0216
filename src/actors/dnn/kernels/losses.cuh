#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_CUH
#define TRP_ACTORS_DNN_KERNELS_LOSSES_CUH

#include "actors/dnn/kernels/functions.cuh"
#include "actors/dnn/kernels/losses.h"
#include "actors/dnn/kernels/rows.cuh"
#include "actors/dnn/kernels/runs.cuh"

#include <troupe/dnn.h>

/* The formulas of actors/dnn/train_loss.h, in the type that the node computes in. */

/* log(1 + exp(x)), of a NaN itself. */
template <typename T> TRP__DEVICE T trp__losses_softplus(T x)
{
    return (x > 0 ? x : x != x ? x : T(0)) + log1p(exp(-fabs(x)));
}

template <typename T> TRP__DEVICE T trp__losses_value(int mode, T beta, T x, T t, T b)
{
    const T away = x - t;
    switch (mode) {
    case TRP_DNN_MSE:
        return away * away;
    case TRP_DNN_L1:
        return fabs(away);
    case TRP_DNN_SMOOTH_L1:
        return fabs(away) < beta ? away * away / (2 * beta) : fabs(away) - beta / 2;
    case TRP_DNN_BCE_LOGITS:
        return (t == 1 ? T(0) : (1 - t) * trp__losses_softplus<T>(x)) +
               (t == 0 ? T(0) : b * t * trp__losses_softplus<T>(-x));
    case TRP_DNN_KL:
        return t == 0 ? T(0) : t * (log(t) - x);
    default:
        return exp(t) == 0 ? T(0) : exp(t) * (t - x);
    }
}

template <typename T> TRP__DEVICE T trp__losses_slope(int mode, T beta, T x, T t, T b)
{
    const T away = x - t, sign = away > 0 ? T(1) : away < 0 ? T(-1) : away;
    switch (mode) {
    case TRP_DNN_MSE:
        return 2 * away;
    case TRP_DNN_L1:
        return sign;
    case TRP_DNN_SMOOTH_L1:
        return fabs(away) < beta ? away / beta : sign;
    case TRP_DNN_BCE_LOGITS:
        return (1 - t) * trp__sigmoid<T>(x) - b * t * trp__sigmoid<T>(-x);
    case TRP_DNN_KL:
        return -t;
    default:
        return -exp(t);
    }
}

/* The number of an operand that has one for all elements. */
template <typename T> TRP__DEVICE T trp__losses_one(const trp__losses_operand &o)
{
    return o.at ? trp__load_float<T>(o.at, 0, o.type) : (T)o.value;
}

/* A block for each part of the elements. */
template <typename T> TRP__DEVICE void trp__losses_elements(const trp__losses &p)
{
    enum { RUN = TRP__RUNS_EACH, RUNS = TRP__LOSSES_RUNS, READ = TRP__LOSSES_READ };
    enum { BLOCK = RUN * RUNS * TRP__LOSSES_THREADS };
    const int64_t from = (int64_t)blockIdx.x * p.part;
    const int64_t end = p.count - from < p.part ? p.count : from + p.part;
    const T beta = (T)p.beta;
    trp__exact_sum<T> sum = {0, 0};
    T one[READ];
    TRP__UNROLL
    for (int o = TRP__LOSSES_W; o < READ; o++)
        one[o] = p.io[o].many ? T(1) : trp__losses_one<T>(p.io[o]);
    const T share = (T)((p.io[TRP__LOSSES_DY].many ? 1 : (double)one[TRP__LOSSES_DY]) / p.divisor);
    for (int64_t at = from; at < end; at += BLOCK) {
        const bool whole = p.runs && at + BLOCK <= end;
        trp__runs_raw<T> raw[RUNS][READ];
        TRP__UNROLL
        for (int r = 0; r < RUNS && whole; r++) {
            TRP__UNROLL
            for (int o = 0; o < READ; o++) {
                if (p.io[o].many)
                    raw[r][o].load(p.io[o].at, at + trp__runs_at(true, r, 0), p.io[o].type);
            }
        }
        TRP__UNROLL
        for (int r = 0; r < RUNS; r++) {
            T v[READ][RUN], value[RUN], slope[RUN], some = 0;
            TRP__UNROLL
            for (int o = 0; o < READ; o++) {
                TRP__UNROLL
                for (int j = 0; j < RUN; j++) {
                    const int64_t i = at + trp__runs_at(whole, r, j);
                    v[o][j] = o >= TRP__LOSSES_W ? one[o] : T(0);
                    if (!whole && p.io[o].many && i < end)
                        v[o][j] = trp__load_float<T>(p.io[o].at, i, p.io[o].type);
                }
                if (whole && p.io[o].many)
                    raw[r][o].convert(p.io[o].type, v[o]);
            }
            TRP__UNROLL
            for (int j = 0; j < RUN; j++) {
                const int64_t i = at + trp__runs_at(whole, r, j);
                const T x = v[TRP__LOSSES_X][j], t = v[TRP__LOSSES_T][j], w = v[TRP__LOSSES_W][j];
                const T b = v[TRP__LOSSES_B][j];
                value[j] = trp__losses_value<T>(p.mode, beta, x, t, b) * w;
                some += i < end ? value[j] : T(0);
                if (p.io[TRP__LOSSES_DX].at)
                    slope[j] = trp__losses_slope<T>(p.mode, beta, x, t, b) * w * share *
                               (p.io[TRP__LOSSES_DY].many ? v[TRP__LOSSES_DY][j] : T(1));
            }
            sum.add(some);
            for (int o = READ; o < TRP__LOSSES_OPERANDS; o++) {
                const T *const out = o == TRP__LOSSES_DX ? slope : value;
                if (!p.io[o].at)
                    continue;
                if (whole) {
                    trp__store_run<T, RUN>(p.io[o].at, at + trp__runs_at(true, r, 0),
                                           p.io[o].type, out);
                    continue;
                }
                for (int j = 0; j < RUN; j++) {
                    const int64_t i = at + trp__runs_at(false, r, j);
                    if (i < end)
                        trp__store_float<T>(p.io[o].at, i, p.io[o].type, out[j]);
                }
            }
        }
    }
    if (!p.total)
        return;
    const double all = trp__rows_together<trp__rows_sum, double>(
        (double)sum.sum - (double)sum.lost, TRP__LOSSES_THREADS, 0.0);
    if (threadIdx.x == 0)
        trp__to<double>(p.sums, blockIdx.x) = all;
}

TRP__GLOBAL(TRP__LOSSES_THREADS) trp_losses_f32(const TRP__CONSTANT trp__losses p)
{
    trp__losses_elements<float>(p);
}

TRP__GLOBAL(TRP__LOSSES_THREADS) trp_losses_f64(const TRP__CONSTANT trp__losses p)
{
    trp__losses_elements<double>(p);
}

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
