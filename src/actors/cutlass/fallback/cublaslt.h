/* Products by cuBLASLt, as long as the best kernel is being compiled and no other is there. */
#ifndef TRP_ACTORS_CUTLASS_FALLBACK_CUBLASLT_H
#define TRP_ACTORS_CUTLASS_FALLBACK_CUBLASLT_H

#include "actors/cutlass/plan/run.h"
#include "actors/cutlass/request/grouped.h"
#include "actors/cutlass/request/product.h"
#include "matrix/product.h"
#include "wire/layout.h"

/* Payload of such a request, whose run.args_bytes is TRP__RUN_BY_CUBLASLT. */
typedef struct trp__by_cublaslt_run {
    trp__cutlass_run run;
    trp__matmul problem;
} trp__by_cublaslt_run;

_Static_assert(sizeof(trp__by_cublaslt_run) <= TRP__PAYLOAD_BYTES, "it fits into a record");

/* And of groups, whose run.args_bytes is TRP__RUN_BY_CUBLASLT_GROUPS: their products lie in the
 * request's piece of staging memory, as many as fit. */
typedef struct trp__by_cublaslt_groups {
    trp__cutlass_run run;
    uint32_t count;
} trp__by_cublaslt_groups;

_Static_assert(sizeof(trp__by_cublaslt_groups) <= TRP__PAYLOAD_BYTES, "they fit into a record");

/* A group's product. Its accesses are parts of those of the request. */
typedef struct trp__by_cublaslt_group {
    trp__matmul problem;
    uint32_t accesses;
    uint32_t access[TRP__GEMM_MATRICES]; /* of the request */
    uint32_t reserved;
    uint64_t at[TRP__GEMM_MATRICES], bytes[TRP__GEMM_MATRICES]; /* in it */
} trp__by_cublaslt_group;

enum { TRP__BY_CUBLASLT_GROUPS_MAX = TRP__SMALL_BYTES / sizeof(trp__by_cublaslt_group) };
_Static_assert(TRP__BY_CUBLASLT_GROUPS_MAX == 234, "as it is documented");

/* Its problems are trp__cutlass_product, and trp__grouped_encoding. */
extern const trp__run_library trp__by_cublaslt, trp__groups_by_cublaslt;

/* Whether it multiplies such types whatever the sizes, orders and alignments are. With an alpha of
 * 0 it does not look at A and B, whatever they hold, nor always at C. */
bool trp__by_cublaslt_multiplies(const uint8_t type[TRP__GEMM_MATRICES], trp_scalar alpha);

/* Writes the record of a product that it takes. Ignores the request's
 * description of a C that is not read, as kernels do. */
trp_status trp__by_cublaslt_encode(trp__encoder *encoder, const trp_cutlass_gemm_request *request,
                                   bool reads_c);
trp_status trp__by_cublaslt_encode_groups(trp__grouped_encoding *m);

#endif
