/* The operations of the blas actor. */
#include "actors/blas/blas.h"

#include "actors/blas/gemm.h"
#include "actors/blas/gemm_list.h"
#include "actors/blas/lapack/lapack.h"
#include "actors/blas/levels.h"

#include <troupe/blas.h>

/* The index of an operation in the table is the low byte of its number, less 1. */
#define PLACE(number) [((number)&0xff) - 1]

static const trp__op_class ops[] = {
    PLACE(TRP_OP_GEMM) = {.op = TRP_OP_GEMM,
                          .request_bytes = sizeof(trp_gemm_request),
                          .name = "gemm",
                          .encode = trp__gemm_encode},
    PLACE(TRP_OP_GEMM_LIST) = {.op = TRP_OP_GEMM_LIST,
                               .request_bytes = sizeof(trp_gemm_list_request),
                               .name = "gemm_list",
                               .list = &trp__gemm_list},
#define ROUTINE(level, op_, text, ...)                                                             \
    PLACE(TRP_OP_##op_) = {.op = TRP_OP_##op_,                                                     \
                           .request_bytes = sizeof(trp_blas##level##_request),                     \
                           .name = #text,                                                          \
                           .encode = trp__blas##level##_encode},
#define LAPACK(op_, text, ...)                                                                     \
    PLACE(TRP_OP_##op_) = {.op = TRP_OP_##op_,                                                     \
                           .request_bytes = sizeof(trp_lapack_request),                            \
                           .name = #text,                                                          \
                           .encode = trp__lapack_encode},
#include "libs/blas/routines.def"
};

const trp__actor_class trp__blas_class = {
    .kind = "blas",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__blas_cuda,
    .host = &trp__blas_host,
};
