/* gemm and the operations of levels 1 to 3 as the suite knows them, from libs/blas/routines.def.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_BLAS_LEVELS_H
#define TESTS_CONFORMANCE_BLAS_LEVELS_H

#include "conformance/conformance.h"

/* Appends them, from `out` on; returns how many there are. */
size_t cf_blas_levels(cf_operation *out, size_t capacity);

#endif
