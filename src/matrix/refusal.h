/* Explanation why the library has no algorithm for a product. */
#ifndef TRP_MATRIX_REFUSAL_H
#define TRP_MATRIX_REFUSAL_H

#include "matrix/plan.h"

/* Finds the part of a problem that the library does not support, by planning the problem without
 * one part after another. Returns TRP_E_UNSUPPORTED with a message that names the part. */
trp_status trp__matmul_blame(const trp__matmul_planner *planner, const trp__matmul_key *key,
                             void *const at[], trp_error *error);

#endif
