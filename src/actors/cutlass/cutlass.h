/* The cutlass actor. */
#ifndef TRP_ACTORS_CUTLASS_H
#define TRP_ACTORS_CUTLASS_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__cutlass_class;

/* The sender's side. */
trp_status trp__cutlass_pack_gemm(trp__pack *pack, const trp_request *request);
trp_status trp__cutlass_pack_grouped(trp__pack *pack, const trp_request *request);
trp_status trp__cutlass_pack_conv(trp__pack *pack, const trp_request *request);

/* The worker's side. */
extern const trp_actor_impl trp__cutlass_cuda;
extern const trp_actor_impl trp__cutlass_host;

#endif
