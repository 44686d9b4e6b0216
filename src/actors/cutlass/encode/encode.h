/* The sender's side of the actor's operations: checks a request and writes its record. */
#ifndef TRP_ACTORS_CUTLASS_ENCODE_ENCODE_H
#define TRP_ACTORS_CUTLASS_ENCODE_ENCODE_H

#include "wire/actor_class.h"

trp_status trp__cutlass_encode_gemm(trp__encoder *encoder, const trp_request *request);
trp_status trp__cutlass_encode_grouped(trp__encoder *encoder, const trp_request *request);
trp_status trp__cutlass_encode_conv(trp__encoder *encoder, const trp_request *request);

#endif
