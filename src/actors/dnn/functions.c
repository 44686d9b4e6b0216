#include "actors/dnn/functions.h"

#include <math.h>

static const double SQRT_HALF = 0.70710678118654752440, SQRT_2_PI = 0.79788456080286535588;
static const double GELU_CUBE = 0.044715;

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* log(1 + exp(x)) without overflow. */
static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* Without a slope infinity too is clipped, for which 0 * infinity would be none. */
static double relu(const double *p, double x)
{
    if (x != x)
        return x;
    return x > p[1] ? p[1] : x > p[0] ? x : p[2] == 0 ? p[0] : p[0] + p[2] * (x - p[0]);
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
        return x / 2 * (1 + erf(x * SQRT_HALF));
    case TRP_DNN_GELU_TANH:
        return x / 2 * (1 + tanh(SQRT_2_PI * (x + GELU_CUBE * x * x * x)));
    case TRP_DNN_SOFTPLUS:
        return softplus(p[0] * x) / p[0];
    default: /* SWISH */
        return x * sigmoid(p[0] * x);
    }
}

/* Of GELU_TANH. Where tanh is 1 or -1 its slope is 0, however large what it is multiplied by. */
static double gelu_tanh_slope(double x)
{
    double inner = tanh(SQRT_2_PI * (x + GELU_CUBE * x * x * x)), slope = 1 - inner * inner;
    double bend = slope == 0 ? 0 : x / 2 * slope * SQRT_2_PI * (1 + 3 * GELU_CUBE * x * x);
    return (1 + inner) / 2 + bend;
}

double trp__dnn_activation_slope(const trp__dnn_node *n, double x)
{
    const double *p = n->parameter;
    double s;
    switch (n->mode) {
    case TRP_DNN_RELU:
        return x > p[0] ? x < p[1] || isinf(p[1]) : p[2];
    case TRP_DNN_TANH:
        s = tanh(x);
        return 1 - s * s;
    case TRP_DNN_SIGMOID:
        s = sigmoid(x);
        return s * (1 - s);
    case TRP_DNN_ELU:
        return x > 0 ? 1 : p[0] * exp(x);
    case TRP_DNN_GELU:
        return (1 + erf(x * SQRT_HALF)) / 2 + x * exp(-x * x / 2) * SQRT_2_PI / 2;
    case TRP_DNN_GELU_TANH:
        return gelu_tanh_slope(x);
    case TRP_DNN_SOFTPLUS:
        return sigmoid(p[0] * x);
    default: /* SWISH */
        s = sigmoid(p[0] * x);
        return s + p[0] * x * s * (1 - s);
    }
}

/* The smaller or larger of two; NaN if either is. */
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
        return count > 0 ? sum / (double)count : 0; /* as a sum over nothing */
    return mode == TRP_DNN_NORM2 ? sqrt(sum) : sum;
}

trp__dnn_tensor trp__dnn_statistics_shape(const trp__dnn_node *n,
                                          const trp__dnn_tensor *const tensor[])
{
    const trp__dnn_tensor *x = tensor[TRP__DNN_NORM_X], *scale = tensor[TRP__DNN_NORM_SCALE];
    trp__dnn_tensor shape = *x;
    int first = n->mode == TRP_DNN_INSTANCE ? 2 : 1; /* of what is normalised over */
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
