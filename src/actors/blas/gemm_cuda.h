/* gemm on NVIDIA GPUs, and what the blas actor keeps there. */
#ifndef TRP_ACTORS_BLAS_GEMM_CUDA_H
#define TRP_ACTORS_BLAS_GEMM_CUDA_H

#include "actors/blas/cublas.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

/* Addresses of the matrices of products that are done in one call; read by the device. */
typedef struct trp__gemm_addresses {
    const void *a[TRP_ACTOR_JOINED_MAX], *b[TRP_ACTOR_JOINED_MAX];
    void *c[TRP_ACTOR_JOINED_MAX];
} trp__gemm_addresses;

typedef struct trp__blas_state {
    const trp__cuda *cu;
    const trp__cublas *blas;
    trp__cublas_handle handle;
    trp__cu_address workspace;
    int major; /* of the device's compute capability */
    /* One for each call that may be in the stream; NULL: none could be had. */
    trp__gemm_addresses *ring;
    uint32_t next; /* in the ring */
} trp__blas_state;

trp_status trp__gemm_cuda(trp__blas_state *s, const trp_job *job, trp_error *error);

/* The actor's joins() and handle_joined(). */
bool trp__gemm_cuda_joins(trp_instance *instance, const trp_job *first, const trp_job *next);
trp_status trp__gemm_cuda_joined(trp_instance *instance, trp_job *const *jobs, uint32_t count,
                                 trp_error *error);

#endif
