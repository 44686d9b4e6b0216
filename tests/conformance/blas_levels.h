/* gemm and the operations of levels 1 to 3 as the suite knows them, from libs/blas/routines.def.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_BLAS_LEVELS_H
#define TESTS_CONFORMANCE_BLAS_LEVELS_H

#include "conformance/conformance.h"
#include "support/problems/blas_problem.h"

/* Appends them, from `out` on; returns how many there are. */
size_t cf_blas_levels(cf_operation *out, size_t capacity);

/* Lists of gemms, from gemm's description; see gemm_lists.c. */
enum { CF_GEMM_LISTS = 2 };
void cf_gemm_lists(cf_operation *out, const cf_operation *gemm);

/* The options of a problem that have a number; false: they do not go with its type. */
bool cf_blas_options(const cf_problem *p, unsigned way, problem *out);
/* On a GPU: products of i8 in layouts and sizes of cuBLAS's choice only, emulation where the device
 * and cuBLAS have it. */
const char *cf_gemm_may_refuse(const problem *p);

#endif
