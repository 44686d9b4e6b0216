/* The blas operations of levels 1 to 3 except gemm on the host, by OpenBLAS. */
#ifndef TRP_ACTORS_BLAS_LEVELS_HOST_H
#define TRP_ACTORS_BLAS_LEVELS_HOST_H

#include "libs/openblas/openblas.h"

#include <troupe/worker.h>

/* Handles a request of these operations. */
trp_status trp__levels_host_handle(trp_instance *instance, trp_job *job, const trp__openblas *blas,
                                   trp_error *error);

#endif
