/* See lapack_reference.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/lapack_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

ref_dense ref_dense_make(int64_t rows, int64_t columns)
{
    ref_dense x = {.rows = rows, .columns = columns};
    x.at = calloc((size_t)(rows * columns) + 1, sizeof *x.at);
    if (!x.at) {
        fprintf(stderr, "reference: no memory\n");
        abort();
    }
    return x;
}

void ref_dense_free(ref_dense *x)
{
    free(x->at);
    x->at = NULL;
}

double ref_dense_norm(const ref_dense *x)
{
    double sum = 0;
    for (int64_t i = 0; i < x->rows * x->columns; i++)
        sum += creal(x->at[i]) * creal(x->at[i]) + cimag(x->at[i]) * cimag(x->at[i]);
    return sqrt(sum);
}

double ref_dense_distance(const ref_dense *x, const ref_dense *y)
{
    ref_dense difference = ref_dense_make(x->rows, x->columns);
    for (int64_t j = 0; j < x->columns; j++) {
        for (int64_t i = 0; i < x->rows; i++)
            *ref_dense_element(&difference, i, j) =
                *ref_dense_element(x, i, j) - *ref_dense_element(y, i, j);
    }
    double norm = ref_dense_norm(&difference);
    ref_dense_free(&difference);
    return norm;
}

ref_dense ref_dense_turned(const ref_dense *x, trp_transpose trans)
{
    bool turned = trans != TRP_N;
    ref_dense out =
        turned ? ref_dense_make(x->columns, x->rows) : ref_dense_make(x->rows, x->columns);
    for (int64_t j = 0; j < x->columns; j++) {
        for (int64_t i = 0; i < x->rows; i++) {
            ref_complex value = *ref_dense_element(x, i, j);
            *(turned ? ref_dense_element(&out, j, i) : ref_dense_element(&out, i, j)) =
                trans == TRP_C ? conj(value) : value;
        }
    }
    return out;
}

ref_dense ref_dense_product(const ref_dense *x, const ref_dense *y)
{
    ref_dense out = ref_dense_make(x->rows, y->columns);
    for (int64_t j = 0; j < y->columns; j++) {
        for (int64_t l = 0; l < x->columns; l++) {
            ref_complex by = *ref_dense_element(y, l, j);
            for (int64_t i = 0; i < x->rows; i++)
                *ref_dense_element(&out, i, j) += *ref_dense_element(x, i, l) * by;
        }
    }
    return out;
}

ref_dense ref_dense_identity(int64_t n)
{
    ref_dense x = ref_dense_make(n, n);
    for (int64_t i = 0; i < n; i++)
        *ref_dense_element(&x, i, i) = 1;
    return x;
}

static void exchange_rows(ref_dense *x, int64_t first, int64_t second)
{
    for (int64_t j = 0; j < x->columns; j++) {
        ref_complex kept = *ref_dense_element(x, first, j);
        *ref_dense_element(x, first, j) = *ref_dense_element(x, second, j);
        *ref_dense_element(x, second, j) = kept;
    }
}

void ref_lapack_factor(ref_dense *a, int32_t *pivots)
{
    int64_t n = a->rows;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            best =
                cabs(*ref_dense_element(a, i, k)) > cabs(*ref_dense_element(a, best, k)) ? i : best;
        pivots[k] = (int32_t)best + 1;
        exchange_rows(a, k, best);
        ref_complex pivot = *ref_dense_element(a, k, k);
        for (int64_t i = k + 1; i < n && pivot != 0; i++) {
            ref_complex by = *ref_dense_element(a, i, k) /= pivot;
            for (int64_t j = k + 1; j < n; j++)
                *ref_dense_element(a, i, j) -= by * *ref_dense_element(a, k, j);
        }
    }
}

ref_dense ref_lapack_unfactor(const ref_dense *factors, const int32_t *pivots)
{
    int64_t n = factors->rows;
    ref_dense lower = ref_dense_identity(n), upper = ref_lapack_upper(factors);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j + 1; i < n; i++)
            *ref_dense_element(&lower, i, j) = *ref_dense_element(factors, i, j);
    }
    ref_dense out = ref_dense_product(&lower, &upper);
    for (int64_t k = n - 1; k >= 0; k--)
        exchange_rows(&out, k, pivots[k] - 1);
    ref_dense_free(&lower);
    ref_dense_free(&upper);
    return out;
}

ref_dense ref_lapack_upper(const ref_dense *factors)
{
    ref_dense upper = ref_dense_make(factors->rows, factors->columns);
    for (int64_t j = 0; j < factors->columns; j++) {
        for (int64_t i = 0; i <= j && i < factors->rows; i++)
            *ref_dense_element(&upper, i, j) = *ref_dense_element(factors, i, j);
    }
    return upper;
}

/* The last reflector is applied to the identity first. */
ref_dense ref_lapack_q(const ref_dense *factors, const ref_complex *tau)
{
    int64_t m = factors->rows, count = m < factors->columns ? m : factors->columns;
    ref_dense q = ref_dense_identity(m);
    for (int64_t k = count - 1; k >= 0; k--) {
        for (int64_t j = 0; j < m; j++) {
            ref_complex sum = *ref_dense_element(&q, k, j);
            for (int64_t i = k + 1; i < m; i++)
                sum += conj(*ref_dense_element(factors, i, k)) * *ref_dense_element(&q, i, j);
            *ref_dense_element(&q, k, j) -= tau[k] * sum;
            for (int64_t i = k + 1; i < m; i++)
                *ref_dense_element(&q, i, j) -= tau[k] * *ref_dense_element(factors, i, k) * sum;
        }
    }
    return q;
}
