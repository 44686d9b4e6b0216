/* One step of an optimizer, for the host and for kernels on GPUs. NVRTC compiles it. */
#ifndef TRP_ACTORS_DNN_MATH_OPTIMIZER_H
#define TRP_ACTORS_DNN_MATH_OPTIMIZER_H

#include "actors/dnn/graph/train.h"

#include <math.h>

/* The columns of `segments`. */
enum { TRP__SEGMENT_OFFSET, TRP__SEGMENT_COUNT, TRP__SEGMENT_RATE, TRP__SEGMENT_DECAY };
enum { TRP__SEGMENT_COLUMNS = 4 };

/* The numbers of a step over one range. */
typedef struct trp__opt_step {
    int mode;
    bool nesterov, first; /* SGD: the first step, whose gradient is the moment */
    bool has_moment;
    double rate, decay;
    double factor;       /* factor of gradients: scale and limit of the norm */
    double beta1, beta2; /* momentum and 1 - dampening of SGD */
    double epsilon;
    double correction1, correction2; /* 1 - beta^t; the root of the second */
} trp__opt_step;

static inline trp__opt_step trp__opt_step_of(const trp__dnn_node *n, bool has_moment, double rate,
                                             double decay, double factor, int64_t count)
{
    const double *p = n->parameter;
    trp__opt_step s;
    s.mode = n->mode;
    s.nesterov = n->mode == TRP_DNN_SGD && p[2] != 0;
    s.first = n->mode == TRP_DNN_SGD && count == 1;
    s.has_moment = has_moment;
    s.rate = rate;
    s.decay = decay;
    s.factor = factor;
    s.beta1 = p[0];
    s.beta2 = n->mode == TRP_DNN_SGD ? 1 - p[1] : p[1];
    s.epsilon = p[2];
    s.correction1 = 1 - pow(p[0], (double)count);
    s.correction2 = sqrt(1 - pow(p[1], (double)count));
    return s;
}

/* The sums over gradients g that give their norm. */
enum {
    TRP__OPT_SQUARES,
    TRP__OPT_SQUARES_LESS, /* of g 2^-600, where g is f64: they cannot overflow */
    TRP__OPT_SQUARES_MORE, /* of g 2^600, where g is f64: they cannot vanish */
    TRP__OPT_ZEROS,        /* of g - g: 0 if all are finite */
    TRP__OPT_SUMS,
};

/* Squares whose sum is smaller may have lost digits, or vanished. */
#define TRP__OPT_LEAST_SQUARES 0x1p-900

/* Returns the root of the sum of all squares. */
static inline double trp__opt_root(const double sum[TRP__OPT_SUMS])
{
    const double squares = sum[TRP__OPT_SQUARES];
    if (sum[TRP__OPT_ZEROS] == 0 && squares - squares != 0)
        return sqrt(sum[TRP__OPT_SQUARES_LESS]) * 0x1p600;
    return squares < TRP__OPT_LEAST_SQUARES ? sqrt(sum[TRP__OPT_SQUARES_MORE]) * 0x1p-600
                                            : sqrt(squares);
}

/* Returns the factor of gradients, given the root of the sum of their squares. */
static inline double trp__opt_factor(double scale, bool limited, double limit, double norm)
{
    const double share = limited ? limit / (norm + 1e-6) : 1;
    return share < 1 || share != share ? scale * share : scale;
}

/* Updates one element in f64: returns w and replaces m and v. */
static inline double trp__opt_update(const trp__opt_step *s, double w, double g, double *m,
                                     double *v)
{
    g *= s->factor;
    switch (s->mode) {
    case TRP_DNN_SGD:
        g += s->decay * w;
        if (s->has_moment) {
            *m = s->first ? g : s->beta1 * *m + s->beta2 * g;
            g = s->nesterov ? g + s->beta1 * *m : *m;
        }
        return w - s->rate * g;
    case TRP_DNN_LION: {
        const double to = s->beta1 * *m + (1 - s->beta1) * g;
        w -= s->rate * s->decay * w;
        *m = s->beta2 * *m + (1 - s->beta2) * g;
        return w - s->rate * (to > 0 ? 1 : to < 0 ? -1 : to); /* a NaN stays NaN */
    }
    default:
        if (s->mode == TRP_DNN_ADAMW)
            w -= s->rate * s->decay * w;
        else
            g += s->decay * w;
        *m = s->beta1 * *m + (1 - s->beta1) * g;
        *v = s->beta2 * *v + (1 - s->beta2) * g * g;
        return w - s->rate / s->correction1 * *m / (sqrt(*v) / s->correction2 + s->epsilon);
    }
}

#endif
