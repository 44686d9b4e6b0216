/* Payload of the operations of LAPACK: checked, with all defaults filled in. Without an access to
 * A, the only work is to write zeros to info. */
#ifndef TRP_ACTORS_BLAS_LAPACK_WIRE_H
#define TRP_ACTORS_BLAS_LAPACK_WIRE_H

#include <troupe/blas.h>

enum {
    TRP__LAPACK_A,
    TRP__LAPACK_B,
    TRP__LAPACK_PIVOTS,
    TRP__LAPACK_TAU,
    TRP__LAPACK_INFO,
    TRP__LAPACK_OPERANDS,
    TRP__LAPACK_NO_ACCESS = 0xff,
};

typedef struct trp__lapack {
    uint8_t type;                         /* trp_dtype: f32, f64, c64 or c128 */
    uint8_t trans;                        /* trp_transpose; TRP_T and not TRP_C for real types */
    uint8_t access[TRP__LAPACK_OPERANDS]; /* index into the request's accesses */
    uint8_t turned;     /* 1: A and B are row-major, and the result depends on it */
    int64_t m, n, nrhs; /* A is m x n, B m x nrhs */
    int64_t lda, ldb, a_stride, b_stride, batch;
} trp__lapack;

/* Returns the number of elements of tau for each matrix. */
static inline int64_t trp__lapack_reflectors(const trp__lapack *l)
{
    return l->m < l->n ? l->m : l->n;
}

/* Returns the column of a type in the routine tables of libs/. */
static inline uint32_t trp__lapack_column(const trp__lapack *l)
{
    return l->type == TRP_F32 ? 0 : l->type == TRP_F64 ? 1 : l->type == TRP_C64 ? 2 : 3;
}

static inline bool trp__lapack_has(uint32_t op)
{
    switch (op) {
#define LAPACK(op_, ...) case TRP_OP_##op_:
#include "libs/blas/routines.def"
        return true;
    default:
        return false;
    }
}

#endif
