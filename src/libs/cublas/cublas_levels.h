/* Parameters of cuBLAS's routines of levels 1 to 3 except gemm, in their variants with 64-bit
 * sizes, which exist since cuBLAS 12. libs/blas/routines.def assigns them to operations and types.
 *
 * A routine's parameters follow from its family. T is the element type and R its real type; here
 * both are void, so that one call serves all types of a family. tests/unit/fakes/cuda_abi_test.c
 * fills in the types and compares every routine with NVIDIA's header.
 *
 * Source: cuBLAS documentation. */
#ifndef TRP_LIBS_CUBLAS_LEVELS_H
#define TRP_LIBS_CUBLAS_LEVELS_H

#include "libs/cublas/cublas_abi.h"

/* cublasSideMode_t, cublasFillMode_t, cublasDiagType_t, cublasPointerMode_t */
typedef enum trp__cublas_side { TRP__CUBLAS_LEFT = 0, TRP__CUBLAS_RIGHT = 1 } trp__cublas_side;
typedef enum trp__cublas_fill { TRP__CUBLAS_LOWER = 0, TRP__CUBLAS_UPPER = 1 } trp__cublas_fill;
typedef enum trp__cublas_diag { TRP__CUBLAS_NON_UNIT = 0, TRP__CUBLAS_UNIT = 1 } trp__cublas_diag;

/* clang-format off */
#define TRP__CUBLAS_AXPY(T, R) (trp__cublas_handle, int64_t n, const T *alpha, const T *x, int64_t incx, T *y, int64_t incy)
#define TRP__CUBLAS_SCAL(T, R) (trp__cublas_handle, int64_t n, const T *alpha, T *x, int64_t incx)
#define TRP__CUBLAS_COPY(T, R) (trp__cublas_handle, int64_t n, const T *x, int64_t incx, T *y, int64_t incy)
#define TRP__CUBLAS_SWAP(T, R) (trp__cublas_handle, int64_t n, T *x, int64_t incx, T *y, int64_t incy)
#define TRP__CUBLAS_ROT(T, R) (trp__cublas_handle, int64_t n, T *x, int64_t incx, T *y, int64_t incy, const R *c, const T *s)
#define TRP__CUBLAS_ROTG(T, R) (trp__cublas_handle, T *a, T *b, R *c, T *s)
#define TRP__CUBLAS_ROTM(T, R) (trp__cublas_handle, int64_t n, T *x, int64_t incx, T *y, int64_t incy, const T *param)
#define TRP__CUBLAS_ROTMG(T, R) (trp__cublas_handle, T *d1, T *d2, T *x1, const T *y1, T *param)
#define TRP__CUBLAS_DOT(T, R) (trp__cublas_handle, int64_t n, const T *x, int64_t incx, const T *y, int64_t incy, T *result)
#define TRP__CUBLAS_NORM(T, R) (trp__cublas_handle, int64_t n, const T *x, int64_t incx, R *result)
#define TRP__CUBLAS_INDEX(T, R) (trp__cublas_handle, int64_t n, const T *x, int64_t incx, int64_t *result)
#define TRP__CUBLAS_GEMV(T, R) (trp__cublas_handle, trp__cublas_operation trans, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *x, int64_t incx, const T *beta, T *y, int64_t incy)
#define TRP__CUBLAS_GEMV_BATCHED(T, R) (trp__cublas_handle, trp__cublas_operation trans, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, long long int a_stride, const T *x, int64_t incx, long long int x_stride, const T *beta, T *y, int64_t incy, long long int y_stride, int64_t batch)
#define TRP__CUBLAS_GBMV(T, R) (trp__cublas_handle, trp__cublas_operation trans, int64_t m, int64_t n, int64_t kl, int64_t ku, const T *alpha, const T *a, int64_t lda, const T *x, int64_t incx, const T *beta, T *y, int64_t incy)
#define TRP__CUBLAS_GER(T, R) (trp__cublas_handle, int64_t m, int64_t n, const T *alpha, const T *x, int64_t incx, const T *y, int64_t incy, T *a, int64_t lda)
#define TRP__CUBLAS_SBMV(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *x, int64_t incx, const T *beta, T *y, int64_t incy)
#define TRP__CUBLAS_TBMV(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t n, int64_t k, const T *a, int64_t lda, T *x, int64_t incx)
#define TRP__CUBLAS_SYR(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *x, int64_t incx, T *a, int64_t lda)
#define TRP__CUBLAS_HER(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const R *alpha, const T *x, int64_t incx, T *a, int64_t lda)
#define TRP__CUBLAS_SYR2(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *x, int64_t incx, const T *y, int64_t incy, T *a, int64_t lda)
#define TRP__CUBLAS_SPMV(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *a, const T *x, int64_t incx, const T *beta, T *y, int64_t incy)
#define TRP__CUBLAS_SPR(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *x, int64_t incx, T *a)
#define TRP__CUBLAS_HPR(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const R *alpha, const T *x, int64_t incx, T *a)
#define TRP__CUBLAS_SPR2(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *x, int64_t incx, const T *y, int64_t incy, T *a)
#define TRP__CUBLAS_TPMV(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t n, const T *a, T *x, int64_t incx)
#define TRP__CUBLAS_SYMV(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *a, int64_t lda, const T *x, int64_t incx, const T *beta, T *y, int64_t incy)
#define TRP__CUBLAS_TRMV(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t n, const T *a, int64_t lda, T *x, int64_t incx)
#define TRP__CUBLAS_GEMM(T, R) (trp__cublas_handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b, int64_t m, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_SYMM(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_SYRK(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_HERK(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const R *alpha, const T *a, int64_t lda, const R *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_SYR2K(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_HER2K(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const R *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_TRMM(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc)
#define TRP__CUBLAS_TRSM(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, T *b, int64_t ldb)
#define TRP__CUBLAS_TRSM_BATCHED(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t m, int64_t n, const T *alpha, const T *const a[], int64_t lda, T *const b[], int64_t ldb, int64_t batch)
#define TRP__CUBLAS_GEAM(T, R) (trp__cublas_handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *beta, const T *b, int64_t ldb, T *c, int64_t ldc)
#define TRP__CUBLAS_AXPY_EX(T, R) (trp__cublas_handle, int64_t n, const void *alpha, trp__cublas_type alpha_type, const void *x, trp__cublas_type x_type, int64_t incx, void *y, trp__cublas_type y_type, int64_t incy, trp__cublas_type execution_type)
#define TRP__CUBLAS_SCAL_EX(T, R) (trp__cublas_handle, int64_t n, const void *alpha, trp__cublas_type alpha_type, void *x, trp__cublas_type x_type, int64_t incx, trp__cublas_type execution_type)
#define TRP__CUBLAS_ROT_EX(T, R) (trp__cublas_handle, int64_t n, void *x, trp__cublas_type x_type, int64_t incx, void *y, trp__cublas_type y_type, int64_t incy, const void *c, const void *s, trp__cublas_type cs_type, trp__cublas_type execution_type)
#define TRP__CUBLAS_DOT_EX(T, R) (trp__cublas_handle, int64_t n, const void *x, trp__cublas_type x_type, int64_t incx, const void *y, trp__cublas_type y_type, int64_t incy, void *result, trp__cublas_type result_type, trp__cublas_type execution_type)
#define TRP__CUBLAS_NRM2_EX(T, R) (trp__cublas_handle, int64_t n, const void *x, trp__cublas_type x_type, int64_t incx, void *result, trp__cublas_type result_type, trp__cublas_type execution_type)
#define TRP__CUBLAS_DGMM(T, R) (trp__cublas_handle, trp__cublas_side, int64_t m, int64_t n, const T *a, int64_t lda, const T *x, int64_t incx, T *c, int64_t ldc)
/* clang-format on */

#endif
