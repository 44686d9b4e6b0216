/* cuBLAS's routines of levels 1 to 3 but gemm: what their parameters are, and which routine does an
 * operation for a type. All are those with 64-bit sizes, which came with cuBLAS 12.
 *
 * A routine's parameters follow from its family. In them T is the element type and R the real type
 * that belongs to it; here both are void, so that one call serves all types of a family.
 * tests/unit/cuda_abi_test.c compares every routine with NVIDIA's header, with the types filled in.
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
#define TRP__CUBLAS_SYMV(T, R) (trp__cublas_handle, trp__cublas_fill, int64_t n, const T *alpha, const T *a, int64_t lda, const T *x, int64_t incx, const T *beta, T *y, int64_t incy)
#define TRP__CUBLAS_TRMV(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t n, const T *a, int64_t lda, T *x, int64_t incx)
#define TRP__CUBLAS_SYMM(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_SYRK(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_HERK(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const R *alpha, const T *a, int64_t lda, const R *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_SYR2K(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const T *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_HER2K(T, R) (trp__cublas_handle, trp__cublas_fill, trp__cublas_operation trans, int64_t n, int64_t k, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, const R *beta, T *c, int64_t ldc)
#define TRP__CUBLAS_TRMM(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc)
#define TRP__CUBLAS_TRSM(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, T *b, int64_t ldb)
#define TRP__CUBLAS_TRSM_BATCHED(T, R) (trp__cublas_handle, trp__cublas_side, trp__cublas_fill, trp__cublas_operation trans, trp__cublas_diag, int64_t m, int64_t n, const T *alpha, const T *const a[], int64_t lda, T *const b[], int64_t ldb, int64_t batch)
#define TRP__CUBLAS_GEAM(T, R) (trp__cublas_handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b, int64_t m, int64_t n, const T *alpha, const T *a, int64_t lda, const T *beta, const T *b, int64_t ldb, T *c, int64_t ldc)
#define TRP__CUBLAS_DGMM(T, R) (trp__cublas_handle, trp__cublas_side, int64_t m, int64_t n, const T *a, int64_t lda, const T *x, int64_t incx, T *c, int64_t ldc)

/* One row a routine for each of f32, f64, c64, c128: the operation, the family, the names. REAL and
 * COMPLEX: there is none for the others. The operations are those of <troupe/blas.h>, and one more each
 * for a batch of gemv and of trsm. */
#define TRP__CUBLAS_ROUTINES(ALL, REAL, COMPLEX)                                                                                \
    ALL(AXPY, AXPY, cublasSaxpy_v2_64, cublasDaxpy_v2_64, cublasCaxpy_v2_64, cublasZaxpy_v2_64)                              \
    ALL(SCAL, SCAL, cublasSscal_v2_64, cublasDscal_v2_64, cublasCscal_v2_64, cublasZscal_v2_64)                              \
    ALL(VCOPY, COPY, cublasScopy_v2_64, cublasDcopy_v2_64, cublasCcopy_v2_64, cublasZcopy_v2_64)                             \
    ALL(SWAP, SWAP, cublasSswap_v2_64, cublasDswap_v2_64, cublasCswap_v2_64, cublasZswap_v2_64)                              \
    ALL(ROT, ROT, cublasSrot_v2_64, cublasDrot_v2_64, cublasCrot_v2_64, cublasZrot_v2_64)                                    \
    ALL(ROTG, ROTG, cublasSrotg_v2, cublasDrotg_v2, cublasCrotg_v2, cublasZrotg_v2)                                          \
    ALL(DOT, DOT, cublasSdot_v2_64, cublasDdot_v2_64, cublasCdotu_v2_64, cublasZdotu_v2_64)                                  \
    ALL(DOTC, DOT, cublasSdot_v2_64, cublasDdot_v2_64, cublasCdotc_v2_64, cublasZdotc_v2_64)                                 \
    ALL(NRM2, NORM, cublasSnrm2_v2_64, cublasDnrm2_v2_64, cublasScnrm2_v2_64, cublasDznrm2_v2_64)                            \
    ALL(ASUM, NORM, cublasSasum_v2_64, cublasDasum_v2_64, cublasScasum_v2_64, cublasDzasum_v2_64)                            \
    ALL(IAMAX, INDEX, cublasIsamax_v2_64, cublasIdamax_v2_64, cublasIcamax_v2_64, cublasIzamax_v2_64)                        \
    ALL(IAMIN, INDEX, cublasIsamin_v2_64, cublasIdamin_v2_64, cublasIcamin_v2_64, cublasIzamin_v2_64)                        \
    ALL(GEMV, GEMV, cublasSgemv_v2_64, cublasDgemv_v2_64, cublasCgemv_v2_64, cublasZgemv_v2_64)                              \
    ALL(GEMV_BATCHED, GEMV_BATCHED, cublasSgemvStridedBatched_64, cublasDgemvStridedBatched_64, cublasCgemvStridedBatched_64, cublasZgemvStridedBatched_64) \
    ALL(GBMV, GBMV, cublasSgbmv_v2_64, cublasDgbmv_v2_64, cublasCgbmv_v2_64, cublasZgbmv_v2_64)                              \
    ALL(GER, GER, cublasSger_v2_64, cublasDger_v2_64, cublasCgeru_v2_64, cublasZgeru_v2_64)                                  \
    ALL(GERC, GER, cublasSger_v2_64, cublasDger_v2_64, cublasCgerc_v2_64, cublasZgerc_v2_64)                                 \
    ALL(SYMV, SYMV, cublasSsymv_v2_64, cublasDsymv_v2_64, cublasCsymv_v2_64, cublasZsymv_v2_64)                              \
    COMPLEX(HEMV, SYMV, cublasChemv_v2_64, cublasZhemv_v2_64)                                                                \
    ALL(TRMV, TRMV, cublasStrmv_v2_64, cublasDtrmv_v2_64, cublasCtrmv_v2_64, cublasZtrmv_v2_64)                              \
    ALL(TRSV, TRMV, cublasStrsv_v2_64, cublasDtrsv_v2_64, cublasCtrsv_v2_64, cublasZtrsv_v2_64)                              \
    REAL(SBMV, SBMV, cublasSsbmv_v2_64, cublasDsbmv_v2_64)                                                                   \
    COMPLEX(HBMV, SBMV, cublasChbmv_v2_64, cublasZhbmv_v2_64)                                                                \
    ALL(TBMV, TBMV, cublasStbmv_v2_64, cublasDtbmv_v2_64, cublasCtbmv_v2_64, cublasZtbmv_v2_64)                              \
    ALL(TBSV, TBMV, cublasStbsv_v2_64, cublasDtbsv_v2_64, cublasCtbsv_v2_64, cublasZtbsv_v2_64)                              \
    ALL(SYR, SYR, cublasSsyr_v2_64, cublasDsyr_v2_64, cublasCsyr_v2_64, cublasZsyr_v2_64)                                    \
    COMPLEX(HER, HER, cublasCher_v2_64, cublasZher_v2_64)                                                                    \
    ALL(SYR2, SYR2, cublasSsyr2_v2_64, cublasDsyr2_v2_64, cublasCsyr2_v2_64, cublasZsyr2_v2_64)                              \
    COMPLEX(HER2, SYR2, cublasCher2_v2_64, cublasZher2_v2_64)                                                                \
    ALL(SYMM, SYMM, cublasSsymm_v2_64, cublasDsymm_v2_64, cublasCsymm_v2_64, cublasZsymm_v2_64)                              \
    COMPLEX(HEMM, SYMM, cublasChemm_v2_64, cublasZhemm_v2_64)                                                                \
    ALL(SYRK, SYRK, cublasSsyrk_v2_64, cublasDsyrk_v2_64, cublasCsyrk_v2_64, cublasZsyrk_v2_64)                              \
    COMPLEX(HERK, HERK, cublasCherk_v2_64, cublasZherk_v2_64)                                                                \
    ALL(SYR2K, SYR2K, cublasSsyr2k_v2_64, cublasDsyr2k_v2_64, cublasCsyr2k_v2_64, cublasZsyr2k_v2_64)                        \
    COMPLEX(HER2K, HER2K, cublasCher2k_v2_64, cublasZher2k_v2_64)                                                            \
    ALL(TRMM, TRMM, cublasStrmm_v2_64, cublasDtrmm_v2_64, cublasCtrmm_v2_64, cublasZtrmm_v2_64)                              \
    ALL(TRSM, TRSM, cublasStrsm_v2_64, cublasDtrsm_v2_64, cublasCtrsm_v2_64, cublasZtrsm_v2_64)                              \
    ALL(TRSM_BATCHED, TRSM_BATCHED, cublasStrsmBatched_64, cublasDtrsmBatched_64, cublasCtrsmBatched_64, cublasZtrsmBatched_64) \
    ALL(GEAM, GEAM, cublasSgeam_64, cublasDgeam_64, cublasCgeam_64, cublasZgeam_64)                                          \
    ALL(DGMM, DGMM, cublasSdgmm_64, cublasDdgmm_64, cublasCdgmm_64, cublasZdgmm_64)
/* clang-format on */

/* Places of the operations in the table of loaded routines: the low byte of TRP_OP_..., and for
 * batches what that leaves. */
enum { TRP__CUBLAS_PLACES = 0x29, TRP__CUBLAS_TYPES = 4 };
#define TRP_OP_GEMV_BATCHED 0
#define TRP_OP_TRSM_BATCHED 0x20

#endif
