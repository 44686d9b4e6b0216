/* The jit actor. */
#ifndef TRP_ACTORS_JIT_H
#define TRP_ACTORS_JIT_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__jit_class;
extern const trp__actor_class
    trp__jit_compile_class; /* the companion actors, which compile and link */

/* The sender's side. */
trp_status trp__jit_encode_compile(trp__encoder *encoder, const trp_request *request);
trp_status trp__jit_encode_link(trp__encoder *encoder, const trp_request *request);
trp_status trp__jit_encode_load(trp__encoder *encoder, const trp_request *request);
trp_status trp__jit_encode_launch(trp__encoder *encoder, const trp_request *request);
trp_status trp__jit_encode_set(trp__encoder *encoder, const trp_request *request);
trp_status trp__jit_encode_query(trp__encoder *encoder, const trp_request *request);

/* The worker's side. */
extern const trp_actor_impl trp__jit_cuda;
extern const trp_actor_impl trp__jit_host;
extern const trp_actor_impl trp__jit_compile_actor;

/* Tells an actor of trp__jit_cuda that an image has been made and may be launched next. */
void trp__jit_cuda_expect(trp_instance *instance);

#endif
