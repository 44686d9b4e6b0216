/* The blas operations of levels 1 to 3 but gemm. One table (levels.c) says for each what it takes
 * and gives; the workers' parts have one each that says which routine does it. */
#ifndef TRP_ACTORS_BLAS_LEVELS_H
#define TRP_ACTORS_BLAS_LEVELS_H

#include "wire/actor_class.h"

/* In the sender. */
trp_status trp__blas1_pack(trp__pack *pack, const trp_request *request);
trp_status trp__blas2_pack(trp__pack *pack, const trp_request *request);
trp_status trp__blas3_pack(trp__pack *pack, const trp_request *request);

#endif
