/* The operations of levels 1 to 3 for one element type. levels_host.c includes this file once for
 * each type, with macros that are undefined at its end: T, the element type; R, its real type;
 * LEAST, the smallest normal number of R; W, a wider real type; COMPLEX, 0 or 1; NAME(x), x with
 * the suffix of the type.
 *
 * The functions that call CBLAS have the names of the families in openblas_levels.h; those that end
 * in _loop replace routines that CBLAS lacks. */

#if COMPLEX
#define S           const T *
#define SCALAR(var) (&(var))
#else
#define S           T
#define SCALAR(var) (var)
#endif
#define CALL(family, ...) ((TRP__CBLAS_##family(T, R, S))o->routine)(__VA_ARGS__)

/* Elements. */

#if COMPLEX
/* Not every compiler has CMPLX() of <complex.h>. */
static inline T NAME(make)(R real, R imaginary)
{
    T made;
    ((R *)&made)[0] = real;
    ((R *)&made)[1] = imaginary;
    return made;
}

/* Written out, since the complex product of C replaces some NaNs by infinities. */
static inline T NAME(product)(T a, T b)
{
    return NAME(make)(creal(a) * creal(b) - cimag(a) * cimag(b),
                      creal(a) * cimag(b) + cimag(a) * creal(b));
}

static inline T NAME(conjugate)(T a)
{
    return NAME(make)(creal(a), -cimag(a));
}
#else
static inline T NAME(product)(T a, T b)
{
    return a * b;
}

static inline T NAME(conjugate)(T a)
{
    return a;
}
#endif

/* Returns the address of element 0, which is the last in memory if the increment is negative. */
static inline T *NAME(first)(void *vector, int64_t n, int64_t increment)
{
    return (T *)vector + (increment < 0 ? (n - 1) * -increment : 0);
}

/* Scalars by value, or from a buffer. */

static T NAME(from_double)(const double *value)
{
#if COMPLEX
    return NAME(make)((R)value[0], (R)value[1]);
#else
    return (T)value[0];
#endif
}

static T NAME(alpha)(const operation *o)
{
    return o->scalars ? *(const T *)o->scalars : NAME(from_double)(o->l.alpha);
}

static R NAME(real_alpha)(const operation *o)
{
    return o->scalars ? *(const R *)o->scalars : (R)o->l.alpha[0];
}

static T NAME(beta)(const operation *o)
{
    return o->scalars ? ((const T *)o->scalars)[1] : NAME(from_double)(o->l.beta);
}

static bool NAME(is_nan)(T x)
{
#if COMPLEX
    return isnan(creal(x)) || isnan(cimag(x));
#else
    return isnan(x);
#endif
}

static bool NAME(is_finite)(T x)
{
#if COMPLEX
    return isfinite(creal(x)) && isfinite(cimag(x));
#else
    return isfinite(x);
#endif
}

/* y = beta y before a routine is called. This is done if beta is 0 or not finite, since OpenBLAS's
 * kernels differ in how they treat a NaN in y or beta; and if nothing is added, since the routine
 * is not called then. An alpha that is NaN makes all of y NaN without a routine.
 *
 * Source: OpenBLAS issue 929. */

static void NAME(scale)(T *y, int64_t n, int64_t increment, T beta)
{
    if (beta == 1)
        return;
    for (int64_t i = 0; i < n; i++)
        y[i * increment] = beta == 0 ? 0 : NAME(product)(beta, y[i * increment]);
}

/* Returns the factor for y before the routine. The routine then gets *beta, and is called if *add
 * is still true. */
static T NAME(factor_ahead)(bool *add, T alpha, T *beta)
{
    bool spoils = *add && NAME(is_nan)(alpha);
    if (*add && !spoils && *beta != 0 && NAME(is_finite)(*beta))
        return 1;
    T factor = spoils ? alpha : *beta;
    *add = *add && !spoils;
    *beta = 1;
    return factor;
}

/* These functions scale the output, and return whether the routine must be called with the changed
 * *beta. */
static bool NAME(begin_vector)(T *y, int64_t n, int64_t increment, T alpha, T *beta)
{
    bool add = alpha != 0;
    T factor = NAME(factor_ahead)(&add, alpha, beta);
    NAME(scale)(y, n, increment < 0 ? -increment : increment, factor);
    return add;
}

static bool NAME(begin_matrix)(const operation *o, T *matrix, int64_t ld, T alpha, T *beta)
{
    bool add = alpha != 0;
    T factor = NAME(factor_ahead)(&add, alpha, beta);
    for (int64_t j = 0; factor != 1 && j < o->l.n; j++)
        NAME(scale)(matrix + j * ld, o->l.m, 1, factor);
    return add;
}

static bool NAME(begin_triangle)(const operation *o, T alpha, T *beta,
                                 void (*scale)(T *y, int64_t n, int64_t increment, T beta))
{
    bool add = alpha != 0 && o->l.k > 0;
    T factor = NAME(factor_ahead)(&add, alpha, beta);
    for (int64_t j = 0; factor != 1 && j < o->l.n; j++) {
        T *column = (T *)o->y + j * o->l.ld[TRP__BLAS_Y];
        if (o->l.uplo == TRP_UPPER)
            scale(column, j + 1, 1, factor);
        else
            scale(column + j, o->l.n - j, 1, factor);
    }
    return add;
}

/* Level 1. */

static void NAME(axpy)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    CALL(axpy, o->n, SCALAR(alpha), o->x, o->ldx, o->y, o->ldy);
}

/* The routine of OpenBLAS ignores a part of alpha that is 0, so it loses a NaN in x, and on some
 * machines it ignores an alpha that is NaN. */
static void NAME(scal)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    T *x = o->x;
    if (creal(alpha) != 0 && NAME(is_finite)(alpha)) {
        CALL(scal, o->n, SCALAR(alpha), x, o->ldx);
        return;
    }
    for (int64_t i = 0; i < o->l.n; i++, x += o->l.ld[TRP__BLAS_X])
        *x = NAME(product)(alpha, *x);
}

static void NAME(copy)(const operation *o)
{
    CALL(copy, o->n, o->x, o->ldx, o->y, o->ldy);
}

static void NAME(swap)(const operation *o)
{
    CALL(swap, o->n, o->x, o->ldx, o->y, o->ldy);
}

/* Computes in W, which can represent all squares. In the routines of OpenBLAS, intermediate results
 * overflow T although r does not.
 *
 * Source: E. Anderson, "Safe scaling in the level 1 BLAS", LAPACK Working Note 2017; the reference
 * BLAS since 3.10. */
#if COMPLEX
static void NAME(rotg_loop)(const operation *o)
{
    T *a = o->x, b = *(const T *)o->y, s = 0;
    W a_re = creal(*a), a_im = cimag(*a), b_re = creal(b), b_im = cimag(b);
    W a_size = sqrt(a_re * a_re + a_im * a_im), b_size = sqrt(b_re * b_re + b_im * b_im);
    W size = sqrt(a_size * a_size + b_size * b_size);
    *(R *)o->result = b_size == 0 ? 1 : (R)(a_size / size);
    if (b_size > 0 && a_size == 0) {
        s = NAME(make)((R)(b_re / b_size), (R)(-b_im / b_size));
        *a = (R)b_size;
    } else if (b_size != 0) {
        W re = a_re / a_size, im = a_im / a_size;
        s = NAME(make)((R)((re * b_re + im * b_im) / size), (R)((im * b_re - re * b_im) / size));
        *a = NAME(make)((R)(re * size), (R)(im * size));
    }
    ((T *)o->result)[1] = s;
}
#else
static void NAME(rotg_loop)(const operation *o)
{
    T *a = o->x, *b = o->y, *c = o->result, *s = c + 1;
    bool larger = fabs(*a) > fabs(*b);
    W size = sqrt((W)*a * *a + (W)*b * *b);
    W r = copysign(size, larger ? *a : *b);
    *c = *b == 0 ? 1 : (T)(*a / r);
    *s = *b == 0 ? 0 : (T)(*b / r);
    *a = *b == 0 ? *a : (T)r;
    *b = *b == 0 ? 0 : larger ? *s : *c != 0 ? 1 / *c : 1;
}
#endif

#if !COMPLEX
static void NAME(rotm)(const operation *o)
{
    CALL(rotm, o->n, o->x, o->ldx, o->y, o->ldy, o->scalars);
}

#include "actors/blas/levels_host_rotmg.h"
#endif

static void NAME(norm)(const operation *o)
{
    *(R *)o->result = CALL(norm, o->n, o->x, o->ldx);
}

#if COMPLEX
/* By the real routine: the complex one of OpenBLAS 0.3.20 to 0.3.24 adds the wrong elements on
 * processors with AVX-512 and bf16.
 *
 * Source: https://github.com/OpenMathLib/OpenBLAS/pull/4326 */
static void NAME(asum_of_parts)(const operation *o)
{
    const R *parts = o->x;
    if (o->ldx == 1 && o->n <= INT_MAX / 2)
        *(R *)o->result = CALL(asum_of_parts, 2 * o->n, parts, 1);
    else
        *(R *)o->result = CALL(asum_of_parts, o->n, parts, 2 * o->ldx) +
                          CALL(asum_of_parts, o->n, parts + 1, 2 * o->ldx);
}
#endif

static void NAME(index)(const operation *o)
{
    *(int64_t *)o->result = o->n == 0 ? 0 : (int64_t)CALL(index, o->n, o->x, o->ldx) + 1;
}

#if COMPLEX
static void NAME(dot_sub)(const operation *o)
{
    CALL(dot_sub, o->n, o->x, o->ldx, o->y, o->ldy, o->result);
}

static void NAME(rot_loop)(const operation *o)
{
    int64_t n = o->l.n, incx = o->l.ld[TRP__BLAS_X], incy = o->l.ld[TRP__BLAS_Y];
    T *x = NAME(first)(o->x, n, incx);
    T *y = NAME(first)(o->y, n, incy);
    R c = NAME(real_alpha)(o);
    T s = NAME(beta)(o);
    T minus_s = -NAME(conjugate)(s);
    for (int64_t i = 0; i < n; i++, x += incx, y += incy) {
        T old = *x;
        *x = c * old + NAME(product)(s, *y);
        *y = c * *y + NAME(product)(minus_s, old);
    }
}
#else
static void NAME(dot)(const operation *o)
{
    *(T *)o->result = CALL(dot, o->n, o->x, o->ldx, o->y, o->ldy);
}

static void NAME(rot)(const operation *o)
{
    CALL(rot, o->n, o->x, o->ldx, o->y, o->ldy, NAME(alpha)(o), NAME(beta)(o));
}
#endif

/* Level 2. */

static void NAME(gemv)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    for (int64_t i = 0; i < o->l.batch; i++) {
        T beta = NAME(beta)(o);
        const T *a = (const T *)o->a + i * o->l.stride[TRP__BLAS_A];
        const T *x = (const T *)o->x + i * o->l.stride[TRP__BLAS_X];
        T *y = (T *)o->y + i * o->l.stride[TRP__BLAS_Y];
        if (NAME(begin_vector)(y, o->l.trans == TRP_N ? o->m : o->n, o->ldy, alpha, &beta))
            CALL(gemv, COLUMN_MAJOR, o->trans, o->m, o->n, SCALAR(alpha), a, o->lda, x, o->ldx,
                 SCALAR(beta), y, o->ldy);
    }
}

static void NAME(gbmv)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    T any = NAME(is_nan)(alpha) ? 1 : alpha; /* a NaN must not reach rows without a diagonal */
    if (NAME(begin_vector)(o->y, o->l.trans == TRP_N ? o->m : o->n, o->ldy, any, &beta))
        CALL(gbmv, COLUMN_MAJOR, o->trans, o->m, o->n, o->k, o->ku, SCALAR(alpha), o->a, o->lda,
             o->x, o->ldx, SCALAR(beta), o->y, o->ldy);
}

static void NAME(ger)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    CALL(ger, COLUMN_MAJOR, o->m, o->n, SCALAR(alpha), o->x, o->ldx, o->y, o->ldy, o->a, o->lda);
}

static void NAME(symv)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_vector)(o->y, o->n, o->ldy, alpha, &beta))
        CALL(symv, COLUMN_MAJOR, o->uplo, o->n, SCALAR(alpha), o->a, o->lda, o->x, o->ldx,
             SCALAR(beta), o->y, o->ldy);
}

#if COMPLEX
/* Each element beside the diagonal is used twice: for its row and, mirrored, for its column. */
static void NAME(symv_loop)(const operation *o)
{
    int64_t n = o->l.n, incx = o->l.ld[TRP__BLAS_X], incy = o->l.ld[TRP__BLAS_Y];
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    const T *x = NAME(first)(o->x, n, incx);
    T *y = NAME(first)(o->y, n, incy);
    NAME(scale)(y, n, incy, beta);
    for (int64_t j = 0; alpha != 0 && j < n; j++) {
        const T *column = (const T *)o->a + j * o->l.ld[TRP__BLAS_A];
        int64_t end = o->l.uplo == TRP_UPPER ? j : n;
        T scaled = NAME(product)(alpha, x[j * incx]);
        T sum = 0;
        for (int64_t i = o->l.uplo == TRP_UPPER ? 0 : j + 1; i < end; i++) {
            y[i * incy] += NAME(product)(scaled, column[i]);
            sum += NAME(product)(column[i], x[i * incx]);
        }
        y[j * incy] += NAME(product)(scaled, column[j]) + NAME(product)(alpha, sum);
    }
}
#endif

static void NAME(sbmv)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_vector)(o->y, o->n, o->ldy, alpha, &beta))
        CALL(sbmv, COLUMN_MAJOR, o->uplo, o->n, o->k, SCALAR(alpha), o->a, o->lda, o->x, o->ldx,
             SCALAR(beta), o->y, o->ldy);
}

static void NAME(tbmv)(const operation *o)
{
    CALL(tbmv, COLUMN_MAJOR, o->uplo, o->trans, o->diag, o->n, o->k, o->a, o->lda, o->x, o->ldx);
}

/* Packed matrices: one triangle, stored column by column. */

static void NAME(spmv)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_vector)(o->y, o->n, o->ldy, alpha, &beta))
        CALL(spmv, COLUMN_MAJOR, o->uplo, o->n, SCALAR(alpha), o->a, o->x, o->ldx, SCALAR(beta),
             o->y, o->ldy);
}

static void NAME(spr)(const operation *o)
{
    CALL(spr, COLUMN_MAJOR, o->uplo, o->n, NAME(real_alpha)(o), o->x, o->ldx, o->a);
}

static void NAME(spr2)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    CALL(spr2, COLUMN_MAJOR, o->uplo, o->n, SCALAR(alpha), o->x, o->ldx, o->y, o->ldy, o->a);
}

static void NAME(tpmv)(const operation *o)
{
    CALL(tpmv, COLUMN_MAJOR, o->uplo, o->trans, o->diag, o->n, o->a, o->x, o->ldx);
}

static void NAME(syr2)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    CALL(syr2, COLUMN_MAJOR, o->uplo, o->n, SCALAR(alpha), o->x, o->ldx, o->y, o->ldy, o->a,
         o->lda);
}

#if COMPLEX
static void NAME(her)(const operation *o)
{
    CALL(her, COLUMN_MAJOR, o->uplo, o->n, NAME(real_alpha)(o), o->x, o->ldx, o->a, o->lda);
}

/* A = A + alpha x y^T, in one triangle. */
static void NAME(add_triangle)(const operation *o, T alpha, const T *x, int64_t incx, const T *y,
                               int64_t incy)
{
    int64_t n = o->l.n;
    for (int64_t j = 0; alpha != 0 && j < n; j++) {
        T *column = (T *)o->a + j * o->l.ld[TRP__BLAS_A];
        T by = NAME(product)(alpha, y[j * incy]);
        int64_t end = o->l.uplo == TRP_UPPER ? j + 1 : n;
        for (int64_t i = o->l.uplo == TRP_UPPER ? 0 : j; i < end; i++)
            column[i] += NAME(product)(by, x[i * incx]);
    }
}

static void NAME(syr_loop)(const operation *o)
{
    int64_t incx = o->l.ld[TRP__BLAS_X];
    const T *x = NAME(first)(o->x, o->l.n, incx);
    NAME(add_triangle)(o, NAME(alpha)(o), x, incx, x, incx);
}

static void NAME(syr2_loop)(const operation *o)
{
    int64_t incx = o->l.ld[TRP__BLAS_X], incy = o->l.ld[TRP__BLAS_Y];
    const T *x = NAME(first)(o->x, o->l.n, incx), *y = NAME(first)(o->y, o->l.n, incy);
    NAME(add_triangle)(o, NAME(alpha)(o), x, incx, y, incy);
    NAME(add_triangle)(o, NAME(alpha)(o), y, incy, x, incx);
}
#else
static void NAME(syr)(const operation *o)
{
    CALL(syr, COLUMN_MAJOR, o->uplo, o->n, NAME(alpha)(o), o->x, o->ldx, o->a, o->lda);
}
#endif

static void NAME(trmv)(const operation *o)
{
    CALL(trmv, COLUMN_MAJOR, o->uplo, o->trans, o->diag, o->n, o->a, o->lda, o->x, o->ldx);
}

#include "actors/blas/levels_host_matrices.h"

#if COMPLEX
/* Copies the vectors of a batch from `from` to `to`, which may be the same, and conjugates them.
 * Elements are in the order of memory. */
static void NAME(conjugate_vectors)(T *to, int64_t to_step, int64_t to_stride, const T *from,
                                    int64_t step, int64_t stride, int64_t n, int64_t batch)
{
    for (int64_t k = 0; k < batch; k++) {
        for (int64_t i = 0; i < n; i++)
            to[k * to_stride + i * to_step] = NAME(conjugate)(from[k * stride + i * step]);
    }
}

/* Runs an operation on conjugated vectors; `scratch` has room for the copies. */
static void NAME(run_conjugated)(const operation *given, void *scratch)
{
    operation o = *given;
    T *copy = scratch, scalars[2];
    void **vectors[] = {[TRP__BLAS_X] = &o.x, [TRP__BLAS_Y] = &o.y};
    int *steps[] = {[TRP__BLAS_X] = &o.ldx, [TRP__BLAS_Y] = &o.ldy};
    if (o.l.conjugate & TRP__BLAS_CONJUGATE_SCALARS) {
        NAME(conjugate_vectors)(scalars, 1, 0, o.scalars, 1, 0, 2, 1);
        o.scalars = scalars;
    }
    for (int i = TRP__BLAS_X; i <= TRP__BLAS_Y; i++) {
        int64_t n = o.l.length[i], step = llabs(o.l.ld[i]), stride = o.l.stride[i];
        if (!*vectors[i])
            continue;
        if (written(&o, i)) {
            NAME(conjugate_vectors)
            (*vectors[i], step, stride, *vectors[i], step, stride, n, o.l.batch);
            continue;
        }
        NAME(conjugate_vectors)(copy, 1, n, *vectors[i], step, stride, n, o.l.batch);
        *vectors[i] = copy;
        *steps[i] = o.l.ld[i] < 0 ? -1 : 1;
        o.l.ld[i] = *steps[i];
        o.l.stride[i] = n;
        copy += n * o.l.batch;
    }
    o.run(&o);
    for (int i = TRP__BLAS_X; i <= TRP__BLAS_Y; i++) {
        int64_t step = llabs(o.l.ld[i]), stride = o.l.stride[i];
        if (written(&o, i))
            NAME(conjugate_vectors)
        (*vectors[i], step, stride, *vectors[i], step, stride, o.l.length[i], o.l.batch);
    }
}
#endif

#undef CALL
#undef SCALAR
#undef S
#undef COMPLEX
#undef NAME
#undef LEAST
#undef W
#undef R
#undef T
