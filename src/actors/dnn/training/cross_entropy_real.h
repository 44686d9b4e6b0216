/* CROSS_ENTROPY on the host, a part of f32.c and f64.c: threads share the rows and read each from
 * memory three times: for the maximum, the sum, and the gradient. */

enum { NAME(CE_BLOCK) = 512, NAME(CE_LANES) = 16 };

/* Returns exp(x) for x up to slightly above 0. In f32 without branches, so that loops over it
 * vectorise: within 2 units in the last place, and 0 if the result would be subnormal. */
static inline T NAME(ce_exp)(T x)
{
#if IS_F32
    const float magic = 12582912.0F; /* its last bit has the value 1 */
    const float shifted = x * 1.44269504F + magic, n = shifted - magic;
    const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
    const uint32_t power = trp__f32_bits(shifted) << 23;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1;
    const float value = trp__f32_from_bits(trp__f32_bits(p) + power);
    return x < -87.0F ? 0 : x != x ? x : value;
#else
    return exp(x);
#endif
}

typedef struct NAME(ce) {
    const trp__train_node *x;
    trp__train_walk walk; /* iterates over rows */
    int64_t classes;
    double share; /* weight of a row in y and dx: 1 / the number of rows in a mean */
    double *loss; /* loss of each row */
} NAME(ce);

/* A row: the place of its class, the largest logit, L, and the factor of its gradient. */
typedef struct NAME(ce_row) {
    int64_t x, t, dx; /* offsets */
    int64_t label;    /* -1: none */
    T most;
    double sum, log_sum, total; /* sums of exp(x - most) and of probabilities q */
    double linear;              /* sum of x */
    double factor;
} NAME(ce_row);

static const T *NAME(ce_load)(const NAME(ce) * ce, int port, int64_t row, int64_t first,
                              int64_t count, T *block)
{
    const trp__dnn_tensor *t = ce->x->t[port];
    const int64_t step = t->stride[t->rank - 1];
    return VIEW(t, ce->x->at[port], row + first * step, step, count, block);
}

static void NAME(ce_sums)(const NAME(ce) * ce, NAME(ce_row) * r)
{
    enum { BLOCK = NAME(CE_BLOCK), LANES = NAME(CE_LANES) };
    const double smooth = ce->x->n->parameter[0];
    T block[BLOCK], most[LANES], sum[LANES], all[LANES];
    for (int k = 0; k < LANES; k++)
        most[k] = (T)-INFINITY;
    for (int64_t i = 0, count; i < ce->classes; i += count) {
        count = ce->classes - i < BLOCK ? ce->classes - i : BLOCK;
        const T *x = NAME(ce_load)(ce, TRP__LOSS_X, r->x, i, count, block);
        int64_t j = 0;
        for (; j + LANES <= count; j += LANES) {
            for (int k = 0; k < LANES; k++)
                most[k] = x[j + k] > most[k] ? x[j + k] : most[k];
        }
        for (; j < count; j++)
            most[0] = x[j] > most[0] ? x[j] : most[0];
    }
    r->most = most[0];
    for (int k = 1; k < LANES; k++)
        r->most = most[k] > r->most ? most[k] : r->most;
    r->sum = r->linear = r->total = 0;
    for (int64_t i = 0, count; i < ce->classes; i += count) {
        count = ce->classes - i < BLOCK ? ce->classes - i : BLOCK;
        const T *x = NAME(ce_load)(ce, TRP__LOSS_X, r->x, i, count, block);
        int64_t j = 0;
        for (int k = 0; k < LANES; k++)
            sum[k] = all[k] = 0;
        for (; j + LANES <= count; j += LANES) {
            for (int k = 0; k < LANES; k++)
                sum[k] += NAME(ce_exp)(x[j + k] - r->most);
        }
        for (; j < count; j++)
            sum[0] += NAME(ce_exp)(x[j] - r->most);
        for (int k = 0; k < LANES; k++)
            r->sum += (double)sum[k];
        for (j = 0; smooth > 0 && j < count; j++)
            r->linear += (double)x[j];
        if (ce->x->t[TRP__LOSS_T]) {
            const T *t = NAME(ce_load)(ce, TRP__LOSS_T, r->t, i, count, block);
            for (j = 0; j < count; j++)
                r->total += (double)t[j];
        }
    }
    r->log_sum = (double)r->most + log(r->sum);
}

/* Returns the loss of a row with a class. */
static double NAME(ce_of_label)(const NAME(ce) * ce, const NAME(ce_row) * r)
{
    const double smooth = ce->x->n->parameter[0];
    T one;
    const T at = *NAME(ce_load)(ce, TRP__LOSS_X, r->x, r->label, 1, &one);
    double loss = smooth < 1 ? (1 - smooth) * (r->log_sum - (double)at) : 0;
    if (smooth > 0)
        loss += smooth * (r->log_sum - r->linear / (double)ce->classes);
    return loss;
}

/* Returns the loss of a row with probabilities, and computes the gradient of either. */
static double NAME(ce_last)(const NAME(ce) * ce, const NAME(ce_row) * r)
{
    enum { BLOCK = NAME(CE_BLOCK) };
    const trp__train_node *x = ce->x;
    const trp__dnn_tensor *dx = x->t[TRP__LOSS_DX];
    const double smooth = x->n->parameter[0], even = smooth / (double)ce->classes;
    const T scale = (T)(r->factor * (r->total + 2 * x->n->parameter[1] * r->log_sum) / r->sum);
    const T rest = (T)(r->factor * even), factor = (T)r->factor;
    const T most = r->most;
    T block[BLOCK], target[BLOCK], out[BLOCK];
    double loss = 0;
    for (int64_t i = 0, count; i < ce->classes; i += count) {
        count = ce->classes - i < BLOCK ? ce->classes - i : BLOCK;
        const T *v = NAME(ce_load)(ce, TRP__LOSS_X, r->x, i, count, block);
        for (int64_t j = 0; dx && j < count; j++)
            out[j] = scale * NAME(ce_exp)(v[j] - most) - rest;
        if (x->t[TRP__LOSS_T]) {
            const T *t = NAME(ce_load)(ce, TRP__LOSS_T, r->t, i, count, target);
            for (int64_t j = 0; j < count; j++) {
                const double q = (1 - smooth) * (double)t[j] + even;
                loss += q == 0 ? 0 : q * (r->log_sum - (double)v[j]);
            }
            for (int64_t j = 0; dx && j < count; j++)
                out[j] -= factor * (T)(1 - smooth) * t[j];
        } else if (r->label >= i && r->label < i + count) {
            out[r->label - i] -= factor * (T)(1 - smooth);
        }
        if (dx)
            PUT(dx, x->at[TRP__LOSS_DX], r->dx + i * dx->stride[dx->rank - 1],
                dx->stride[dx->rank - 1], count, out);
    }
    return loss;
}

/* Sets all gradients of a row to one number: 0 or NaN. */
static void NAME(ce_fill)(const NAME(ce) * ce, const NAME(ce_row) * r, T value)
{
    enum { BLOCK = NAME(CE_BLOCK) };
    const trp__dnn_tensor *dx = ce->x->t[TRP__LOSS_DX];
    T out[BLOCK];
    for (int j = 0; j < BLOCK; j++)
        out[j] = value;
    for (int64_t i = 0, count; dx && i < ce->classes; i += count) {
        count = ce->classes - i < BLOCK ? ce->classes - i : BLOCK;
        PUT(dx, ce->x->at[TRP__LOSS_DX], r->dx + i * dx->stride[dx->rank - 1],
            dx->stride[dx->rank - 1], count, out);
    }
}

static void NAME(ce_put)(const NAME(ce) * ce, const trp__train_walk *w, int port, double value)
{
    const trp__dnn_tensor *t = ce->x->t[port];
    const T v = (T)value;
    if (t)
        PUT(t, ce->x->at[port], trp__train_walk_offset(w, t), 1, 1, &v);
}

static void NAME(ce_rows)(void *context, int64_t first, int64_t end)
{
    const NAME(ce) *ce = context;
    const trp__train_node *x = ce->x;
    const trp__dnn_tensor *index = x->t[TRP__LOSS_INDEX], *dy = x->t[TRP__LOSS_DY];
    const bool each = trp__train_reduction(x->n) == TRP_DNN_REDUCE_NONE;
    const bool probabilities = x->t[TRP__LOSS_T] != NULL;
    const double one = trp__train_number(x, TRP__LOSS_DY, 1);
    trp__train_walk w = ce->walk;
    for (int64_t row = first; row < end; row++) {
        NAME(ce_row) r = {.label = -1};
        double loss = 0;
        int64_t label = 0;
        T got;
        trp__train_walk_to(&w, row);
        r.x = trp__train_walk_offset(&w, x->t[TRP__LOSS_X]);
        r.t = probabilities ? trp__train_walk_offset(&w, x->t[TRP__LOSS_T]) : 0;
        r.dx = x->t[TRP__LOSS_DX] ? trp__train_walk_offset(&w, x->t[TRP__LOSS_DX]) : 0;
        if (index)
            label =
                trp__train_index(index, x->at[TRP__LOSS_INDEX], trp__train_walk_offset(&w, index));
        const bool ignored = index && trp__train_ignores(x->n, label);
        const bool wrong = index && !ignored && (label < 0 || label >= ce->classes);
        if (!ignored) {
            NAME(ce_sums)(ce, &r);
            r.label = index && !wrong ? label : -1;
            if (!probabilities)
                r.total = 1;
            else
                r.total = (1 - x->n->parameter[0]) * r.total + x->n->parameter[0];
            r.factor = (each && dy && x->at[TRP__LOSS_DY]
                            ? (double)*VIEW(dy, x->at[TRP__LOSS_DY], trp__train_walk_offset(&w, dy),
                                            1, 1, &got)
                            : one) *
                       ce->share;
            if (wrong)
                loss = NAN;
            else if (index)
                loss = NAME(ce_of_label)(ce, &r);
        }
        if (ignored || wrong)
            NAME(ce_fill)(ce, &r, (T)loss);
        else if (x->t[TRP__LOSS_DX] || probabilities)
            loss += NAME(ce_last)(ce, &r);
        if (!ignored && x->n->parameter[1] != 0)
            loss += x->n->parameter[1] * r.log_sum * r.log_sum;
        ce->loss[row] = loss;
        NAME(ce_put)(ce, &w, TRP__LOSS_ROWS, loss);
        NAME(ce_put)(ce, &w, TRP__LOSS_STATS, ignored ? 0 : r.log_sum);
        if (each)
            NAME(ce_put)(ce, &w, TRP__LOSS_Y, loss);
    }
}

void NAME(trp__train_cross_entropy)(const trp__train_node *x)
{
    const trp__dnn_tensor *logits = x->t[TRP__LOSS_X], *index = x->t[TRP__LOSS_INDEX];
    NAME(ce)
    ce = {.x = x, .classes = logits->dim[logits->rank - 1], .loss = (double *)(void *)x->scratch};
    const int64_t rows = trp__train_walk_begin(&ce.walk, logits, logits->rank - 1, 1);
    int64_t count = 0;
    double sum = 0;
    trp__train_walk w = ce.walk;
    for (int64_t row = 0; index && row < rows; row++) {
        trp__train_walk_to(&w, row);
        count += !trp__train_ignores(x->n, trp__train_index(index, x->at[TRP__LOSS_INDEX],
                                                            trp__train_walk_offset(&w, index)));
    }
    const double divisor = trp__loss_divisor(x->n, index ? (double)count : (double)rows, 1);
    ce.share = divisor > 0 ? 1 / divisor : 0;
    trp__train_share(rows, (1 << 14) / ce.classes + 1, NAME(ce_rows), &ce);
    for (int64_t row = 0; row < rows; row++)
        sum += ce.loss[row];
    if (trp__train_reduction(x->n) != TRP_DNN_REDUCE_NONE)
        trp__train_put_number(x, TRP__LOSS_Y, sum / divisor);
}
