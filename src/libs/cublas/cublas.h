/* cuBLAS, opened at run time. */
#ifndef TRP_LIBS_CUBLAS_H
#define TRP_LIBS_CUBLAS_H

#include "driver/toolkit.h"
#include "libs/blas/places.h"
#include "libs/cublas/cublas_lapack.h"
#include "libs/cublas/cublas_levels.h"

#include <troupe/status.h>
#include <troupe/types.h>

/* Returns the cublasOperation_t of a trp_transpose. */
static inline trp__cublas_operation trp__cublas_trans(uint8_t trans)
{
    return trans == TRP_N ? TRP__CUBLAS_OP_N : trans == TRP_T ? TRP__CUBLAS_OP_T : TRP__CUBLAS_OP_C;
}

/* The loaded functions, called by their exported names. */
typedef struct trp__cublas {
    TRP__CUBLAS_FUNCTIONS(TRP__TOOLKIT_MEMBER)
    /* The routines of libs/blas/routines.def; NULL where there is none. */
    void (*routine[TRP__BLAS_PLACES][TRP__BLAS_TYPES])(void);
} trp__cublas;

TRP__TOOLKIT_DECLARE(trp__cublas);

/* Returns TRP_OK, or translates the failure of `call`. A broken context may show as any status; the
 * scheduler asks the backend's health() after each error. */
trp_status trp__cublas_failed(const trp__cublas *blas, trp__cublas_status result, const char *call,
                              trp_error *error);
static inline trp_status trp__cublas_check(const trp__cublas *blas, trp__cublas_status result,
                                           const char *call, trp_error *error)
{
    return __builtin_expect(result == TRP__CUBLAS_SUCCESS, 1)
               ? TRP_OK
               : trp__cublas_failed(blas, result, call, error);
}

/* Writes the version: "13.1.0". */
void trp__cublas_version(const trp__cublas *blas, char *out, size_t size);

/* NVIDIA's recommended size of a caller's workspace: 32 MiB from Hopper on, 4 MiB before. */
static inline size_t trp__cublas_workspace_bytes(uint32_t compute_major)
{
    return (size_t)(compute_major >= 9 ? 32 : 4) << 20;
}

/* Math mode of every handle: f16 and bf16 accumulate in f32, also where the sum over k is split. */
#define TRP__CUBLAS_MATH TRP__CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION

#endif
