/* The matmul actor. */
#ifndef TRP_ACTORS_MATMUL_H
#define TRP_ACTORS_MATMUL_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__matmul_class;

/* The sender's side. */
trp_status trp__matmul_encode(trp__encoder *encoder, const trp_request *request);

/* The worker's side. */
extern const trp_actor_impl trp__matmul_cuda;
extern const trp_actor_impl trp__matmul_host;

#endif
