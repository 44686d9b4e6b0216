/* Parameters of OpenBLAS's LAPACK routines. libs/blas/routines.def assigns them to operations and
 * types. They follow Fortran: every argument is passed by address, so one function type serves all
 * element types, and the lengths of texts come last.
 *
 * Source: LAPACK; the lengths as GNU Fortran passes them from version 8 on. */
#ifndef TRP_LIBS_OPENBLAS_LAPACK_H
#define TRP_LIBS_OPENBLAS_LAPACK_H

#include <stddef.h>

typedef void (*trp__lapack_getrf)(const int *m, const int *n, void *a, const int *lda, int *pivots,
                                  int *info);
typedef void (*trp__lapack_getrs)(const char *trans, const int *n, const int *nrhs, const void *a,
                                  const int *lda, const int *pivots, void *b, const int *ldb,
                                  int *info, size_t trans_length);
typedef void (*trp__lapack_getri)(const int *n, void *a, const int *lda, const int *pivots,
                                  void *work, const int *work_elements, int *info);
typedef void (*trp__lapack_geqrf)(const int *m, const int *n, void *a, const int *lda, void *tau,
                                  void *work, const int *work_elements, int *info);
typedef void (*trp__lapack_gels)(const char *trans, const int *m, const int *n, const int *nrhs,
                                 void *a, const int *lda, void *b, const int *ldb, void *work,
                                 const int *work_elements, int *info, size_t trans_length);

#endif
