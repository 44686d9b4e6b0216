/* The operations of LAPACK on the host, by OpenBLAS, one matrix after another. */
#ifndef TRP_ACTORS_BLAS_LAPACK_HOST_H
#define TRP_ACTORS_BLAS_LAPACK_HOST_H

#include "libs/openblas/openblas.h"

#include <troupe/worker.h>

trp_status trp__lapack_host(trp_instance *instance, const trp_job *job, const trp__openblas *blas,
                            trp_error *error);

#endif
