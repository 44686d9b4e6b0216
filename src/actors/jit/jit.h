/* The jit actor. */
#ifndef TRP_ACTORS_JIT_H
#define TRP_ACTORS_JIT_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__jit_class;
extern const trp__actor_class
    trp__jit_compile_class; /* the companion actors, which compile and link */

/* The sender's side. */
trp_status trp__jit_pack_compile(trp__pack *pack, const trp_request *request);
trp_status trp__jit_pack_link(trp__pack *pack, const trp_request *request);
trp_status trp__jit_pack_load(trp__pack *pack, const trp_request *request);
trp_status trp__jit_pack_launch(trp__pack *pack, const trp_request *request);
trp_status trp__jit_pack_set(trp__pack *pack, const trp_request *request);
trp_status trp__jit_pack_query(trp__pack *pack, const trp_request *request);

/* The worker's side. */
extern const trp_actor_impl trp__jit_cuda;
extern const trp_actor_impl trp__jit_host;
extern const trp_actor_impl trp__jit_compile_actor;

/* Tells an actor of trp__jit_cuda that an image has been made and may be launched next. */
void trp__jit_cuda_expect(trp_instance *instance);

#endif
