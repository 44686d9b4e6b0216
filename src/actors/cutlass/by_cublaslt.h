/* Products by cuBLASLt, as long as the best kernel is being compiled and no other is there. */
#ifndef TRP_ACTORS_CUTLASS_BY_CUBLASLT_H
#define TRP_ACTORS_CUTLASS_BY_CUBLASLT_H

#include "actors/cutlass/gemm_run.h"
#include "actors/cutlass/run_pack.h"
#include "actors/matmul/matmul_wire.h"

/* Payload of such a request, whose run.args_bytes is TRP__RUN_BY_CUBLASLT. */
typedef struct trp__by_cublaslt_run {
    trp__cutlass_run run;
    trp__matmul problem;
} trp__by_cublaslt_run;

_Static_assert(sizeof(trp__by_cublaslt_run) <= TRP__PAYLOAD_BYTES, "it fits into a record");

/* Its problems are trp__cutlass_product. */
extern const trp__run_library trp__by_cublaslt;

/* Writes the record of a product that it takes. What the request says of a C that is not read is
 * not looked at, as it is not for kernels. */
trp_status trp__by_cublaslt_pack(trp__pack *pack, const trp_cutlass_gemm_request *request,
                                 bool reads_c);

#endif
