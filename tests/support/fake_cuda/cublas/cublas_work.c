/* The computations of the fake cuBLAS's routines of levels 1 to 3: a few loops over views of the
 * operands. */
#include "support/fake_cuda/cublas/cublas_levels.h"

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
            bool all = j->call->op == SCAL; /* scal multiplies by 0 as well */
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

/* a = r and, for real types, b = z, from which c and s can be computed again. */
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

/* Returns the matrix that a flag and four numbers describe. */
void fake_blas_rotate_modified(const job *j)
{
    double param[5];
    for (int i = 0; i < 5; i++)
        param[i] = creal(fake_view_get(&j->v[A], i, 0));
    double flag = param[0];
    double h11 = flag == 0 || flag == -2 ? 1 : param[1], h21 = param[2];
    double h12 = param[3], h22 = flag == 0 || flag == -2 ? 1 : param[4];
    if (flag == 1)
        h21 = -1, h12 = 1;
    if (flag == -2)
        return;
    for (int64_t i = 0; i < j->v[X].rows; i++) {
        double x = creal(fake_view_get(&j->v[X], i, 0)), y = creal(fake_view_get(&j->v[Y], i, 0));
        fake_view_put(&j->v[X], i, 0, h11 * x + h12 * y);
        fake_view_put(&j->v[Y], i, 0, h21 * x + h22 * y);
    }
}

/* X is d1, Y is d2, A is x1, alpha is y1. An infinity can't be scaled, and stays. */
void fake_blas_make_modified(const job *j)
{
    double d[2] = {creal(fake_view_get(&j->v[X], 0, 0)), creal(fake_view_get(&j->v[Y], 0, 0))};
    double x = creal(fake_view_get(&j->v[A], 0, 0)), y = creal(j->alpha);
    double h[2][2] = {{1, 1}, {-1, 1}}, flag = 1, q1 = d[0] * x * x, q2 = d[1] * y * y;
    if (d[1] * y == 0 && d[0] >= 0) {
        flag = -2;
    } else if (d[0] >= 0 && fabs(q1) > fabs(q2)) {
        flag = 0;
        h[0][0] = 1, h[0][1] = d[1] * y / (d[0] * x), h[1][0] = -y / x;
        double u = 1 - h[0][1] * h[1][0];
        d[0] /= u, d[1] /= u, x *= u;
    } else if (d[0] >= 0 && q2 >= 0) {
        h[0][0] = d[0] * x / (d[1] * y), h[1][1] = x / y;
        double u = 1 + h[0][0] * h[1][1], first = d[0];
        d[0] = d[1] / u, d[1] = first / u, x = y * u;
    } else {
        flag = -1;
        memset(h, 0, sizeof h);
        d[0] = d[1] = x = 0;
    }
    for (int i = 0; i < 2 && flag != -2; i++) {
        while (d[i] != 0 && isfinite(d[i]) && (fabs(d[i]) <= 0x1p-24 || fabs(d[i]) >= 0x1p24)) {
            double by = fabs(d[i]) <= 0x1p-24 ? 0x1p-12 : 0x1p12;
            flag = -1;
            d[i] /= by * by;
            h[i][0] *= by, h[i][1] *= by;
            x *= i == 0 ? by : 1;
        }
    }
    fake_view_put(&j->v[X], 0, 0, d[0]);
    fake_view_put(&j->v[Y], 0, 0, d[1]);
    fake_view_put(&j->v[A], 0, 0, x);
    const double all[5] = {flag, h[0][0], h[1][0], h[0][1], h[1][1]};
    for (int i = 0; i < 5; i++) {
        bool implied =
            flag == -2 || (flag == 0 && (i == 1 || i == 4)) || (flag == 1 && (i == 2 || i == 3));
        output to = j->call->result[0];
        to.at = (char *)to.at + (size_t)i * fake_bytes(j->call->type);
        if (i == 0 || !implied)
            give(&to, j->call->type, all[i]);
    }
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

/* Finds the first of the largest or smallest elements, compared after rounding to the type. */
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

/* Y = alpha A X + beta Y and, with `twice`, also + alpha X' A', where ' is the transpose or the
 * conjugate transpose. Reads everything before it writes, since Y may be X. */
static void multiply(const job *j, bool twice)
{
    const view *c = &j->v[Y];
    bool adds = j->alpha != 0 && j->v[A].columns > 0;
    if (c->structure == HERMITIAN && j->beta == 1 && !adds)
        return;
    fake_number *sum = fake_numbers(c->rows * c->columns), *from = sum;
    add_product(sum, j->alpha, &j->v[A], &j->v[X]);
    if (twice) {
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

void fake_blas_multiply(const job *j)
{
    multiply(j, false);
}

void fake_blas_multiply_twice(const job *j)
{
    multiply(j, true);
}

static fake_number quotient(fake_number a, fake_number b)
{
    return cimag(a) == 0 && cimag(b) == 0 ? creal(a) / creal(b) : a / b;
}

/* Solves for one column in place, from the last row where the triangle is an upper one. */
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
