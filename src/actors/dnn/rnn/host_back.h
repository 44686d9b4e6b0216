/* The backward pass in one real type; see host_real.h. A direction is processed backwards with the
 * gradient of the state in the place of the state; the contributions to weights and inputs are
 * collected over all steps and multiplied at once. */

/* Tells whether a step is the first of a sequence in this direction. */
static bool NAME(is_first)(const NAME(pass) * p, int32_t step, int32_t b)
{
    return p->direction ? step + 1 == p->run->length[b] : step == 0;
}

/* Returns h before a step. */
static const T *NAME(before)(const NAME(pass) * p, int32_t step, int32_t b)
{
    if (NAME(is_first)(p, step, b))
        return p->h0 + (int64_t)b * p->n->width;
    return NAME(result_at)(p, p->direction ? step + 1 : step - 1, b);
}

/* The arrays of one cell at one step. */
typedef struct NAME(cell_back) {
    const T *gate, *extra, *before; /* from the forward pass; `before` is h, or c of an LSTM */
    const T *result;                /* h' */
    const T *dh;                    /* gradient of h', or of the projection's input */
    T *dgate, *drest;
    T *dc;
    T *dbefore; /* GRU: the direct gradient of h */
} NAME(cell_back);

static void NAME(lstm_back)(int64_t count, const NAME(cell_back) * x)
{
    for (int64_t j = 0; j < count; j++) {
        const T in = x->gate[j], forget = x->gate[count + j], fresh = x->gate[2 * count + j],
                out = x->gate[3 * count + j], state = TANH(x->extra[j]);
        const T dc = x->dc[j] + x->dh[j] * out * (1 - state * state);
        x->dgate[j] = dc * fresh * in * (1 - in);
        x->dgate[count + j] = dc * x->before[j] * forget * (1 - forget);
        x->dgate[2 * count + j] = dc * in * (1 - fresh * fresh);
        x->dgate[3 * count + j] = x->dh[j] * state * out * (1 - out);
        x->dc[j] = dc * forget;
    }
}

static void NAME(gru_back)(int64_t count, const NAME(cell_back) * x)
{
    for (int64_t j = 0; j < count; j++) {
        const T reset = x->gate[j], keep = x->gate[count + j], fresh = x->gate[2 * count + j];
        const T dfresh = x->dh[j] * (1 - keep) * (1 - fresh * fresh);
        x->dgate[j] = x->drest[j] = dfresh * x->extra[j] * reset * (1 - reset);
        x->dgate[count + j] = x->drest[count + j] =
            x->dh[j] * (x->before[j] - fresh) * keep * (1 - keep);
        x->dgate[2 * count + j] = dfresh;
        x->drest[2 * count + j] = dfresh * reset;
        x->dbefore[j] = x->dh[j] * keep;
    }
}

static void NAME(plain_back)(const NAME(pass) * p, const NAME(cell_back) * x)
{
    const bool is_tanh = p->n->mode == TRP_RNN_TANH;
    for (int64_t j = 0; j < p->n->hidden; j++) {
        const T h = x->result[j];
        x->dgate[j] = x->dh[j] * (is_tanh ? 1 - h * h : h > 0 ? 1 : 0);
    }
}

/* Computes the gradient of h' at one step for all sequences, from later steps and the layer's
 * results; 0 after the ends. */
static void NAME(gather_step)(const NAME(pass) * p, int32_t step, T *dh)
{
    const int64_t width = p->n->width;
    const T *dy = AT(p->run, DY) + (int64_t)step * p->n->batch * p->outputs + p->direction * width;
    for (int32_t b = 0; b < p->n->batch; b++) {
        bool inside = step < p->run->length[b];
        for (int64_t j = 0; j < width; j++)
            dh[b * width + j] = inside ? p->h[b * width + j] + dy[b * p->outputs + j] : 0;
    }
}

static void NAME(backward_cell)(const NAME(pass) * p, int32_t step, int32_t b, const T *dh)
{
    const trp__rnn *n = p->n;
    const int64_t hidden = n->hidden, width = n->width, at = (int64_t)step * n->batch + b;
    const T *before = NAME(before)(p, step, b);
    NAME(cell_back)
    x = {.gate = p->gate + at * p->gates,
         .extra = p->extra + at * hidden,
         .before = before,
         .result = NAME(result_at)(p, step, b),
         .dh = dh + b * hidden,
         .dgate = AT(p->run, DGATES) + at * p->gates};
    memcpy(AT(p->run, BEFORE) + at * width, before, (size_t)width * sizeof(T));
    if (n->mode == TRP_RNN_LSTM) {
        const int64_t last = (p->direction ? at + n->batch : at - n->batch) * hidden;
        x.before = NAME(is_first)(p, step, b) ? p->c0 + b * hidden : p->extra + last;
        x.dc = p->c + b * hidden;
        NAME(lstm_back)(hidden, &x);
    } else if (n->mode == TRP_RNN_GRU) {
        x.drest = AT(p->run, DREST) + at * p->gates;
        x.dbefore = p->h + b * width;
        NAME(gru_back)(hidden, &x);
    } else {
        NAME(plain_back)(p, &x);
    }
    if (width != hidden) {
        T *read = AT(p->run, HIDDEN) + at * hidden;
        for (int64_t j = 0; j < hidden; j++)
            read[j] = x.gate[3 * hidden + j] * TANH(x.extra[j]);
    }
}

static void NAME(backward_step)(const NAME(pass) * p, int32_t step)
{
    const trp__rnn *n = p->n;
    const int64_t hidden = n->hidden, width = n->width, first = (int64_t)step * n->batch;
    const bool gru = n->mode == TRP_RNN_GRU;
    T *dh = AT(p->run, STEP), *dcells = dh, *product = AT(p->run, PRODUCT);
    const T *drest = (gru ? AT(p->run, DREST) : AT(p->run, DGATES)) + first * p->gates;
    NAME(gather_step)(p, step, dh);
    if (width != hidden) {
        dcells = AT(p->run, CELLS);
        memcpy(AT(p->run, DH) + first * width, dh, (size_t)n->batch * (size_t)width * sizeof(T));
        NAME(multiply)
        (p->run, false, false, n->batch, hidden, width, dh, p->w[TRP__RNN_W_HR], false, dcells);
    }
    for (int32_t b = 0; b < n->batch; b++) {
        if (step < p->run->length[b])
            NAME(backward_cell)(p, step, b, dcells);
    }
    NAME(multiply)
    (p->run, false, false, n->batch, width, p->gates, drest, p->w[TRP__RNN_W_HH], false, product);
    for (int32_t b = 0; b < n->batch; b++) {
        for (int64_t j = 0; j < width && step < p->run->length[b]; j++)
            p->h[b * width + j] = product[b * width + j] + (gru ? p->h[b * width + j] : 0);
    }
}

/* Adds up the columns of all steps. */
static void NAME(add_columns)(int64_t rows, int64_t columns, const T *from, T *to)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            to[j] += from[i * columns + j];
    }
}

/* Adds the contributions of all steps to the weights. */
static void NAME(backward_weights)(const NAME(pass) * p)
{
    const trp__rnn *n = p->n;
    const trp__rnn_run *run = p->run;
    const int64_t vectors = (int64_t)n->steps * n->batch;
    const T *dgates = AT(run, DGATES), *drest = n->mode == TRP_RNN_GRU ? AT(run, DREST) : dgates;
    T *dw[TRP__RNN_WEIGHT_PARTS];
    for (int i = 0; i < TRP__RNN_WEIGHT_PARTS; i++)
        dw[i] = AT(run, DW) + p->part[i].first;
    NAME(multiply)
    (run, true, false, p->gates, p->inputs, vectors, dgates, p->in, false, dw[TRP__RNN_W_IH]);
    NAME(multiply)
    (run, true, false, p->gates, n->width, vectors, drest, AT(run, BEFORE), false,
     dw[TRP__RNN_W_HH]);
    if (n->bias) {
        NAME(add_columns)(vectors, p->gates, dgates, dw[TRP__RNN_B_IH]);
        NAME(add_columns)(vectors, p->gates, drest, dw[TRP__RNN_B_HH]);
    }
    if (n->width != n->hidden)
        NAME(multiply)
    (run, true, false, n->width, n->hidden, vectors, AT(run, DH), AT(run, HIDDEN), false,
     dw[TRP__RNN_W_HR]);
}

static void NAME(backward_direction)(const NAME(pass) * p)
{
    const trp__rnn *n = p->n;
    const trp__rnn_run *run = p->run;
    const int64_t vectors = (int64_t)n->steps * n->batch;
    static const int zeroed[] = {TRP__RNN_AT_DGATES, TRP__RNN_AT_DREST, TRP__RNN_AT_BEFORE,
                                 TRP__RNN_AT_HIDDEN};
    const int64_t columns[] = {p->gates, p->gates, n->width, n->hidden};
    for (size_t i = 0; i < sizeof zeroed / sizeof *zeroed; i++) { /* cells after the ends */
        if (run->at[zeroed[i]])
            memset(run->at[zeroed[i]], 0, (size_t)vectors * (size_t)columns[i] * sizeof(T));
    }
    for (int32_t i = n->steps; i-- > 0;)
        NAME(backward_step)(p, NAME(step_of)(p, i));
    NAME(backward_weights)(p);
    NAME(multiply)
    (run, false, false, vectors, p->inputs, p->gates, AT(run, DGATES), p->w[TRP__RNN_W_IH],
     p->direction > 0, AT(run, DIN));
}

void NAME(trp__rnn_backward)(const trp__rnn_run *run)
{
    const trp__rnn *n = &run->n;
    const uint64_t between = trp__rnn_place_elements(n, TRP__RNN_y);
    for (int32_t layer = n->layers; layer-- > 0;) {
        const T *in = NAME(input_of)(run, layer);
        for (int direction = 0; direction < n->directions; direction++) {
            const NAME(pass) p = NAME(begin)(run, layer, direction, in);
            NAME(backward_direction)(&p);
        }
        for (uint64_t i = 0; i < between && layer > 0; i++)
            AT(run, DY)
        [i] = AT(run, DIN)[i] * (T)(n->dropout > 0 ? trp__rnn_keeps(n, layer, i) : 1);
    }
}
