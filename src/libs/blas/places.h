/* Indices of the blas actor's operations in tables of routines: the low byte of TRP_OP_...; the two
 * batched variants take unused ones. */
#ifndef TRP_LIBS_BLAS_PLACES_H
#define TRP_LIBS_BLAS_PLACES_H

enum {
#define ROUTINE(level, op, ...) TRP__BLAS_ROW_##op,
#define LAPACK(op, ...)         TRP__BLAS_ROW_##op,
#include "libs/blas/routines.def"
    TRP__BLAS_ROWS,
    TRP__BLAS_PLACES = TRP__BLAS_ROWS + 3, /* 0, gemm, and its lists */
    TRP__BLAS_TYPES = 6,                   /* f32, f64, c64, c128, f16, bf16 */
};
#define TRP_OP_GEMV_BATCHED 0
#define TRP_OP_TRSM_BATCHED 0x20

#endif
