/* cuFFT, opened at run time. */
#ifndef TRP_LIBS_CUFFT_H
#define TRP_LIBS_CUFFT_H

#include "driver/toolkit.h"
#include "libs/cufft/cufft_abi.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__cufft {
    TRP__CUFFT_FUNCTIONS(TRP__TOOLKIT_MEMBER)
} trp__cufft;

TRP__TOOLKIT_DECLARE(trp__cufft);

/* Returns TRP_OK, or translates the failure of `call`: domain "cufft". A broken context may show as
 * any result; the scheduler asks the backend's health() after each error. */
trp_status trp__cufft_failed(trp__cufft_result result, const char *call, trp_error *error);
static inline trp_status trp__cufft_check(trp__cufft_result result, const char *call,
                                          trp_error *error)
{
    return __builtin_expect(result == TRP__CUFFT_SUCCESS, 1)
               ? TRP_OK
               : trp__cufft_failed(result, call, error);
}

/* Writes the version: "12.0.0". */
void trp__cufft_version(const trp__cufft *fft, char *out, size_t size);

#endif
