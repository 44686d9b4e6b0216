/* The cutlass actor on the host: computes sums by OpenBLAS and the epilogue tree element by
 * element. Declares what its requests share and their handlers. */
#ifndef TRP_ACTORS_CUTLASS_HOST_HOST_H
#define TRP_ACTORS_CUTLASS_HOST_HOST_H

#include "actors/cutlass/epilogue/eval.h"
#include "actors/cutlass/wire/conv.h"
#include "actors/cutlass/wire/grouped.h"
#include "matrix/product_host.h"

#include <troupe/worker.h>

#include <stdatomic.h>

/* The epilogue of a request. */
typedef struct trp__epilogue_run {
    trp__tree tree; /* count 0: none */
    trp__tree_data slot[TRP__TREE_SLOTS_MAX];
    double *sums; /* of the tree's reductions; malloc'ed, or NULL */
} trp__epilogue_run;

/* Returns the address of an access; NULL for TRP__GEMM_NO_ACCESS. */
void *trp__job_address(const trp_job *job, uint32_t access);

/* Returns the data after a record's head, `bytes` in all: in `rest` if it has that many bytes, else
 * in the piece of staging memory after the accesses. Returns NULL and sets `error` if that is
 * shorter.
 */
const unsigned char *trp__job_rest(const trp_job *job, const void *rest, size_t rest_bytes,
                                   uint32_t bytes, trp_error *error);

/* Reads the tree and the places of its slots that trp__epilogue_put() wrote. The caller sets the
 * slots of C and D. Allocates no sums. */
trp_status trp__epilogue_read(trp__epilogue_run *x, const trp_job *job, const void *rest,
                              uint32_t slots, uint32_t tree_bytes, trp_error *error);

/* Allocates the sums of the tree's reductions. */
trp_status trp__epilogue_make_sums(trp__epilogue_run *x, int64_t m, int64_t n, int64_t batch,
                                   trp_error *error);

/* Limits a number of lines or columns to that of a tile. */
static inline int64_t trp__at_most_a_tile(int64_t rest)
{
    return rest < TRP__HOST_TILE ? rest : TRP__HOST_TILE;
}

/* A product, executed on the stream's thread. */
typedef struct trp__gemm_run {
    trp__host_product product; /* its D is column-major and has no memory */
    trp__cutlass_gemm g;
    trp__epilogue_run epilogue;
} trp__gemm_run;

/* Grouped products, executed on the stream's thread. */
typedef struct trp__grouped_run {
    const trp__openblas *blas;
    void *scratch;
    trp__cutlass_grouped g;
    trp__epilogue_run epilogue;
    void *at[TRP__GEMM_MATRICES];
    uint64_t room[TRP__GEMM_MATRICES]; /* elements available at these addresses */
    const void *table;                 /* NULL: by value */
    trp__group *group;                 /* malloc'ed */
    _Atomic bool looked;               /* the table is checked; `error` has the result */
    trp_error error;
} trp__grouped_run;

/* A convolution. */
typedef struct trp__conv_run {
    const trp__openblas *blas;
    void *scratch;
    trp__cutlass_conv g;
    trp__epilogue_run epilogue;
    const void *a, *b;
} trp__conv_run;

/* A run of the actor, one per call in its ring. */
typedef union trp__cutlass_run {
    trp__gemm_run gemm;
    trp__grouped_run grouped;
    trp__conv_run conv;
} trp__cutlass_run;

typedef struct trp__cutlass_room {
    trp__host_room host;
    trp__group *looking; /* groups of the request whose table is being checked, or NULL */
} trp__cutlass_room;

/* The handlers of the operations: enqueue a run in the entry `x` of the ring. */
trp_status trp__cutlass_host_gemm(trp_instance *instance, trp_job *job, trp__gemm_run *x,
                                  trp_error *error);
trp_status trp__cutlass_host_grouped(trp_instance *instance, trp_job *job, trp__grouped_run *x,
                                     trp_error *error);
trp_status trp__cutlass_host_conv(trp_instance *instance, trp_job *job, trp__conv_run *x,
                                  trp_error *error);

#endif
