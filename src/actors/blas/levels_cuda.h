/* Levels 1 to 3 but gemm on NVIDIA GPUs. */
#ifndef TRP_ACTORS_BLAS_LEVELS_CUDA_H
#define TRP_ACTORS_BLAS_LEVELS_CUDA_H

#include "actors/blas/cublas.h"

#include <troupe/worker.h>

/* Does a request of any operation but gemm with a handle whose pointer mode is that of the host,
 * and leaves it so. */
trp_status trp__levels_cuda(trp_instance *instance, const trp_job *job, const trp__cublas *blas,
                            trp__cublas_handle handle, trp_error *error);

#endif
