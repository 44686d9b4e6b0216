/* Levels 1 to 3 except gemm on NVIDIA GPUs. */
#ifndef TRP_ACTORS_BLAS_LEVELS_CUDA_H
#define TRP_ACTORS_BLAS_LEVELS_CUDA_H

#include "actors/blas/blas_cuda.h"

/* Runs a request of any operation except gemm. The pointer mode of the handle is that of the host
 * before and after. */
trp_status trp__levels_cuda(trp_instance *instance, trp_job *job, trp__blas_state *state,
                            trp_error *error);

#endif
