/* Dense matrices of float64, packed by columns, and products of LAPACK's factors: the reference of
 * the blas actor's LAPACK operations. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_LAPACK_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_LAPACK_REFERENCE_H

#include "support/reference/blas_reference.h"

typedef struct ref_dense {
    int64_t rows, columns;
    ref_complex *at; /* NULL: none */
} ref_dense;

/* Returns a matrix of zeros; the caller frees it. */
ref_dense ref_dense_make(int64_t rows, int64_t columns);
void ref_dense_free(ref_dense *x);
static inline ref_complex *ref_dense_element(const ref_dense *x, int64_t i, int64_t j)
{
    return x->at + j * x->rows + i;
}
/* Returns the Frobenius norm; NaN if an element is. */
double ref_dense_norm(const ref_dense *x);
/* Returns the norm of x - y, in the rows that x has. */
double ref_dense_distance(const ref_dense *x, const ref_dense *y);
/* Returns the transpose, its conjugate, or a copy. */
ref_dense ref_dense_turned(const ref_dense *x, trp_transpose trans);
ref_dense ref_dense_product(const ref_dense *x, const ref_dense *y);
ref_dense ref_dense_identity(int64_t n);

/* Replaces a square matrix by its LU factors with row exchanges; pivots count from 1. */
void ref_lapack_factor(ref_dense *a, int32_t *pivots);
/* Returns P L U, from factors and pivots. */
ref_dense ref_lapack_unfactor(const ref_dense *factors, const int32_t *pivots);
/* Returns R, with all rows of the factors. */
ref_dense ref_lapack_upper(const ref_dense *factors);
/* Returns the square Q: the product of the reflectors below the diagonal. */
ref_dense ref_lapack_q(const ref_dense *factors, const ref_complex *tau);

#endif
