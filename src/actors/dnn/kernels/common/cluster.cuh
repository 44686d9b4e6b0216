/* What the blocks of a cluster find together. A cluster of one block, which is all that devices
 * before sm_90 have, knows what it has published itself. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_CLUSTER_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_CLUSTER_CUH

#include "actors/dnn/kernels/common/rows.cuh"

enum {
    TRP__CLUSTER_NUMBERS = 2,
    TRP__CLUSTER_PLACES = 2 * TRP__CLUSTER_NUMBERS, /* those of the time before are read yet */
};

#ifdef __CUDACC_RTC__
/* The numbers that a block has published, in its shared memory. */
TRP__DEVICE double *trp__cluster_numbers(void)
{
    __shared__ double numbers[TRP__CLUSTER_PLACES];
    return numbers;
}
#if __CUDA_ARCH__ >= 900
TRP__DEVICE void trp__cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
TRP__DEVICE void trp__cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* Number i of a block of the cluster. */
TRP__DEVICE double trp__cluster_number(int i, int block)
{
    uint32_t at;
    double out;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"((uint32_t)__cvta_generic_to_shared(trp__cluster_numbers() + i)), "r"(block));
    asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(out) : "r"(at) : "memory");
    return out;
}
#else
TRP__DEVICE void trp__cluster_arrive(void)
{
}
TRP__DEVICE void trp__cluster_wait(void)
{
    __syncthreads();
}
TRP__DEVICE double trp__cluster_number(int i, int)
{
    return trp__cluster_numbers()[i];
}
#endif
#endif

/* Publishes a block's numbers, the same of all its threads, and gives lane l of each warp those of
 * block l, or `none`. All threads of the cluster come here, any number of times with 0 and 1 in turn
 * as `odd`, and at last to trp__cluster_leave() and trp__cluster_end(). */
TRP__DEVICE void trp__cluster_gather(double v[TRP__CLUSTER_NUMBERS], int blocks,
                                     const double none[TRP__CLUSTER_NUMBERS], int odd)
{
    const int lane = (int)threadIdx.x % 32, at = odd * TRP__CLUSTER_NUMBERS;
    if (blocks == 1) {
        for (int i = 0; i < TRP__CLUSTER_NUMBERS && lane > 0; i++)
            v[i] = none[i];
        return;
    }
    for (int i = 0; i < TRP__CLUSTER_NUMBERS && threadIdx.x == 0; i++)
        trp__cluster_numbers()[at + i] = v[i];
    trp__cluster_arrive();
    trp__cluster_wait();
    for (int i = 0; i < TRP__CLUSTER_NUMBERS; i++)
        v[i] = lane < blocks ? trp__cluster_number(at + i, lane) : none[i];
}

/* The block has read what others published last. */
TRP__DEVICE void trp__cluster_leave(int blocks)
{
    if (blocks > 1)
        trp__cluster_arrive();
}

/* No block ends while another one reads what it has published. */
TRP__DEVICE void trp__cluster_end(int blocks)
{
    if (blocks > 1)
        trp__cluster_wait();
}

#endif
