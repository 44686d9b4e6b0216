/* The cutlass actor. */
#ifndef TRP_ACTORS_CUTLASS_CUTLASS_H
#define TRP_ACTORS_CUTLASS_CUTLASS_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__cutlass_class;

/* The worker's side. */
extern const trp_actor_impl trp__cutlass_cuda;
extern const trp_actor_impl trp__cutlass_host;

#endif
