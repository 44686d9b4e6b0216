#include "libs/cublas/cublas.h"

#include "base/error.h"

#include <troupe/blas.h>

static trp__cublas functions;
static const trp__dynlib_symbol symbols[] = {TRP__CUBLAS_FUNCTIONS(TRP__TOOLKIT_SYMBOL)
#define ENTRY(op, name, type)                                                                      \
    {#name, offsetof(trp__cublas, routine[(TRP_OP_##op) & 0xff][type]), false},
#define CUBLAS_REAL(op, family, s, d)    ENTRY(op, s, 0) ENTRY(op, d, 1)
#define CUBLAS_COMPLEX(op, family, c, z) ENTRY(op, c, 2) ENTRY(op, z, 3)
#define CUBLAS_HALF(op, family, name)    ENTRY(op, name, 4) ENTRY(op, name, 5)
#define CUBLAS_LAPACK(op, family, s, d, c, z)                                                      \
    CUBLAS_REAL(op, family, s, d) CUBLAS_COMPLEX(op, family, c, z)
#include "libs/blas/routines.def"
#undef ENTRY
};

TRP__TOOLKIT_DEFINE_LOADER(
    trp__cublas, .name = "cublas", .env = "TROUPE_CUBLAS", .soname_13 = "libcublas.so.13",
    .soname_12 = "libcublas.so.12",
    .package_hint = "install cuBLAS 12 or 13 (CUDA toolkit, or pip install nvidia-cublas)")

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
    trp__toolkit_version(blas->cublasGetProperty, out, size);
}
