/* A row of cross-entropy and its sums, in the threads of its block. */
#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_ROW_CUH
#define TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_ROW_CUH

#include "actors/dnn/kernels/losses/entropy.h"
#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/common/rows.cuh"

/* log(x), whose long code exists once. */
TRP__SHARED_CODE double trp__entropy_log(double x)
{
    return log(x);
}

/* A row, and what its threads found together: the largest logit, `most`, and sums over classes:
 * `sum` of exp(x - most), `linear` of x, `total` of smoothed probabilities, `away` of these times
 * most - x. */
template <typename T> struct trp__entropy_row {
    trp__rows_lanes l;
    int64_t at[TRP__ENTROPY_OPERANDS]; /* where the row begins in each operand, in elements */
    int n, runs;                       /* classes; runs of a thread */
    int64_t label;                     /* -1: none */
    bool ignored, wrong; /* wrong: the label is not a class */
    T most, own; /* own: the logit of the label */
    double sum, linear, total, away;

    TRP__DEVICE uint64_t place(const trp__entropy &p, int operand) const
    {
        return p.io[operand].at +
               (uint64_t)(at[operand] * trp__element_bytes(p.io[operand].type));
    }
    TRP__DEVICE void put(const trp__entropy &p, int operand, double value) const
    {
        if (p.used[operand])
            trp__store<double>(p.io[operand].at, at[operand], p.io[operand].type, value);
    }
};

/* Sums over a thread's elements, as in trp__entropy_row; `most` is the largest logit so far. */
template <typename T> struct trp__entropy_sums {
    T most;
    trp__exact_sum<T> sum, linear, total;
    trp__exact_sum<T> away;

    TRP__DEVICE void begin()
    {
        most = T(-INFINITY);
        sum = linear = total = away = {0, 0};
    }
    /* Returns the largest logit so far, or 0 where there is none. */
    TRP__DEVICE T base() const
    {
        return most == T(-INFINITY) ? T(0) : most;
    }
    /* Makes `away` relative to a larger maximum. */
    TRP__DEVICE void lift(T top)
    {
        const T weight = total.sum - total.lost;
        if (weight != 0)
            away.add((top - base()) * weight);
    }
    TRP__DEVICE void rise(T top)
    {
        if (!(top > most))
            return;
        lift(top);
        const T factor = trp__exp(most - top);
        sum.sum *= factor;
        sum.lost *= factor;
        most = top;
    }
    /* Combines the sums of all threads of the row. */
    TRP__DEVICE void join(const trp__entropy &p, trp__entropy_row<T> *r) const
    {
        const int threads = (int)blockDim.x;
        r->most = trp__rows_together<trp__rows_most, T>(most, threads, T(-INFINITY));
        const T all = r->most == T(-INFINITY) ? T(0) : r->most;
        const T scaled = (sum.sum - sum.lost) * trp__exp(most - all);
        r->sum = (double)trp__rows_together<trp__rows_sum, T>(scaled, threads, T(0));
        if (r->most == T(-INFINITY)) /* all logits are -infinity or NaN */
            r->sum = NAN;
        r->linear = p.smooth > 0 ? trp__rows_together<trp__rows_sum, double>(
                                       (double)linear.sum - (double)linear.lost, threads, 0.0)
                                 : 0;
        r->total = 1;
        r->away = 0;
        if (!p.used[TRP__ENTROPY_T])
            return;
        double of[2] = {(double)total.sum - (double)total.lost,
                        (double)away.sum - (double)away.lost};
        if (of[0] != 0)
            of[1] += ((double)all - (double)base()) * of[0];
        trp__rows_together<trp__rows_sum, double, 2>(of, threads, 0.0);
        r->total = of[0];
        r->away = of[1];
    }
};

/* Factors of the gradient: exp(x - most) * scale - rest - share * t, where t is a probability or,
 * of the label, 1. */
template <typename T> struct trp__entropy_factors {
    T scale, rest, share;

    TRP__DEVICE void find(const trp__entropy &p, const trp__entropy_row<T> &r, double factor,
                          double log_sum)
    {
        const double z = p.z != 0 ? 2 * p.z * log_sum : 0;
        scale = (T)(factor * (r.total + z)) / (T)r.sum;
        rest = (T)(factor * p.even);
        share = (T)(factor * (1 - p.smooth));
    }
};

TRP__DEVICE int64_t trp__entropy_label(const trp__entropy &p, int64_t at)
{
    const trp__rows_operand &o = p.io[TRP__ENTROPY_INDEX];
    return o.type == TRP_I64 ? trp__at<int64_t>(o.at, at)
                             : (int64_t)trp__at<int32_t>(o.at, at);
}

template <typename T>
TRP__DEVICE void trp__entropy_begin(const trp__entropy &p, int64_t row, trp__entropy_row<T> *r)
{
    const int each = (int)blockDim.x * TRP__ROWS_RUN;
    trp__rows_find<TRP__ENTROPY_OPERANDS>(p.space, row, p.io, r->at);
    r->n = (int)p.classes;
    r->l.thread = (int)threadIdx.x;
    r->l.threads = (int)blockDim.x;
    r->l.shift = p.runs ? (int)(r->at[TRP__ENTROPY_X] % TRP__ROWS_RUN) : 0;
    r->l.runs = p.runs != 0;
    r->l.single = false;
    r->runs = (r->n + r->l.shift + each - 1) / each;
    r->label = -1;
    r->ignored = r->wrong = false;
    r->own = 0;
    if (!p.used[TRP__ENTROPY_INDEX])
        return;
    const int64_t label = trp__entropy_label(p, r->at[TRP__ENTROPY_INDEX]);
    r->ignored = p.ignores && label == p.ignore;
    r->wrong = !r->ignored && (label < 0 || label >= p.classes);
    if (r->ignored || r->wrong)
        return;
    r->label = label;
    r->own = trp__load_float<T>(r->place(p, TRP__ENTROPY_X), label, p.io[TRP__ENTROPY_X].type);
}

#endif
