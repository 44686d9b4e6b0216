/* Arithmetic of fused attention: multiply-adds, exponentials, the lowest score. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_ARITHMETIC_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_ARITHMETIC_CUH

#include "actors/dnn/kernels/attention/attention.h"
#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/common/tensor_core.cuh"
#include "base/numbers/philox.h"

#ifdef __CUDACC_RTC__
TRP__DEVICE float trp__fma(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
TRP__DEVICE double trp__fma(double a, double b, double c)
{
    return __fma_rn(a, b, c);
}
#else
template <typename T> TRP__DEVICE T trp__fma(T a, T b, T c)
{
    return a * b + c;
}
#endif

/* exp(x) for x at most 0, or NaN. */
TRP__DEVICE float trp__weight(float x)
{
    return exp2f(x * 1.44269504088896340736f);
}
TRP__DEVICE double trp__weight(double x)
{
    return exp(x);
}

template <typename T> TRP__DEVICE T trp__lowest(void)
{
    return (T)-INFINITY;
}

#endif
