#include "actors/dnn/math/functions.h"

#include <math.h>

static const double SQRT_HALF = 0.70710678118654752440, SQRT_2_PI = 0.79788456080286535588;
static const double GELU_CUBE = 0.044715;

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* Returns x times a factor that decays faster than x grows: a factor of 0 gives 0 even for
 * infinity. A NaN in x gives a NaN in `share`. */
static double damped(double x, double share)
{
    return share == 0 ? copysign(0.0, x) : x * share;
}

/* Returns beta x, and 0 for a beta of 0 even if x is infinite. */
static double times(double beta, double x)
{
    return beta == 0 && x == x ? 0 : beta * x;
}

/* Without a slope, minus infinity is clipped too, for which 0 * infinity would be NaN. */
static double relu(const double *p, double x)
{
    if (x != x)
        return x;
    return x > p[1] ? p[1] : x > p[0] ? x : p[2] == 0 ? p[0] : p[0] + p[2] * (x - p[0]);
}

/* (1 + tanh(y)) / 2 is sigmoid(2 y), which is exact where tanh is near -1. */
static double gelu_tanh_share(double x)
{
    return sigmoid(2 * SQRT_2_PI * (x + GELU_CUBE * x * x * x));
}

static double activation(const trp__dnn_node *n, double x)
{
    const double *p = n->parameter;
    switch (n->mode) {
    case TRP_DNN_RELU:
        return relu(p, x);
    case TRP_DNN_TANH:
        return tanh(x);
    case TRP_DNN_SIGMOID:
        return sigmoid(x);
    case TRP_DNN_ELU:
        return x > 0 ? x : p[0] * expm1(x);
    case TRP_DNN_GELU:
        return damped(x, erfc(-x * SQRT_HALF) / 2);
    case TRP_DNN_GELU_TANH:
        return damped(x, gelu_tanh_share(x));
    case TRP_DNN_SOFTPLUS: /* log(1 + exp(beta x)) / beta without overflow */
        return (x > 0 ? x : 0) + log1p(exp(-fabs(p[0] * x))) / p[0];
    default: /* SWISH */
        return damped(x, sigmoid(times(p[0], x)));
    }
}

/* Returns the second term of the slope of GELU_TANH: where tanh is 1 or -1 its slope is 0, however
 * large its factor is. */
static double gelu_tanh_slope(double x)
{
    double share = gelu_tanh_share(x), rest = gelu_tanh_share(-x);
    double bend = damped(SQRT_2_PI * (1 + 3 * GELU_CUBE * x * x), 2 * share * rest);
    return share + damped(x, bend);
}

static double slope_of(const trp__dnn_node *n, double x)
{
    const double *p = n->parameter;
    double s;
    switch (n->mode) {
    case TRP_DNN_RELU:
        return x > p[0] ? x < p[1] || isinf(p[1]) : p[2];
    case TRP_DNN_TANH: /* 1 - tanh(x)^2, without cancellation */
        return 4 * sigmoid(2 * x) * sigmoid(-2 * x);
    case TRP_DNN_SIGMOID:
        return sigmoid(x) * sigmoid(-x);
    case TRP_DNN_ELU:
        return x > 0 ? 1 : p[0] * exp(x);
    case TRP_DNN_GELU:
        return erfc(-x * SQRT_HALF) / 2 + damped(x, exp(-x * x / 2) * SQRT_2_PI / 2);
    case TRP_DNN_GELU_TANH:
        return gelu_tanh_slope(x);
    case TRP_DNN_SOFTPLUS:
        return sigmoid(p[0] * x);
    default: /* SWISH */
        s = times(p[0], x);
        return sigmoid(s) + damped(s, sigmoid(s) * sigmoid(-s));
    }
}

double trp__dnn_activation_slope(const trp__dnn_node *n, double x)
{
    return x != x ? x : slope_of(n, x);
}

/* Where a relu is flat its gradient is 0, even for infinity and NaN. */
double trp__dnn_activation_gradient(const trp__dnn_node *n, double x, double dy)
{
    const double slope = trp__dnn_activation_slope(n, x);
    return n->mode == TRP_DNN_RELU && slope == 0 ? 0 : dy * slope;
}

/* Return the smaller or larger number; NaN if either is NaN. */
static double least_of(double x, double b)
{
    return x != x || x < b ? x : b;
}

static double most_of(double x, double b)
{
    return x != x || x > b ? x : b;
}

double trp__dnn_pointwise_value(const trp__dnn_node *n, double x, double b, double t)
{
    switch (n->mode) {
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
        return least_of(x, b);
    case TRP_DNN_MAX:
        return most_of(x, b);
    case TRP_DNN_MOD:
        return fmod(x, b);
    case TRP_DNN_POW:
        return pow(x, b);
    case TRP_DNN_ADD_SQUARE:
        return fma(b, b, x);
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

bool trp__dnn_reduce_adds(uint8_t mode)
{
    return mode == TRP_DNN_SUM || mode == TRP_DNN_MEAN || mode == TRP_DNN_NORM1 ||
           mode == TRP_DNN_NORM2;
}

double trp__dnn_reduce_first(uint8_t mode)
{
    return mode == TRP_DNN_LEAST     ? INFINITY
           : mode == TRP_DNN_MOST    ? -INFINITY
           : mode == TRP_DNN_PRODUCT ? 1
                                     : 0;
}

double trp__dnn_reduce_next(uint8_t mode, double sum, double value)
{
    switch (mode) {
    case TRP_DNN_LEAST:
        return least_of(sum, value);
    case TRP_DNN_MOST:
        return most_of(sum, value);
    case TRP_DNN_AMAX:
        return most_of(sum, fabs(value));
    case TRP_DNN_NORM1:
        return sum + fabs(value);
    case TRP_DNN_NORM2:
        return sum + value * value;
    case TRP_DNN_PRODUCT:
        return sum * value;
    default:
        return sum + value;
    }
}

double trp__dnn_reduce_last(uint8_t mode, double sum, int64_t count)
{
    if (mode == TRP_DNN_MEAN)
        return count > 0 ? sum / (double)count : 0; /* like an empty sum */
    return mode == TRP_DNN_NORM2 ? sqrt(sum) : sum;
}

bool trp__dnn_reduce_left_range(uint8_t mode, double sum)
{
    const double least = 1e-280, most = 1e308; /* below, squares lose bits */
    if (mode == TRP_DNN_MEAN)
        return !(fabs(sum) <= most);
    return mode == TRP_DNN_NORM2 && !(sum >= least && sum <= most);
}

double trp__dnn_near_one(double amax)
{
    const int most = 1000; /* 2^most and its inverse are normal */
    if (!(amax > 0) || isinf(amax))
        return 1;
    int exponent = ilogb(amax);
    exponent = exponent > most ? most : exponent < -most ? -most : exponent;
    return ldexp(1.0, -exponent);
}

double trp__dnn_norm_factor(double amax)
{
    return amax > 1e120 || amax < 1e-120 ? trp__dnn_near_one(amax) : 1;
}

double trp__dnn_norm_factor_beside(double mean)
{
    return fabs(mean) > 1 ? 0.5 : 1;
}

/* Keeps the effect of epsilon if the square of the factor is 0 or infinite in f64. */
double trp__dnn_norm_inverse(double variance, double epsilon, double factor)
{
    const double sum = variance + epsilon * factor * factor;
    const bool epsilon_alone = sum == 0 || (isinf(sum) && !isinf(variance));
    return 1 / (epsilon_alone ? sqrt(epsilon) * factor : sqrt(sum));
}

trp__dnn_tensor trp__dnn_statistics_shape(const trp__dnn_node *n,
                                          const trp__dnn_tensor *const tensor[])
{
    const trp__dnn_tensor *x = tensor[TRP__DNN_NORM_X], *scale = tensor[TRP__DNN_NORM_SCALE];
    trp__dnn_tensor shape = *x;
    int first = n->mode == TRP_DNN_INSTANCE ? 2 : 1; /* first normalised dimension */
    if (tensor[TRP__DNN_NORM_INV_VARIANCE])
        return *tensor[TRP__DNN_NORM_INV_VARIANCE];
    for (int i = 1; i < x->rank && n->mode != TRP_DNN_INSTANCE; i++) {
        if (scale->dim[i] == 1 && x->dim[i] != 1)
            first = i + 1;
    }
    for (int i = first; i < x->rank; i++)
        shape.dim[i] = 1;
    return shape;
}
