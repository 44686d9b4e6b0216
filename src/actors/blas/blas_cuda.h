/* State of the blas actor on a GPU. */
#ifndef TRP_ACTORS_BLAS_BLAS_CUDA_H
#define TRP_ACTORS_BLAS_BLAS_CUDA_H

#include "actors/blas/batch/addresses.h"
#include "driver/cuda.h"
#include "libs/cublas/cublas.h"

#include <troupe/worker.h>

/* Addresses of the matrices of joined products, which are computed by one call. The device reads
 * them. */
typedef struct trp__gemm_addresses {
    const void *a[TRP_ACTOR_JOINED_MAX], *b[TRP_ACTOR_JOINED_MAX];
    void *c[TRP_ACTOR_JOINED_MAX];
} trp__gemm_addresses;

typedef struct trp__blas_state {
    const trp__cuda *cu;
    const trp__cublas *blas;
    trp__cublas_handle handle;
    trp__cu_address workspace;
    int major; /* compute capability of the device */
    /* one for each call that may be in the stream; NULL: no memory */
    trp__gemm_addresses *ring;
    uint32_t next; /* index in the ring */
    trp__blas_addresses addresses;
} trp__blas_state;

#endif
