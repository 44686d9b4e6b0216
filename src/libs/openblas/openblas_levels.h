/* Parameters of OpenBLAS's routines of levels 1 to 3 except gemm. libs/blas/routines.def assigns
 * them to operations and types.
 *
 * A routine's type follows from its family. T is the element type, R its real type, and S how a
 * scalar of type T is passed: real ones by value, complex ones by address.
 *
 * Source: CBLAS, and OpenBLAS for iamin. */
#ifndef TRP_LIBS_OPENBLAS_LEVELS_H
#define TRP_LIBS_OPENBLAS_LEVELS_H

/* CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_UPLO, CBLAS_DIAG, CBLAS_SIDE. */
enum { TRP__CBLAS_COLUMN_MAJOR = 102 };
enum { TRP__CBLAS_NO_TRANS = 111, TRP__CBLAS_TRANS = 112, TRP__CBLAS_CONJ_TRANS = 113 };
enum { TRP__CBLAS_UPPER = 121, TRP__CBLAS_LOWER = 122 };
enum { TRP__CBLAS_NON_UNIT = 131, TRP__CBLAS_UNIT = 132 };
enum { TRP__CBLAS_LEFT = 141, TRP__CBLAS_RIGHT = 142 };

/* clang-format off */
#define TRP__CBLAS_axpy(T, R, S) void (*)(int n, S alpha, const T *x, int incx, T *y, int incy)
#define TRP__CBLAS_scal(T, R, S) void (*)(int n, S alpha, T *x, int incx)
#define TRP__CBLAS_copy(T, R, S) void (*)(int n, const T *x, int incx, T *y, int incy)
#define TRP__CBLAS_swap(T, R, S) void (*)(int n, T *x, int incx, T *y, int incy)
#define TRP__CBLAS_rot(T, R, S) void (*)(int n, T *x, int incx, T *y, int incy, R c, S s)
#define TRP__CBLAS_rotm(T, R, S) void (*)(int n, T *x, int incx, T *y, int incy, const T *param)
#define TRP__CBLAS_dot(T, R, S) T (*)(int n, const T *x, int incx, const T *y, int incy)
#define TRP__CBLAS_dot_sub(T, R, S) void (*)(int n, const T *x, int incx, const T *y, int incy, T *result)
#define TRP__CBLAS_norm(T, R, S) R (*)(int n, const T *x, int incx)
#define TRP__CBLAS_asum_of_parts(T, R, S) R (*)(int n, const R *x, int incx)
#define TRP__CBLAS_index(T, R, S) size_t (*)(int n, const T *x, int incx)
#define TRP__CBLAS_gemv(T, R, S) void (*)(int order, int trans, int m, int n, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_gbmv(T, R, S) void (*)(int order, int trans, int m, int n, int kl, int ku, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_ger(T, R, S) void (*)(int order, int m, int n, S alpha, const T *x, int incx, const T *y, int incy, T *a, int lda)
#define TRP__CBLAS_sbmv(T, R, S) void (*)(int order, int uplo, int n, int k, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_tbmv(T, R, S) void (*)(int order, int uplo, int trans, int diag, int n, int k, const T *a, int lda, T *x, int incx)
#define TRP__CBLAS_syr(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *x, int incx, T *a, int lda)
#define TRP__CBLAS_her(T, R, S) void (*)(int order, int uplo, int n, R alpha, const T *x, int incx, T *a, int lda)
#define TRP__CBLAS_syr2(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *x, int incx, const T *y, int incy, T *a, int lda)
#define TRP__CBLAS_spmv(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *a, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_spr(T, R, S) void (*)(int order, int uplo, int n, R alpha, const T *x, int incx, T *a)
#define TRP__CBLAS_spr2(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *x, int incx, const T *y, int incy, T *a)
#define TRP__CBLAS_tpmv(T, R, S) void (*)(int order, int uplo, int trans, int diag, int n, const T *a, T *x, int incx)
#define TRP__CBLAS_symv(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_trmv(T, R, S) void (*)(int order, int uplo, int trans, int diag, int n, const T *a, int lda, T *x, int incx)
#define TRP__CBLAS_gemm(T, R, S) void (*)(int order, int trans_a, int trans_b, int m, int n, int k, S alpha, const T *a, int lda, const T *b, int ldb, S beta, T *c, int ldc)
#define TRP__CBLAS_symm(T, R, S) void (*)(int order, int side, int uplo, int m, int n, S alpha, const T *a, int lda, const T *b, int ldb, S beta, T *c, int ldc)
#define TRP__CBLAS_syrk(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, S alpha, const T *a, int lda, S beta, T *c, int ldc)
#define TRP__CBLAS_herk(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, R alpha, const T *a, int lda, R beta, T *c, int ldc)
#define TRP__CBLAS_syr2k(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, S alpha, const T *a, int lda, const T *b, int ldb, S beta, T *c, int ldc)
#define TRP__CBLAS_her2k(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, S alpha, const T *a, int lda, const T *b, int ldb, R beta, T *c, int ldc)
#define TRP__CBLAS_trmm(T, R, S) void (*)(int order, int side, int uplo, int trans, int diag, int m, int n, S alpha, const T *a, int lda, T *b, int ldb)
#define TRP__CBLAS_trsm(T, R, S) void (*)(int order, int side, int uplo, int trans, int diag, int m, int n, S alpha, const T *a, int lda, T *b, int ldb)
/* clang-format on */

#endif
