/* Payload of TRP_OP_GEMM: checked, all defaults filled in, and always column-major. A row-major
 * product C = A B travels as the column-major C' = B' A', so that here a and b may be the sender's
 * b and a.
 *
 * access[TRP__GEMM_C] is C, [TRP__GEMM_A] and [TRP__GEMM_B] are A and B. With k 0 there is only C;
 * with m or n 0 there is no access and nothing to do. */
#ifndef TRP_ACTORS_BLAS_WIRE_H
#define TRP_ACTORS_BLAS_WIRE_H

#include <troupe/types.h>

enum { TRP__GEMM_C = 0, TRP__GEMM_A = 1, TRP__GEMM_B = 2, TRP__GEMM_NO_ACCESS = 0xff };

typedef struct trp__gemm {
    uint8_t type;             /* trp_dtype */
    uint8_t compute;          /* trp_compute */
    uint8_t trans_a, trans_b; /* trp_transpose */
    uint8_t scalars;          /* index of the access with alpha and beta */
    uint8_t apart;            /* not to be joined with others */
    uint8_t type_c;           /* trp_dtype, of C; `type` is that of A and B */
    uint8_t grouped;          /* may be joined with others of another size that may be, too */
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* at least 1, also where a matrix is not looked at */
    int64_t a_stride, b_stride, c_stride;
    int64_t batch;
    double alpha[2], beta[2]; /* real, imaginary */
} trp__gemm;

/* The type of alpha and beta, in which sums are: with C of i32 i32, for 16 and 8 bits f32. */
static inline trp_dtype trp__gemm_scalar_type(trp_dtype type, trp_dtype type_c)
{
    bool narrow = type == TRP_F16 || type == TRP_BF16 || type == TRP_I8;
    return type_c == TRP_I32 ? TRP_I32 : narrow ? TRP_F32 : type;
}

#endif
