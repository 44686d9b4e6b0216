/* The operations of LAPACK on NVIDIA GPUs, by the batched routines of cuBLAS. */
#ifndef TRP_ACTORS_BLAS_LAPACK_CUDA_H
#define TRP_ACTORS_BLAS_LAPACK_CUDA_H

#include "actors/blas/batch/addresses.h"
#include "driver/cuda.h"
#include "libs/cublas/cublas.h"

trp_status trp__lapack_cuda(trp_instance *instance, trp_job *job, const trp__cuda *cu,
                            const trp__cublas *blas, trp__cublas_handle handle,
                            trp__blas_addresses *addresses, trp_error *error);

#endif
