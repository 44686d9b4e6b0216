/* Functions of arrays of f32, in vector instructions where the processor has them. Each element is
 * computed in f64 and rounded once, to within 0.6 ulp of f32; NaN, infinities and denormals as in
 * math.h, but for functions that say otherwise. Results have the same bits on every processor, for
 * any count and alignment. `out` may be `in`. */
#ifndef TRP_BASE_NUMBERS_VMATH_H
#define TRP_BASE_NUMBERS_VMATH_H

#include <stddef.h>

/* X(name): exp, log, tanh, erf, 1 / (1 + exp(-x)), the slopes of tanh and of that; x times half of
 * 1 + erf(x / sqrt(2)), the same with tanh for erf, and the slopes of both. The last four expect
 * finite numbers. */
#define TRP__VMATH_FUNCTIONS(X)                                                                    \
    X(exp)                                                                                         \
    X(log)                                                                                         \
    X(tanh)                                                                                        \
    X(erf)                                                                                         \
    X(sigmoid)                                                                                     \
    X(tanh_slope)                                                                                  \
    X(sigmoid_slope)                                                                               \
    X(gelu)                                                                                        \
    X(gelu_tanh)                                                                                   \
    X(gelu_slope)                                                                                  \
    X(gelu_tanh_slope)

/* Functions with a number: x sigmoid(p x) and its slope, log(1 + exp(p x)) / p and its slope, and
 * p (exp(x) - 1) below 0 with x above it, and its slope. All expect finite numbers. */
#define TRP__VMATH_FUNCTIONS_WITH_NUMBER(X)                                                        \
    X(swish)                                                                                       \
    X(swish_slope)                                                                                 \
    X(softplus)                                                                                    \
    X(softplus_slope)                                                                              \
    X(elu)                                                                                         \
    X(elu_slope)

#define TRP__VMATH_DECLARE(name) void trp__v##name(const float *in, float *out, size_t count);
#define TRP__VMATH_DECLARE_WITH_NUMBER(name)                                                       \
    void trp__v##name(const float *in, double p, float *out, size_t count);
TRP__VMATH_FUNCTIONS(TRP__VMATH_DECLARE)
TRP__VMATH_FUNCTIONS_WITH_NUMBER(TRP__VMATH_DECLARE_WITH_NUMBER)

#endif
