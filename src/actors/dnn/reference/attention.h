/* Attention kernels: one block per row of q, or of k and v. Included by kernels.h. */

/* Returns an element by batch, head, row and column; dimensions of 1 are broadcast. */
static double of_head(const trp__direct *d, int port, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t at[4] = {b, h, i, j};
    return load_at(d, port, 4, at);
}

typedef struct attention_row {
    int64_t batch, head, shared, row; /* shared: the head of k and v */
    int64_t first, end;               /* visible columns of the row */
} attention_row;

static int64_t used_length(const trp__direct *d, int port, int64_t batch, int64_t size)
{
    if (!d->used[port])
        return size;
    double length = of_head(d, port, batch, 0, 0, 0);
    return length <= 0 ? 0 : length >= (double)size ? size : (int64_t)length;
}

static attention_row row_of(const trp__direct *d, int64_t batch, int64_t head, int64_t row)
{
    const trp__dnn_tensor *q = &d->tensor[TRP__DNN_ATTENTION_Q];
    const trp__dnn_tensor *k = &d->tensor[TRP__DNN_ATTENTION_K];
    const int64_t rows = used_length(d, TRP__DNN_ATTENTION_SEQ_Q, batch, q->dim[2]);
    const int64_t columns = used_length(d, TRP__DNN_ATTENTION_SEQ_KV, batch, k->dim[2]);
    const int64_t reach = d->node.window[0];
    const int64_t own =
        row + (d->node.mode == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT ? columns - rows : 0);
    attention_row r = {batch, head, head / (q->dim[1] / k->dim[1]), row, 0, 0};
    if (row >= rows)
        return r;
    r.end = d->node.mode != TRP_DNN_MASK_NONE && own + 1 < columns ? own + 1 : columns;
    r.first = reach > 0 && own + 1 > reach ? own + 1 - reach : 0;
    r.end = r.end > r.first ? r.end : r.first;
    return r;
}

/* Returns the dropout factor of a column's weight. */
static double factor_of(const trp__direct *d, const attention_row *r, int64_t column)
{
    const trp__dnn_tensor *q = &d->tensor[TRP__DNN_ATTENTION_Q];
    const int64_t columns = d->tensor[TRP__DNN_ATTENTION_K].dim[2];
    if (!(d->node.parameter[1] > 0))
        return 1;
    const trp__dropout what = trp__dropout_of(&d->node, word_at(d, TRP__DNN_ATTENTION_SEED),
                                              word_at(d, TRP__DNN_ATTENTION_OFFSET));
    const int64_t row = (r->batch * q->dim[1] + r->head) * q->dim[2] + r->row;
    return trp__dropout_at(&what, (uint64_t)row * (uint64_t)columns + (uint64_t)column);
}

/* A bias of minus infinity hides the column, whatever its key holds. */
static double score_of(const trp__direct *d, const attention_row *r, int64_t column)
{
    const int64_t depth = d->tensor[TRP__DNN_ATTENTION_Q].dim[3];
    const double bias = d->used[TRP__DNN_ATTENTION_BIAS]
                            ? of_head(d, TRP__DNN_ATTENTION_BIAS, r->batch, r->head, r->row, column)
                            : 0;
    double sum = 0;
    if (bias == -INFINITY)
        return bias;
    for (int64_t i = 0; i < depth; i++)
        sum += of_head(d, TRP__DNN_ATTENTION_Q, r->batch, r->head, r->row, i) *
               of_head(d, TRP__DNN_ATTENTION_K, r->batch, r->shared, column, i);
    sum = sum * d->node.parameter[0] + bias;
    if (d->used[TRP__DNN_ATTENTION_SLOPES])
        sum += of_head(d, TRP__DNN_ATTENTION_SLOPES, 0, r->head, 0, 0) * (double)(column - r->row);
    return sum;
}

/* A row's softmax: exp(score - most) / sum. No column is visible if */
typedef struct attention_sum {
    double most, sum;
} attention_sum;

static double most_of_scores(double most, double score)
{
    return most != most || score <= most ? most : score; /* a NaN stays */
}

/* Computes a row's sum; each thread of the block computes a part. */
static attention_sum sum_of_row(const trp__direct *d, const attention_row *r)
{
    attention_sum s = {-INFINITY, 0};
    for (int64_t j = r->first + TRP__THREAD; j < r->end; j += TRP__THREADS)
        s.most = most_of_scores(s.most, score_of(d, r, j));
    s.most = of_block(TRP_DNN_MOST, s.most);
    if (s.most == -INFINITY)
        return s;
    for (int64_t j = r->first + TRP__THREAD; j < r->end; j += TRP__THREADS)
        s.sum += exp(score_of(d, r, j) - s.most);
    s.sum = sum_of_block(s.sum);
    return s;
}

/* Computes a row's sum in one thread, in the backward pass. stats has the rounded logarithm of the
 * sum: if that is far from 0 it only represents the largest score, and the sum is computed
 * again. */
static attention_sum sum_for_thread(const trp__direct *d, const attention_row *r)
{
    const bool wide = d->tensor[TRP__DNN_ATTENTION_STATS].type == TRP_F64;
    attention_sum s = {of_head(d, TRP__DNN_ATTENTION_STATS, r->batch, r->head, r->row, 0), 1};
    if (fabs(s.most) <= (wide ? 0x1p26 : 64))
        return s;
    s.most = -INFINITY;
    for (int64_t j = r->first; j < r->end; j++)
        s.most = most_of_scores(s.most, score_of(d, r, j));
    s.sum = 0;
    for (int64_t j = r->first; j < r->end && s.most != -INFINITY; j++)
        s.sum += exp(score_of(d, r, j) - s.most);
    return s;
}

static double weight_of(const trp__direct *d, const attention_row *r, const attention_sum *s,
                        int64_t column)
{
    return s->most == -INFINITY ? 0 : exp(score_of(d, r, column) - s->most) / s->sum;
}

/* Returns weight times value; a weight of 0 gives 0 even for infinity or NaN. */
static double share_of(double weight, double value)
{
    return weight == 0 ? 0 : weight * value;
}

/* Processes as many columns at a time as there are threads: each thread computes a weight, then */
TRP__KERNEL void trp_direct_attention(const trp__direct d)
{
    TRP__SHARED double weight[TRP__DIRECT_THREADS];
    const int64_t width = d.tensor[TRP__DNN_ATTENTION_V].dim[3];
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(&d.tensor[TRP__DIRECT_STATISTICS], b, at);
        const attention_row r = row_of(&d, at[0], at[1], at[2]);
        const attention_sum s = sum_of_row(&d, &r);
        if (TRP__THREAD == 0)
            store_at(&d, TRP__DNN_ATTENTION_STATS, 4, at,
                     s.most == -INFINITY ? s.most : s.most + log(s.sum));
        for (int64_t from = 0; from < width; from += TRP__THREADS) {
            double sum = 0;
            at[3] = from + TRP__THREAD;
            for (int64_t j = r.first; j < r.end; j += TRP__THREADS) {
                const int64_t mine = j + TRP__THREAD;
                TRP__SYNC();
                weight[TRP__THREAD] =
                    mine < r.end ? weight_of(&d, &r, &s, mine) * factor_of(&d, &r, mine) : 0;
                TRP__SYNC();
                for (int64_t i = 0; i < TRP__THREADS && j + i < r.end && at[3] < width; i++)
                    sum += share_of(weight[i], of_head(&d, TRP__DNN_ATTENTION_V, r.batch, r.shared,
                                                       j + i, at[3]));
            }
            if (at[3] < width)
                store_at(&d, TRP__DNN_ATTENTION_Y, 4, at, sum);
        }
    }
}

/* Returns the unscaled gradient of a score and sets its column's weight after dropout. */
static double slope_of(const trp__direct *d, const attention_row *r, int64_t column, double *weight)
{
    const int64_t width = d->tensor[TRP__DNN_ATTENTION_V].dim[3];
    double away = 0;
    *weight = 0;
    if (column < r->first || column >= r->end)
        return 0;
    const attention_sum s = sum_for_thread(d, r);
    const double by = weight_of(d, r, &s, column);
    const double factor = factor_of(d, r, column);
    *weight = by * factor;
    if (by == 0)
        return 0;
    for (int64_t i = 0; i < width; i++)
        away +=
            of_head(d, TRP__DNN_ATTENTION_DY, r->batch, r->head, r->row, i) *
            (share_of(factor, of_head(d, TRP__DNN_ATTENTION_V, r->batch, r->shared, column, i)) -
             of_head(d, TRP__DNN_ATTENTION_Y, r->batch, r->head, r->row, i));
    return by * away;
}

TRP__KERNEL void trp_direct_attention_backward_q(const trp__direct d)
{
    TRP__SHARED double slope[TRP__DIRECT_THREADS];
    const int64_t depth = d.tensor[TRP__DNN_ATTENTION_Q].dim[3];
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double ignored;
        position(&d.tensor[TRP__DIRECT_STATISTICS], b, at);
        const attention_row r = row_of(&d, at[0], at[1], at[2]);
        for (int64_t from = 0; from < depth; from += TRP__THREADS) {
            double sum = 0;
            at[3] = from + TRP__THREAD;
            for (int64_t j = r.first; j < r.end; j += TRP__THREADS) {
                TRP__SYNC();
                slope[TRP__THREAD] = slope_of(&d, &r, j + TRP__THREAD, &ignored);
                TRP__SYNC();
                for (int64_t i = 0; i < TRP__THREADS && j + i < r.end && at[3] < depth; i++)
                    sum += share_of(slope[i], of_head(&d, TRP__DNN_ATTENTION_K, r.batch, r.shared,
                                                      j + i, at[3]));
            }
            if (at[3] < depth)
                store_at(&d, TRP__DNN_ATTENTION_DQ, 4, at, d.node.parameter[0] * sum);
        }
    }
}

/* Sums over all rows of all heads that share a head of k and v. Rows to which the column is
 * invisible are skipped, because they may have NaN. A block is launched per element of k; one per
 * row of k has work. */
TRP__KERNEL void trp_direct_attention_backward_kv(const trp__direct d)
{
    TRP__SHARED double slope[TRP__DIRECT_THREADS];
    TRP__SHARED double weight[TRP__DIRECT_THREADS];
    TRP__SHARED bool seen[TRP__DIRECT_THREADS];
    const trp__dnn_tensor *q = &d.tensor[TRP__DNN_ATTENTION_Q];
    const trp__dnn_tensor *k = &d.tensor[TRP__DNN_ATTENTION_K];
    const int64_t depth = q->dim[3], width = d.tensor[TRP__DNN_ATTENTION_V].dim[3];
    const int64_t most = depth > width ? depth : width, group = q->dim[1] / k->dim[1];
    FOR_BLOCKS(b, d.count / depth)
    {
        int64_t at[TRP__DNN_RANK];
        position(k, b * depth, at);
        for (int64_t from = 0; from < most; from += TRP__THREADS) {
            double dk = 0, dv = 0;
            at[3] = from + TRP__THREAD;
            for (int64_t one = 0; one < group * q->dim[2]; one += TRP__THREADS) {
                const int64_t mine = one + TRP__THREAD;
                TRP__SYNC();
                seen[TRP__THREAD] = false;
                if (mine < group * q->dim[2]) {
                    const attention_row r =
                        row_of(&d, at[0], at[1] * group + mine / q->dim[2], mine % q->dim[2]);
                    seen[TRP__THREAD] = at[2] >= r.first && at[2] < r.end;
                    slope[TRP__THREAD] = slope_of(&d, &r, at[2], &weight[TRP__THREAD]);
                }
                TRP__SYNC();
                for (int64_t i = 0; i < TRP__THREADS; i++) {
                    const int64_t head = at[1] * group + (one + i) / q->dim[2];
                    const int64_t row = (one + i) % q->dim[2];
                    if (seen[i] && at[3] < depth)
                        dk += share_of(slope[i],
                                       of_head(&d, TRP__DNN_ATTENTION_Q, at[0], head, row, at[3]));
                    if (seen[i] && at[3] < width)
                        dv += share_of(weight[i],
                                       of_head(&d, TRP__DNN_ATTENTION_DY, at[0], head, row, at[3]));
                }
            }
            if (at[3] < depth)
                store_at(&d, TRP__DNN_ATTENTION_DK, 4, at, d.node.parameter[0] * dk);
            if (at[3] < width)
                store_at(&d, TRP__DNN_ATTENTION_DV, 4, at, dv);
        }
    }
}

/* One block per element of dbias. */
TRP__KERNEL void trp_direct_attention_backward_bias(const trp__direct d)
{
    const trp__dnn_tensor *bias = &d.tensor[TRP__DNN_ATTENTION_DBIAS];
    trp__dnn_tensor scores = d.tensor[TRP__DNN_ATTENTION_Q];
    scores.dim[3] = d.tensor[TRP__DNN_ATTENTION_K].dim[2];
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double sum = 0, ignored;
        position(bias, b, at);
        FOR_IN_BLOCK(i, elements(&scores) / elements(bias))
        {
            position_within(&scores, bias, i, at);
            const attention_row r = row_of(&d, at[0], at[1], at[2]);
            sum += slope_of(&d, &r, at[3], &ignored);
        }
        sum = sum_of_block(sum);
        position(bias, b, at);
        if (TRP__THREAD == 0)
            store_at(&d, TRP__DNN_ATTENTION_DBIAS, 4, at, sum);
    }
}
