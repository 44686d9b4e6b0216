/* Shared by grouped products of all families: the kernel that turns the device's description of
 * groups into the arrays that the product reads. It follows the settings and the tree.
 *
 *     TRP_VECTORS, TRP_VECTOR_COUNT   the vectors of the tree: {word of its address, bytes of an
 *                                     element, per row}
 *     trp_kind()                      what the kernel wants of the matrices
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "groups.h"

#ifndef TRP_VECTOR_COUNT
#define TRP_VECTOR_COUNT 0
#define TRP_VECTORS
#endif

template <class T> inline constexpr int trp_bytes = sizeof(T);
template <> inline constexpr int trp_bytes<void> = 0;

#define TRP_PREPARE_THREADS 256

__device__ inline void trp_write_group(trp_cutlass_args const &args, trp_group_arrays const &arrays,
                                       trp_group const &group, int32_t index)
{
    const trp_group_vector vectors[TRP_VECTOR_COUNT + 1] = {TRP_VECTORS};
    trp_group_write(&args, &arrays, vectors, TRP_VECTOR_COUNT, &group, index);
}

__device__ inline trp_group_kind trp_kind();
__device__ inline int64_t trp_tiles(trp_group const &group);

#if TRP_COUNT_TILES
#define TRP_PREPARE_BLOCKS 1

/* Runs in one block: the numbers of tiles are accumulated over the groups. */
extern "C" __global__ void __launch_bounds__(TRP_PREPARE_THREADS)
    trp_cutlass_prepare(__grid_constant__ trp_cutlass_args const args, void const *table)
{
    __shared__ int64_t sums[TRP_PREPARE_THREADS];
    const trp_group_arrays arrays = trp_group_arrays_at(args.workspace, args.l, TRP_VECTOR_COUNT);
    const trp_group_kind kind = trp_kind();
    const int thread = threadIdx.x;
    int64_t *first = reinterpret_cast<int64_t *>(arrays.first);
    int64_t before = 0;
    if (thread == 0)
        first[0] = 0;
    for (int32_t begin = 0; begin < args.l; begin += TRP_PREPARE_THREADS) {
        const int32_t index = begin + thread;
        int64_t sum = 0;
        if (index < args.l) {
            const trp_group group = trp_group_at(&args, &kind, table, index);
            trp_write_group(args, arrays, group, index);
            sum = trp_tiles(group);
        }
        for (int step = 1; step < TRP_PREPARE_THREADS; step *= 2) {
            sums[thread] = sum;
            __syncthreads();
            if (thread >= step)
                sum += sums[thread - step];
            __syncthreads();
        }
        sums[thread] = sum;
        if (index < args.l)
            first[index + 1] = before + sum;
        __syncthreads();
        before += sums[TRP_PREPARE_THREADS - 1];
        __syncthreads();
    }
}
#else
#define TRP_PREPARE_BLOCKS 256

extern "C" __global__ void __launch_bounds__(TRP_PREPARE_THREADS)
    trp_cutlass_prepare(__grid_constant__ trp_cutlass_args const args, void const *table)
{
    const trp_group_arrays arrays = trp_group_arrays_at(args.workspace, args.l, TRP_VECTOR_COUNT);
    const trp_group_kind kind = trp_kind();
    int32_t index = blockIdx.x * TRP_PREPARE_THREADS + threadIdx.x;
    for (; index < args.l; index += gridDim.x * TRP_PREPARE_THREADS)
        trp_write_group(args, arrays, trp_group_at(&args, &kind, table, index), index);
}
#endif

#undef TRP_PREPARED
#define TRP_PREPARED TRP_PREPARE_THREADS, TRP_PREPARE_BLOCKS
