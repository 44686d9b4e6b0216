/* cuBLAS, opened at run time. */
#ifndef TRP_ACTORS_BLAS_CUBLAS_H
#define TRP_ACTORS_BLAS_CUBLAS_H

#include "actors/blas/cublas_levels.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__cublas {
#define TRP__CUBLAS_MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUBLAS_FUNCTIONS(TRP__CUBLAS_MEMBER)
#undef TRP__CUBLAS_MEMBER
    /* Those of cublas_levels.h, NULL where there is none; for f32, f64, c64, c128. */
    void (*routine[TRP__CUBLAS_PLACES][TRP__CUBLAS_TYPES])(void);
} trp__cublas;

/* Opens cuBLAS, once per process and for its whole life; after a failure the next call tries again.
 * Any thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__cublas_load(const trp__cublas **out, trp_error *error);

/* The file that cuBLAS was loaded from; empty before trp__cublas_load() has succeeded. */
const char *trp__cublas_path(void);

/* TRP_OK, or what a failure of `call` means. A broken context shows as some status or other here;
 * the scheduler asks the backend's health() after each error. */
trp_status trp__cublas_failed(const trp__cublas *blas, trp__cublas_status result, const char *call,
                              trp_error *error);
static inline trp_status trp__cublas_check(const trp__cublas *blas, trp__cublas_status result,
                                           const char *call, trp_error *error)
{
    return __builtin_expect(result == TRP__CUBLAS_SUCCESS, 1)
               ? TRP_OK
               : trp__cublas_failed(blas, result, call, error);
}

/* "13.1.0". */
void trp__cublas_version(const trp__cublas *blas, char *out, size_t size);

/* NVIDIA's recommendation for a workspace of one's own: 32 MiB from Hopper on, 4 MiB before. */
static inline size_t trp__cublas_workspace_bytes(uint32_t compute_major)
{
    return (size_t)(compute_major >= 9 ? 32 : 4) << 20;
}

/* How every handle of Troupe computes: f16 and bf16 accumulate in f32, also where the sum over k is
 * split. */
#define TRP__CUBLAS_MATH TRP__CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION

#endif
