/* Payload of TRP_OP_GEMM: checked, with all defaults filled in, and always column-major. A
 * row-major product C = A B is sent as the column-major C' = B' A', so a and b may be the sender's
 * b and a.
 *
 * access[TRP__GEMM_C] is C, access[TRP__GEMM_A] is A, and access[TRP__GEMM_B] is B. If k is 0,
 * there is only C. If m or n is 0, there is no access and no work. */
#ifndef TRP_ACTORS_BLAS_WIRE_H
#define TRP_ACTORS_BLAS_WIRE_H

#include <troupe/types.h>

enum { TRP__GEMM_C = 0, TRP__GEMM_A = 1, TRP__GEMM_B = 2, TRP__GEMM_NO_ACCESS = 0xff };

typedef struct trp__gemm {
    uint8_t type;             /* trp_dtype */
    uint8_t compute;          /* trp_compute */
    uint8_t trans_a, trans_b; /* trp_transpose */
    uint8_t scalars;          /* index of the access to alpha and beta */
    uint8_t apart;            /* not to be joined with others */
    uint8_t type_c;           /* trp_dtype of C; `type` is that of A and B */
    uint8_t grouped;          /* may be joined with grouped products of other sizes */
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* at least 1, also if the matrix is not read */
    int64_t a_stride, b_stride, c_stride;
    int64_t batch;
    double alpha[2], beta[2]; /* real, imaginary */
} trp__gemm;

/* Returns the type of alpha and beta, which is that of sums: i32 if C is i32, f32 for types of 16
 * and 8 bits. */
static inline trp_dtype trp__gemm_scalar_type(trp_dtype type, trp_dtype type_c)
{
    bool narrow = type == TRP_F16 || type == TRP_BF16 || type == TRP_I8;
    return type_c == TRP_I32 ? TRP_I32 : narrow ? TRP_F32 : type;
}

#endif
