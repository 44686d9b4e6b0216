/* What all kernels of our own use for GPUs: elements in memory, rounding, and the parts of CUDA that
 * they use. The files compile with NVRTC, and as C++17 for the tests' fake device
 * (tests/support/fake_cuda/device.hpp), which is included first. */
#ifndef TRP_COMPILE_KERNEL_CUH
#define TRP_COMPILE_KERNEL_CUH

#include "base/numbers/half.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC_RTC__
#define TRP__DEVICE __device__ __forceinline__
/* Declares a kernel. Arguments: threads of a block at most, and blocks of a multiprocessor at
 * least. */
#define TRP__GLOBAL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define TRP__CONSTANT        __grid_constant__
/* A function that is not inlined, to keep modules small. */
#define TRP__SHARED_CODE __device__ __noinline__
/* Before a loop of a constant count over an array, which then stays in registers. */
#define TRP__UNROLL _Pragma("unroll")
/* Before a loop that must not be unrolled. */
#define TRP__ROLLED _Pragma("unroll 1")
/* The block's dynamic shared memory. */
#define TRP__DYNAMIC(type, name)                                                                   \
    extern __shared__ __align__(16) unsigned char trp__dynamic[];                                  \
    type *const name = (type *)trp__dynamic
/* A module that defines TRP__ALL_GLOBAL promises that all addresses are of global memory, so
 * that accesses become LDG and STG. Otherwise they are LD and ST, which also reach shared memory
 * and are slower. Large kernels take minutes to compile with it. */
#ifdef TRP__ALL_GLOBAL
#define TRP__POINTER(address) __cvta_global_to_generic(address)
#else
#define TRP__POINTER(address) (address)
#endif
/* Element i of an array of T in device memory. */
template <typename T> TRP__DEVICE T &trp__at(uint64_t address, int64_t index)
{
    return ((T *)TRP__POINTER(address))[index];
}
template <typename T> TRP__DEVICE T &trp__to(uint64_t address, int64_t index)
{
    return ((T *)TRP__POINTER(address))[index];
}
TRP__DEVICE float trp__half_value(uint16_t bits)
{
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
    return out;
}
TRP__DEVICE uint16_t trp__half_bits(float value)
{
    uint16_t out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
}
TRP__DEVICE uint16_t trp__bfloat_bits(float value)
{
    uint16_t out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
}
/* Rounds two numbers by one instruction; `low` goes to the lower half. */
TRP__DEVICE uint32_t trp__half_pair(float low, float high)
{
    uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
TRP__DEVICE uint32_t trp__bfloat_pair(float low, float high)
{
    uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
/* 2^x; denormal results become 0. */
TRP__DEVICE float trp__exp2_flushed(float x)
{
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}
#else
TRP__DEVICE float trp__exp2_flushed(float x)
{
    return x < -126.0f ? 0.0f : exp2f(x); /* NaN stays */
}
TRP__DEVICE float trp__half_value(uint16_t bits)
{
    return trp__f16_to_f32(bits);
}
TRP__DEVICE uint16_t trp__half_bits(float value)
{
    return trp__f32_to_f16(value);
}
TRP__DEVICE uint16_t trp__bfloat_bits(float value)
{
    return trp__f32_to_bf16(value);
}
TRP__DEVICE uint32_t trp__half_pair(float low, float high)
{
    return trp__half_bits(low) | (uint32_t)trp__half_bits(high) << 16;
}
TRP__DEVICE uint32_t trp__bfloat_pair(float low, float high)
{
    return trp__bfloat_bits(low) | (uint32_t)trp__bfloat_bits(high) << 16;
}
#endif

/* A loop over i from 0 to below a count, unrolled so that arrays stay in registers. The count may
 * have template arguments with commas. */
#define TRP__EACH(i, ...) TRP__UNROLL for (int i = 0; i < (__VA_ARGS__); i++)

/* A kernel that calls one function with its parameter, a `type`. `bounds`: the arguments of
 * TRP__GLOBAL, in parentheses. The function comes last, as its template arguments have commas. */
#define TRP__ENTRY(name, type, bounds, ...)                                                        \
    TRP__GLOBAL bounds name(const TRP__CONSTANT type p)                                            \
    {                                                                                              \
        __VA_ARGS__(p);                                                                            \
    }

/* 16 bytes that are read or written at a time. */
struct alignas(16) trp__pack16 {
    uint32_t word[4];
};

/* Stores 16 bytes by one instruction. The compiler would split the store where the words are
 * computed one by one. */
TRP__DEVICE void trp__store16(uint64_t address, const uint32_t word[4])
{
#ifdef __CUDACC_RTC__
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
#else
    trp__pack16 p;
    memcpy(&p, word, sizeof p);
    trp__to<trp__pack16>(address, 0) = p;
#endif
}

#endif
