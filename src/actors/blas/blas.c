/* The operations of the blas actor. */
#include "actors/blas/blas.h"

#include "actors/blas/gemm.h"
#include "actors/blas/gemm_list.h"
#include "actors/blas/levels.h"

#include <troupe/blas.h>

#define LEVEL(level, number, text)                                                                 \
    {                                                                                              \
        .op = (number), .request_bytes = sizeof(trp_blas##level##_request), .name = (text),        \
        .pack = trp__blas##level##_pack                                                            \
    }

static const trp__op_class ops[] = {
    {.op = TRP_OP_GEMM,
     .request_bytes = sizeof(trp_gemm_request),
     .name = "gemm",
     .pack = trp__gemm_pack},
    LEVEL(1, TRP_OP_AXPY, "axpy"),
    LEVEL(1, TRP_OP_SCAL, "scal"),
    LEVEL(1, TRP_OP_VCOPY, "vcopy"),
    LEVEL(1, TRP_OP_SWAP, "swap"),
    LEVEL(1, TRP_OP_ROT, "rot"),
    LEVEL(1, TRP_OP_ROTG, "rotg"),
    LEVEL(1, TRP_OP_DOT, "dot"),
    LEVEL(1, TRP_OP_DOTC, "dotc"),
    LEVEL(1, TRP_OP_NRM2, "nrm2"),
    LEVEL(1, TRP_OP_ASUM, "asum"),
    LEVEL(1, TRP_OP_IAMAX, "iamax"),
    LEVEL(1, TRP_OP_IAMIN, "iamin"),
    LEVEL(2, TRP_OP_GEMV, "gemv"),
    LEVEL(2, TRP_OP_GBMV, "gbmv"),
    LEVEL(2, TRP_OP_GER, "ger"),
    LEVEL(2, TRP_OP_GERC, "gerc"),
    LEVEL(2, TRP_OP_SYMV, "symv"),
    LEVEL(2, TRP_OP_HEMV, "hemv"),
    LEVEL(2, TRP_OP_TRMV, "trmv"),
    LEVEL(2, TRP_OP_TRSV, "trsv"),
    LEVEL(3, TRP_OP_SYMM, "symm"),
    LEVEL(3, TRP_OP_HEMM, "hemm"),
    LEVEL(3, TRP_OP_SYRK, "syrk"),
    LEVEL(3, TRP_OP_HERK, "herk"),
    LEVEL(3, TRP_OP_SYR2K, "syr2k"),
    LEVEL(3, TRP_OP_HER2K, "her2k"),
    LEVEL(3, TRP_OP_TRMM, "trmm"),
    LEVEL(3, TRP_OP_TRSM, "trsm"),
    LEVEL(3, TRP_OP_GEAM, "geam"),
    LEVEL(3, TRP_OP_DGMM, "dgmm"),
    {.op = TRP_OP_GEMM_LIST,
     .request_bytes = sizeof(trp_gemm_list_request),
     .name = "gemm_list",
     .list = &trp__gemm_list},
};

const trp__actor_class trp__blas_class = {
    .kind = "blas",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__blas_cuda,
    .host = &trp__blas_host,
};
