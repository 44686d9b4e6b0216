#include "libs/cublaslt/cublaslt.h"

#include "base/error.h"

TRP__TOOLKIT_DEFINE(
    trp__cublaslt, TRP__CUBLASLT_FUNCTIONS(TRP__TOOLKIT_SYMBOL), .name = "cublasLt",
    .env = "TROUPE_CUBLASLT", .soname_13 = "libcublasLt.so.13", .soname_12 = "libcublasLt.so.12",
    .package_hint = "install cuBLAS 12 or 13 (CUDA toolkit, or pip install nvidia-cublas)")

bool trp__cublaslt_find(char path[TRP__DYNLIB_PATH_SIZE])
{
    return trp__toolkit_find(&library, path);
}

trp_status trp__cublaslt_failed(const trp__cublaslt *lt, trp__cublas_status result,
                                const char *call, trp_error *error)
{
    trp_status status = result == TRP__CUBLAS_ALLOC_FAILED    ? TRP_E_MEMORY
                        : result == TRP__CUBLAS_NOT_SUPPORTED ? TRP_E_UNSUPPORTED
                                                              : TRP_E_LIBRARY;
    return trp__error_set_code(error, status, "cublas", result, "%s (%d): %s, in %s",
                               lt->cublasLtGetStatusName(result), result,
                               lt->cublasLtGetStatusString(result), call);
}

void trp__cublaslt_version(const trp__cublaslt *lt, char *out, size_t size)
{
    trp__toolkit_version(lt->cublasLtGetProperty, out, size);
}
