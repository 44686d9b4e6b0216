/* The "blas" actor, see include/troupe/blas.h. */
#ifndef TRP_ACTORS_BLAS_H
#define TRP_ACTORS_BLAS_H

#include "wire/actor_class.h"

extern const trp__actor_class trp__blas_class;
extern const struct trp_actor_impl trp__blas_cuda;
extern const struct trp_actor_impl trp__blas_host;

#endif
