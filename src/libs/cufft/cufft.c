#include "libs/cufft/cufft.h"

#include "base/error.h"

TRP__TOOLKIT_DEFINE(
    trp__cufft, TRP__CUFFT_FUNCTIONS(TRP__TOOLKIT_SYMBOL), .name = "cufft", .env = "TROUPE_CUFFT",
    .soname_13 = "libcufft.so.12", .soname_12 = "libcufft.so.11",
    .package_hint = "install cuFFT 11 or 12 (CUDA toolkit, or pip install nvidia-cufft)")

trp_status trp__cufft_failed(trp__cufft_result result, const char *call, trp_error *error)
{
    const trp_status status = result == TRP__CUFFT_ALLOC_FAILED ? TRP_E_MEMORY
                              : result == TRP__CUFFT_NOT_IMPLEMENTED ||
                                      result == TRP__CUFFT_NOT_SUPPORTED ||
                                      result == TRP__CUFFT_INVALID_SIZE
                                  ? TRP_E_UNSUPPORTED
                                  : TRP_E_LIBRARY;
    return trp__error_set_code(error, status, "cufft", result, "%s (%d), in %s",
                               trp__toolkit_code_name("cufft", result), result, call);
}

void trp__cufft_version(const trp__cufft *fft, char *out, size_t size)
{
    trp__toolkit_version(fft->cufftGetProperty, out, size);
}
