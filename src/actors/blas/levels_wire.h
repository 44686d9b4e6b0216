/* Payload of the blas operations of levels 1 to 3 except gemm: checked, with all defaults filled
 * in, and always column-major. A row-major request is sent as the equivalent column-major request
 * with transposed matrices.
 *
 * Operands are A, a matrix; X, a vector or the matrix B; and Y, a vector or the matrix C, as far as
 * the cuBLAS function has them, in the order of BLAS. */
#ifndef TRP_ACTORS_BLAS_LEVELS_WIRE_H
#define TRP_ACTORS_BLAS_LEVELS_WIRE_H

#include <stdint.h>

enum { TRP__BLAS_A = 0, TRP__BLAS_X = 1, TRP__BLAS_Y = 2, TRP__BLAS_OPERANDS = 3 };
enum { TRP__BLAS_NO_ACCESS = 0xff };

/* A row-major matrix is read as its transpose. If the operation needs the conjugate of the
 * transpose, everything else is conjugated: a vector that is only read, in a copy; a vector that is
 * written, in place before and after the operation. */
enum {
    TRP__BLAS_CONJUGATES = 1,        /* the vectors */
    TRP__BLAS_CONJUGATES_X = 2,      /* X is written */
    TRP__BLAS_CONJUGATES_Y = 4,      /* Y is written */
    TRP__BLAS_CONJUGATE_SCALARS = 8, /* alpha and beta, in a buffer */
};

typedef struct trp__levels {
    uint8_t type;  /* trp_dtype: f32, f64, c64, c128, f16 or bf16 */
    uint8_t side;  /* trp_side */
    uint8_t uplo;  /* trp_uplo */
    uint8_t trans; /* trp_transpose; TRP_T and not TRP_C for real types */
    uint8_t trans_b;
    uint8_t diag;                       /* trp_diag */
    uint8_t access[TRP__BLAS_OPERANDS]; /* index into the request's accesses */
    uint8_t scalars;                    /* index of the access to alpha and beta, or c and s */
    uint8_t result;                     /* index of the access to the result */
    uint8_t conjugate;                  /* TRP__BLAS_CONJUGATE flags */
    uint8_t reserved[4];
    int64_t m, n, k; /* k: also kl of gbmv */
    int64_t ku;
    int64_t ld[TRP__BLAS_OPERANDS]; /* leading dimension; increment of a vector */
    int64_t stride[TRP__BLAS_OPERANDS];
    int64_t batch;
    double alpha[2], beta[2];           /* real, imaginary; c and s of rot */
    int64_t length[TRP__BLAS_OPERANDS]; /* of vectors that are conjugated */
} trp__levels;

#endif
