/* The sender's side of gemm. */
#ifndef TRP_ACTORS_BLAS_GEMM_H
#define TRP_ACTORS_BLAS_GEMM_H

#include "wire/actor_class.h"

/* Checks a trp_gemm_request and writes its record. */
trp_status trp__gemm_encode(trp__encoder *encoder, const trp_request *request);

#endif
