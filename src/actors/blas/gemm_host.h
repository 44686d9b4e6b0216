/* gemm on the host, and the state of the blas actor there. */
#ifndef TRP_ACTORS_BLAS_GEMM_HOST_H
#define TRP_ACTORS_BLAS_GEMM_HOST_H

#include "actors/blas/blas_wire.h"
#include "libs/openblas/openblas.h"

#include <troupe/worker.h>

/* Products of types that OpenBLAS lacks are computed in tiles of TRP__GEMM_TILE x TRP__GEMM_TILE
 * elements of C, in steps of TRP__GEMM_TILE along k. The scratch memory for one step (widened A,
 * widened B, sum) is allocated when the actor starts, so that no request can fail for lack of it.
 * Only the thread of the stream uses it. */
enum { TRP__GEMM_TILE = 1024 };
#define TRP__GEMM_HOST_SCRATCH (3 * (size_t)TRP__GEMM_TILE * TRP__GEMM_TILE * sizeof(float))

typedef struct trp__blas_host_state {
    const trp__openblas *blas;
    void *scratch;
} trp__blas_host_state;

trp_status trp__gemm_host(trp_instance *instance, const trp_job *job,
                          const trp__blas_host_state *state, trp_error *error);

/* A product that the thread of the stream computes. */
typedef struct trp__gemm_host_job {
    const trp__blas_host_state *state;
    const char *a, *b;
    char *c;
    const void *scalars; /* alpha and beta in a buffer; NULL: they are in g */
    trp__gemm g;
} trp__gemm_host_job;

/* Computes C = alpha op(A) op(B) + beta C modulo 2^32, with A and B of i8 and C of i32. */
void trp__gemm_host_integer(const trp__gemm_host_job *job, const trp__gemm *g);

#endif
