/* See blas_reference.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/blas_reference.h"

#include "support/reference/elements.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- elements ---- */

size_t ref_blas_size(trp_dtype type)
{
    return trp_dtype_bits(type) / 8;
}

bool ref_blas_complex(trp_dtype type)
{
    return type == TRP_C64 || type == TRP_C128;
}

trp_dtype ref_blas_real(trp_dtype type)
{
    return type == TRP_C64 ? TRP_F32 : type == TRP_C128 ? TRP_F64 : type;
}

double ref_blas_unit(trp_dtype type)
{
    return type == TRP_F16                  ? 0x1p-11
           : type == TRP_BF16               ? 0x1p-8
           : ref_blas_real(type) == TRP_F32 ? 0x1p-24
                                            : 0x1p-53;
}

static ref_complex make(double re, double im)
{
    /* re + im * I would turn a NaN in one part into NaN in both. */
    return (union {
               double parts[2];
               ref_complex value;
           }){.parts = {re, im}}
        .value;
}

ref_complex ref_blas_load(trp_dtype type, const void *array, int64_t index)
{
    const float *f = array;
    const double *d = array;
    switch (type) {
    case TRP_F16:
    case TRP_BF16:
        return ref_element_load(type, array, index);
    case TRP_F32:
        return (double)f[index];
    case TRP_F64:
        return d[index];
    case TRP_C64:
        return make((double)f[2 * index], (double)f[2 * index + 1]);
    case TRP_C128:
        return make(d[2 * index], d[2 * index + 1]);
    case TRP_I64:
        return (double)((const int64_t *)array)[index];
    case TRP_I32:
        return ((const int32_t *)array)[index];
    case TRP_I8:
        return ((const int8_t *)array)[index];
    default:
        abort();
    }
}

void ref_blas_store(trp_dtype type, void *array, int64_t index, ref_complex value)
{
    float *f = array;
    double *d = array;
    switch (type) {
    case TRP_F16:
    case TRP_BF16:
        ref_element_store(type, array, index, value);
        return;
    case TRP_F32:
        f[index] = (float)creal(value);
        return;
    case TRP_F64:
        d[index] = creal(value);
        return;
    case TRP_C64:
        f[2 * index] = (float)creal(value);
        f[2 * index + 1] = (float)cimag(value);
        return;
    case TRP_C128:
        d[2 * index] = creal(value);
        d[2 * index + 1] = cimag(value);
        return;
    case TRP_I32:
        ((int32_t *)array)[index] = (int32_t)creal(value);
        return;
    case TRP_I8:
        ((int8_t *)array)[index] = (int8_t)creal(value);
        return;
    default:
        abort();
    }
}

ref_complex ref_blas_rounded(trp_dtype type, ref_complex value)
{
    double element[2];
    ref_blas_store(type, element, 0, value);
    return ref_blas_load(type, element, 0);
}

/* ---- operands ---- */

int64_t ref_operand_index(const ref_operand *x, int64_t i, int64_t j)
{
    if (x->packed) {
        int64_t line = x->by_rows ? i : j, place = x->by_rows ? j : i;
        bool growing = x->lower == x->by_rows; /* the first line has one element */
        return x->base + place +
               (growing ? line * (line + 1) / 2 : line * (2 * x->rows - line - 1) / 2);
    }
    return x->base + i * x->down + j * x->right;
}

static bool in_band(const ref_operand *x, int64_t i, int64_t j)
{
    return !x->banded || (i - j <= x->kl && j - i <= x->kl);
}

static bool in_triangle(const ref_operand *x, int64_t i, int64_t j)
{
    if (!in_band(x, i, j))
        return false;
    return x->lower ? i >= j : i <= j;
}

bool ref_operand_holds(const ref_operand *x, int64_t i, int64_t j)
{
    switch (x->shape) {
    case REF_SYMMETRIC:
    case REF_HERMITIAN:
        return in_triangle(x, i, j);
    case REF_TRIANGULAR:
        return in_triangle(x, i, j) && !(x->unit && i == j);
    case REF_BAND:
        return i - j <= x->kl && j - i <= x->ku;
    default:
        return true;
    }
}

static ref_complex loaded(const ref_operand *x, int64_t i, int64_t j)
{
    return ref_blas_load(x->type, x->data, ref_operand_index(x, i, j));
}

/* Returns element (i, j) of the matrix, even if memory holds only its mirror image. */
static ref_complex at(const ref_operand *x, int64_t i, int64_t j)
{
    bool held = ref_operand_holds(x, i, j);
    if (!in_band(x, i, j))
        return 0;
    switch (x->shape) {
    case REF_SYMMETRIC:
        return held ? loaded(x, i, j) : loaded(x, j, i);
    case REF_HERMITIAN:
        if (i == j)
            return creal(loaded(x, i, i));
        return held ? loaded(x, i, j) : conj(loaded(x, j, i));
    case REF_TRIANGULAR:
        if (x->unit && i == j)
            return 1;
        return held ? loaded(x, i, j) : 0;
    default:
        return held ? loaded(x, i, j) : 0;
    }
}

/* Returns an element of op(x). */
static ref_complex op_at(const ref_operand *x, trp_transpose trans, int64_t i, int64_t j)
{
    if (trans == TRP_N)
        return at(x, i, j);
    return trans == TRP_T ? at(x, j, i) : conj(at(x, j, i));
}

static int64_t op_columns(const ref_operand *x, trp_transpose trans)
{
    return trans == TRP_N ? x->columns : x->rows;
}

/* ---- sums ---- */

static void add(ref_number *sum, ref_complex term)
{
    sum->value += term;
    sum->size += fabs(creal(term)) + fabs(cimag(term));
    sum->terms++;
}

/* Adds beta times the old value, which is not read if beta is 0. */
static void add_old(ref_number *sum, ref_complex beta, const ref_operand *x, int64_t i, int64_t j)
{
    if (beta != 0)
        add(sum, beta * at(x, i, j));
}

/* Each complex operation may lose some units in the last place; the reference itself uses double.
 */
double ref_blas_bound(const ref_number *number, trp_dtype type)
{
    if (type == TRP_F16 || type == TRP_BF16) /* computed in f32, rounded once */
        return 4 * ((double)number->terms + 4) * 0x1p-24 * number->size +
               1.01 * ref_blas_unit(type) * cabs(number->value) + 0x1p-25;
    return 4 * ((double)number->terms + 4) * ref_blas_unit(type) * number->size;
}

/* ---- level 1 ---- */

static ref_number axpy(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    add(&sum, p->alpha * at(&p->x, i, j));
    add(&sum, at(&p->y, i, j));
    return sum;
}

static ref_number scal(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    add(&sum, p->alpha * at(&p->x, i, j));
    return sum;
}

/* An exact result: a copy, or an index. */
static ref_number exactly(ref_complex value)
{
    return (ref_number){.value = value};
}

static ref_number vcopy(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    (void)output;
    return exactly(at(&p->x, i, j));
}

static ref_number swap(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    return exactly(at(output == REF_X ? &p->y : &p->x, i, j));
}

static ref_number rot(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    ref_complex x = at(&p->x, i, j), y = at(&p->y, i, j);
    add(&sum, p->c * (output == REF_X ? x : y));
    add(&sum, output == REF_X ? p->s * y : -conj(p->s) * x);
    return sum;
}

static ref_number rotm(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    const double *h = p->modified;
    double flag = h[0], diagonal = flag == 0 || flag == -2, other = flag == -2 ? 0 : 1;
    double h11 = diagonal != 0 ? 1 : h[1], h22 = diagonal != 0 ? 1 : h[4];
    double h21 = flag == 1 ? -1 : h[2], h12 = flag == 1 ? 1 : h[3];
    add(&sum, (output == REF_X ? h11 : h22) * at(output == REF_X ? &p->x : &p->y, i, j));
    add(&sum, other * (output == REF_X ? h12 : h21) * at(output == REF_X ? &p->y : &p->x, i, j));
    return sum;
}

static ref_number dot(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    for (int64_t l = 0; l < p->x.rows; l++) {
        ref_complex x = at(&p->x, l, 0);
        add(&sum, (p->op == TRP_OP_DOTC ? conj(x) : x) * at(&p->y, l, 0));
    }
    (void)i;
    (void)j;
    return sum;
}

static double one_norm(ref_complex x)
{
    return fabs(creal(x)) + fabs(cimag(x));
}

static ref_number norm(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    (void)i;
    (void)j;
    for (int64_t l = 0; l < p->x.rows; l++) {
        ref_complex x = at(&p->x, l, 0);
        add(&sum, p->op == TRP_OP_ASUM ? one_norm(x) : creal(x * conj(x)));
    }
    if (p->op == TRP_OP_NRM2) {
        sum.value = sqrt(creal(sum.value));
        sum.size = creal(sum.value);
    }
    return sum;
}

static ref_number extreme(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    double sign = p->op == TRP_OP_IAMAX ? 1 : -1, best = -INFINITY;
    int64_t place = 0;
    (void)output;
    (void)i;
    (void)j;
    for (int64_t l = 0; l < p->x.rows; l++) {
        double here = sign * one_norm(at(&p->x, l, 0));
        if (here > best) {
            best = here;
            place = l + 1;
        }
    }
    return exactly((double)place);
}

/* ---- levels 2 and 3 ---- */

/* alpha op(A) B + beta C, or alpha B op(A) + beta C; at level 2, B and C are vectors. */
static ref_number product(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    if (p->side == TRP_LEFT) {
        for (int64_t l = 0; l < op_columns(&p->a, p->trans); l++)
            add(&sum, p->alpha * op_at(&p->a, p->trans, i, l) * at(&p->x, l, j));
    } else {
        for (int64_t l = 0; l < p->x.columns; l++)
            add(&sum, p->alpha * at(&p->x, i, l) * op_at(&p->a, p->trans, l, j));
    }
    add_old(&sum, p->beta, &p->y, i, j);
    return sum;
}

/* alpha op(A) op(B) + beta C */
static ref_number gemm(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    for (int64_t l = 0; l < op_columns(&p->a, p->trans); l++)
        add(&sum, p->alpha * op_at(&p->a, p->trans, i, l) * op_at(&p->x, p->trans_b, l, j));
    add_old(&sum, p->beta, &p->y, i, j);
    return sum;
}

/* op(A) X - alpha B, or X op(A) - alpha B. */
static ref_number residual(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    if (p->side == TRP_LEFT) {
        for (int64_t l = 0; l < p->x.rows; l++)
            add(&sum, op_at(&p->a, p->trans, i, l) * at(&p->solved, l, j));
    } else {
        for (int64_t l = 0; l < p->x.columns; l++)
            add(&sum, at(&p->solved, i, l) * op_at(&p->a, p->trans, l, j));
    }
    add(&sum, -p->alpha * at(&p->x, i, j));
    return sum;
}

static ref_number ger(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    ref_complex y = at(&p->y, j, 0);
    (void)output;
    add(&sum, p->alpha * at(&p->x, i, 0) * (p->op == TRP_OP_GERC ? conj(y) : y));
    add(&sum, at(&p->a, i, j));
    return sum;
}

static ref_number rank_1(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    bool hermitian = p->a.shape == REF_HERMITIAN;
    bool two = p->y.rows > 0;
    const ref_operand *other = two ? &p->y : &p->x;
    ref_complex right = at(other, j, 0), x = at(&p->x, j, 0);
    (void)output;
    add(&sum, p->alpha * at(&p->x, i, 0) * (hermitian ? conj(right) : right));
    if (two)
        add(&sum,
            (hermitian ? conj(p->alpha) : p->alpha) * at(&p->y, i, 0) * (hermitian ? conj(x) : x));
    add(&sum, at(&p->a, i, j));
    return sum;
}

/* Adds the terms of element (i, j) of factor op(A) op(B)^T, or ^H. */
static void add_rank(ref_number *sum, const ref_blas *p, ref_complex factor, const ref_operand *a,
                     const ref_operand *b, int64_t i, int64_t j)
{
    bool hermitian = p->y.shape == REF_HERMITIAN;
    for (int64_t l = 0; l < op_columns(a, p->trans); l++) {
        ref_complex right = op_at(b, p->trans, j, l);
        add(sum, factor * op_at(a, p->trans, i, l) * (hermitian ? conj(right) : right));
    }
}

static ref_number rank_k(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    bool hermitian = p->y.shape == REF_HERMITIAN;
    bool twice = p->op == TRP_OP_SYR2K || p->op == TRP_OP_HER2K;
    (void)output;
    add_rank(&sum, p, p->alpha, &p->a, p->x.rows > 0 ? &p->x : &p->a, i, j);
    if (twice)
        add_rank(&sum, p, hermitian ? conj(p->alpha) : p->alpha, &p->x, &p->a, i, j);
    if (hermitian && i == j)
        sum.value = creal(sum.value);
    add_old(&sum, p->beta, &p->y, i, j);
    return sum;
}

static ref_number geam(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    add(&sum, p->alpha * op_at(&p->a, p->trans, i, j));
    if (p->beta != 0)
        add(&sum, p->beta * op_at(&p->x, p->trans_b, i, j));
    return sum;
}

static ref_number dgmm(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    ref_number sum = {0};
    (void)output;
    add(&sum, at(&p->x, p->side == TRP_LEFT ? i : j, 0) * at(&p->a, i, j));
    return sum;
}

ref_number ref_blas_element(const ref_blas *p, ref_place output, int64_t i, int64_t j)
{
    static ref_number (*const element[])(const ref_blas *, ref_place, int64_t, int64_t) = {
#define REFERENCE(op, function) [TRP_OP_##op & 0xff] = function,
#include "libs/blas/routines.def"
    };
    if (!element[p->op & 0xff]) {
        fprintf(stderr, "reference: no operation %#x\n", p->op);
        abort();
    }
    return element[p->op & 0xff](p, output, i, j);
}
