/* The CUDA backend. */
#ifndef TRP_BACKEND_CUDA_CUDA_BACKEND_H
#define TRP_BACKEND_CUDA_CUDA_BACKEND_H

#include "driver/cuda.h"
#include "worker/backend.h"

extern const trp__backend trp__cuda_backend;

/* Fills `error` for a result other than 0 and, if it is sticky, remembers it for health(). */
trp_status trp__cuda_fail(trp__accel *accel, int result, const char *call, trp_error *error);

/* Every driver call of the backend goes through this. `call` is the function's name. */
static inline trp_status trp__cuda_check(trp__accel *accel, int result, const char *call,
                                         trp_error *error)
{
    if (__builtin_expect(result == TRP__CU_SUCCESS, 1))
        return TRP_OK;
    return trp__cuda_fail(accel, result, call, error);
}

#endif
