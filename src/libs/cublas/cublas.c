#include "libs/cublas/cublas.h"

#include "base/error.h"

#include <troupe/blas.h>

/* Rows for the routines of a level: one a type. */
#define ROUTINE(name, place, type)  {#name, offsetof(trp__cublas, routine[place][type]), false},
#define PLACE(op)                   ((TRP_OP_##op) & 0xff)
#define ALL(op, family, s, d, c, z) REAL(op, family, s, d) COMPLEX(op, family, c, z)
#define REAL(op, family, s, d)      ROUTINE(s, PLACE(op), 0) ROUTINE(d, PLACE(op), 1)
#define COMPLEX(op, family, c, z)   ROUTINE(c, PLACE(op), 2) ROUTINE(z, PLACE(op), 3)

TRP__TOOLKIT_DEFINE(
    trp__cublas,
    TRP__CUBLAS_FUNCTIONS(TRP__TOOLKIT_SYMBOL) TRP__CUBLAS_ROUTINES(ALL, REAL, COMPLEX),
    .name = "cublas", .env = "TROUPE_CUBLAS", .soname_13 = "libcublas.so.13",
    .soname_12 = "libcublas.so.12",
    .package_hint = "install cuBLAS 12 or 13 (CUDA toolkit, or pip install nvidia-cublas)")

#undef COMPLEX
#undef REAL
#undef ALL
#undef PLACE
#undef ROUTINE

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
