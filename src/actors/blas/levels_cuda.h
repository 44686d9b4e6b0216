/* Levels 1 to 3 but gemm on NVIDIA GPUs. */
#ifndef TRP_ACTORS_BLAS_LEVELS_CUDA_H
#define TRP_ACTORS_BLAS_LEVELS_CUDA_H

#include "actors/blas/blas_cuda.h"

/* Does a request of any operation but gemm with a handle whose pointer mode is that of the host,
 * and leaves it so. */
trp_status trp__levels_cuda(trp_instance *instance, trp_job *job, trp__blas_state *state,
                            trp_error *error);

#endif
