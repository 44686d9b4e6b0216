/* Why the library has no algorithm for a product. */
#ifndef TRP_MATRIX_REFUSAL_H
#define TRP_MATRIX_REFUSAL_H

#include "matrix/plan.h"

/* Finds the part of a problem that the library can't do, by planning it without one part after the
 * other, and returns TRP_E_UNSUPPORTED with a message that names it. */
trp_status trp__matmul_blame(const trp__matmul_planner *planner, const trp__matmul_key *key,
                             void *const at[], trp_error *error);

#endif
