/* What a product of the matmul actor gives, by the formulas of <troupe/matmul.h> in float64, and
 * how far rounding may take a result from it. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_MATMUL_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_MATMUL_REFERENCE_H

#include "support/reference/elements.h"

#include <troupe/matmul.h>

/* A right result lies within `bound` of `value` before it is rounded to its type. */
typedef struct ref_value {
    ref_complex value;
    double bound;
} ref_value;

/* Roundoff. On the host `step` is that of f32 (of f64 for f64 and c128); fp8 products of a GPU
 * accumulate with fewer bits. */
typedef struct ref_units {
    double step;     /* of one step of the accumulation */
    double input;    /* to which inputs may be rounded: tf32 */
    double function; /* of tanh and exp */
    bool between;    /* X may be rounded to D's type before C, bias and activation */
} ref_units;

typedef struct ref_matmul {
    /* The sizes, scalars and options, the types, orders, leading dimensions and strides; with no
     * default left open. Of its buffers only whether there is one counts. */
    trp_matmul_request r;
    trp_dtype scalar_type;
    ref_units unit;
    /* Where the first element of each lies as it is before the product; NULL: it is not there. */
    const void *a, *b, *c, *aux, *bias, *scalars, *alphas;
    const void *scale_a, *scale_b, *scale_d, *scale_aux;
    /* The results; element (i, j) of matrix l is number (l n + j) m + i. */
    ref_value *d;
    ref_value *before;   /* X + bias: what goes to aux (scaled, or as bits) */
    ref_value *aux_out;  /* the same times aux.scale */
    ref_value *gradient; /* element i of vector l is number l * gradient_count + i */
    int64_t gradient_count;
    ref_value amax_d, amax_aux;
} ref_matmul;

/* Computes the results, which ref_matmul_free() frees. */
void ref_matmul_compute(ref_matmul *p);
void ref_matmul_free(ref_matmul *p);

/* Whether a result is within its bound once both ends of that are rounded to the type. *share
 * becomes what of the bound the result needs, beside half a step of its type, if that is more. */
bool ref_value_right(const ref_value *want, trp_dtype type, ref_complex got, double *share);

/* The factor of a scale mode for line `line` (a row of op(A), or a column of op(B)) and place p
 * of k. */
double ref_scale(trp_scale_mode mode, const void *at, int64_t lines, int64_t k, int64_t line,
                 int64_t p);
/* Which of the factors that is: its number in the array. */
int64_t ref_scale_place(trp_scale_mode mode, int64_t lines, int64_t k, int64_t line, int64_t p);
/* Bytes that the factors of a matrix take. */
int64_t ref_scale_bytes(trp_scale_mode mode, int64_t lines, int64_t k);

#endif
