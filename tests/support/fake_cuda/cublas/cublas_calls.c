/* The entry points of the fake cuBLAS's routines of levels 1 to 3. */
#include "support/fake_cuda/cublas/cublas_levels.h"

/* Fields of a call that each family sets from its parameters. */

#define SIZE(rows, columns)           .m = rows, .n = columns
#define OPERAND(name, pointer, step_) .operand[name] = {.at = pointer, .step = step_}
#define STRIDED(name, pointer, step_)                                                              \
    {                                                                                              \
        .at = pointer, .step = step_, .stride = pointer##_stride                                   \
    }
#define SCALAR(name, pointer, kind_)   .name = {.kind = kind_, .number = {.at = pointer}}
#define RESULT(number, pointer, kind_) .result[number] = {.at = pointer, .kind = kind_}
#define VECTORS(x_name, y_name)        OPERAND(x_name, x, incx), OPERAND(y_name, y, incy)
#define MATRICES                       OPERAND(A, a, lda), OPERAND(X, b, ldb), OPERAND(Y, c, ldc)
#define SCALARS(alpha_kind, beta_kind)                                                             \
    SCALAR(alpha, alpha, alpha_kind), SCALAR(beta, beta, beta_kind)
#define MATRIX_VECTORS OPERAND(A, a, lda), VECTORS(X, Y), SCALARS(ELEMENT, ELEMENT)

#define CALL_AXPY SIZE(1, n), VECTORS(A, X), OPERAND(Y, y, incy), SCALAR(alpha, alpha, ELEMENT)
#define CALL_SCAL                                                                                  \
    SIZE(1, n), OPERAND(A, x, incx), OPERAND(Y, x, incx), SCALAR(alpha, alpha, ELEMENT)
#define CALL_COPY SIZE(1, n), VECTORS(A, Y)
#define CALL_SWAP SIZE(1, n), VECTORS(X, Y)
#define CALL_ROT  SIZE(1, n), VECTORS(X, Y), SCALAR(alpha, c, REAL), SCALAR(beta, s, ELEMENT)
#define CALL_ROTG                                                                                  \
    SIZE(1, 1), OPERAND(X, a, 1), OPERAND(Y, b, 1), RESULT(0, c, REAL), RESULT(1, s, ELEMENT)
#define CALL_ROTM SIZE(1, n), OPERAND(A, param, 1), VECTORS(X, Y)
#define CALL_ROTMG                                                                                 \
    SIZE(1, 1), OPERAND(X, d1, 1), OPERAND(Y, d2, 1), OPERAND(A, x1, 1),                           \
        SCALAR(alpha, y1, ELEMENT), RESULT(0, param, ELEMENT)
#define CALL_DOT   SIZE(1, n), VECTORS(A, X), RESULT(0, result, ELEMENT)
#define CALL_NORM  SIZE(1, n), OPERAND(A, x, incx), RESULT(0, result, REAL)
#define CALL_INDEX SIZE(1, n), OPERAND(A, x, incx), RESULT(0, result, INTEGER)
#define CALL_GEMV  SIZE(m, n), MATRIX_VECTORS, .trans = trans
#define CALL_GEMV_BATCHED                                                                          \
    SIZE(m, n), SCALARS(ELEMENT, ELEMENT),                                                         \
        .trans = trans, .batch = batch,                                                            \
        .operand = {STRIDED(A, a, lda), STRIDED(X, x, incx), STRIDED(Y, y, incy)}
#define CALL_GBMV   SIZE(m, n), MATRIX_VECTORS, .trans = trans, .k = kl, .ku = ku
#define CALL_GER    SIZE(m, n), VECTORS(A, X), OPERAND(Y, a, lda), SCALAR(alpha, alpha, ELEMENT)
#define CALL_RANK_1 SIZE(n, n), .fill = fill, OPERAND(Y, a, lda)
#define CALL_SYR                                                                                   \
    CALL_RANK_1, OPERAND(A, x, incx), OPERAND(X, x, incx), SCALAR(alpha, alpha, ELEMENT)
#define CALL_HER    CALL_RANK_1, OPERAND(A, x, incx), OPERAND(X, x, incx), SCALAR(alpha, alpha, REAL)
#define CALL_SYR2   CALL_RANK_1, VECTORS(A, X), SCALAR(alpha, alpha, ELEMENT)
#define CALL_PACKED SIZE(n, n), .fill = fill, OPERAND(Y, a, 1)
#define CALL_SPR                                                                                   \
    CALL_PACKED, OPERAND(A, x, incx), OPERAND(X, x, incx), SCALAR(alpha, alpha, ELEMENT)
#define CALL_HPR  CALL_PACKED, OPERAND(A, x, incx), OPERAND(X, x, incx), SCALAR(alpha, alpha, REAL)
#define CALL_SPR2 CALL_PACKED, VECTORS(A, X), SCALAR(alpha, alpha, ELEMENT)
#define CALL_SPMV                                                                                  \
    SIZE(n, n), OPERAND(A, a, 1), VECTORS(X, Y), SCALARS(ELEMENT, ELEMENT), .fill = fill
#define CALL_TPMV                                                                                  \
    SIZE(n, n), OPERAND(A, a, 1), OPERAND(X, x, incx), OPERAND(Y, x, incx),                        \
        .fill = fill, .trans = trans, .diag = diag
#define CALL_SYMV SIZE(n, n), MATRIX_VECTORS, .fill = fill
#define CALL_SBMV SIZE(n, n), MATRIX_VECTORS, .fill = fill, .k = k
#define CALL_TBMV CALL_TRMV, .k = k
#define CALL_TRMV                                                                                  \
    SIZE(n, n), OPERAND(A, a, lda), OPERAND(X, x, incx), OPERAND(Y, x, incx),                      \
        .fill = fill, .trans = trans, .diag = diag
#define CALL_GEMM                                                                                  \
    SIZE(m, n), .k = k, MATRICES, SCALARS(ELEMENT, ELEMENT), .trans = trans_a, .trans_b = trans_b
#define CALL_SYMM SIZE(m, n), MATRICES, SCALARS(ELEMENT, ELEMENT), .side = side, .fill = fill
#define CALL_RANK                                                                                  \
    SIZE(n, n), .k = k, .fill = fill, .trans = trans, OPERAND(A, a, lda), OPERAND(Y, c, ldc)
#define CALL_SYRK  CALL_RANK, OPERAND(X, a, lda), SCALARS(ELEMENT, ELEMENT)
#define CALL_HERK  CALL_RANK, OPERAND(X, a, lda), SCALARS(REAL, REAL)
#define CALL_SYR2K CALL_RANK, OPERAND(X, b, ldb), SCALARS(ELEMENT, ELEMENT)
#define CALL_HER2K CALL_RANK, OPERAND(X, b, ldb), SCALARS(ELEMENT, REAL)
#define CALL_TRIANGLE                                                                              \
    SIZE(m, n), .side = side, .fill = fill, .trans = trans, .diag = diag,                          \
                SCALAR(alpha, alpha, ELEMENT)
#define CALL_TRMM         CALL_TRIANGLE, MATRICES
#define CALL_TRSM         CALL_TRIANGLE, OPERAND(A, a, lda), OPERAND(Y, b, ldb)
#define CALL_TRSM_BATCHED CALL_TRSM, .batch = batch
#define CALL_GEAM                                                                                  \
    SIZE(m, n), MATRICES, SCALARS(ELEMENT, ELEMENT), .trans = trans_a, .trans_b = trans_b
#define CALL_DGMM                                                                                  \
    SIZE(m, n), .side = side, OPERAND(A, a, lda), OPERAND(X, x, incx), OPERAND(Y, c, ldc)

/* f16 and bf16 share a routine; this says which types it takes. */
#define F32     TRP__CUDA_R_32F
#define IS_HALF (x_type == TRP__CUDA_R_16F || x_type == TRP__CUDA_R_16BF)
#define CALL_AXPY_EX                                                                               \
    SIZE(1, n), VECTORS(A, X), OPERAND(Y, y, incy), SCALAR(alpha, alpha, FLOAT), .type = x_type
#define TAKES_AXPY_EX (alpha_type == F32 && y_type == x_type)
#define CALL_SCAL_EX                                                                               \
    SIZE(1, n), OPERAND(A, x, incx), OPERAND(Y, x, incx), SCALAR(alpha, alpha, FLOAT),             \
        .type = x_type
#define TAKES_SCAL_EX (alpha_type == F32)
#define CALL_ROT_EX                                                                                \
    SIZE(1, n), VECTORS(X, Y), SCALAR(alpha, c, ELEMENT), SCALAR(beta, s, ELEMENT), .type = x_type
#define TAKES_ROT_EX  (y_type == x_type && cs_type == x_type)
#define CALL_DOT_EX   SIZE(1, n), VECTORS(A, X), RESULT(0, result, ELEMENT), .type = x_type
#define TAKES_DOT_EX  (y_type == x_type && result_type == x_type)
#define CALL_NRM2_EX  SIZE(1, n), OPERAND(A, x, incx), RESULT(0, result, ELEMENT), .type = x_type
#define TAKES_NRM2_EX (result_type == x_type)

/* The lists of the families omit names of parameters whose type is enough. */
#define trp__cublas_handle trp__cublas_handle handle
#define trp__cublas_side   trp__cublas_side side
#define trp__cublas_fill   trp__cublas_fill fill
#define trp__cublas_diag   trp__cublas_diag diag

#define DEFINE(op_, family, name, type_)                                                           \
    FAKE_API trp__cublas_status name TRP__CUBLAS_##family(void, void);                             \
    trp__cublas_status name TRP__CUBLAS_##family(void, void)                                       \
    {                                                                                              \
        return fake_blas_launch(handle, &(const call){.op = op_, .type = type_, CALL_##family});   \
    }

#define CUBLAS_HALF(op_, family, name)                                                             \
    FAKE_API trp__cublas_status name TRP__CUBLAS_##family(void, void);                             \
    trp__cublas_status name TRP__CUBLAS_##family(void, void)                                       \
    {                                                                                              \
        if (!IS_HALF || !TAKES_##family || execution_type != F32)                                  \
            return NOT_SUPPORTED;                                                                  \
        return fake_blas_launch(handle, &(const call){.op = op_, CALL_##family});                  \
    }

/* Two rows share a routine of real types; the first row defines it. */
#define SKIP(op_, family, name, type_)
#define SAME_DOTC                  0, SKIP
#define SAME_GERC                  0, SKIP
#define SECOND(first, second, ...) second
#define CHOOSE(...)                SECOND(__VA_ARGS__)
#define CUBLAS_ALL(op_, family, s, d, c, z)                                                        \
    CHOOSE(SAME_##op_, DEFINE, 0)                                                                  \
    (op_, family, s, TRP__CUDA_R_32F)                                                              \
        CHOOSE(SAME_##op_, DEFINE, 0)(op_, family, d, TRP__CUDA_R_64F)                             \
            CUBLAS_COMPLEX(op_, family, c, z)
#define CUBLAS_REAL(op_, family, s, d)                                                             \
    DEFINE(op_, family, s, TRP__CUDA_R_32F) DEFINE(op_, family, d, TRP__CUDA_R_64F)
#define CUBLAS_COMPLEX(op_, family, c, z)                                                          \
    DEFINE(op_, family, c, TRP__CUDA_C_32F) DEFINE(op_, family, z, TRP__CUDA_C_64F)
#include "libs/blas/routines.def"
