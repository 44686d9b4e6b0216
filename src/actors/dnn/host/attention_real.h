/* Attention and its gradient in one real type: processes some rows of scores at a time, over the
 * columns visible to any of them. Included by nodes_real.h after conv_real.h. */

enum { ATTENTION_BLOCK = 64 }; /* rows */

/* Returns the elements that a thread needs for its head. */
static inline int64_t attention_rest(const trp__dnn_tensor *k)
{
    return (2 * ATTENTION_BLOCK + 1) * k->dim[2];
}

/* One head of one batch element. */
typedef struct NAME(attention) {
    const trp__dnn_host_node *x;
    int64_t heads, group, rows, columns, depth, width; /* group: heads of q to one of k */
    int64_t batch, head;
    int64_t used_rows, used_columns; /* of the batch */
    int64_t diagonal;                /* column of the diagonal in row 0 */
    T scale, slope;
    trp__dropout dropout;
} NAME(attention);

/* Returns the elements of a port for the current batch and head. */
static T *NAME(head_of)(const NAME(attention) * a, int port)
{
    const trp__dnn_tensor *t = a->x->tensor[port];
    int64_t head = t->dim[1] == a->heads ? a->head : a->head / a->group;
    return (T *)a->x->at[port] + (a->batch * t->dim[1] + head) * t->dim[2] * t->dim[3];
}

/* Returns the first element of a row of bias or dbias and the step to the next column. */
static T *NAME(bias_row)(const NAME(attention) * a, int port, int64_t row, int64_t *step)
{
    const trp__dnn_tensor *t = a->x->tensor[port];
    int64_t batch = t->dim[0] == 1 ? 0 : a->batch, head = t->dim[1] == 1 ? 0 : a->head;
    *step = t->dim[3] == 1 ? 0 : 1;
    row = t->dim[2] == 1 ? 0 : row;
    return (T *)a->x->at[port] + ((batch * t->dim[1] + head) * t->dim[2] + row) * t->dim[3];
}

static int64_t NAME(used_length)(const NAME(attention) * a, int port, int64_t size)
{
    const T *lengths = a->x->at[port];
    if (!lengths)
        return size;
    double length = (double)lengths[a->batch];
    return length <= 0 ? 0 : length >= (double)size ? size : (int64_t)length;
}

static NAME(attention) NAME(describe_attention)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *q = x->tensor[TRP__DNN_ATTENTION_Q],
                          *k = x->tensor[TRP__DNN_ATTENTION_K];
    const uint64_t *seed = x->at[TRP__DNN_ATTENTION_SEED];
    const uint64_t *offset = x->at[TRP__DNN_ATTENTION_OFFSET];
    return (NAME(attention)){.x = x,
                             .heads = q->dim[1],
                             .group = q->dim[1] / k->dim[1],
                             .rows = q->dim[2],
                             .columns = k->dim[2],
                             .depth = q->dim[3],
                             .width = x->tensor[TRP__DNN_ATTENTION_V]->dim[3],
                             .scale = (T)x->n->parameter[0],
                             .dropout =
                                 trp__dropout_of(x->n, seed ? *seed : 0, offset ? *offset : 0)};
}

static void NAME(begin_head)(NAME(attention) * a, int64_t batch, int64_t head)
{
    const T *slopes = a->x->at[TRP__DNN_ATTENTION_SLOPES];
    a->batch = batch;
    a->head = head;
    a->used_rows = NAME(used_length)(a, TRP__DNN_ATTENTION_SEQ_Q, a->rows);
    a->used_columns = NAME(used_length)(a, TRP__DNN_ATTENTION_SEQ_KV, a->columns);
    a->diagonal =
        a->x->n->mode == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT ? a->used_columns - a->used_rows : 0;
    a->slope = slopes ? slopes[head] : 0;
}

/* Sets the visible columns of a row, from *first to before *end; both are equal if there are
 * none. */
static void NAME(visible)(const NAME(attention) * a, int64_t row, int64_t *first, int64_t *end)
{
    const int64_t own = row + a->diagonal, window = a->x->n->window[0];
    *end =
        a->x->n->mode == TRP_DNN_MASK_NONE || own + 1 > a->used_columns ? a->used_columns : own + 1;
    *end = *end < 0 ? 0 : *end;
    *first = window && own - window + 1 > 0 ? own - window + 1 : 0;
    *first = *first > *end ? *end : *first;
}

/* Finds a block of scores: its rows and all columns visible to them; returns false if there are
 * none. Both bounds of the visible columns never decrease from row to row. */
typedef struct NAME(block) {
    int64_t row, rows, column, columns;
} NAME(block);

static bool NAME(next_block)(const NAME(attention) * a, int64_t row, NAME(block) * b)
{
    int64_t rest = a->used_rows - row, ignored, end;
    *b = (NAME(block)){.row = row, .rows = rest < ATTENTION_BLOCK ? rest : ATTENTION_BLOCK};
    if (b->rows <= 0)
        return false;
    NAME(visible)(a, row, &b->column, &ignored);
    NAME(visible)(a, row + b->rows - 1, &ignored, &end);
    b->columns = end - b->column;
    return b->columns > 0;
}

static int64_t NAME(leading)(int64_t columns)
{
    return columns > 0 ? columns : 1;
}

/* Computes C = op(A) op(B) + beta C in parts of at most 2^18 multiplications that OpenBLAS computes
 * in the calling thread: several threads compute at the same time, and OpenBLAS's own threads serve
 * one caller at a time. */
static void NAME(multiply_alone)(const trp__openblas *blas, bool transpose_a, bool transpose_b,
                                 int64_t m, int64_t n, int64_t k, const T *a, int64_t lda,
                                 const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    enum { SIDE = 64 };
    for (int64_t p = 0; p == 0 || p < k; p += SIDE) {
        const int64_t depth = k - p < SIDE ? k - p : SIDE;
        for (int64_t i = 0; i < m; i += SIDE) {
            const T *from = transpose_a ? a + i + p * lda : a + i * lda + p;
            for (int64_t j = 0; j < n; j += SIDE)
                NAME(multiply)
            (blas, transpose_a, transpose_b, m - i < SIDE ? m - i : SIDE,
             n - j < SIDE ? n - j : SIDE, depth, from, lda,
             transpose_b ? b + j * ldb + p : b + j + p * ldb, ldb, p == 0 ? beta : 1,
             c + i * ldc + j, ldc);
        }
    }
}

/* Computes q k^T of a block, not yet scaled. */
static void NAME(block_products)(const NAME(attention) * a, const NAME(block) * b, T *scores)
{
    NAME(multiply_alone)
    (a->x->libraries->blas, false, true, b->rows, b->columns, a->depth,
     NAME(head_of)(a, TRP__DNN_ATTENTION_Q) + b->row * a->depth, NAME(leading)(a->depth),
     NAME(head_of)(a, TRP__DNN_ATTENTION_K) + b->column * a->depth, NAME(leading)(a->depth), 0,
     scores, b->columns);
}

static T NAME(power)(T x)
{
    return IS_F32 ? (T)expf((float)x) : (T)exp((double)x);
}

/* The terms of a row's scores: products, a bias, a slope. */
typedef struct NAME(scores) {
    const T *products, *bias; /* at the block's first column */
    int64_t bias_step, column, row;
    double scale, slope;
} NAME(scores);

static NAME(scores) NAME(scores_of)(const NAME(attention) * a, const NAME(block) * b, int64_t row,
                                    const T *products)
{
    static const T none = 0;
    NAME(scores)
    s = {.products = products,
         .bias = &none,
         .column = b->column,
         .row = row,
         .scale = (double)a->scale,
         .slope = (double)a->slope};
    if (a->x->at[TRP__DNN_ATTENTION_BIAS]) {
        s.bias = NAME(bias_row)(a, TRP__DNN_ATTENTION_BIAS, row, &s.bias_step);
        s.bias += b->column * s.bias_step;
    }
    return s;
}

/* Returns the score of a column in f64: in f32 a bias of -1e9 would absorb the product. A bias of
 * minus infinity hides the column, whatever its key is. */
static double NAME(score)(const NAME(scores) * s, int64_t j)
{
    const double bias = (double)s->bias[j * s->bias_step];
    const double score =
        s->scale * (double)s->products[j] + bias + s->slope * (double)(s->column + j - s->row);
    return bias == -INFINITY ? bias : score;
}

enum { LANES = 8 };

/* Returns the largest number of an array, or the smallest if `low`; NaN if the array has one. */
static T NAME(extreme)(const T *x, int64_t count, bool low)
{
    const T sign = low ? -1 : 1;
    T lane[LANES], most = -(T)INFINITY, wrong = 0;
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        lane[k] = most;
    for (; i + LANES <= count; i += LANES) {
        T zero[LANES];
        for (int k = 0; k < LANES; k++) {
            lane[k] = sign * x[i + k] > lane[k] ? sign * x[i + k] : lane[k];
            zero[k] = x[i + k] == x[i + k] ? 0 : x[i + k];
        }
        for (int k = 0; k < LANES; k++)
            wrong += zero[k];
    }
    for (int k = 0; k < LANES; k++)
        most = lane[k] > most ? lane[k] : most;
    for (; i < count; i++) {
        most = sign * x[i] > most ? sign * x[i] : most;
        wrong += x[i] == x[i] ? 0 : x[i];
    }
    return wrong == wrong ? sign * most : wrong;
}

static double NAME(sum_of)(const T *x, int64_t count)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)x[i + k];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    for (; i < count; i++)
        sum += (double)x[i];
    return sum;
}

/* Replaces products of `count` columns, without added terms, by the exponentials of the scores less
 * the largest. Returns the largest score. */
static double NAME(raise_products)(double scale, T *s, int64_t count)
{
    const double most = count > 0 ? scale * (double)NAME(extreme)(s, count, scale < 0) : -INFINITY;
    for (int64_t j = 0; j < count; j++)
        s[j] = (T)(scale * (double)s[j] - most);
    if (IS_F32)
        trp__vexp((const float *)(const void *)s, (float *)(void *)s, (size_t)count);
    for (int64_t j = 0; !IS_F32 && j < count; j++)
        s[j] = (T)exp((double)s[j]);
    return most;
}

/* The same with a bias and slopes. */
static double NAME(raise_scores)(const NAME(scores) * from, int64_t first, int64_t end, T *s)
{
    double most = -INFINITY;
    for (int64_t j = first; j < end; j++) {
        const double score = NAME(score)(from, j);
        most = most != most || score <= most ? most : score; /* a NaN stays */
    }
    for (int64_t j = first; j < end && most != -INFINITY; j++)
        s[j] = NAME(power)((T)(NAME(score)(from, j) - most));
    return most;
}

/* Replaces the products of a row by its weights of columns, 0 for invisible ones, and returns the
 * logarithm of the divisor, minus infinity if no column is visible. Both passes compute weights
 * here: the logarithm of a row with large scores cannot represent that of the sum. */
static T NAME(soft_maximum)(const NAME(attention) * a, const NAME(block) * b, int64_t row,
                            int64_t first, int64_t end, T *s)
{
    const NAME(scores) from = NAME(scores_of)(a, b, row, s);
    const int64_t from_column = first - b->column, to_column = end - b->column;
    const bool plain = !a->x->at[TRP__DNN_ATTENTION_BIAS] && a->slope == 0;
    const double most = plain ? NAME(raise_products)((double)a->scale, s + from_column, end - first)
                              : NAME(raise_scores)(&from, from_column, to_column, s);
    for (int64_t j = 0; j < b->columns; j++) {
        if (j < from_column || j >= to_column || most == -INFINITY)
            s[j] = 0;
    }
    if (most == -INFINITY)
        return (T)most;
    const double sum = NAME(sum_of)(s + from_column, end - first);
    for (int64_t j = from_column; j < to_column; j++)
        s[j] = (T)((double)s[j] / sum);
    return (T)(most + log(sum));
}

/* Computes C = op(A) B + beta C, where an element 0 of A adds nothing whatever its factor in B:
 * invisible elements may be infinite or NaN. */
static void NAME(multiply_seen)(bool transpose_a, int64_t m, int64_t n, int64_t k, const T *a,
                                int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n && beta == 0; j++)
            c[i * ldc + j] = 0;
        for (int64_t p = 0; p < k; p++) {
            const T by = transpose_a ? a[p * lda + i] : a[i * lda + p];
            for (int64_t j = 0; by != 0 && j < n; j++)
                c[i * ldc + j] += by * b[p * ldb + j];
        }
    }
}

/* Tells whether an array is finite. */
static bool NAME(all_finite)(const T *x, int64_t count)
{
    enum { LENGTH = 256 }; /* constant, so that loops are vectorised */
    int beyond = 0;
    for (; count >= LENGTH && !beyond; count -= LENGTH, x += LENGTH) {
        for (int i = 0; i < LENGTH; i++)
            beyond |= x[i] - x[i] != 0;
    }
    for (int64_t i = 0; i < count; i++)
        beyond |= x[i] - x[i] != 0;
    return !beyond;
}

/* Returns the dropout factors of a row's weights for the visible columns, or NULL without dropout.
 * Four are drawn at a time. */
static const T *NAME(draw_row)(const NAME(attention) * a, int64_t row, int64_t first, int64_t end)
{
    T *factors = (T *)a->x->rest + 2 * ATTENTION_BLOCK * a->columns;
    const uint64_t base =
        (uint64_t)((a->batch * a->heads + a->head) * a->rows + row) * (uint64_t)a->columns;
    uint32_t word[TRP__PHILOX_WORDS];
    if (a->dropout.probability <= 0)
        return NULL;
    for (int64_t j = first; j < end; j++) {
        const uint64_t number = base + (uint64_t)j;
        if (j == first || number % TRP__PHILOX_WORDS == 0)
            trp__philox_block(a->dropout.seed, a->dropout.offset, number / TRP__PHILOX_WORDS, word);
        bool kept = trp__dropout_keeps(&a->dropout, word[number % TRP__PHILOX_WORDS]);
        factors[j] = kept ? (T)a->dropout.factor : 0;
    }
    return factors;
}

static void NAME(drop_weights)(const NAME(attention) * a, const NAME(block) * b, int64_t row,
                               int64_t first, int64_t end, T *s)
{
    const T *factors = NAME(draw_row)(a, row, first, end);
    for (int64_t j = first; j < end && factors; j++)
        s[j - b->column] *= factors[j];
}

static void NAME(attention_head)(const NAME(attention) * a)
{
    T *y = NAME(head_of)(a, TRP__DNN_ATTENTION_Y), *scores = a->x->rest;
    T *stats =
        a->x->at[TRP__DNN_ATTENTION_STATS] ? NAME(head_of)(a, TRP__DNN_ATTENTION_STATS) : NULL;
    NAME(block) b;
    for (int64_t i = 0; i < a->rows * a->width; i++)
        y[i] = 0;
    for (int64_t i = 0; stats && i < a->rows; i++)
        stats[i] = (T)-INFINITY;
    for (int64_t row = 0; row < a->used_rows; row += ATTENTION_BLOCK) {
        if (!NAME(next_block)(a, row, &b))
            continue;
        NAME(block_products)(a, &b, scores);
        for (int64_t i = 0; i < b.rows; i++) {
            int64_t first, end;
            T *s = scores + i * b.columns;
            NAME(visible)(a, row + i, &first, &end);
            T logarithm = NAME(soft_maximum)(a, &b, row + i, first, end, s);
            NAME(drop_weights)(a, &b, row + i, first, end, s);
            if (stats)
                stats[row + i] = logarithm;
        }
        const T *v = NAME(head_of)(a, TRP__DNN_ATTENTION_V) + b.column * a->width;
        const int64_t width = NAME(leading)(a->width);
        NAME(multiply_alone)
        (a->x->libraries->blas, false, false, b.rows, a->width, b.columns, scores, b.columns, v,
         width, 0, y + row * a->width, width);
        if (!NAME(all_finite)(y + row * a->width, b.rows * a->width))
            NAME(multiply_seen)
        (false, b.rows, a->width, b.columns, scores, b.columns, v, width, 0, y + row * a->width,
         width);
    }
}

/* Runs the heads of q that share one head of k and v of one batch element in one thread, which has
 * its own part of the memory in `rest`. */
static void NAME(share_heads)(const trp__dnn_host_node *x, void (*run)(const NAME(attention) * a),
                              int64_t piece, int worker)
{
    trp__dnn_host_node own = *x;
    own.rest = (T *)x->rest + attention_rest(x->tensor[TRP__DNN_ATTENTION_K]) * worker;
    NAME(attention) a = NAME(describe_attention)(&own);
    const int64_t shared = a.heads / a.group;
    for (int64_t head = 0; head < a.group; head++) {
        NAME(begin_head)(&a, piece / shared, piece % shared * a.group + head);
        run(&a);
    }
}

static int64_t NAME(pieces_of_attention)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *k = x->tensor[TRP__DNN_ATTENTION_K];
    return x->tensor[TRP__DNN_ATTENTION_Q]->dim[0] * k->dim[1];
}

static void NAME(attention_piece)(void *context, int64_t piece, int worker)
{
    NAME(share_heads)(context, NAME(attention_head), piece, worker);
}

static void NAME(run_attention)(const trp__dnn_host_node *x)
{
    trp__team_run(NAME(attention_piece), (void *)(uintptr_t)x, NAME(pieces_of_attention)(x));
}

/* The gradient: weights are computed again from scores. */

/* Replaces scores of a row by weights, and products dy v^T by gradients of scores. */
static void NAME(row_gradient)(const NAME(attention) * a, const NAME(block) * b, int64_t row, T *s,
                               T *g)
{
    const T *dy = NAME(head_of)(a, TRP__DNN_ATTENTION_DY) + row * a->width;
    const T *y = NAME(head_of)(a, TRP__DNN_ATTENTION_Y) + row * a->width;
    int64_t first, end, step = 0;
    T mean = 0, *dbias = NULL;
    NAME(visible)(a, row, &first, &end);
    NAME(soft_maximum)(a, b, row, first, end, s);
    const T *factors = NAME(draw_row)(a, row, first, end);
    if (a->x->at[TRP__DNN_ATTENTION_DBIAS])
        dbias = NAME(bias_row)(a, TRP__DNN_ATTENTION_DBIAS, row, &step);
    for (int64_t i = 0; i < a->width; i++)
        mean += dy[i] * y[i];
    for (int64_t j = 0; j < b->columns; j++) {
        const bool seen = s[j] != 0;
        const T factor = seen && factors ? factors[j + b->column] : 1;
        const T product = factor == 0 ? 0 : factor * g[j]; /* dropped weights have no gradient */
        g[j] = seen ? s[j] * (product - mean) : 0;
        if (seen && dbias)
            dbias[(j + b->column) * step] += g[j];
        g[j] *= a->scale;
        s[j] *= factor; /* the weight used in y, for dv */
    }
}

/* Multiplies weights or gradients of scores by a matrix; */
static void NAME(multiply_weights)(const NAME(attention) * a, bool finite, bool transpose_a,
                                   int64_t m, int64_t n, int64_t k, const T *x, int64_t ldx,
                                   const T *y, T beta, T *z)
{
    const int64_t ld = NAME(leading)(n);
    if (finite)
        NAME(multiply_alone)
    (a->x->libraries->blas, transpose_a, false, m, n, k, x, ldx, y, ld, beta, z, ld);
    else NAME(multiply_seen)(transpose_a, m, n, k, x, ldx, y, ld, beta, z, ld);
}

static void NAME(attention_head_backward)(const NAME(attention) * a)
{
    const trp__openblas *blas = a->x->libraries->blas;
    const T *q = NAME(head_of)(a, TRP__DNN_ATTENTION_Q),
            *k = NAME(head_of)(a, TRP__DNN_ATTENTION_K);
    const T *v = NAME(head_of)(a, TRP__DNN_ATTENTION_V);
    const T *dy = NAME(head_of)(a, TRP__DNN_ATTENTION_DY);
    T *dq = NAME(head_of)(a, TRP__DNN_ATTENTION_DQ), *dk = NAME(head_of)(a, TRP__DNN_ATTENTION_DK);
    T *dv = NAME(head_of)(a, TRP__DNN_ATTENTION_DV);
    T *s = a->x->rest, *g = s + ATTENTION_BLOCK * a->columns;
    const int64_t width = NAME(leading)(a->width);
    const bool finite_q = NAME(all_finite)(q, a->used_rows * a->depth);
    const bool finite_k = NAME(all_finite)(k, a->used_columns * a->depth);
    const bool finite_dy = NAME(all_finite)(dy, a->used_rows * a->width);
    NAME(block) b;
    for (int64_t row = 0; row < a->used_rows; row += ATTENTION_BLOCK) {
        if (!NAME(next_block)(a, row, &b))
            continue;
        NAME(block_products)(a, &b, s);
        NAME(multiply_alone)
        (blas, false, true, b.rows, b.columns, a->width, dy + row * a->width, width,
         v + b.column * a->width, width, 0, g, b.columns);
        for (int64_t i = 0; i < b.rows; i++)
            NAME(row_gradient)(a, &b, row + i, s + i * b.columns, g + i * b.columns);
        NAME(multiply_weights)
        (a, finite_dy, true, b.columns, a->width, b.rows, s, b.columns, dy + row * a->width, 1,
         dv + b.column * a->width);
        NAME(multiply_weights)
        (a, finite_q, true, b.columns, a->depth, b.rows, g, b.columns, q + row * a->depth, 1,
         dk + b.column * a->depth);
        NAME(multiply_weights)
        (a, finite_k, false, b.rows, a->depth, b.columns, g, b.columns, k + b.column * a->depth, 0,
         dq + row * a->depth);
    }
}

static void NAME(attention_backward_piece)(void *context, int64_t piece, int worker)
{
    NAME(share_heads)(context, NAME(attention_head_backward), piece, worker);
}

/* Runs the gradient. That of a bias may be a sum over heads and batches; then one thread adds
 * all. */
static void NAME(run_attention_backward)(const trp__dnn_host_node *x)
{
    const int64_t pieces = NAME(pieces_of_attention)(x);
    for (int port = TRP__DNN_ATTENTION_DQ; port <= TRP__DNN_ATTENTION_DBIAS; port++) {
        if (x->at[port])
            memset(x->at[port], 0, (size_t)trp__dnn_elements(x->tensor[port]) * sizeof(T));
    }
    if (!x->at[TRP__DNN_ATTENTION_DBIAS])
        trp__team_run(NAME(attention_backward_piece), (void *)(uintptr_t)x, pieces);
    for (int64_t i = 0; x->at[TRP__DNN_ATTENTION_DBIAS] && i < pieces; i++)
        NAME(attention_backward_piece)((void *)(uintptr_t)x, i, 0);
}
