/* The blas operations of levels 1 to 3 except gemm. The table in levels_shape.c describes the
 * operands of each; the workers' tables name its routines. */
#ifndef TRP_ACTORS_BLAS_LEVELS_H
#define TRP_ACTORS_BLAS_LEVELS_H

#include "wire/actor_class.h"

/* The sender's side. */
trp_status trp__blas1_encode(trp__encoder *encoder, const trp_request *request);
trp_status trp__blas2_encode(trp__encoder *encoder, const trp_request *request);
trp_status trp__blas3_encode(trp__encoder *encoder, const trp_request *request);

#endif
