#include "actors/matmul/cublaslt.h"

#include "base/error.h"
#include "driver/toolkit.h"

#include <stdio.h>

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters, required)                                             \
    {#name, offsetof(trp__cublaslt, name), required},
    TRP__CUBLASLT_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
};

/* One for all actors of a process. */
static trp__cublaslt functions;
static trp__toolkit_library library = {
    .name = "cublasLt",
    .env = "TROUPE_CUBLASLT",
    .soname_13 = "libcublasLt.so.13",
    .soname_12 = "libcublasLt.so.12",
    .package_hint = "install cuBLAS 12 or 13 (CUDA toolkit, or pip install nvidia-cublas)",
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .table = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

trp_status trp__cublaslt_load(const trp__cublaslt **out, trp_error *error)
{
    *out = &functions;
    return trp__toolkit_load(&library, error);
}

const char *trp__cublaslt_path(void)
{
    return library.library.path;
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
    int part[3] = {0};
    lt->cublasLtGetProperty(TRP__CUDA_MAJOR_VERSION, &part[0]);
    lt->cublasLtGetProperty(TRP__CUDA_MINOR_VERSION, &part[1]);
    lt->cublasLtGetProperty(TRP__CUDA_PATCH_LEVEL, &part[2]);
    snprintf(out, size, "%d.%d.%d", part[0], part[1], part[2]);
}
