/* Plans of cuFFT. They have no memory of their own to work in. */
#ifndef TRP_ACTORS_FFT_PLAN_H
#define TRP_ACTORS_FFT_PLAN_H

#include "actors/fft/route.h"
#include "libs/cufft/cufft.h"

#include <stddef.h>

typedef struct trp__fft_cuda_plan {
    trp__cufft_handle handle;
    size_t work_bytes;
    void *area;            /* the memory that it works in, as cuFFT was told; NULL: none yet */
    trp__cu_stream stream; /* likewise */
} trp__fft_cuda_plan;

/* Makes a plan; the device's context must be current. Errors as of trp__cufft_failed(). May take
 * long: it loads kernels. */
trp_status trp__fft_cuda_plan_make(const trp__cufft *fft, const trp__fft_problem *problem,
                                   trp__fft_cuda_plan *out, trp_error *error);

/* Enqueues it once. `area` has work_bytes bytes, aligned to 256. One thread at a time. */
trp_status trp__fft_cuda_plan_run(const trp__cufft *fft, const trp__fft_problem *problem,
                                  trp__fft_cuda_plan *plan, void *x, void *y, void *area,
                                  trp__cu_stream stream, trp_error *error);

/* Writes what a plan computes, as text for people; `size` is at least 160. */
void trp__fft_describe(const trp__fft_problem *problem, char *out, size_t size);

#endif
