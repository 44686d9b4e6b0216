#include "actors/blas/cublas.h"

#include "base/error.h"
#include "driver/toolkit.h"

#include <troupe/blas.h>

#include <stdio.h>

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters, required)                                             \
    {#name, offsetof(trp__cublas, name), required},
    TRP__CUBLAS_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
#define ROUTINE(name, place, type) {#name, offsetof(trp__cublas, routine[place][type]), false},
#define PLACE(op)                  ((TRP_OP_##op) & 0xff)
#define ALL(op, family, s, d, c, z)                                                                \
    ROUTINE(s, PLACE(op), 0) ROUTINE(d, PLACE(op), 1) COMPLEX(op, family, c, z)
#define COMPLEX(op, family, c, z) ROUTINE(c, PLACE(op), 2) ROUTINE(z, PLACE(op), 3)
        TRP__CUBLAS_ROUTINES(ALL, COMPLEX)
#undef COMPLEX
#undef ALL
#undef PLACE
#undef ROUTINE
};

/* One for all actors of a process. */
static trp__cublas functions;
static trp__toolkit_library library = {
    .name = "cublas",
    .env = "TROUPE_CUBLAS",
    .soname_13 = "libcublas.so.13",
    .soname_12 = "libcublas.so.12",
    .package_hint = "install cuBLAS 12 or 13 (CUDA toolkit, or pip install nvidia-cublas)",
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .table = &functions,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

trp_status trp__cublas_load(const trp__cublas **out, trp_error *error)
{
    *out = &functions;
    return trp__toolkit_load(&library, error);
}

const char *trp__cublas_path(void)
{
    return library.library.path;
}

trp_status trp__cublas_failed(const trp__cublas *blas, trp__cublas_status result, const char *call,
                              trp_error *error)
{
    trp_status status = result == TRP__CUBLAS_ALLOC_FAILED    ? TRP_E_MEMORY
                        : result == TRP__CUBLAS_NOT_SUPPORTED ? TRP_E_UNSUPPORTED
                                                              : TRP_E_LIBRARY;
    return trp__error_set_code(error, status, "cublas", result, "%s (%d): %s, in %s",
                               blas->cublasGetStatusName(result), result,
                               blas->cublasGetStatusString(result), call);
}

void trp__cublas_version(const trp__cublas *blas, char *out, size_t size)
{
    int part[3] = {0};
    blas->cublasGetProperty(TRP__CUDA_MAJOR_VERSION, &part[0]);
    blas->cublasGetProperty(TRP__CUDA_MINOR_VERSION, &part[1]);
    blas->cublasGetProperty(TRP__CUDA_PATCH_LEVEL, &part[2]);
    snprintf(out, size, "%d.%d.%d", part[0], part[1], part[2]);
}
