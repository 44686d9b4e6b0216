/* OpenBLAS, opened at run time. */
#ifndef TRP_LIBS_OPENBLAS_H
#define TRP_LIBS_OPENBLAS_H

#include "libs/blas/places.h"
#include "libs/openblas/openblas_lapack.h"
#include "libs/openblas/openblas_levels.h"

#include <troupe/status.h>
#include <troupe/types.h>

/* Returns the CBLAS_TRANSPOSE of a trp_transpose. */
static inline uint8_t trp__cblas_trans(uint8_t trans)
{
    return trans == TRP_N   ? TRP__CBLAS_NO_TRANS
           : trans == TRP_T ? TRP__CBLAS_TRANS
                            : TRP__CBLAS_CONJ_TRANS;
}

/* One row per function: result, exported name, parameters, whether it is required. */
#define TRP__OPENBLAS_FUNCTIONS(X)                                                                 \
    X(void, cblas_sgemm,                                                                           \
      (int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,      \
       int lda, const float *b, int ldb, float beta, float *c, int ldc),                           \
      true)                                                                                        \
    X(void, cblas_dgemm,                                                                           \
      (int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,    \
       int lda, const double *b, int ldb, double beta, double *c, int ldc),                        \
      true)                                                                                        \
    X(void, cblas_cgemm,                                                                           \
      (int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, \
       int lda, const void *b, int ldb, const void *beta, void *c, int ldc),                       \
      true)                                                                                        \
    X(void, cblas_zgemm,                                                                           \
      (int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, \
       int lda, const void *b, int ldb, const void *beta, void *c, int ldc),                       \
      true)                                                                                        \
    X(char *, openblas_get_config, (void), false)

typedef struct trp__openblas {
#define TRP__OPENBLAS_MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__OPENBLAS_FUNCTIONS(TRP__OPENBLAS_MEMBER)
#undef TRP__OPENBLAS_MEMBER
    /* The routines of libs/blas/routines.def; NULL where there is none. */
    void (*routine[TRP__BLAS_PLACES][TRP__BLAS_TYPES])(void);
} trp__openblas;

/* Opens OpenBLAS, once per process and for its whole life; after a failure the next call tries
 * again. Any thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__openblas_load(const trp__openblas **out, trp_error *error);

/* Returns the file of the loaded OpenBLAS; empty before trp__openblas_load() has succeeded. */
const char *trp__openblas_path(void);

/* Writes the version: "0.3.21", or "unknown". */
void trp__openblas_version(const trp__openblas *blas, char *out, size_t size);

#endif
