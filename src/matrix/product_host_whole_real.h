/* Products whose matrices all have the same real type: one call of OpenBLAS writes D, then threads
 * apply the epilogue to D in place. Included by product_host_real.h, which has the macros. */

/* Columns of D that a thread finishes at a time. */
#define WHOLE_COLUMNS 16

/* D = alpha op(A) op(B) + beta C. */
static void NAME(multiply_whole)(const product *x, int64_t batch, T *d)
{
    const trp__matmul *g = &x->g;
    const T *a = x->at[TRP__MATMUL_A], *b = x->at[TRP__MATMUL_B], *c = x->at[TRP__MATMUL_C];
    if (x->beta != 0) {
        c += batch * g->stride[TRP__MATMUL_C];
        for (int64_t j = 0; c != d && j < g->n; j++)
            memcpy(d + j * g->ld[TRP__MATMUL_D], c + j * g->ld[TRP__MATMUL_C],
                   (size_t)g->m * sizeof(T));
    }
    x->blas->GEMM(TRP__CBLAS_COLUMN_MAJOR, trp__cblas_trans(g->trans_a),
                  trp__cblas_trans(g->trans_b), (int)g->m, (int)g->n, (int)g->k, (T)x->alpha,
                  a + batch * g->stride[TRP__MATMUL_A], (int)g->ld[TRP__MATMUL_A],
                  b + batch * g->stride[TRP__MATMUL_B], (int)g->ld[TRP__MATMUL_B], (T)x->beta, d,
                  (int)g->ld[TRP__MATMUL_D]);
}

typedef struct NAME(whole) {
    product *x;
    int64_t batch;
    T *d;
    int which; /* for sum_lines(): A or B */
} NAME(whole);

static void NAME(finish_columns)(void *context, int64_t piece, int worker)
{
    const NAME(whole) *w = context;
    const trp__matmul *g = &w->x->g;
    const int64_t first = piece * WHOLE_COLUMNS;
    (void)worker;
    for (int64_t j = first; j < g->n && j < first + WHOLE_COLUMNS; j++) {
        for (int64_t row = 0; row < g->m; row += TILE)
            NAME(finish_epilogue)
        (w->x, w->batch, row, j, at_most_a_tile(g->m - row), w->d + row + j * g->ld[TRP__MATMUL_D],
         NULL);
    }
}

/* Finishes all columns of some rows, whose sums are the gradient. */
static void NAME(finish_rows)(void *context, int64_t piece, int worker)
{
    const NAME(whole) *w = context;
    const trp__matmul *g = &w->x->g;
    const int64_t row = piece * TILE, rows = at_most_a_tile(g->m - row);
    T gradient[TILE] = {0};
    (void)worker;
    for (int64_t j = 0; j < g->n; j++)
        NAME(finish_epilogue)
    (w->x, w->batch, row, j, rows, w->d + row + j * g->ld[TRP__MATMUL_D], gradient);
    NAME(narrow)
    (g->vector_type, gradient, w->x->at[TRP__MATMUL_VECTOR], w->batch * g->vector_stride + row,
     rows);
}

static void NAME(finish_whole)(NAME(whole) * w)
{
    const trp__matmul *g = &w->x->g;
    const int64_t columns = (g->n + WHOLE_COLUMNS - 1) / WHOLE_COLUMNS;
    const bool largest = w->x->at[TRP__MATMUL_AMAX_D] || w->x->at[TRP__MATMUL_AMAX_AUX];
    const bool bias = w->x->at[TRP__MATMUL_VECTOR] && g->gradient == TRP_BIAS_GRADIENT_NONE;
    if (g->gradient == TRP_BIAS_GRADIENT_D) {
        if (largest)
            for (int64_t i = 0; i * TILE < g->m; i++)
                NAME(finish_rows)(w, i, 0);
        else
            trp__team_run(NAME(finish_rows), w, (g->m + TILE - 1) / TILE);
        return;
    }
    if (!bias && !largest && g->activation == TRP_ACTIVATION_NONE && !w->x->at[TRP__MATMUL_SCALE_D])
        return;
    if (largest || g->m * g->n < WHOLE_SHARED) /* one thread determines the largest value */
        for (int64_t i = 0; i < columns; i++)
            NAME(finish_columns)(w, i, 0);
    else
        trp__team_run(NAME(finish_columns), w, columns);
}

/* Sums some lines of op(A) or op(B) over k, in f64. */
static void NAME(sum_lines)(void *context, int64_t piece, int worker)
{
    enum { LINES = 64 };
    const NAME(whole) *w = context;
    const trp__matmul *g = &w->x->g;
    const bool along_k = lines_along_k(g, w->which);
    const int64_t all = w->which == TRP__MATMUL_A ? g->m : g->n, ld = g->ld[w->which];
    const int64_t first = piece * LINES, lines = all - first < LINES ? all - first : LINES;
    const T *from = (const T *)w->x->at[w->which] + w->batch * g->stride[w->which];
    double sum[LINES] = {0};
    T rounded[LINES];
    (void)worker;
    for (int64_t i = 0; along_k && i < lines; i++) {
        for (int64_t p = 0; p < g->k; p++)
            sum[i] += (double)from[p + (first + i) * ld];
    }
    for (int64_t p = 0; !along_k && p < g->k; p++) {
        const T *line = from + first + p * ld;
        if (lines == LINES)
            for (int i = 0; i < LINES; i++)
                sum[i] += (double)line[i];
        else
            for (int64_t i = 0; i < lines; i++)
                sum[i] += (double)line[i];
    }
    for (int64_t i = 0; i < lines; i++)
        rounded[i] = (T)sum[i];
    NAME(narrow)
    (g->vector_type, rounded, w->x->at[TRP__MATMUL_VECTOR], w->batch * g->vector_stride + first,
     lines);
}

static void NAME(run_whole)(product *x)
{
    const trp__matmul *g = &x->g;
    for (int64_t l = 0; l < g->batch; l++) {
        NAME(whole) w = {x, l, (T *)x->at[TRP__MATMUL_D] + l * g->stride[TRP__MATMUL_D], 0};
        NAME(multiply_whole)(x, l, w.d);
        NAME(finish_whole)(&w);
        if (g->gradient != TRP_BIAS_GRADIENT_A && g->gradient != TRP_BIAS_GRADIENT_B)
            continue;
        w.which = g->gradient == TRP_BIAS_GRADIENT_A ? TRP__MATMUL_A : TRP__MATMUL_B;
        trp__team_run(NAME(sum_lines), &w, ((w.which == TRP__MATMUL_A ? g->m : g->n) + 63) / 64);
    }
}

#undef WHOLE_COLUMNS
