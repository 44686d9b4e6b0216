/* Shared by all modules: the entry points of abi.h for a kernel K. A family's template defines the
 * two functions that build K's parameter, and then uses TRP_MODULE.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi.h"

/* Threads per block and maximum of blocks of the prepare kernel; 0, 0: none. */
#define TRP_PREPARED 0, 0

#ifndef TRP_OVERLAPS /* the kernel waits by itself for the one before it in the stream */
#define TRP_OVERLAPS 0
#endif
#if TRP_OVERLAPS
#include "cutlass/arch/grid_dependency_control.h"
#if defined(__CUDA_ARCH__) && !defined(CUTLASS_GDC_ENABLED)
#error "these headers of CUTLASS would not wait for the kernel before"
#endif
#endif

/* A kernel of CUTLASS 2.x takes its shared memory by reference, one of 3.x as a pointer. */
template <class K> __device__ __forceinline__ void trp_run_2x(typename K::Params const &params)
{
    extern __shared__ __align__(128) char trp_shared[];
    K kernel;
    kernel(params, *reinterpret_cast<typename K::SharedStorage *>(trp_shared));
}

template <class K>
__device__ __forceinline__ void trp_run_2x_static(typename K::Params const &params)
{
    extern __shared__ __align__(128) char trp_shared[];
    K::invoke(params, *reinterpret_cast<typename K::SharedStorage *>(trp_shared));
}

template <class K> __device__ __forceinline__ void trp_run_3x(typename K::Params const &params)
{
    extern __shared__ __align__(128) char trp_shared[];
#if TRP_OVERLAPS
    /* All threads wait first: scalars are read where the kernel's parts are constructed, long
     * before CUTLASS waits. */
    cutlass::arch::wait_on_dependent_grids();
#endif
    K kernel;
    kernel(params, trp_shared);
}

/* Writes a kernel's parameter except its padding, which the host has zeroed, so that equal
 * arguments give equal bytes. */
template <class T> __device__ void trp_write_params(void *out, T const &params)
{
    static_assert(sizeof(T) <= TRP_CUTLASS_PARAMS_MAX, "the parameter of a kernel is too large");
    static_assert(alignof(T) <= TRP_CUTLASS_ALIGN, "the parameter of a kernel is aligned too much");
    *reinterpret_cast<T *>(static_cast<char *>(out) + TRP_CUTLASS_ALIGN) = params;
}

/* Counts the maps in a builder's output. */
__device__ inline uint32_t trp_count_maps(void const *out, uint32_t bytes)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at + sizeof(trp_cutlass_map) <= bytes; at += 64) {
        uint64_t tag = *reinterpret_cast<uint64_t const *>(static_cast<char const *>(out) +
                                                           TRP_CUTLASS_ALIGN + at);
        count += tag == TRP_CUTLASS_TILED || tag == TRP_CUTLASS_IM2COL;
    }
    return count;
}

/* Returns a scalar passed in the arguments. */
template <class T> __device__ __forceinline__ T trp_slot(trp_cutlass_args const &args, int i)
{
    T value;
    static_assert(sizeof(T) <= 8, "a slot has eight bytes");
    memcpy(&value, &args.slot[i], sizeof value);
    return value;
}

#define TRP_MODULE(K, run, shared, threads, blocks, cm, cn, ck, tm, tn, tk, stages)                \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                                  \
        trp_cutlass_kernel(__grid_constant__ typename K::Params const params)                      \
    {                                                                                              \
        run<K>(params);                                                                            \
    }                                                                                              \
                                                                                                   \
    extern "C" __global__ void __launch_bounds__(1)                                                \
        trp_cutlass_build(__grid_constant__ trp_cutlass_args const args, void *out)                \
    {                                                                                              \
        trp_cutlass_built built = {};                                                              \
        built.abi = TRP_CUTLASS_ABI;                                                               \
        built.params_bytes = sizeof(typename K::Params);                                           \
        built.status = trp_build(args, out, built);                                                \
        if (built.status == TRP_CUTLASS_BUILT)                                                     \
            built.tensor_maps = trp_count_maps(out, built.params_bytes);                           \
        *static_cast<trp_cutlass_built *>(out) = built;                                            \
    }                                                                                              \
                                                                                                   \
    extern "C" {                                                                                   \
    extern __device__ const uint32_t trp_cutlass_info[TRP_CUTLASS_INFO_WORDS];                     \
    __device__ const uint32_t trp_cutlass_info[TRP_CUTLASS_INFO_WORDS] = {                         \
        TRP_CUTLASS_ABI,                                                                           \
        sizeof(typename K::Params),                                                                \
        sizeof(trp_cutlass_args),                                                                  \
        shared,                                                                                    \
        threads,                                                                                   \
        cm,                                                                                        \
        cn,                                                                                        \
        ck,                                                                                        \
        tm,                                                                                        \
        tn,                                                                                        \
        tk,                                                                                        \
        stages,                                                                                    \
        alignof(typename K::Params),                                                               \
        TRP_PREPARED,                                                                              \
        TRP_OVERLAPS};                                                                             \
    }
