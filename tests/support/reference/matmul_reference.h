/* Results of a product of the matmul actor by the formulas of <troupe/matmul.h> in float64, and how
 * far rounding may move a result from them. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_MATMUL_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_MATMUL_REFERENCE_H

#include "support/reference/elements.h"

#include <troupe/matmul.h>

/* A right result is within `bound` of `value` before it is rounded to its type. */
typedef struct ref_value {
    ref_complex value;
    double bound;
} ref_value;

/* Unit roundoffs. On the host `step` is that of f32 (of f64 for f64 and c128); fp8 products of a
 * GPU accumulate with fewer bits. */
typedef struct ref_units {
    double step;     /* of one step of the accumulation */
    double input;    /* of inputs that may be rounded to tf32 */
    double function; /* of tanh and exp */
    bool between;    /* X may be rounded to D's type before C, bias and activation are applied */
} ref_units;

typedef struct ref_matmul {
    /* Sizes, scalars and options, types, orders, leading dimensions and strides, without defaults.
     * Buffers only say whether an operand exists. */
    trp_matmul_request r;
    trp_dtype scalar_type;
    ref_units unit;
    /* The first element of each operand before the product; NULL: absent. */
    const void *a, *b, *c, *aux, *bias, *scalars, *alphas;
    const void *scale_a, *scale_b, *scale_d, *scale_aux;
    /* Results; element (i, j) of matrix l has index (l n + j) m + i. */
    ref_value *d;
    ref_value *before;   /* X + bias, written to aux (scaled, or as bits) */
    ref_value *aux_out;  /* the same times aux.scale */
    ref_value *gradient; /* element i of vector l has index l * gradient_count + i */
    int64_t gradient_count;
    ref_value amax_d, amax_aux;
} ref_matmul;

/* Computes the results, which ref_matmul_free() frees. */
void ref_matmul_compute(ref_matmul *p);
void ref_matmul_free(ref_matmul *p);

/* Returns whether a result is within its bound, with both ends rounded to the type. Raises *share
 * to the part of the bound that the result needs beyond half a step of its type. */
bool ref_value_right(const ref_value *want, trp_dtype type, ref_complex got, double *share);

/* Returns the factor in a scale mode for line `line` (a row of op(A), or a column of op(B)) and
 * index p of k. */
double ref_scale(trp_scale_mode mode, const void *at, int64_t lines, int64_t k, int64_t line,
                 int64_t p);
/* Returns the index of that factor in the array. */
int64_t ref_scale_place(trp_scale_mode mode, int64_t lines, int64_t k, int64_t line, int64_t p);
/* Returns the bytes of the factors of a matrix. */
int64_t ref_scale_bytes(trp_scale_mode mode, int64_t lines, int64_t k);

#endif
