/* gemm, the operation that has most of blas's options. */
#ifndef TRP_ACTORS_BLAS_GEMM_H
#define TRP_ACTORS_BLAS_GEMM_H

#include "wire/actor_class.h"

/* Of TRP_OP_GEMM, in the sender. */
trp_status trp__gemm_pack(trp__pack *pack, const trp_request *request);

#endif
