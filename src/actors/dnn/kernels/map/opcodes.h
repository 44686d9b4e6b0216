/* The operations of a map program, one row each: the result of an instruction from x (its input a),
 * w (its input b) and p (its three numbers). SELECT has a third input and stands in map.cuh. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_OPCODES_H
#define TRP_ACTORS_DNN_KERNELS_MAP_OPCODES_H

#include "actors/dnn/kernels/map/map.h"

#include <troupe/dnn.h>

#define TRP__MAP_OPERATIONS(X)                                                                     \
    X(TRP_DNN_IDENTITY, x)                                                                         \
    X(TRP_DNN_ADD, x + w)                                                                          \
    X(TRP_DNN_SUB, x - w)                                                                          \
    X(TRP_DNN_MUL, x *w)                                                                           \
    X(TRP_DNN_DIV, x / w)                                                                          \
    X(TRP_DNN_MIN, trp__least<T>(x, w))                                                            \
    X(TRP_DNN_MAX, trp__most<T>(x, w))                                                             \
    X(TRP_DNN_ADD_SQUARE, fma(w, w, x))                                                            \
    X(TRP_DNN_ABS, fabs(x))                                                                        \
    X(TRP_DNN_CEIL, ceil(x))                                                                       \
    X(TRP_DNN_FLOOR, floor(x))                                                                     \
    X(TRP_DNN_EXP, exp(x))                                                                         \
    X(TRP_DNN_LOG, log(x))                                                                         \
    X(TRP_DNN_NEGATE, -x)                                                                          \
    X(TRP_DNN_SQRT, sqrt(x))                                                                       \
    X(TRP_DNN_RSQRT, T(1) / sqrt(x))                                                               \
    X(TRP_DNN_RECIPROCAL, T(1) / x)                                                                \
    X(TRP_DNN_EQUAL, T(x == w))                                                                    \
    X(TRP_DNN_NOT_EQUAL, T(x != w))                                                                \
    X(TRP_DNN_GREATER, T(x > w))                                                                   \
    X(TRP_DNN_GREATER_EQUAL, T(x >= w))                                                            \
    X(TRP_DNN_LESS, T(x < w))                                                                      \
    X(TRP_DNN_LESS_EQUAL, T(x <= w))                                                               \
    X(TRP_DNN_AND, T(x != 0 && w != 0))                                                            \
    X(TRP_DNN_OR, T(x != 0 || w != 0))                                                             \
    X(TRP_DNN_NOT, T(x == 0))                                                                      \
    X(TRP_DNN_RELU, trp__relu<T>(p, x))                                                            \
    X(TRP_DNN_TANH, tanh(x))                                                                       \
    X(TRP_DNN_SIGMOID, trp__sigmoid<T>(x))                                                         \
    X(TRP_DNN_GELU, trp__gated<T>(x, trp__gelu_gate<T>(x)))                                        \
    X(TRP__MAP_NARROW_GELU, trp__gelu_narrow(x))                                                   \
    X(TRP_DNN_GELU_TANH, trp__gated<T>(x, trp__gelu_tanh_gate<T>(x)))                              \
    X(TRP_DNN_SWISH, trp__gated<T>(x, trp__sigmoid<T>(trp__times<T>(p[0], x))))                    \
    X(TRP__MAP_SLOPE + TRP_DNN_RELU, trp__relu_gradient<T>(p, x, w))                               \
    X(TRP__MAP_SLOPE + TRP_DNN_TANH, w * (4 * trp__sigmoid_slope<T>(2 * x)))                       \
    X(TRP__MAP_SLOPE + TRP_DNN_SIGMOID, w * trp__sigmoid_slope<T>(x))                              \
    X(TRP__MAP_SLOPE + TRP_DNN_GELU, w * trp__gelu_slope<T>(x))                                    \
    X(TRP__MAP_SLOPE + TRP_DNN_GELU_TANH, w * trp__gelu_tanh_slope<T>(x))                          \
    X(TRP__MAP_SLOPE + TRP_DNN_SWISH, w * trp__swish_slope<T>(p[0], x))

/* Operations with long functions, which the interpreter does not inline; p0 is the first number. */
#define TRP__MAP_LONG_OPERATIONS(X)                                                                \
    X(TRP_DNN_MOD, fmod(x, w))                                                                     \
    X(TRP_DNN_POW, pow(x, w))                                                                      \
    X(TRP_DNN_ATAN2, atan2(x, w))                                                                  \
    X(TRP_DNN_COS, cos(x))                                                                         \
    X(TRP_DNN_SIN, sin(x))                                                                         \
    X(TRP_DNN_TAN, tan(x))                                                                         \
    X(TRP_DNN_ERF, erf(x))                                                                         \
    X(TRP_DNN_ELU, x > 0 ? x : p0 * expm1(x))                                                      \
    X(TRP_DNN_SOFTPLUS, trp__softplus<T>(p0, x))                                                   \
    X(TRP__MAP_SLOPE + TRP_DNN_ELU, w * (x > 0 ? T(1) : p0 * exp(x)))                              \
    X(TRP__MAP_SLOPE + TRP_DNN_SOFTPLUS, w * trp__sigmoid<T>(p0 * x))

#endif
