/* The functions of epilogue trees in f64, for the host and, read by NVRTC, for the reference kernel
 * (reference/kernels.h). */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_EVALUATE_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_EVALUATE_H

#include "actors/cutlass/epilogue/functions.h"

#include <math.h>
#include <stdint.h>

/* Minimum and maximum of IEEE 754-2019: NaN if either is NaN, and 0 is above -0. */
static double least(double x, double y)
{
    if (x != x || y != y)
        return (double)NAN;
    return x < y || (x == y && copysign(1.0, x) < 0) ? x : y;
}

static double most(double x, double y)
{
    if (x != x || y != y)
        return (double)NAN;
    return x > y || (x == y && copysign(1.0, y) < 0) ? x : y;
}

/* Computes log(1 + exp(x)) without overflow. */
static double soft_plus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0);
}

#define ROOT_2_OVER_PI 0.79788456080286535588
#define CUBIC          0.044715

/* Computes GELU's derivative without cancellation. */
static double gelu_slope(double x)
{
    if (fabs(x) > 20)
        return x > 0;
    double u = 2 * ROOT_2_OVER_PI * (x + CUBIC * x * x * x);
    double s = 1 / (1 + exp(-u)), rest = 1 / (1 + exp(u));
    return s + 2 * x * s * rest * ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
}

static double relu_6(double x)
{
    return least(most(x + 3, 0), 6);
}

#define UNARY(name, result)                                                                        \
    static double fn_##name(const double *v)                                                       \
    {                                                                                              \
        const double x = v[0];                                                                     \
        return result;                                                                             \
    }
#define BINARY(name, result)                                                                       \
    static double fn_##name(const double *v)                                                       \
    {                                                                                              \
        const double x = v[0], y = v[1];                                                           \
        return result;                                                                             \
    }
UNARY(negate, -x)
UNARY(abs, fabs(x))
UNARY(square, x *x)
UNARY(sqrt, sqrt(x))
UNARY(rsqrt, 1 / sqrt(x))
UNARY(reciprocal, 1 / x)
UNARY(exp, exp(x))
UNARY(log, log(x))
BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x *y)
BINARY(div, x / y)
BINARY(min, least(x, y))
BINARY(max, most(x, y))
UNARY(relu, most(x, 0))
UNARY(gelu, x / (1 + exp(-2 * ROOT_2_OVER_PI * (x + CUBIC * x * x * x))))
UNARY(silu, x / (1 + exp(-x)))
BINARY(drelu, y > 0 ? x : 0)
BINARY(dgelu, x *gelu_slope(y))
BINARY(clipped_relu, least(most(x, 0), y))
BINARY(leaky_relu, x > 0 ? x : x * y)
BINARY(elu, x > 0 ? x : y * expm1(x))
UNARY(selu, 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * expm1(x)))
UNARY(gelu_erf, 0.5 * x * erfc(-x * 0.70710678118654752440))
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(tanh, tanh(x))
BINARY(softplus, soft_plus(x *y) / y)
UNARY(mish, x *tanh(soft_plus(x)))
UNARY(hard_sigmoid, relu_6(x) / 6)
UNARY(hard_swish, x *relu_6(x) / 6)

static double fn_clamp(const double *v)
{
    return least(most(v[0], v[1]), v[2]);
}

static double fn_fma(const double *v)
{
    return fma(v[0], v[1], v[2]);
}

/* v: its inputs and parameters. */
static double trp__tree_evaluate(uint8_t function, const double v[3])
{
    switch (function) {
#define FN(name, values, parameters, commuting, exact, body)                                       \
    case TRP__FN_##name:                                                                           \
        return fn_##name(v);
        TRP__TREE_FUNCTIONS(FN)
#undef FN
    default:
        return 0;
    }
}

#undef UNARY
#undef BINARY

#endif
