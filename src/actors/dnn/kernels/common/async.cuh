/* Asynchronous copies to shared memory, and barriers for a part of a block. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_ASYNC_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_ASYNC_CUH

#include "actors/dnn/kernels/common/element.cuh"

#ifdef __CUDACC_RTC__
/* A barrier for a group of `threads` threads of a block, a multiple of 32. Groups are numbered from
 * 0 to 15; group 0 has the barrier of __syncthreads(). */
TRP__DEVICE void trp__group_sync(int group, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(group), "r"(threads) : "memory");
}
#else
/* On the tests' device groups share the block's barrier: all of them call this equally often. */
TRP__DEVICE void trp__group_sync(int, int)
{
    __syncthreads();
}
#endif

/* Waits for about `cycles` cycles. */
TRP__DEVICE void trp__pause(int cycles)
{
#ifdef __CUDACC_RTC__
    for (const long long begin = clock64(); clock64() - begin < cycles;)
        __nanosleep(100);
#else
    (void)cycles;
#endif
}

#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
/* Begins to copy 16 bytes to shared memory. Once it has waited for them, the thread that copies
 * may read them; others need a barrier, too. */
TRP__DEVICE void trp__async_copy(trp__pack16 *to, uint64_t from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
}
/* The same for 8 bytes. */
TRP__DEVICE void trp__async_copy(uint64_t *to, uint64_t from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
}
/* The same for BYTES, 16 or 4. Bytes from `count` on are set to 0. */
template <int BYTES> TRP__DEVICE void trp__async_copy_some(void *to, uint64_t from, int count)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(count)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(count)
                     : "memory");
}
/* Ends a batch of copies of the thread, which may be empty. */
TRP__DEVICE void trp__async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits for all copies of the thread. */
TRP__DEVICE void trp__async_wait_all(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}
/* Waits until at most BATCHES batches of the thread are pending. */
template <int BATCHES> TRP__DEVICE void trp__async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(BATCHES) : "memory");
}
#else
template <typename T> TRP__DEVICE void trp__async_copy(T *to, uint64_t from)
{
    *to = trp__at<T>(from, 0);
}
template <int BYTES> TRP__DEVICE void trp__async_copy_some(void *to, uint64_t from, int count)
{
    for (int i = 0; i < BYTES / 4; i++)
        ((uint32_t *)to)[i] = 4 * i < count ? trp__at<uint32_t>(from, i) : 0;
}
TRP__DEVICE void trp__async_commit(void)
{
}
TRP__DEVICE void trp__async_wait_all(void)
{
}
template <int BATCHES> TRP__DEVICE void trp__async_wait(void)
{
}
#endif

/* The same for a number that is known at run time only. From 6 on it waits for more batches than
 * it must. */
TRP__DEVICE void trp__async_wait_for(int batches)
{
#define TRP__ASYNC_CASE(count)                                                                     \
    case count:                                                                                    \
        trp__async_wait<count>();                                                                  \
        break;
    switch (batches) {
        TRP__ASYNC_CASE(0)
        TRP__ASYNC_CASE(1)
        TRP__ASYNC_CASE(2)
        TRP__ASYNC_CASE(3)
        TRP__ASYNC_CASE(4)
        TRP__ASYNC_CASE(5)
    default:
        trp__async_wait<6>();
    }
#undef TRP__ASYNC_CASE
}

#endif
