/* What the blas operations of levels 1 to 3 give: each element of an output in float64, by the
 * definition of the operation in <troupe/blas.h>, and how far rounding may take a result from it.
 * Nothing here keeps state. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_BLAS_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_BLAS_REFERENCE_H

#include <troupe/blas.h>

#include <complex.h>

typedef double _Complex ref_complex;

/* ---- elements: f32, f64, c64, c128, f16, bf16, i8, i32 and, for an index, i64 ---- */

size_t ref_blas_size(trp_dtype type); /* bytes */
bool ref_blas_complex(trp_dtype type);
/* The real type that belongs to a type. */
trp_dtype ref_blas_real(trp_dtype type);
double ref_blas_unit(trp_dtype type); /* roundoff */
ref_complex ref_blas_load(trp_dtype type, const void *array, int64_t index);
/* Rounds; a real type takes the real part. */
void ref_blas_store(trp_dtype type, void *array, int64_t index, ref_complex value);
/* As the type holds it. */
ref_complex ref_blas_rounded(trp_dtype type, ref_complex value);

/* ---- operands ---- */

typedef enum ref_shape {
    REF_GENERAL,
    REF_SYMMETRIC, /* these three: one triangle is in memory */
    REF_HERMITIAN,
    REF_TRIANGULAR,
    REF_BAND,
} ref_shape;

/* A matrix in memory: element (i, j) lies at data[base + i * down + j * right]. A vector is one of
 * one column. */
typedef struct ref_operand {
    trp_dtype type;
    const void *data;
    int64_t rows, columns;
    int64_t base, down, right; /* elements */
    ref_shape shape;
    bool lower, unit;
    int64_t kl, ku;
    bool banded; /* a triangle or a half: kl diagonals beside the main one are in memory */
    /* A triangle without gaps, from `base` on: its columns one after the other, or its rows. */
    bool packed, by_rows;
} ref_operand;

/* Where element (i, j) is, and whether it is looked at there. */
int64_t ref_operand_index(const ref_operand *x, int64_t i, int64_t j);
bool ref_operand_holds(const ref_operand *x, int64_t i, int64_t j);

/* ---- operations ---- */

typedef enum ref_place { REF_A, REF_X, REF_Y, REF_RESULT } ref_place;

/* Operands as they are before the operation. Those of level 3 called B and C are x and y here. */
typedef struct ref_blas {
    uint32_t op;
    trp_side side;
    trp_transpose trans, trans_b;
    ref_complex alpha, beta; /* not 1 and 0 only where the operation has them */
    ref_complex c, s;
    double modified[5]; /* rotm */
    ref_operand a, x, y;
    ref_operand solved; /* trsv, trsm: x afterwards */
} ref_blas;

/* A sum of `terms` terms whose absolute values come to `size`. */
typedef struct ref_number {
    ref_complex value;
    double size;
    int64_t terms;
} ref_number;

/* Element (i, j) of an output; of trsv and trsm instead the residual, which should be 0. Not for
 * rotg, whose outputs are not given by one formula. */
ref_number ref_blas_element(const ref_blas *p, ref_place output, int64_t i, int64_t j);

/* How far from a number its computed value may be. */
double ref_blas_bound(const ref_number *number, trp_dtype type);

#endif
