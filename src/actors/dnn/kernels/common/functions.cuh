/* Functions of one element, in f32 or f64: the semantics of actors/dnn/math/functions.c, in the
 * type that a graph computes in. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_FUNCTIONS_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_FUNCTIONS_CUH

#include "actors/dnn/kernels/common/element.cuh"

/* Compute 1 / d, for d from 1 to 2^32, and n / d, both to 1 ulp. A division would have branches for
 * other numbers; trp__part() has one Newton step instead. */
#ifdef __CUDACC_RTC__
TRP__DEVICE float trp__near_reciprocal(float d)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return r;
}
TRP__DEVICE float trp__part(float n, float d)
{
    const float r = trp__near_reciprocal(d), q = n * r;
    return fmaf(fmaf(-d, q, n), r, q);
}
#else
TRP__DEVICE float trp__near_reciprocal(float d)
{
    return 1 / d;
}
TRP__DEVICE float trp__part(float n, float d)
{
    return n / d;
}
#endif
TRP__DEVICE double trp__part(double n, double d)
{
    return n / d;
}

#define TRP__LOG2E 1.44269504088896340736f

/* e^x, not inlined because f64 takes many instructions. */
TRP__SHARED_CODE double trp__exp_f64(double x)
{
    return exp(x);
}
TRP__DEVICE double trp__exp(double x)
{
    return trp__exp_f64(x);
}
TRP__DEVICE float trp__exp(float x)
{
    return exp(x);
}

/* e^x for x <= 0; for results of 16 bits times 2^RAISED. The fast instruction flushes denormal
 * results to 0; raised, no number that the type holds is lost. */
template <int TYPE, int RAISED> TRP__DEVICE float trp__exp_raised(float x)
{
    return TYPE == TRP_F32 ? exp(x) : trp__exp2_flushed(fmaf(x, TRP__LOG2E, (float)RAISED));
}

template <typename T> TRP__DEVICE T trp__sigmoid(T x)
{
    const T e = exp(-fabs(x)); /* never overflows */
    return trp__part(x >= 0 ? T(1) : e, 1 + e);
}

/* The derivative of the sigmoid: sigmoid(x) sigmoid(-x). */
template <typename T> TRP__DEVICE T trp__sigmoid_slope(T x)
{
    const T e = exp(-fabs(x)), r = trp__part(T(1), 1 + e);
    return (e * r) * r;
}

/* log(1 + exp(beta x)) / beta without overflow, for beta > 0. */
template <typename T> TRP__DEVICE T trp__softplus(T beta, T x)
{
    return (x > 0 ? x : T(0)) + log1p(exp(-fabs(beta * x))) / beta;
}

template <typename T> TRP__DEVICE T trp__relu(const T p[3], T x)
{
    return x != x      ? x
           : x > p[1]  ? p[1]
           : x > p[0]  ? x
           : p[2] == 0 ? p[0]
                       : p[0] + p[2] * (x - p[0]);
}

/* x times a gate s that vanishes faster than x grows: 0 where s is 0, for an infinite x too.
 * Where x is NaN, so is s. */
template <typename T> TRP__DEVICE T trp__gated(T x, T s)
{
    return s == 0 ? (x < 0 ? -T(0) : T(0)) : x * s;
}

/* beta x; 0 if beta is 0, for an infinite x too. */
template <typename T> TRP__DEVICE T trp__times(T beta, T x)
{
    return beta == 0 && x == x ? T(0) : beta * x;
}

template <typename T> TRP__DEVICE T trp__gelu_gate(T x)
{
    return erfc(-x * T(0.70710678118654752440)) / 2;
}

/* The part of the standard normal distribution below -|x|, `share`, with a relative error of 4e-7:
 * `power`, which is e^(-x x / 2), times a polynomial in t = 1 / (1 + 0.35 |x|) that is exact to
 * 2^-25. Shorter than erfc(). Both fields are 0 where |x| is at least 20. */
struct trp__normal_tail {
    float power, share;
};
TRP__DEVICE trp__normal_tail trp__tail_of(float x)
{
    const float a = fabs(x) > 20.0f ? 20.0f : fabs(x); /* NaN stays */
    const float square = a * a, lost = fmaf(a, a, -square), e = exp(-0.5f * square);
    const float t = trp__part(1.0f, fmaf(a, 0.35f, 1.0f));
    float p = -0.029732275810675897f;
    p = fmaf(p, t, 0.14678398607717832f);
    p = fmaf(p, t, -0.26141054323822493f);
    p = fmaf(p, t, 0.16551016483014974f);
    p = fmaf(p, t, -0.027321910583466516f);
    p = fmaf(p, t, 0.1072124994006896f);
    p = fmaf(p, t, 0.11942509265781834f);
    p = fmaf(p, t, 0.13991433390191801f);
    p = fmaf(p, t, 0.13961863501320695f);
    const trp__normal_tail out = {e, fmaf(e, -0.5f * lost, e) * (p * t)};
    return out;
}

template <> TRP__DEVICE float trp__gelu_gate<float>(float x)
{
    const float share = trp__tail_of(x).share;
    return x < 0 ? share : 1 - share;
}

/* gelu with an error of 2^-15, for results of 16 bits: the same tail with a shorter polynomial.
 * e^(-x x / 2) is multiplied by 2^32 meanwhile, so that no denormal becomes 0. */
TRP__DEVICE float trp__gelu_narrow(float x)
{
    const float a = fmin(fabs(x), 20.0f);
    const float t = trp__near_reciprocal(fmaf(a, 0.35f, 1.0f));
    const float e = trp__exp2_flushed(fmaf(a * a, -0.72134752044448170368f, 32.0f));
    float p = -0.03285315260f * 0x1p-32f;
    p = fmaf(p, t, 0.008042911999f * 0x1p-32f);
    p = fmaf(p, t, 0.1450152248f * 0x1p-32f);
    p = fmaf(p, t, 0.09544996917f * 0x1p-32f);
    p = fmaf(p, t, 0.1450995803f * 0x1p-32f);
    p = fmaf(p, t, 0.1392333210f * 0x1p-32f);
    const float share = e * (p * t);
    return (x < -20.0f ? -20.0f : x) * (x < 0 ? share : 1 - share); /* NaN stays */
}
TRP__DEVICE double trp__gelu_narrow(double x)
{
    return trp__gated<double>(x, trp__gelu_gate<double>(x));
}

/* (1 + tanh(y)) / 2 is sigmoid(2 y), which is exact where tanh is near -1. */
template <typename T> TRP__DEVICE T trp__gelu_tanh_gate(T x)
{
    return trp__sigmoid<T>(T(1.59576912160573071176) * (x + T(0.044715) * x * x * x));
}

template <typename T> TRP__DEVICE T trp__gelu_slope(T x)
{
    const T density = exp(-x * x / 2) * T(0.39894228040143267794);
    return trp__gelu_gate<T>(x) + trp__gated<T>(x, density);
}

template <> TRP__DEVICE float trp__gelu_slope<float>(float x)
{
    const trp__normal_tail tail = trp__tail_of(x);
    return (x < 0 ? tail.share : 1 - tail.share) +
           trp__gated<float>(x, tail.power * 0.39894228040143267794f);
}

template <typename T> TRP__DEVICE T trp__gelu_tanh_slope(T x)
{
    const T y = T(1.59576912160573071176) * (x + T(0.044715) * x * x * x);
    const T bend = trp__gated<T>(T(0.79788456080286535588) * (1 + 3 * T(0.044715) * x * x),
                                 2 * trp__sigmoid_slope<T>(y));
    return trp__sigmoid<T>(y) + trp__gated<T>(x, bend);
}

template <typename T> TRP__DEVICE T trp__swish_slope(T beta, T x)
{
    const T s = trp__times<T>(beta, x);
    return trp__sigmoid<T>(s) + trp__gated<T>(s, trp__sigmoid_slope<T>(s));
}

/* The gradient of a relu: 0 where the relu is flat, even if dy is infinite or NaN. */
template <typename T> TRP__DEVICE T trp__relu_gradient(const T p[3], T x, T dy)
{
    const T slope = x != x ? x : x > p[0] ? T(x < p[1] || isinf(p[1])) : p[2];
    return slope == 0 ? T(0) : dy * slope;
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
