/* cuBLASLt, opened at run time. */
#ifndef TRP_LIBS_CUBLASLT_H
#define TRP_LIBS_CUBLASLT_H

#include "driver/toolkit.h"
#include "libs/cublaslt/cublaslt_abi.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__cublaslt {
    TRP__CUBLASLT_FUNCTIONS(TRP__TOOLKIT_MEMBER)
} trp__cublaslt;

TRP__TOOLKIT_DECLARE(trp__cublaslt);

/* Finds the file that cuBLASLt is, or would be, loaded from; false: there is none. */
bool trp__cublaslt_find(char path[TRP__DYNLIB_PATH_SIZE]);

/* Returns TRP_OK, or translates the failure of `call`. Its codes are cuBLAS's, so the error's
 * domain is "cublas". A broken context may show as any status; the scheduler asks the backend's
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

/* Reads all settings of an algorithm, in the order of TRP__CUBLASLT_CONFIGS. */
enum { TRP__CUBLASLT_ALGO_NUMBERS = 9 };
void trp__cublaslt_algo_numbers(const trp__cublaslt *lt, const trp__cublaslt_algo *algo,
                                uint32_t out[TRP__CUBLASLT_ALGO_NUMBERS]);

/* Names an algorithm by its number, tile, stages and splits of k: "cublaslt_a66_t20_s0_k1". */
void trp__cublaslt_algo_name(const trp__cublaslt *lt, const trp__cublaslt_algo *algo, char *name,
                             size_t size);

/* Writes the version: "13.1.0". */
void trp__cublaslt_version(const trp__cublaslt *lt, char *out, size_t size);

#endif
