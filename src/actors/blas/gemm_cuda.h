/* gemm on NVIDIA GPUs. */
#ifndef TRP_ACTORS_BLAS_GEMM_CUDA_H
#define TRP_ACTORS_BLAS_GEMM_CUDA_H

#include "actors/blas/blas_cuda.h"

trp_status trp__gemm_cuda(trp__blas_state *s, const trp_job *job, trp_error *error);

/* The actor's joins() and handle_joined(). */
bool trp__gemm_cuda_joins(trp_instance *instance, const trp_job *first, const trp_job *next);
trp_status trp__gemm_cuda_joined(trp_instance *instance, trp_job *const *jobs, uint32_t count,
                                 trp_error *error);

#endif
