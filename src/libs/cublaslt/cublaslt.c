#include "libs/cublaslt/cublaslt.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>

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

void trp__cublaslt_algo_numbers(const trp__cublaslt *lt, const trp__cublaslt_algo *algo,
                                uint32_t out[TRP__CUBLASLT_ALGO_NUMBERS])
{
    for (uint32_t i = 0; i < TRP__CUBLASLT_ALGO_NUMBERS; i++) {
        const bool narrow = i == TRP__CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ||
                            i == TRP__CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
        uint16_t half = 0;
        size_t written;
        out[i] = 0;
        (void)lt->cublasLtMatmulAlgoConfigGetAttribute(
            algo, (trp__cublaslt_config)i, narrow ? (void *)&half : &out[i],
            narrow ? sizeof half : sizeof *out, &written);
        out[i] = narrow ? half : out[i];
    }
}

void trp__cublaslt_algo_name(const trp__cublaslt *lt, const trp__cublaslt_algo *algo, char *name,
                             size_t size)
{
    uint32_t is[TRP__CUBLASLT_ALGO_NUMBERS];
    trp__cublaslt_algo_numbers(lt, algo, is);
    snprintf(name, size, "cublaslt_a%" PRIu32 "_t%" PRIu32 "_s%" PRIu32 "_k%" PRIu32,
             is[TRP__CUBLASLT_ALGO_CONFIG_ID], is[TRP__CUBLASLT_ALGO_CONFIG_TILE_ID],
             is[TRP__CUBLASLT_ALGO_CONFIG_STAGES_ID], is[TRP__CUBLASLT_ALGO_CONFIG_SPLITK_NUM]);
}
