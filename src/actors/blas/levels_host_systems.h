/* Triangular systems for one element type. Included only by levels_host_type.h, which defines the
 * macros. */

/* Divides in W, where neither squares nor their sum overflow. */
static T NAME(quotient)(T x, T by)
{
#if COMPLEX
    W re = creal(by), im = cimag(by), size = re * re + im * im;
    return NAME(make)((R)((creal(x) * re + cimag(x) * im) / size),
                      (R)((cimag(x) * re - creal(x) * im) / size));
#else
    return x / by;
#endif
}

/* op(A) of a system, with A on the left: element (i, j) is at i * row + j * column. Elements more
 * than `reach` from the diagonal are 0. */
typedef struct NAME(triangle) {
    const T *a;
    int64_t n, row, column, reach;
    bool upper, unit, conjugate;
    bool packed,
        turned; /* packed column by column; the triangle is the transpose of the stored one */
} NAME(triangle);

static NAME(triangle)
    NAME(make_triangle)(const operation *o, const T *a, int64_t ld, int64_t n, bool right)
{
    bool turned = (o->l.trans != TRP_N) != right;
    return (NAME(triangle)){.a = a,
                            .n = n,
                            .row = turned ? ld : 1,
                            .column = turned ? 1 : ld,
                            .reach = n,
                            .upper = (o->l.uplo == TRP_UPPER) != turned,
                            .unit = o->l.diag == TRP_UNIT,
                            .conjugate = o->l.trans == TRP_C,
                            .turned = turned};
}

/* The columns of a packed upper triangle have 1, 2, ... elements, those of a lower one n, n - 1,
 * ... */
static inline int64_t NAME(packed_at)(const NAME(triangle) * t, int64_t i, int64_t j)
{
    int64_t row = t->turned ? j : i, column = t->turned ? i : j;
    bool upper = t->upper != t->turned;
    return row + (upper ? column * (column + 1) : column * (2 * t->n - column - 1)) / 2;
}

static inline T NAME(triangle_at)(const NAME(triangle) * t, int64_t i, int64_t j)
{
    T element = t->a[t->packed ? NAME(packed_at)(t, i, j) : i * t->row + j * t->column];
    return t->conjugate ? NAME(conjugate)(element) : element;
}

/* Returns whether OpenBLAS, which multiplies by 1 / d, computes the same as a division by d: all
 * numbers in the computation of 1 / d must be normal. */
static bool NAME(can_invert)(const NAME(triangle) * t)
{
    const R least = LEAST, most = 1 / (4 * least);
    for (int64_t i = 0; !t->unit && i < t->n; i++) {
        T element = NAME(triangle_at)(t, i, i);
        R re = fabs(creal(element)), im = fabs(cimag(element)), size = re > im ? re : im;
        if (size < least || size > most)
            return false;
    }
    return true;
}

/* Solves op(A) x' = x by substitution and divisions. */
static void NAME(substitute)(const NAME(triangle) * t, T *x, int64_t increment)
{
    for (int64_t step = 0; step < t->n; step++) {
        int64_t k = t->upper ? t->n - 1 - step : step;
        int64_t first = !t->upper ? k + 1 : k > t->reach ? k - t->reach : 0;
        int64_t end = t->upper ? k : t->n - k > t->reach ? k + 1 + t->reach : t->n;
        T *now = x + k * increment;
        if (!t->unit)
            *now = NAME(quotient)(*now, NAME(triangle_at)(t, k, k));
        for (int64_t i = first; i < end; i++)
            x[i * increment] -= NAME(product)(*now, NAME(triangle_at)(t, i, k));
    }
}

/* Solves by OpenBLAS if it can invert the diagonal, otherwise by substitution. */
static void NAME(solve_vector)(const operation *o, const NAME(triangle) * t,
                               void (*by_openblas)(const operation *o))
{
    int64_t step = o->l.ld[TRP__BLAS_X];
    if (NAME(can_invert)(t))
        by_openblas(o);
    else
        NAME(substitute)(t, NAME(first)(o->x, o->l.n, step), step);
}

static void NAME(trsv)(const operation *o)
{
    NAME(triangle) t = NAME(make_triangle)(o, o->a, o->l.ld[TRP__BLAS_A], o->l.n, false);
    NAME(solve_vector)(o, &t, NAME(trmv));
}

/* The diagonal is a row in memory, so the next element in a row of A is one column further and one
 * row up. */
static void NAME(tbsv)(const operation *o)
{
    const T *diagonal = (const T *)o->a + (o->l.uplo == TRP_UPPER ? o->l.k : 0);
    NAME(triangle) t = NAME(make_triangle)(o, diagonal, o->l.ld[TRP__BLAS_A] - 1, o->l.n, false);
    t.reach = o->l.k;
    NAME(solve_vector)(o, &t, NAME(tbmv));
}

static void NAME(tpsv)(const operation *o)
{
    NAME(triangle) t = NAME(make_triangle)(o, o->a, 0, o->l.n, false);
    t.packed = true;
    NAME(solve_vector)(o, &t, NAME(tpmv));
}

static void NAME(trsm_one)(const operation *o, const T *a, T *x, T alpha)
{
    bool left = o->l.side == TRP_LEFT;
    int64_t n = left ? o->l.m : o->l.n, count = left ? o->l.n : o->l.m, ld = o->l.ld[TRP__BLAS_X];
    T beta = alpha == 0 ? 0 : 1;
    if (!NAME(begin_matrix)(o, x, ld, alpha, &beta))
        return;
    NAME(triangle) t = NAME(make_triangle)(o, a, o->l.ld[TRP__BLAS_A], n, !left);
    if (NAME(can_invert)(&t)) {
        CALL(trsm, COLUMN_MAJOR, o->side, o->uplo, o->trans, o->diag, o->m, o->n, SCALAR(alpha), a,
             o->lda, x, o->ldx);
        return;
    }
    for (int64_t j = 0; j < o->l.n; j++)
        NAME(scale)(x + j * ld, o->l.m, 1, alpha);
    for (int64_t i = 0; i < count; i++)
        NAME(substitute)(&t, x + (left ? i * ld : i), left ? 1 : ld);
}

static void NAME(trsm)(const operation *o)
{
    T alpha = NAME(alpha)(o);
    for (int64_t i = 0; i < o->l.batch; i++)
        NAME(trsm_one)
    (o, (const T *)o->a + i * o->l.stride[TRP__BLAS_A], (T *)o->x + i * o->l.stride[TRP__BLAS_X],
     alpha);
}
