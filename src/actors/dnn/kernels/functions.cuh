/* What one element becomes, in f32 or f64: the semantics of actors/dnn/functions.c, in the type
 * that a graph computes in. */
#ifndef TRP_ACTORS_DNN_KERNELS_FUNCTIONS_CUH
#define TRP_ACTORS_DNN_KERNELS_FUNCTIONS_CUH

#include "actors/dnn/kernels/element.cuh"

template <typename T> TRP__DEVICE T trp__sigmoid(T x)
{
    const T e = exp(-fabs(x)); /* never overflows */
    return (x >= 0 ? T(1) : e) / (1 + e);
}

template <typename T> TRP__DEVICE T trp__softplus(T x)
{
    return (x > 0 || x != x ? x : T(0)) + log1p(exp(-fabs(x)));
}

template <typename T> TRP__DEVICE T trp__relu(const T p[3], T x)
{
    return x != x      ? x
           : x > p[1]  ? p[1]
           : x > p[0]  ? x
           : p[2] == 0 ? p[0]
                       : p[0] + p[2] * (x - p[0]);
}

/* x * s, where s vanishes faster than x grows: -infinity gives -0, not NaN. */
template <typename T> TRP__DEVICE T trp__gated(T x, T s)
{
    return s == 0 ? (x < 0 ? -T(0) : T(0)) : x * s;
}

template <typename T> TRP__DEVICE T trp__gelu_gate(T x)
{
    return erfc(-x * T(0.70710678118654752440)) / 2;
}

/* (1 + tanh(inner)) / 2 without the cancellation of tanh near -1. */
template <typename T> TRP__DEVICE T trp__gelu_tanh_gate(T x)
{
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return trp__sigmoid<T>(2 * inner);
}

template <typename T> TRP__DEVICE T trp__gelu_slope(T x)
{
    const T density = exp(-x * x / 2) * T(0.39894228040143267794);
    return trp__gelu_gate<T>(x) + trp__gated<T>(x, density);
}

template <typename T> TRP__DEVICE T trp__gelu_tanh_slope(T x)
{
    const T c = T(0.79788456080286535588), cube = T(0.044715);
    const T s = trp__gelu_tanh_gate<T>(x),
            bend = s * trp__sigmoid<T>(-2 * c * (x + cube * x * x * x));
    return s + (bend == 0 ? T(0) : 2 * x * bend * c * (1 + 3 * cube * x * x));
}

template <typename T> TRP__DEVICE T trp__swish_slope(T beta, T x)
{
    const T s = trp__sigmoid<T>(beta * x), bend = s * trp__sigmoid<T>(-beta * x);
    return s + (bend == 0 ? T(0) : beta * x * bend);
}

template <typename T> TRP__DEVICE T trp__least(T x, T b)
{
    return x != x || x < b ? x : b;
}

template <typename T> TRP__DEVICE T trp__most(T x, T b)
{
    return x != x || x > b ? x : b;
}

#endif
