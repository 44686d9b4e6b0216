/* A request on the host as passes: one axis each. */
#ifndef TRP_ACTORS_FFT_PASSES_H
#define TRP_ACTORS_FFT_PASSES_H

#include "actors/fft/fft_wire.h"
#include "actors/fft/host/kernels.h"

/* A request, taken apart for the thread of the stream. */
typedef struct trp__fft_passes {
    trp__fft g;
    trp__fft_dim dim[TRP_FFT_RANK_MAX];
    int count, axis[TRP_FFT_RANK_MAX];           /* in the order of the passes */
    int64_t extent[TRP_FFT_RANK_MAX];            /* of what lies between passes */
    const trp__fft_plan *plan[TRP_FFT_RANK_MAX]; /* of each pass; set by the caller */
    /* Complex tensors of several axes become real by way of a tensor of their own, since x is not
     * changed and y has no room for it. 0: there is none. */
    uint64_t between_bytes;
    uint64_t dense_bytes; /* of cosine and sine transforms: a part of the lines */
    void *x, *y, *scratch, *between, *dense;
} trp__fft_passes;

/* Takes a request apart. False: what lies between passes is larger than any memory. */
bool trp__fft_passes_set(trp__fft_passes *p, const trp__fft *g, const trp__fft_dim *dim);

/* The plan that a pass needs. */
trp__fft_key trp__fft_passes_key(const trp__fft_passes *p, int pass);

void trp__fft_passes_run(const trp__fft_passes *p);

#endif
