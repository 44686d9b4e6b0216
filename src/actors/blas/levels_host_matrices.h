/* Level 3 for one element type. Included only by levels_host_type.h. */

static void NAME(symm)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_matrix)(o, o->y, o->l.ld[TRP__BLAS_Y], alpha, &beta))
        CALL(symm, COLUMN_MAJOR, o->side, o->uplo, o->m, o->n, SCALAR(alpha), o->a, o->lda, o->x,
             o->ldx, SCALAR(beta), o->y, o->ldy);
}

static void NAME(syrk)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_triangle)(o, alpha, &beta, NAME(scale)))
        CALL(syrk, COLUMN_MAJOR, o->uplo, o->trans, o->n, o->k, SCALAR(alpha), o->a, o->lda,
             SCALAR(beta), o->y, o->ldy);
}

static void NAME(syr2k)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_triangle)(o, alpha, &beta, NAME(scale)))
        CALL(syr2k, COLUMN_MAJOR, o->uplo, o->trans, o->n, o->k, SCALAR(alpha), o->a, o->lda, o->x,
             o->ldx, SCALAR(beta), o->y, o->ldy);
}

/* Computes one triangle of C = alpha op(A) op(B)' + beta C: the blocks beside the diagonal by
 * strips of columns, the blocks on the diagonal column by column. */
static void NAME(multiply_triangle)(const operation *o, T alpha, T beta, int other)
{
    enum { STRIP = 64 };
    const bool upper = o->l.uplo == TRP_UPPER, plain = o->l.trans == TRP_N;
    const int trans_a = plain ? TRP__CBLAS_NO_TRANS : other;
    const int trans_b = plain ? other : TRP__CBLAS_NO_TRANS;
    const int64_t step_a = plain ? 1 : o->l.ld[TRP__BLAS_A];
    const int64_t step_b = plain ? 1 : o->l.ld[TRP__BLAS_X], ld = o->l.ld[TRP__BLAS_Y];
    for (int first = 0; first < o->n; first += STRIP) {
        const int end = o->n - first < STRIP ? o->n : first + STRIP;
        const int row = upper ? 0 : end, rows = upper ? first : o->n - end;
        if (rows > 0)
            CALL(gemm, COLUMN_MAJOR, trans_a, trans_b, rows, end - first, o->k, SCALAR(alpha),
                 (const T *)o->a + row * step_a, o->lda, (const T *)o->x + first * step_b, o->ldx,
                 SCALAR(beta), (T *)o->y + row + first * ld, o->ldy);
        for (int j = first; j < end; j++) {
            const int from = upper ? first : j, count = upper ? j + 1 - first : end - j;
            CALL(gemm, COLUMN_MAJOR, trans_a, trans_b, count, 1, o->k, SCALAR(alpha),
                 (const T *)o->a + from * step_a, o->lda, (const T *)o->x + j * step_b, o->ldx,
                 SCALAR(beta), (T *)o->y + from + j * ld, o->ldy);
        }
    }
}

static void NAME(syrkx)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(beta)(o);
    if (NAME(begin_triangle)(o, alpha, &beta, NAME(scale)))
        NAME(multiply_triangle)(o, alpha, beta, TRP__CBLAS_TRANS);
}

#if COMPLEX
/* Has the parameters of gemm, which may replace it. */
static void NAME(gemm3m)(const operation *o)
{
    T alpha = o->l.k > 0 ? NAME(alpha)(o) : 0, beta = NAME(beta)(o);
    if (NAME(begin_matrix)(o, o->y, o->l.ld[TRP__BLAS_Y], alpha, &beta))
        CALL(gemm, COLUMN_MAJOR, o->trans, trp__cblas_trans(o->l.trans_b), o->m, o->n, o->k,
             SCALAR(alpha), o->a, o->lda, o->x, o->ldx, SCALAR(beta), o->y, o->ldy);
}

/* Scales real and imaginary parts by a real number. */
static void NAME(scale_parts)(T *y, int64_t n, int64_t increment, T factor)
{
    for (int64_t i = 0; i < n; i++, y += increment)
        *y = factor == 0 ? 0 : NAME(make)(creal(factor) * creal(*y), creal(factor) * cimag(*y));
}

/* herk and her2k do not change C if nothing is added and beta is 1. Otherwise they make the
 * diagonal real. Here this is done before the routine, which may do nothing, and before scaling, so
 * that a NaN in an imaginary part does not reach the real part. */
static bool NAME(begin_hermitian)(const operation *o, T alpha, T *beta)
{
    T *c = o->y;
    if ((alpha == 0 || o->l.k == 0) && *beta == 1)
        return false;
    for (int64_t i = 0; i < o->l.n; i++, c += o->l.ld[TRP__BLAS_Y] + 1)
        *c = creal(*c);
    return NAME(begin_triangle)(o, alpha, beta, NAME(scale_parts));
}

static void NAME(herk)(const operation *o)
{
    R alpha = NAME(real_alpha)(o);
    T beta = o->scalars ? ((const R *)o->scalars)[1] : (R)o->l.beta[0];
    if (NAME(begin_hermitian)(o, alpha, &beta))
        CALL(herk, COLUMN_MAJOR, o->uplo, o->trans, o->n, o->k, alpha, o->a, o->lda, creal(beta),
             o->y, o->ldy);
}

/* Returns beta, a real number that follows a complex alpha. */
static T NAME(real_beta)(const operation *o)
{
    return o->scalars ? *(const R *)((const T *)o->scalars + 1) : (R)o->l.beta[0];
}

static void NAME(herkx)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(real_beta)(o), *c = o->y;
    if (!NAME(begin_hermitian)(o, alpha, &beta))
        return;
    NAME(multiply_triangle)(o, alpha, beta, TRP__CBLAS_CONJ_TRANS);
    for (int64_t i = 0; i < o->l.n; i++, c += o->l.ld[TRP__BLAS_Y] + 1)
        *c = creal(*c);
}

static void NAME(her2k)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = NAME(real_beta)(o);
    if (NAME(begin_hermitian)(o, alpha, &beta))
        CALL(her2k, COLUMN_MAJOR, o->uplo, o->trans, o->n, o->k, SCALAR(alpha), o->a, o->lda, o->x,
             o->ldx, creal(beta), o->y, o->ldy);
}
#endif

/* CBLAS has only the operation in place. */
static void NAME(trmm)(const operation *o)
{
    T alpha = NAME(alpha)(o), beta = alpha == 0 ? 0 : 1;
    if (!NAME(begin_matrix)(o, o->y, o->l.ld[TRP__BLAS_Y], alpha, &beta))
        return;
    for (int64_t j = 0; o->y != o->x && j < o->l.n; j++)
        memcpy((T *)o->y + j * o->l.ld[TRP__BLAS_Y], (const T *)o->x + j * o->l.ld[TRP__BLAS_X],
               (size_t)o->l.m * sizeof(T));
    CALL(trmm, COLUMN_MAJOR, o->side, o->uplo, o->trans, o->diag, o->m, o->n, SCALAR(alpha), o->a,
         o->lda, o->y, o->ldy);
}

#include "actors/blas/levels_host_systems.h"

/* A summand of geam: factor * op(from). */
typedef struct NAME(summand) {
    T factor;
    const T *from;
    int64_t row, column; /* distance in memory of the next row and column of op(from) */
    bool conjugate;
} NAME(summand);

static NAME(summand) NAME(make_summand)(T factor, const T *from, int64_t ld, uint8_t trans)
{
    return (NAME(summand)){factor, from, trans == TRP_N ? 1 : ld, trans == TRP_N ? ld : 1,
                           trans == TRP_C};
}

static inline T NAME(summand_at)(const NAME(summand) * s, int64_t i, int64_t j)
{
    if (s->factor == 0)
        return 0;
    T element = s->from[i * s->row + j * s->column];
    return NAME(product)(s->factor, s->conjugate ? NAME(conjugate)(element) : element);
}

/* Goes by bands of rows, so that a cache line of a transposed matrix is used for several columns.
 */
static void NAME(geam_loop)(const operation *o)
{
    enum { STRIP = 64 };
    NAME(summand) a = NAME(make_summand)(NAME(alpha)(o), o->a, o->l.ld[TRP__BLAS_A], o->l.trans);
    NAME(summand) b = NAME(make_summand)(NAME(beta)(o), o->x, o->l.ld[TRP__BLAS_X], o->l.trans_b);
    for (int64_t band = 0; band < o->l.m; band += STRIP) {
        int64_t end = o->l.m - band < STRIP ? o->l.m : band + STRIP;
        for (int64_t j = 0; j < o->l.n; j++) {
            T *c = (T *)o->y + j * o->l.ld[TRP__BLAS_Y];
            for (int64_t i = band; i < end; i++)
                c[i] = NAME(summand_at)(&a, i, j) + NAME(summand_at)(&b, i, j);
        }
    }
}

static void NAME(dgmm_loop)(const operation *o)
{
    bool left = o->l.side == TRP_LEFT;
    int64_t incx = o->l.ld[TRP__BLAS_X];
    const T *x = NAME(first)(o->x, left ? o->l.m : o->l.n, incx);
    for (int64_t j = 0; j < o->l.n; j++) {
        const T *a = (const T *)o->a + j * o->l.ld[TRP__BLAS_A];
        T *c = (T *)o->y + j * o->l.ld[TRP__BLAS_Y];
        for (int64_t i = 0; i < o->l.m; i++)
            c[i] = NAME(product)(x[(left ? i : j) * incx], a[i]);
    }
}
