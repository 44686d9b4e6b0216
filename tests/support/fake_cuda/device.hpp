/* CUDA C++ on a processor, for the kernels of src/actors/dnn/kernels. Each thread of a block is a
 * fiber, which switches to the next one where it waits for others. The fake driver reaches device
 * memory element by element, so that an access without a mapping, or a write without permission,
 * faults as on a GPU. */
#ifndef TESTS_FAKE_CUDA_DEVICE_HPP
#define TESTS_FAKE_CUDA_DEVICE_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <math.h>

using std::isfinite;
using std::isinf;
using std::isnan;

struct fake_dim {
    unsigned x, y, z;
};

extern thread_local fake_dim threadIdx, blockIdx, blockDim, gridDim;

/* Returns the processor's address of bytes of device memory; a fault ends the launch. */
void *fake_device_reach(uint64_t address, size_t bytes, bool write);
/* Barriers for all threads of the block, or of the warp. */
void fake_device_sync(void);
void fake_device_warp_sync(void);
/* A word for each lane of the warp, written and read between two warp barriers. */
uint64_t *fake_device_lanes(void);
/* The dynamic shared memory of the block. */
void *fake_device_shared(void);

/* A barrier for all threads of the cluster, and the numbers that a block of it has published; -1:
 * this block. */
void fake_device_cluster_meet(void);
double *fake_device_cluster_numbers(int block);

#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __device__
#define __constant__ static const
#define __restrict__

#define TRP__DEVICE          inline
#define TRP__SHARED_CODE     static
#define TRP__UNROLL
#define TRP__ROLLED
#define TRP__GLOBAL(...)     extern "C" void
#define TRP__CONSTANT
#define TRP__DYNAMIC(type, name) type *const name = (type *)fake_device_shared()

static inline void __syncthreads(void)
{
    fake_device_sync();
}

/* Returns for how many threads of the block `value` is not 0. */
static inline int __syncthreads_count(int value)
{
    static thread_local int count;
    fake_device_sync();
    count = 0;
    fake_device_sync();
    count += value != 0;
    fake_device_sync();
    return count;
}

static inline void __syncwarp(unsigned = 0xffffffffu)
{
    fake_device_warp_sync();
}

template <typename T> static inline T fake_device_shuffle(T value, int from)
{
    uint64_t *lane = fake_device_lanes();
    const int mine = (int)(threadIdx.x % 32);
    T out;
    static_assert(sizeof(T) <= 8, "one word");
    memcpy(&lane[mine], &value, sizeof value);
    fake_device_warp_sync();
    memcpy(&out, &lane[from >= 0 && from < 32 ? from : mine], sizeof out);
    fake_device_warp_sync();
    return out;
}

template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask)
{
    return fake_device_shuffle(value, (int)(threadIdx.x % 32) ^ mask);
}

template <typename T> static inline T __shfl_down_sync(unsigned, T value, int by)
{
    return fake_device_shuffle(value, (int)(threadIdx.x % 32) + by);
}

template <typename T> static inline T __shfl_up_sync(unsigned, T value, int by)
{
    return fake_device_shuffle(value, (int)(threadIdx.x % 32) - by);
}

template <typename T> static inline T __shfl_sync(unsigned, T value, int from)
{
    return fake_device_shuffle(value, from);
}

static inline void trp__cluster_arrive(void)
{
}

static inline void trp__cluster_wait(void)
{
    fake_device_cluster_meet();
}

static inline double *trp__cluster_numbers(void)
{
    return fake_device_cluster_numbers(-1);
}

static inline double trp__cluster_number(int i, int block)
{
    return fake_device_cluster_numbers(block)[i];
}

static inline int __clz(int value)
{
    return value == 0 ? 32 : __builtin_clz((unsigned)value);
}

static inline int __any_sync(unsigned, int value)
{
    int any = value != 0;
    for (int by = 1; by < 32; by *= 2)
        any |= fake_device_shuffle(any, (int)(threadIdx.x % 32) ^ by);
    return any;
}

/* Returns whether `value` is true for any thread of the block. */
static inline int __syncthreads_or(int value)
{
    static thread_local int any[2];
    static thread_local unsigned round;
    const unsigned mine = round % 2;
    any[mine] |= value != 0;
    fake_device_sync();
    const int out = any[mine];
    round = mine + 1;
    fake_device_sync();
    any[mine] = 0;
    return out;
}

/* Atomic as it is: fibers switch at barriers only, and blocks run in sequence. */
static inline uint32_t atomicAdd(uint32_t *at, uint32_t by)
{
    const uint32_t before = *at;
    *at += by;
    return before;
}

template <typename T> static inline T &trp__at(uint64_t address, int64_t index)
{
    return *(T *)fake_device_reach(address + (uint64_t)index * sizeof(T), sizeof(T), false);
}

template <typename T> static inline T &trp__to(uint64_t address, int64_t index)
{
    return *(T *)fake_device_reach(address + (uint64_t)index * sizeof(T), sizeof(T), true);
}

#endif
