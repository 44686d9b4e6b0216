/* Results that the blocks of a cluster compute together. Before sm_90 a cluster has one block,
 * which reads its own results. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_CLUSTER_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_CLUSTER_CUH

#include "actors/dnn/kernels/common/rows.cuh"

enum {
    TRP__CLUSTER_NUMBERS = 2,
    TRP__CLUSTER_PLACES = 2 * TRP__CLUSTER_NUMBERS, /* two sets in turn: the last one may still
                                                     * be read */
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

/* Publishes a block's numbers, which all its threads hold, and gives lane l of each warp the
 * numbers of block l, or `none` if there is no such block. All threads of the cluster call this,
 * any number of times with 0 and 1 in turn as `odd`, and at last trp__cluster_leave() and
 * trp__cluster_end(). */
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

/* trp__cluster_exchange() gives lane l of the first warp the numbers of block l, or `none` if there
 * is no such block. Blocks send numbers to each other's mailboxes: a barrier of the cluster would
 * also wait for all writes of the blocks. `turn` counts from 0. All threads call
 * trp__cluster_begin() before, and at last trp__cluster_leave() and trp__cluster_end(). */
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 900
/* A block's mailbox for the numbers of all blocks. Two turns have places of their own, since the
 * numbers of the last turn may still be read. */
struct trp__cluster_box {
    alignas(16) double number[2][TRP__CLUSTER_MOST][TRP__CLUSTER_NUMBERS];
    uint64_t barrier[2];
};
TRP__DEVICE trp__cluster_box *trp__cluster_mail(void)
{
    __shared__ trp__cluster_box box;
    return &box;
}
TRP__DEVICE uint32_t trp__cluster_at(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}
TRP__DEVICE uint32_t trp__cluster_there(const void *shared, int block)
{
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"(trp__cluster_at(shared)), "r"(block));
    return at;
}
TRP__DEVICE void trp__cluster_begin(int blocks)
{
    if (blocks == 1)
        return;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
                             trp__cluster_at(&trp__cluster_mail()->barrier[i]))
                         : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    trp__cluster_arrive();
    trp__cluster_wait();
}
TRP__DEVICE void trp__cluster_send(const double v[TRP__CLUSTER_NUMBERS], int blocks, int turn)
{
    trp__cluster_box *const box = trp__cluster_mail();
    const int odd = turn & 1, lane = (int)threadIdx.x % 32;
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (lane == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                         trp__cluster_at(&box->barrier[odd])),
                     "r"(blocks * (int)sizeof box->number[0][0])
                     : "memory");
    if (lane < blocks)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, "
                     "[%3];" ::"r"(trp__cluster_there(box->number[odd][rank], lane)),
                     "d"(v[0]), "d"(v[1]), "r"(trp__cluster_there(&box->barrier[odd], lane))
                     : "memory");
}
TRP__DEVICE void trp__cluster_receive(int turn)
{
    const uint32_t at = trp__cluster_at(&trp__cluster_mail()->barrier[turn & 1]);
    uint32_t done;
    do {
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(at), "r"((uint32_t)turn >> 1 & 1)
                     : "memory");
    } while (!done);
}
TRP__DEVICE void trp__cluster_exchange(double v[TRP__CLUSTER_NUMBERS], int blocks,
                                       const double none[TRP__CLUSTER_NUMBERS], int turn)
{
    const int lane = (int)threadIdx.x % 32;
    if (blocks > 1 && threadIdx.x < 32) {
        __syncwarp();
        trp__cluster_send(v, blocks, turn);
        trp__cluster_receive(turn);
    }
    for (int i = 0; i < TRP__CLUSTER_NUMBERS; i++) {
        if (blocks > 1)
            v[i] = lane < blocks ? trp__cluster_mail()->number[turn & 1][lane][i] : none[i];
        else if (lane > 0)
            v[i] = none[i];
    }
}
#else
TRP__DEVICE void trp__cluster_begin(int)
{
}
TRP__DEVICE void trp__cluster_exchange(double v[TRP__CLUSTER_NUMBERS], int blocks,
                                       const double none[TRP__CLUSTER_NUMBERS], int turn)
{
    trp__cluster_gather(v, blocks, none, turn & 1);
}
#endif

/* Tells the other blocks that this one has read what they published last. */
TRP__DEVICE void trp__cluster_leave(int blocks)
{
    if (blocks > 1)
        trp__cluster_arrive();
}

/* Waits until all blocks have left, since the shared memory of a block that has ended can't be
 * read. */
TRP__DEVICE void trp__cluster_end(int blocks)
{
    if (blocks > 1)
        trp__cluster_wait();
}

#endif
