/* What the fake cuBLAS's routines of levels 1 to 3 do: a few loops on views of the operands. */
#include "support/fake_cuda/cublas_levels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void give(const output *to, trp__cublas_type type, fake_number value)
{
    fake_pin pin = {0};
    int64_t integer = (int64_t)creal(value);
    trp__cublas_type stored = to->kind == ELEMENT ? type : fake_real(type);
    size_t bytes = to->kind == INTEGER ? sizeof integer : fake_bytes(stored);
    if (!fake_cuda_reach(&pin, (uintptr_t)to->at, bytes, true))
        return;
    if (to->kind == INTEGER)
        memcpy(pin.at, &integer, sizeof integer);
    else
        fake_store(stored, pin.at, value);
    fake_cuda_let_go(&pin);
}

/* Y = alpha A + beta X, by elements: axpy, scal, copy, geam. */
void fake_blas_add(const job *j)
{
    for (int64_t l = 0; l < j->v[Y].columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < j->v[Y].rows; i++) {
            bool all = j->call->op == SCAL; /* it multiplies by 0, too */
            fake_number a =
                all || j->alpha != 0 ? fake_times(j->alpha, fake_view_get(&j->v[A], i, l)) : 0;
            fake_number x = j->beta != 0 ? fake_times(j->beta, fake_view_get(&j->v[X], i, l)) : 0;
            fake_view_put(&j->v[Y], i, l, a + x);
        }
    }
}

void fake_blas_swap(const job *j)
{
    for (int64_t i = 0; i < j->v[X].rows; i++) {
        fake_number x = fake_view_get(&j->v[X], i, 0);
        fake_view_put(&j->v[X], i, 0, fake_view_get(&j->v[Y], i, 0));
        fake_view_put(&j->v[Y], i, 0, x);
    }
}

void fake_blas_rotate(const job *j)
{
    fake_number c = j->alpha, s = j->beta;
    for (int64_t i = 0; i < j->v[X].rows; i++) {
        fake_number x = fake_view_get(&j->v[X], i, 0), y = fake_view_get(&j->v[Y], i, 0);
        fake_view_put(&j->v[X], i, 0, fake_times(c, x) + fake_times(s, y));
        fake_view_put(&j->v[Y], i, 0, fake_times(c, y) - fake_times(conj(s), x));
    }
}

/* a = r, and where it is real b = z, from which c and s can be had again. */
void fake_blas_make_rotation(const job *j)
{
    fake_number a = fake_view_get(&j->v[X], 0, 0), b = fake_view_get(&j->v[Y], 0, 0);
    bool is_complex = fake_complex(j->call->type);
    double norm = hypot(cabs(a), cabs(b));
    fake_number c = 1, s = 0, r = 0, z = 0;
    if (is_complex && a == 0) {
        c = 0, s = 1, r = b;
    } else if (is_complex) {
        c = cabs(a) / norm;
        r = a / cabs(a) * norm;
        s = fake_times(a / cabs(a), conj(b)) / norm;
    } else if (norm != 0) {
        bool larger = cabs(a) > cabs(b);
        r = copysign(norm, creal(larger ? a : b));
        c = creal(a) / creal(r);
        s = creal(b) / creal(r);
        z = larger ? s : c != 0 ? 1 / creal(c) : 1;
    }
    fake_view_put(&j->v[X], 0, 0, r);
    if (!is_complex)
        fake_view_put(&j->v[Y], 0, 0, z);
    give(&j->call->result[0], j->call->type, c);
    give(&j->call->result[1], j->call->type, s);
}

void fake_blas_dot(const job *j)
{
    fake_number sum = 0;
    for (int64_t i = 0; i < j->v[A].rows; i++) {
        fake_number x = fake_view_get(&j->v[A], i, 0);
        sum += fake_times(j->call->op == DOTC ? conj(x) : x, fake_view_get(&j->v[X], i, 0));
    }
    give(&j->call->result[0], j->call->type, sum);
}

void fake_blas_norm(const job *j)
{
    double sum = 0;
    for (int64_t i = 0; i < j->v[A].rows; i++) {
        fake_number x = fake_view_get(&j->v[A], i, 0);
        sum = j->call->op == NRM2 ? hypot(sum, cabs(x)) : sum + fabs(creal(x)) + fabs(cimag(x));
    }
    give(&j->call->result[0], j->call->type, sum);
}

/* The first of the largest or smallest, as rounded to the type. */
void fake_blas_find(const job *j)
{
    int64_t found = 0;
    double best = 0;
    for (int64_t i = 0; i < j->v[A].rows; i++) {
        fake_number x = fake_view_get(&j->v[A], i, 0);
        double size = fabs(creal(x)) + fabs(cimag(x));
        if (fake_real(j->call->type) == TRP__CUDA_R_32F)
            size = (double)(float)size;
        if (found == 0 || (j->call->op == IAMAX ? size > best : size < best)) {
            best = size;
            found = i + 1;
        }
    }
    give(&j->call->result[0], j->call->type, (double)found);
}

/* Adds factor a b to the packed sums. */
static void add_product(fake_number *sum, fake_number factor, const view *a, const view *b)
{
    if (factor == 0 || a->columns == 0)
        return;
    fake_number *left = fake_view_pack(a), *right = fake_view_pack(b);
    for (int64_t j = 0; j < b->columns && !fake_cuda_stopping(); j++, sum += a->rows) {
        for (int64_t l = 0; l < a->columns; l++) {
            fake_number by = fake_times(factor, right[j * a->columns + l]);
            for (int64_t i = 0; i < a->rows; i++)
                sum[i] += fake_times(left[l * a->rows + i], by);
        }
    }
    free(left);
    free(right);
}

static bool is_rank_2(const call *q)
{
    return q->op == SYR2K || q->op == HER2K || q->op == SYR2 || q->op == HER2;
}

/* Y = alpha A X + beta Y, of rank 2k also + alpha X' A', with ' for transposed, or with a conjugate
 * for all of that. All is read before anything is written, since Y may be X. */
void fake_blas_multiply(const job *j)
{
    const view *c = &j->v[Y];
    bool of_k = j->call->op == HERK || j->call->op == HER2K;
    bool adds = j->alpha != 0 && (!of_k || j->call->k > 0);
    if (c->structure == HERMITIAN && j->beta == 1 && !adds)
        return;
    fake_number *sum = fake_numbers(c->rows * c->columns), *from = sum;
    add_product(sum, j->alpha, &j->v[A], &j->v[X]);
    if (is_rank_2(j->call)) {
        bool hermitian = c->structure == HERMITIAN;
        view a = j->v[X], b = j->v[A];
        fake_view_transpose(&a, hermitian);
        fake_view_transpose(&b, hermitian);
        add_product(sum, hermitian ? conj(j->alpha) : j->alpha, &a, &b);
    }
    for (int64_t l = 0; l < c->columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < c->rows; i++, from++) {
            if (!fake_view_outside(c, c->trans ? l : i, c->trans ? i : l))
                fake_view_put(c, i, l,
                              *from +
                                  (j->beta != 0 ? fake_times(j->beta, fake_view_get(c, i, l)) : 0));
        }
    }
    free(sum);
}

static fake_number quotient(fake_number a, fake_number b)
{
    return cimag(a) == 0 && cimag(b) == 0 ? creal(a) / creal(b) : a / b;
}

/* One column, in place: from the end where the triangle is an upper one. */
static void solve_column(const view *a, const fake_number *packed, fake_number *x)
{
    int64_t n = a->rows;
    bool upper = a->upper != a->trans;
    for (int64_t step = 0; step < n; step++) {
        int64_t l = upper ? n - 1 - step : step;
        const fake_number *factor = packed + l * n;
        if (!a->unit)
            x[l] = quotient(x[l], factor[l]);
        for (int64_t i = upper ? 0 : l + 1; i < (upper ? l : n); i++)
            x[i] -= fake_times(factor[i], x[l]);
    }
}

/* Y = alpha times the inverse of A times Y. */
void fake_blas_solve(const job *j)
{
    const view *b = &j->v[Y];
    fake_number *a = j->alpha != 0 ? fake_view_pack(&j->v[A]) : NULL, *x = fake_numbers(b->rows);
    for (int64_t l = 0; l < b->columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < b->rows; i++)
            x[i] = a ? fake_times(j->alpha, fake_view_get(b, i, l)) : 0;
        if (a)
            solve_column(&j->v[A], a, x);
        for (int64_t i = 0; i < b->rows; i++)
            fake_view_put(b, i, l, x[i]);
    }
    free(a);
    free(x);
}

void fake_blas_scale_rows(const job *j)
{
    for (int64_t l = 0; l < j->v[Y].columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < j->v[Y].rows; i++)
            fake_view_put(&j->v[Y], i, l,
                          fake_times(fake_view_get(&j->v[X], i, 0), fake_view_get(&j->v[A], i, l)));
    }
}
