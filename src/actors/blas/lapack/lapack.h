/* The sender's side of LAPACK. */
#ifndef TRP_ACTORS_BLAS_LAPACK_LAPACK_H
#define TRP_ACTORS_BLAS_LAPACK_LAPACK_H

#include "wire/actor_class.h"

/* Checks a trp_lapack_request and writes its record. */
trp_status trp__lapack_encode(trp__encoder *encoder, const trp_request *request);

#endif
