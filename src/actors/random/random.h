/* The random actor. */
#ifndef TRP_ACTORS_RANDOM_RANDOM_H
#define TRP_ACTORS_RANDOM_RANDOM_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__random_class;

/* The sender's side. */
trp_status trp__random_encode(trp__encoder *encoder, const trp_request *request);
trp_status trp__random_encode_advance(trp__encoder *encoder, const trp_request *request);

/* The worker's side. */
extern const trp_actor_impl trp__random_cuda;
extern const trp_actor_impl trp__random_host;

#endif
