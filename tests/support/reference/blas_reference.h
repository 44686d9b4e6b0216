/* Results of the blas operations of levels 1 to 3: each element of an output in float64, by the
 * definition in <troupe/blas.h>, and how far rounding may move a result from it. Nothing here has
 * state. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_BLAS_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_BLAS_REFERENCE_H

#include <troupe/blas.h>

#include <complex.h>

typedef double _Complex ref_complex;

/* ---- elements: f32, f64, c64, c128, f16, bf16, i8, i32 and, for an index, i64 ---- */

size_t ref_blas_size(trp_dtype type); /* in bytes */
bool ref_blas_complex(trp_dtype type);
/* Returns the real type that belongs to a type. */
trp_dtype ref_blas_real(trp_dtype type);
double ref_blas_unit(trp_dtype type); /* unit roundoff */
ref_complex ref_blas_load(trp_dtype type, const void *array, int64_t index);
/* Rounds and stores; a real type takes the real part. */
void ref_blas_store(trp_dtype type, void *array, int64_t index, ref_complex value);
/* Returns the value as the type holds it. */
ref_complex ref_blas_rounded(trp_dtype type, ref_complex value);

/* ---- operands ---- */

typedef enum ref_shape {
    REF_GENERAL,
    REF_SYMMETRIC, /* these three have one triangle in memory */
    REF_HERMITIAN,
    REF_TRIANGULAR,
    REF_BAND,
} ref_shape;

/* A matrix in memory: element (i, j) is data[base + i * down + j * right]. A vector has one column.
 */
typedef struct ref_operand {
    trp_dtype type;
    const void *data;
    int64_t rows, columns;
    int64_t base, down, right; /* in elements */
    ref_shape shape;
    bool lower, unit;
    int64_t kl, ku;
    bool banded; /* triangular or symmetric: kl diagonals beside the main one are in memory */
    /* A triangle without gaps, from `base` on: its columns, or its rows, one after the other. */
    bool packed, by_rows;
} ref_operand;

/* Returns the index of element (i, j), and whether it may be read there. */
int64_t ref_operand_index(const ref_operand *x, int64_t i, int64_t j);
bool ref_operand_holds(const ref_operand *x, int64_t i, int64_t j);

/* ---- operations ---- */

typedef enum ref_place { REF_A, REF_X, REF_Y, REF_RESULT } ref_place;

/* Operands before the operation. B and C of level 3 are x and y here. */
typedef struct ref_blas {
    uint32_t op;
    trp_side side;
    trp_transpose trans, trans_b;
    ref_complex alpha, beta; /* 1 and 0 where the operation lacks them */
    ref_complex c, s;
    double modified[5]; /* rotm */
    ref_operand a, x, y;
    ref_operand solved; /* trsv, trsm: x afterwards */
} ref_blas;

/* A sum of `terms` terms, whose absolute values add up to `size`. */
typedef struct ref_number {
    ref_complex value;
    double size;
    int64_t terms;
} ref_number;

/* Returns element (i, j) of an output; for trsv and trsm the residual, which should be 0. Not for
 * rotg, whose outputs have no single formula. */
ref_number ref_blas_element(const ref_blas *p, ref_place output, int64_t i, int64_t j);

/* Returns how far a computed value may be from a number. */
double ref_blas_bound(const ref_number *number, trp_dtype type);

#endif
