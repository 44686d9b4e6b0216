/* Products by cuBLASLt, as long as the best kernel is being compiled and no other is there: all
 * that the matmul actor does, in this actor's stream. */
#ifndef TRP_ACTORS_CUTLASS_BY_CUBLASLT_H
#define TRP_ACTORS_CUTLASS_BY_CUBLASLT_H

#include "actors/cutlass/gemm_run.h"
#include "actors/cutlass/run_wire.h"
#include "actors/matmul/matmul_wire.h"

#include <troupe/worker.h>

/* Payload of such a request, whose run.args_bytes is TRP__RUN_BY_CUBLASLT. */
typedef struct trp__by_cublaslt_run {
    trp__cutlass_run run;
    trp__matmul problem;
} trp__by_cublaslt_run;

_Static_assert(sizeof(trp__by_cublaslt_run) <= TRP__PAYLOAD_BYTES, "it fits into a record");

/* What `chosen` calls it. */
#define TRP__BY_CUBLASLT_NAME "cublaslt"

/* The sender's side: whether the library has a product like that, and is there; any thread. */
bool trp__by_cublaslt_takes(const trp__cutlass_product *x);
bool trp__by_cublaslt_is_there(void);

/* Writes the record of a product that it takes. What the request says of a C that is not read is
 * not looked at, as it is not for kernels. */
trp_status trp__by_cublaslt_pack(trp__pack *pack, const trp_cutlass_gemm_request *request,
                                 bool reads_c);

/* The worker's side: opened by the first request. Zeroed before. */
typedef struct trp__by_cublaslt {
    void *state; /* the matmul actor's; NULL: not yet */
} trp__by_cublaslt;

/* As handle(), trim() and stop() of an actor. */
trp_status trp__by_cublaslt_handle(trp__by_cublaslt *l, trp_instance *instance, trp_job *job,
                                   trp_error *error);
void trp__by_cublaslt_trim(trp__by_cublaslt *l, trp_instance *instance);
void trp__by_cublaslt_stop(trp__by_cublaslt *l, trp_instance *instance);

#endif
