/* gemm and the operations of levels 1 to 3, as libs/blas/routines.def lists them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_BLAS_LEVELS_H
#define TESTS_CONFORMANCE_BLAS_LEVELS_H

#include "conformance/conformance.h"
#include "support/problems/blas_problem.h"

/* Appends their descriptions at `out`; returns how many there are. */
size_t cf_blas_levels(cf_operation *out, size_t capacity);

/* Describes lists of gemms by gemm's description; see gemm_lists.c. */
enum { CF_GEMM_LISTS = 2 };
void cf_gemm_lists(cf_operation *out, const cf_operation *gemm);

/* Sets the options of a problem from number `way`; false: they do not go with its type. */
bool cf_blas_options(const cf_problem *p, unsigned way, problem *out);
/* Returns what TRP_E_UNSUPPORTED may say of a problem on a GPU: cuBLAS has products of i8 only in
 * some layouts and sizes, and emulation only on some devices. */
const char *cf_gemm_may_refuse(const problem *p);

#endif
