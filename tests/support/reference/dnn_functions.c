/* See dnn_reference.h: POINTWISE and POINTWISE_BACKWARD. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"

#include <math.h>

int dr_inputs(trp_dnn_pointwise mode)
{
    if (mode == TRP_DNN_SELECT)
        return 3;
    bool two = (mode >= TRP_DNN_ADD && mode <= TRP_DNN_ATAN2) ||
               (mode >= TRP_DNN_EQUAL && mode <= TRP_DNN_OR);
    return two ? 2 : 1;
}

static double parameter(const trp_dnn_node *n, int i, double standard)
{
    return n->parameter[i].given ? n->parameter[i].re : standard;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

#define ROOT_2_BY_PI 0.79788456080286535588

static double activation(const trp_dnn_node *n, double x)
{
    const double p = parameter(n, 0, 1), low = parameter(n, 0, 0);
    switch (n->pointwise) {
    case TRP_DNN_RELU:
        if (x < low)
            return low + parameter(n, 2, 0) * (x - low);
        return fmin(x, parameter(n, 1, INFINITY));
    case TRP_DNN_TANH:
        return tanh(x);
    case TRP_DNN_SIGMOID:
        return sigmoid(x);
    case TRP_DNN_ELU:
        return x > 0 ? x : p * expm1(x);
    case TRP_DNN_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case TRP_DNN_GELU_TANH:
        return x / 2 * (1 + tanh(ROOT_2_BY_PI * (x + 0.044715 * x * x * x)));
    case TRP_DNN_SOFTPLUS: /* log(1 + exp(p x)) / p, p > 0, without overflow */
        return fmax(x, 0) + log1p(exp(-fabs(p * x))) / p;
    case TRP_DNN_SWISH:
        return x * sigmoid(p * x);
    default:
        return NAN;
    }
}

double dr_derivative(const trp_dnn_node *n, double x)
{
    const double p = parameter(n, 0, 1), low = parameter(n, 0, 0), s = sigmoid(p * x);
    switch (n->pointwise) {
    case TRP_DNN_RELU:
        return x < low ? parameter(n, 2, 0) : x > parameter(n, 1, INFINITY) ? 0 : 1;
    case TRP_DNN_TANH:
        return 1 / (cosh(x) * cosh(x));
    case TRP_DNN_SIGMOID:
        return sigmoid(x) * sigmoid(-x);
    case TRP_DNN_ELU:
        return x > 0 ? 1 : p * exp(x);
    case TRP_DNN_GELU: /* Phi(x) + x phi(x) */
        return erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) * ROOT_2_BY_PI / 2;
    case TRP_DNN_GELU_TANH: {
        double t = tanh(ROOT_2_BY_PI * (x + 0.044715 * x * x * x));
        return (1 + t) / 2 + x / 2 * (1 - t * t) * ROOT_2_BY_PI * (1 + 3 * 0.044715 * x * x);
    }
    case TRP_DNN_SOFTPLUS:
        return s;
    case TRP_DNN_SWISH:
        return s + x * p * s * (1 - s);
    default:
        return NAN;
    }
}

double dr_function(const trp_dnn_node *n, double x, double b, double t)
{
    switch (n->pointwise) {
    case TRP_DNN_IDENTITY:
        return x;
    case TRP_DNN_ADD:
        return x + b;
    case TRP_DNN_SUB:
        return x - b;
    case TRP_DNN_MUL:
        return x * b;
    case TRP_DNN_DIV:
        return x / b;
    case TRP_DNN_MIN:
        return x < b ? x : b;
    case TRP_DNN_MAX:
        return x > b ? x : b;
    case TRP_DNN_MOD:
        return fmod(x, b);
    case TRP_DNN_POW:
        return pow(x, b);
    case TRP_DNN_ADD_SQUARE:
        return x + b * b;
    case TRP_DNN_ATAN2:
        return atan2(x, b);
    case TRP_DNN_ABS:
        return fabs(x);
    case TRP_DNN_CEIL:
        return ceil(x);
    case TRP_DNN_FLOOR:
        return floor(x);
    case TRP_DNN_COS:
        return cos(x);
    case TRP_DNN_SIN:
        return sin(x);
    case TRP_DNN_TAN:
        return tan(x);
    case TRP_DNN_EXP:
        return exp(x);
    case TRP_DNN_LOG:
        return log(x);
    case TRP_DNN_NEGATE:
        return -x;
    case TRP_DNN_SQRT:
        return sqrt(x);
    case TRP_DNN_RSQRT:
        return 1 / sqrt(x);
    case TRP_DNN_RECIPROCAL:
        return 1 / x;
    case TRP_DNN_ERF:
        return erf(x);
    case TRP_DNN_EQUAL:
        return x == b;
    case TRP_DNN_NOT_EQUAL:
        return x != b;
    case TRP_DNN_GREATER:
        return x > b;
    case TRP_DNN_GREATER_EQUAL:
        return x >= b;
    case TRP_DNN_LESS:
        return x < b;
    case TRP_DNN_LESS_EQUAL:
        return x <= b;
    case TRP_DNN_AND:
        return x != 0 && b != 0;
    case TRP_DNN_OR:
        return x != 0 || b != 0;
    case TRP_DNN_NOT:
        return x == 0;
    case TRP_DNN_SELECT:
        return t != 0 ? x : b;
    default:
        return activation(n, x);
    }
}

/* Accuracy of a right result. */
typedef enum exactness {
    EXACT,
    ROUNDED, /* one or two roundings */
    SMOOTH,  /* a library function: some units in the last place of argument and result */
    COMPOSED /* several functions, which may cancel: also relative to 1 and to the argument */
} exactness;

static exactness exactness_of(trp_dnn_pointwise mode)
{
    switch (mode) {
    case TRP_DNN_ADD:
    case TRP_DNN_SUB:
    case TRP_DNN_MUL:
    case TRP_DNN_DIV:
    case TRP_DNN_ADD_SQUARE:
    case TRP_DNN_SQRT:
    case TRP_DNN_RECIPROCAL:
        return ROUNDED;
    case TRP_DNN_POW:
    case TRP_DNN_ATAN2:
    case TRP_DNN_COS:
    case TRP_DNN_SIN:
    case TRP_DNN_TAN:
    case TRP_DNN_EXP:
    case TRP_DNN_LOG:
    case TRP_DNN_RSQRT:
    case TRP_DNN_ERF:
        return SMOOTH;
    default:
        return mode >= TRP_DNN_RELU ? COMPOSED : EXACT;
    }
}

/* Returns how far the function moves from y when its arguments move. */
static double corners(const trp_dnn_node *n, const double *at, const double *by, double y)
{
    double far = 0;
    if (by[0] == 0 && by[1] == 0)
        return 0;
    for (int i = -1; i <= 1; i++) {
        for (int k = -1; k <= 1; k++)
            far = fmax(far, fabs(dr_function(n, at[0] + i * by[0], at[1] + k * by[1], at[2]) - y));
    }
    return far;
}

void dr_pointwise(const dr_work *w)
{
    const trp_dnn_node *n = w->n;
    const dr_tensor *in[3] = {dr_of(w, n->x), dr_of(w, n->b), dr_of(w, n->t)};
    dr_tensor *y = dr_of(w, n->y);
    exactness kind = exactness_of(n->pointwise);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = y->count > 0; more; more = dr_next(y, at)) {
        double value[3] = {0}, by[3] = {0};
        for (int i = 0; i < dr_inputs(n->pointwise); i++) {
            size_t k = dr_at(in[i], at);
            value[i] = in[i]->v[k];
            by[i] = in[i]->e[k] + (kind >= SMOOTH ? 4 * w->u * fabs(value[i]) : 0);
        }
        double v = dr_function(n, value[0], value[1], value[2]);
        double e = corners(n, value, by, v);
        if (kind != EXACT)
            e += (kind == ROUNDED ? 2 : 8) * w->u * fabs(v);
        if (kind == COMPOSED)
            e += 4 * w->u * (1 + fabs(value[0]));
        if (n->pointwise == TRP_DNN_ADD_SQUARE)
            e += 2 * w->u * value[1] * value[1];
        y->v[dr_at(y, at)] = v;
        y->e[dr_at(y, at)] = e;
    }
}

void dr_pointwise_backward(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x), *dy = dr_of(w, w->n->dy);
    dr_tensor *dx = dr_of(w, w->n->dx);
    for (size_t i = 0; i < dx->count; i++) {
        double slope = dr_derivative(w->n, x->v[i]), by = x->e[i] + 4 * w->u * fabs(x->v[i]);
        double off = fmax(fabs(dr_derivative(w->n, x->v[i] + by) - slope),
                          fabs(dr_derivative(w->n, x->v[i] - by) - slope));
        off += 8 * w->u * (1 + fabs(slope) + fabs(x->v[i]));
        dx->v[i] = dy->v[i] * slope;
        dx->e[i] = fabs(dy->v[i]) * off + dy->e[i] * (fabs(slope) + off);
    }
}
