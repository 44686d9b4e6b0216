/* cuBLASLt, opened at run time. */
#ifndef TRP_ACTORS_MATMUL_CUBLASLT_H
#define TRP_ACTORS_MATMUL_CUBLASLT_H

#include "actors/matmul/cublaslt_abi.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__cublaslt {
#define TRP__CUBLASLT_MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUBLASLT_FUNCTIONS(TRP__CUBLASLT_MEMBER)
#undef TRP__CUBLASLT_MEMBER
} trp__cublaslt;

/* Opens cuBLASLt, once per process and for its whole life; after a failure the next call tries
 * again. Any thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__cublaslt_load(const trp__cublaslt **out, trp_error *error);

/* The file that cuBLASLt was loaded from; empty before trp__cublaslt_load() has succeeded. */
const char *trp__cublaslt_path(void);

/* TRP_OK, or what a failure of `call` means. Its codes are cuBLAS's, so the error's library is
 * "cublas". A broken context shows as some status or other here; the scheduler asks the backend's
 * health() after each error. */
trp_status trp__cublaslt_failed(const trp__cublaslt *lt, trp__cublas_status result,
                                const char *call, trp_error *error);
static inline trp_status trp__cublaslt_check(const trp__cublaslt *lt, trp__cublas_status result,
                                             const char *call, trp_error *error)
{
    return __builtin_expect(result == TRP__CUBLAS_SUCCESS, 1)
               ? TRP_OK
               : trp__cublaslt_failed(lt, result, call, error);
}

/* "13.1.0". */
void trp__cublaslt_version(const trp__cublaslt *lt, char *out, size_t size);

#endif
