/* The cutlass actor on the host: sums by OpenBLAS, the epilogue tree element by element. What its
 * requests share, and where each is handled. */
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

/* The address of an access; NULL for TRP__GEMM_NO_ACCESS. */
void *trp__job_address(const trp_job *job, uint32_t access);

/* Where what follows a record's head lies, `bytes` in all: in `rest`, if `rest_bytes` are enough,
 * else in the piece of staging memory behind the accesses. NULL, and `error`, if that is shorter.
 */
const unsigned char *trp__job_rest(const trp_job *job, const void *rest, size_t rest_bytes,
                                   uint32_t bytes, trp_error *error);

/* The tree and the places of its slots, from what trp__epilogue_put() wrote. Slots of C and D are
 * the caller's. No sums yet. */
trp_status trp__epilogue_read(trp__epilogue_run *x, const trp_job *job, const void *rest,
                              uint32_t slots, uint32_t tree_bytes, trp_error *error);

/* Room for the sums of the tree's reductions. */
trp_status trp__epilogue_make_sums(trp__epilogue_run *x, int64_t m, int64_t n, int64_t batch,
                                   trp_error *error);

/* Of a tile's lines or columns. */
static inline int64_t trp__at_most_a_tile(int64_t rest)
{
    return rest < TRP__HOST_TILE ? rest : TRP__HOST_TILE;
}

/* One product, on the stream's thread. */
typedef struct trp__gemm_run {
    trp__host_product product; /* its g: D is column-major and not there */
    trp__cutlass_gemm g;
    trp__epilogue_run epilogue;
} trp__gemm_run;

/* Grouped products, likewise. */
typedef struct trp__grouped_run {
    const trp__openblas *blas;
    void *scratch;
    trp__cutlass_grouped g;
    trp__epilogue_run epilogue;
    void *at[TRP__GEMM_MATRICES];
    uint64_t room[TRP__GEMM_MATRICES]; /* elements behind these addresses */
    const void *table;                 /* NULL: by value */
    trp__group *group;                 /* malloc'ed */
    _Atomic bool looked;               /* at the table; `error` says what came of it */
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

/* What the actor has: room for products, in whose ring is one of these for each call. */
typedef union trp__cutlass_run {
    trp__gemm_run gemm;
    trp__grouped_run grouped;
    trp__conv_run conv;
} trp__cutlass_run;

typedef struct trp__cutlass_room {
    trp__host_room host;
    trp__group *looking; /* of the request whose table is looked at; else NULL */
} trp__cutlass_room;

/* handle() of each operation: enqueues a run of the place `x` in the ring. */
trp_status trp__cutlass_host_gemm(trp_instance *instance, trp_job *job, trp__gemm_run *x,
                                  trp_error *error);
trp_status trp__cutlass_host_grouped(trp_instance *instance, trp_job *job, trp__grouped_run *x,
                                     trp_error *error);
trp_status trp__cutlass_host_conv(trp_instance *instance, trp_job *job, trp__conv_run *x,
                                  trp_error *error);

#endif
