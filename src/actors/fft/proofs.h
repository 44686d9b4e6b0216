/* Proofs of cuFFT's plans (tuning/proofs.h), compared with plain sums in f64. */
#ifndef TRP_ACTORS_FFT_PROOFS_H
#define TRP_ACTORS_FFT_PROOFS_H

#include "actors/fft/kernels/launch.h"
#include "actors/fft/plan.h"
#include "tuning/proofs.h"

/* Used by the side thread. All members except those of the first block begin as 0. */
typedef struct trp__fft_proofs {
    const trp__cuda *cu;
    const trp__cufft *fft;
    trp__fft_kernels *kernels; /* loaded when they are needed first */
    trp__proofs proofs;

    bool ahead;   /* the plan is for a rehearsal, so nothing is proven */
    bool skipped; /* a proof was skipped for this reason */
} trp__fft_proofs;

/* Loads the kernels; remembers that there are none. */
trp_status trp__fft_proofs_kernels(trp__fft_proofs *p, trp_error *error);

/* Returns whether a plan may serve; see trp__proofs_accept(). Afterwards it has another stream and
 * memory. */
bool trp__fft_proofs_accept(trp__fft_proofs *p, const trp__fft_problem *problem,
                            trp__fft_cuda_plan *plan);

#endif
