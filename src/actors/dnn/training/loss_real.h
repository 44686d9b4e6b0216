/* LOSS on the host, a part of f32.c and f64.c: threads share the lines along the last dimension. */

typedef struct NAME(losses) {
    const trp__train_node *x;
    trp__train_walk walk; /* iterates over lines */
    int64_t length;
    double share; /* weight of an element in y and dx */
    double *sum;  /* sum of each line */
} NAME(losses);

/* Loads `count` elements of a line of a tensor with x's dimensions or 1; NULL if it is absent. */
static const T *NAME(loss_load)(const NAME(losses) * l, const trp__train_walk *w, int port,
                                int64_t first, int64_t count, T *block)
{
    const trp__dnn_tensor *t = l->x->t[port];
    if (!t)
        return NULL;
    if (!l->x->at[port] || t->rank != w->rank) { /* one number */
        const T value = (T)trp__train_number(l->x, port, 1);
        for (int64_t i = 0; i < count; i++)
            block[i] = value;
        return block;
    }
    const int last = t->rank - 1;
    const int64_t step = t->dim[last] == 1 ? 0 : t->stride[last];
    return VIEW(t, l->x->at[port], trp__train_walk_offset(w, t) + first * step, step, count, block);
}

#define VALUES(mode)                                                                               \
    case mode:                                                                                     \
        for (int64_t i = 0; i < count; i++)                                                        \
            value[i] =                                                                             \
                trp__loss_value(mode, beta, (double)x[i], (double)t[i], b ? (double)b[i] : 1) *    \
                (w ? (double)w[i] : 1);                                                            \
        break

#define SLOPES(mode)                                                                               \
    case mode:                                                                                     \
        for (int64_t i = 0; i < count; i++)                                                        \
            slope[i] =                                                                             \
                trp__loss_slope(mode, beta, (double)x[i], (double)t[i], b ? (double)b[i] : 1) *    \
                (w ? (double)w[i] : 1);                                                            \
        break

static void NAME(loss_values)(const trp__dnn_node *n, const T *x, const T *t, const T *w,
                              const T *b, int64_t count, double *value)
{
    const double beta = n->parameter[0];
    switch (n->mode) {
        VALUES(TRP_DNN_MSE);
        VALUES(TRP_DNN_L1);
        VALUES(TRP_DNN_SMOOTH_L1);
        VALUES(TRP_DNN_BCE_LOGITS);
        VALUES(TRP_DNN_KL);
        VALUES(TRP_DNN_KL_LOG);
    }
}

static void NAME(loss_slopes)(const trp__dnn_node *n, const T *x, const T *t, const T *w,
                              const T *b, int64_t count, double *slope)
{
    const double beta = n->parameter[0];
    switch (n->mode) {
        SLOPES(TRP_DNN_MSE);
        SLOPES(TRP_DNN_L1);
        SLOPES(TRP_DNN_SMOOTH_L1);
        SLOPES(TRP_DNN_BCE_LOGITS);
        SLOPES(TRP_DNN_KL);
        SLOPES(TRP_DNN_KL_LOG);
    }
}

#undef VALUES
#undef SLOPES

static void NAME(loss_put)(const NAME(losses) * l, const trp__train_walk *w, int port,
                           int64_t first, int64_t count, const T *v)
{
    const trp__dnn_tensor *t = l->x->t[port];
    if (!t)
        return;
    const int64_t step = t->stride[t->rank - 1];
    PUT(t, l->x->at[port], trp__train_walk_offset(w, t) + first * step, step, count, v);
}

static void NAME(loss_lines)(void *context, int64_t first, int64_t end)
{
    enum { BLOCK = 256 };
    const NAME(losses) *l = context;
    const trp__dnn_node *n = l->x->n;
    const bool each = trp__train_reduction(n) == TRP_DNN_REDUCE_NONE;
    const double one = trp__train_number(l->x, TRP__LOSS_DY, 1) * l->share;
    T x_block[BLOCK], t_block[BLOCK], w_block[BLOCK], b_block[BLOCK], out[BLOCK];
    double value[BLOCK];
    trp__train_walk walk = l->walk;
    for (int64_t line = first; line < end; line++) {
        double sum = 0;
        trp__train_walk_to(&walk, line);
        for (int64_t i = 0, count; i < l->length; i += count) {
            count = l->length - i < BLOCK ? l->length - i : BLOCK;
            const T *x = NAME(loss_load)(l, &walk, TRP__LOSS_X, i, count, x_block);
            const T *t = NAME(loss_load)(l, &walk, TRP__LOSS_T, i, count, t_block);
            const T *w = NAME(loss_load)(l, &walk, TRP__LOSS_W, i, count, w_block);
            const T *b = NAME(loss_load)(l, &walk, TRP__LOSS_B, i, count, b_block);
            NAME(loss_values)(n, x, t, w, b, count, value);
            for (int64_t k = 0; k < count; k++) {
                sum += value[k];
                out[k] = (T)value[k];
            }
            NAME(loss_put)(l, &walk, TRP__LOSS_ROWS, i, count, out);
            if (each)
                NAME(loss_put)(l, &walk, TRP__LOSS_Y, i, count, out);
            if (!l->x->t[TRP__LOSS_DX])
                continue;
            NAME(loss_slopes)(n, x, t, w, b, count, value);
            const bool many = each && l->x->t[TRP__LOSS_DY] && l->x->at[TRP__LOSS_DY];
            const T *dy = many ? NAME(loss_load)(l, &walk, TRP__LOSS_DY, i, count, t_block) : NULL;
            for (int64_t k = 0; k < count; k++)
                out[k] = (T)(value[k] * (dy ? (double)dy[k] : one));
            NAME(loss_put)(l, &walk, TRP__LOSS_DX, i, count, out);
        }
        l->sum[line] = sum;
    }
}

void NAME(trp__train_loss)(const trp__train_node *x)
{
    const trp__dnn_tensor *in = x->t[TRP__LOSS_X];
    NAME(losses) l = {.x = x, .length = in->dim[in->rank - 1], .sum = (double *)(void *)x->scratch};
    const int64_t lines = trp__train_walk_begin(&l.walk, in, in->rank - 1, 1);
    const double divisor =
        trp__loss_divisor(x->n, (double)trp__dnn_elements(in), (double)in->dim[0]);
    double sum = 0;
    l.share = 1 / divisor;
    trp__train_share(lines, (1 << 13) / (l.length + 1) + 1, NAME(loss_lines), &l);
    for (int64_t i = 0; i < lines; i++)
        sum += l.sum[i];
    if (trp__train_reduction(x->n) != TRP_DNN_REDUCE_NONE)
        trp__train_put_number(x, TRP__LOSS_Y, sum / divisor);
}
