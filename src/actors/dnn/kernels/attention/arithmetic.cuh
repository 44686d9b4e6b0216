/* Numbers of fused attention, and copies to shared memory. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_ARITHMETIC_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_ARITHMETIC_CUH

#include "actors/dnn/kernels/attention/attention.h"
#include "actors/dnn/kernels/common/element.cuh"
#include "actors/dnn/kernels/common/tensor_core.cuh"
#include "actors/dnn/math/philox.h"

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

/* exp(x) for x at most 0, or no number. */
TRP__DEVICE float trp__weight(float x)
{
    return exp2f(x * 1.44269504088896340736f);
}
TRP__DEVICE double trp__weight(double x)
{
    return exp(x);
}

/* The larger number; b where a is NaN. */
TRP__DEVICE float trp__larger(float a, float b)
{
    return fmaxf(a, b);
}
TRP__DEVICE double trp__larger(double a, double b)
{
    return fmax(a, b);
}

/* Copies 16 bytes of device memory to shared memory, or zeros, without waiting for them; they are
 * there for the thread after trp__wait_copies(), for the block after a barrier behind that. */
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
TRP__DEVICE void trp__copy16(void *to, uint64_t from, bool zero)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(zero ? 0 : 16)
                 : "memory");
}
TRP__DEVICE void trp__wait_copies(void)
{
    asm volatile("cp.async.wait_all;" : : : "memory");
}
#else
TRP__DEVICE void trp__copy16(void *to, uint64_t from, bool zero)
{
    *(trp__pack16 *)to = zero ? trp__pack16{{0, 0, 0, 0}} : trp__at<trp__pack16>(from, 0);
}
TRP__DEVICE void trp__wait_copies(void)
{
}
#endif

template <typename T> TRP__DEVICE T trp__lowest(void)
{
    return (T)-INFINITY;
}

#endif
