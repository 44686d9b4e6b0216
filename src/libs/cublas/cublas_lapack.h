/* Parameters of cuBLAS's batched LAPACK routines, in the manner of cublas_levels.h. Sizes have 32
 * bits. Matrices and vectors of reflectors are arrays of addresses, one per member of a batch, in
 * device memory; pivots and the info of each member are packed arrays in device memory. A `wrong`
 * is on the host: minus the index of a refused parameter.
 *
 * Source: cuBLAS documentation. */
#ifndef TRP_LIBS_CUBLAS_LAPACK_H
#define TRP_LIBS_CUBLAS_LAPACK_H

#include "libs/cublas/cublas_abi.h"

/* clang-format off */
#define TRP__CUBLAS_GETRF_BATCHED(T, R) (trp__cublas_handle, int n, T *const a[], int lda, int *pivots, int *info, int batch)
#define TRP__CUBLAS_GETRS_BATCHED(T, R) (trp__cublas_handle, trp__cublas_operation trans, int n, int nrhs, const T *const a[], int lda, const int *pivots, T *const b[], int ldb, int *wrong, int batch)
#define TRP__CUBLAS_GETRI_BATCHED(T, R) (trp__cublas_handle, int n, const T *const a[], int lda, const int *pivots, T *const b[], int ldb, int *info, int batch)
#define TRP__CUBLAS_MATINV_BATCHED(T, R) (trp__cublas_handle, int n, const T *const a[], int lda, T *const b[], int ldb, int *info, int batch)
#define TRP__CUBLAS_GEQRF_BATCHED(T, R) (trp__cublas_handle, int m, int n, T *const a[], int lda, T *const tau[], int *wrong, int batch)
#define TRP__CUBLAS_GELS_BATCHED(T, R) (trp__cublas_handle, trp__cublas_operation trans, int m, int n, int nrhs, T *const a[], int lda, T *const b[], int ldb, int *wrong, int *info, int batch)
/* clang-format on */

/* The largest matrix of matinvBatched. */
enum { TRP__CUBLAS_MATINV_MOST = 32 };

#endif
