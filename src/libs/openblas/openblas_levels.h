/* OpenBLAS's routines of levels 1 to 3 but gemm: what their parameters are, and which routine does
 * an operation for a type. What CBLAS has no routine for is computed in levels_host_type.h.
 *
 * A routine's type follows from its family. In it T is the element type, R the real type that
 * belongs to it, and S how a scalar of type T is handed over: real ones as they are, complex ones
 * by address.
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
#define TRP__CBLAS_dot(T, R, S) T (*)(int n, const T *x, int incx, const T *y, int incy)
#define TRP__CBLAS_dot_sub(T, R, S) void (*)(int n, const T *x, int incx, const T *y, int incy, T *result)
#define TRP__CBLAS_norm(T, R, S) R (*)(int n, const T *x, int incx)
#define TRP__CBLAS_index(T, R, S) size_t (*)(int n, const T *x, int incx)
#define TRP__CBLAS_gemv(T, R, S) void (*)(int order, int trans, int m, int n, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_gbmv(T, R, S) void (*)(int order, int trans, int m, int n, int kl, int ku, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_ger(T, R, S) void (*)(int order, int m, int n, S alpha, const T *x, int incx, const T *y, int incy, T *a, int lda)
#define TRP__CBLAS_sbmv(T, R, S) void (*)(int order, int uplo, int n, int k, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_tbmv(T, R, S) void (*)(int order, int uplo, int trans, int diag, int n, int k, const T *a, int lda, T *x, int incx)
#define TRP__CBLAS_syr(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *x, int incx, T *a, int lda)
#define TRP__CBLAS_her(T, R, S) void (*)(int order, int uplo, int n, R alpha, const T *x, int incx, T *a, int lda)
#define TRP__CBLAS_syr2(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *x, int incx, const T *y, int incy, T *a, int lda)
#define TRP__CBLAS_symv(T, R, S) void (*)(int order, int uplo, int n, S alpha, const T *a, int lda, const T *x, int incx, S beta, T *y, int incy)
#define TRP__CBLAS_trmv(T, R, S) void (*)(int order, int uplo, int trans, int diag, int n, const T *a, int lda, T *x, int incx)
#define TRP__CBLAS_symm(T, R, S) void (*)(int order, int side, int uplo, int m, int n, S alpha, const T *a, int lda, const T *b, int ldb, S beta, T *c, int ldc)
#define TRP__CBLAS_syrk(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, S alpha, const T *a, int lda, S beta, T *c, int ldc)
#define TRP__CBLAS_herk(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, R alpha, const T *a, int lda, R beta, T *c, int ldc)
#define TRP__CBLAS_syr2k(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, S alpha, const T *a, int lda, const T *b, int ldb, S beta, T *c, int ldc)
#define TRP__CBLAS_her2k(T, R, S) void (*)(int order, int uplo, int trans, int n, int k, S alpha, const T *a, int lda, const T *b, int ldb, R beta, T *c, int ldc)
#define TRP__CBLAS_trmm(T, R, S) void (*)(int order, int side, int uplo, int trans, int diag, int m, int n, S alpha, const T *a, int lda, T *b, int ldb)
#define TRP__CBLAS_trsm(T, R, S) void (*)(int order, int side, int uplo, int trans, int diag, int m, int n, S alpha, const T *a, int lda, T *b, int ldb)

/* The operation, the family, the names: for each of f32, f64, c64, c128 (ALL), for real or for
 * complex types only. The operations are those of <troupe/blas.h>. */
#define TRP__OPENBLAS_ROUTINES(ALL, REAL, COMPLEX)                            \
    ALL(AXPY, axpy, cblas_saxpy, cblas_daxpy, cblas_caxpy, cblas_zaxpy)       \
    ALL(SCAL, scal, cblas_sscal, cblas_dscal, cblas_cscal, cblas_zscal)       \
    ALL(VCOPY, copy, cblas_scopy, cblas_dcopy, cblas_ccopy, cblas_zcopy)      \
    ALL(SWAP, swap, cblas_sswap, cblas_dswap, cblas_cswap, cblas_zswap)       \
    REAL(ROT, rot, cblas_srot, cblas_drot)                                    \
    REAL(DOT, dot, cblas_sdot, cblas_ddot)                                    \
    COMPLEX(DOT, dot_sub, cblas_cdotu_sub, cblas_zdotu_sub)                   \
    REAL(DOTC, dot, cblas_sdot, cblas_ddot)                                   \
    COMPLEX(DOTC, dot_sub, cblas_cdotc_sub, cblas_zdotc_sub)                  \
    ALL(NRM2, norm, cblas_snrm2, cblas_dnrm2, cblas_scnrm2, cblas_dznrm2)     \
    ALL(ASUM, norm, cblas_sasum, cblas_dasum, cblas_scasum, cblas_dzasum)     \
    ALL(IAMAX, index, cblas_isamax, cblas_idamax, cblas_icamax, cblas_izamax) \
    ALL(IAMIN, index, cblas_isamin, cblas_idamin, cblas_icamin, cblas_izamin) \
    ALL(GEMV, gemv, cblas_sgemv, cblas_dgemv, cblas_cgemv, cblas_zgemv)       \
    ALL(GBMV, gbmv, cblas_sgbmv, cblas_dgbmv, cblas_cgbmv, cblas_zgbmv)       \
    ALL(GER, ger, cblas_sger, cblas_dger, cblas_cgeru, cblas_zgeru)           \
    ALL(GERC, ger, cblas_sger, cblas_dger, cblas_cgerc, cblas_zgerc)          \
    REAL(SYMV, symv, cblas_ssymv, cblas_dsymv)                                \
    COMPLEX(HEMV, symv, cblas_chemv, cblas_zhemv)                             \
    ALL(TRMV, trmv, cblas_strmv, cblas_dtrmv, cblas_ctrmv, cblas_ztrmv)       \
    ALL(TRSV, trsv, cblas_strsv, cblas_dtrsv, cblas_ctrsv, cblas_ztrsv)       \
    REAL(SBMV, sbmv, cblas_ssbmv, cblas_dsbmv)                                \
    COMPLEX(HBMV, sbmv, cblas_chbmv, cblas_zhbmv)                             \
    ALL(TBMV, tbmv, cblas_stbmv, cblas_dtbmv, cblas_ctbmv, cblas_ztbmv)       \
    ALL(TBSV, tbsv, cblas_stbsv, cblas_dtbsv, cblas_ctbsv, cblas_ztbsv)       \
    REAL(SYR, syr, cblas_ssyr, cblas_dsyr)                                    \
    COMPLEX(HER, her, cblas_cher, cblas_zher)                                 \
    REAL(SYR2, syr2, cblas_ssyr2, cblas_dsyr2)                                \
    COMPLEX(HER2, syr2, cblas_cher2, cblas_zher2)                             \
    ALL(SYMM, symm, cblas_ssymm, cblas_dsymm, cblas_csymm, cblas_zsymm)       \
    COMPLEX(HEMM, symm, cblas_chemm, cblas_zhemm)                             \
    ALL(SYRK, syrk, cblas_ssyrk, cblas_dsyrk, cblas_csyrk, cblas_zsyrk)       \
    COMPLEX(HERK, herk, cblas_cherk, cblas_zherk)                             \
    ALL(SYR2K, syr2k, cblas_ssyr2k, cblas_dsyr2k, cblas_csyr2k, cblas_zsyr2k) \
    COMPLEX(HER2K, her2k, cblas_cher2k, cblas_zher2k)                         \
    ALL(TRMM, trmm, cblas_strmm, cblas_dtrmm, cblas_ctrmm, cblas_ztrmm)       \
    ALL(TRSM, trsm, cblas_strsm, cblas_dtrsm, cblas_ctrsm, cblas_ztrsm)
/* clang-format on */

/* Places in the table of loaded routines: the low byte of TRP_OP_..., and the type. */
enum { TRP__OPENBLAS_PLACES = 0x29, TRP__OPENBLAS_TYPES = 4 };

#endif
