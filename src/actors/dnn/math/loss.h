/* Losses element by element: the same text for the host and for kernels on GPUs. */
#ifndef TRP_ACTORS_DNN_MATH_LOSS_H
#define TRP_ACTORS_DNN_MATH_LOSS_H

#include "actors/dnn/graph/train.h"

#include <math.h>

/* Returns log(1 + exp(x)). */
static inline double trp__softplus(double x)
{
    return (x > 0 ? x : x != x ? x : 0) + log1p(exp(-fabs(x)));
}

static inline double trp__sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* Returns the loss of x with the target t, before its weight; b is the factor of BCE_LOGITS. */
static inline double trp__loss_value(int mode, double beta, double x, double t, double b)
{
    const double away = x - t;
    switch (mode) {
    case TRP_DNN_MSE:
        return away * away;
    case TRP_DNN_L1:
        return fabs(away);
    case TRP_DNN_SMOOTH_L1:
        return fabs(away) < beta ? away * away / (2 * beta) : fabs(away) - beta / 2;
    case TRP_DNN_BCE_LOGITS:
        return (t == 1 ? 0 : (1 - t) * trp__softplus(x)) + (t == 0 ? 0 : b * t * trp__softplus(-x));
    case TRP_DNN_KL:
        return t == 0 ? 0 : t * (log(t) - x);
    default:
        return exp(t) == 0 ? 0 : exp(t) * (t - x);
    }
}

/* Returns its derivative by x. */
static inline double trp__loss_slope(int mode, double beta, double x, double t, double b)
{
    const double away = x - t;
    const double sign = away > 0 ? 1 : away < 0 ? -1 : away; /* a NaN stays NaN */
    switch (mode) {
    case TRP_DNN_MSE:
        return 2 * away;
    case TRP_DNN_L1:
        return sign;
    case TRP_DNN_SMOOTH_L1:
        return fabs(away) < beta ? away / beta : sign;
    case TRP_DNN_BCE_LOGITS:
        return (1 - t) * trp__sigmoid(x) - b * t * trp__sigmoid(-x);
    case TRP_DNN_KL:
        return -t;
    default:
        return -exp(t);
    }
}

/* Returns the divisor of the sum of losses and of each gradient; `count` is the number of rows or
 * elements that are not ignored. */
static inline double trp__loss_divisor(const trp__dnn_node *n, double count, double batch)
{
    const int how = trp__train_reduction(n);
    return how == TRP_DNN_REDUCE_MEAN ? count : how == TRP_DNN_REDUCE_BATCH ? batch : 1;
}

#endif
