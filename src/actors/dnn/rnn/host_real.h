/* The forward pass in one real type. host_f32.c and host_f64.c include this and
 * host_back.h, with macros: T, the type; NAME(x), x with a suffix of the type's own; GEMM, the
 * routine of CBLAS; EXP and TANH. */
#include "actors/dnn/rnn/host.h"

#include <math.h>
#include <string.h>

#define AT(run, array) ((T *)(run)->at[TRP__RNN_AT_##array])

/* Computes c = a * b + add * c in row-major order, with a or b optionally transposed: m x n, sums
 * of k terms. Leading dimensions are those of dense arrays, except that of c. */
static void NAME(multiply)(const trp__rnn_run *run, bool transpose_a, bool transpose_b, int64_t m,
                           int64_t n, int64_t k, const T *a, const T *b, bool add, T *c)
{
    run->blas->GEMM(TRP__CBLAS_COLUMN_MAJOR, transpose_b ? TRP__CBLAS_TRANS : TRP__CBLAS_NO_TRANS,
                    transpose_a ? TRP__CBLAS_TRANS : TRP__CBLAS_NO_TRANS, (int)n, (int)m, (int)k, 1,
                    b, (int)(transpose_b ? k : n), a, (int)(transpose_a ? m : k), add ? 1 : 0, c,
                    (int)n);
}

/* One layer in one direction. */
typedef struct NAME(pass) {
    const trp__rnn_run *run;
    const trp__rnn *n;
    int32_t layer;
    int direction;
    int64_t inputs, outputs, gates; /* elements of its input, of both directions' results, and of
                                     * all gates */
    const T *in;                    /* its input */
    T *results;                     /* of the layer, both directions */
    T *gate, *extra;                /* in the reserve */
    T *h, *c;                       /* the state; backward: its gradient */
    const T *h0, *c0;
    trp__rnn_part part[TRP__RNN_WEIGHT_PARTS];
    const T *w[TRP__RNN_WEIGHT_PARTS]; /* NULL: none */
} NAME(pass);

static T NAME(sigmoid)(T x)
{
    return 1 / (1 + EXP(-x));
}

/* Returns the step at position `i` in the order of a direction. */
static int32_t NAME(step_of)(const NAME(pass) * p, int32_t i)
{
    return p->direction ? p->n->steps - 1 - i : i;
}

static T *NAME(result_at)(const NAME(pass) * p, int32_t step, int32_t b)
{
    return p->results + ((int64_t)step * p->n->batch + b) * p->outputs +
           (int64_t)p->direction * p->n->width;
}

/* Returns a layer's input: x, or the previous layer's output after dropout. */
static const T *NAME(input_of)(const trp__rnn_run *run, int32_t layer)
{
    const trp__rnn *n = &run->n;
    if (layer == 0)
        return AT(run, X);
    const T *results = (const T *)run->reserve + trp__rnn_results_at(n, layer - 1);
    T *in = AT(run, IN);
    if (!in)
        return results;
    const uint64_t count = trp__rnn_place_elements(n, TRP__RNN_y);
    for (uint64_t i = 0; i < count; i++)
        in[i] = results[i] * (T)trp__rnn_keeps(n, layer, i);
    return in;
}

static NAME(pass) NAME(begin)(const trp__rnn_run *run, int32_t layer, int direction, const T *in)
{
    const trp__rnn *n = &run->n;
    const int64_t state = ((int64_t)layer * n->directions + direction) * n->batch;
    T *reserve = run->reserve;
    NAME(pass)
    p = {.run = run,
         .n = n,
         .layer = layer,
         .direction = direction,
         .inputs = trp__rnn_inputs(n, layer),
         .outputs = (int64_t)n->directions * n->width,
         .gates = (int64_t)trp__rnn_gates(n) * n->hidden,
         .in = in,
         .results = reserve + trp__rnn_results_at(n, layer),
         .gate = reserve + trp__rnn_gates_at(n, layer, direction),
         .extra = reserve + trp__rnn_extra_at(n, layer, direction),
         .h0 = AT(run, H0) + state * n->width,
         .h = AT(run, H1) + state * n->width};
    if (n->mode == TRP_RNN_LSTM) {
        p.c0 = AT(run, C0) + state * n->hidden;
        p.c = AT(run, C1) + state * n->hidden;
    }
    trp__rnn_parts(n, layer, direction, p.part);
    for (int i = 0; i < TRP__RNN_WEIGHT_PARTS; i++)
        p.w[i] = p.part[i].rows ? AT(run, W) + p.part[i].first : NULL;
    return p;
}

/* Computes one cell: `gate` has W x + b and becomes the gates; `rest` is R h + d; h becomes h', and
 * with a projection o * tanh(c'). */
static void NAME(cell)(const NAME(pass) * p, T *gate, const T *rest, T *c, T *extra, T *h)
{
    const int64_t count = p->n->hidden;
    for (int64_t j = 0; j < count; j++) {
        T *const g = gate + j;
        const T *const r = rest + j;
        if (p->n->mode == TRP_RNN_LSTM) {
            const T in = NAME(sigmoid)(g[0] + r[0]);
            const T forget = NAME(sigmoid)(g[count] + r[count]);
            const T fresh = TANH(g[2 * count] + r[2 * count]);
            const T out = NAME(sigmoid)(g[3 * count] + r[3 * count]);
            c[j] = extra[j] = forget * c[j] + in * fresh;
            h[j] = out * TANH(c[j]);
            g[0] = in;
            g[count] = forget;
            g[2 * count] = fresh;
            g[3 * count] = out;
        } else if (p->n->mode == TRP_RNN_GRU) {
            const T reset = NAME(sigmoid)(g[0] + r[0]);
            const T keep = NAME(sigmoid)(g[count] + r[count]);
            const T fresh = TANH(g[2 * count] + reset * r[2 * count]);
            extra[j] = r[2 * count];
            h[j] = (1 - keep) * fresh + keep * h[j];
            g[0] = reset;
            g[count] = keep;
            g[2 * count] = fresh;
        } else {
            const T sum = g[0] + r[0];
            h[j] = g[0] = p->n->mode == TRP_RNN_TANH ? TANH(sum) : sum > 0 ? sum : 0;
        }
    }
}

/* Computes one step of all sequences that have not ended. */
static void NAME(forward_step)(const NAME(pass) * p, int32_t step)
{
    const trp__rnn *n = p->n;
    const int64_t hidden = n->hidden, width = n->width, first = (int64_t)step * n->batch;
    T *rest = AT(p->run, PRODUCT), *cells = AT(p->run, CELLS);
    NAME(multiply)
    (p->run, false, true, n->batch, p->gates, width, p->h, p->w[TRP__RNN_W_HH], false, rest);
    for (int32_t b = 0; b < n->batch; b++) {
        T *r = rest + b * p->gates;
        if (step >= p->run->length[b])
            continue;
        for (int64_t j = 0; j < p->gates && n->bias; j++)
            r[j] += p->w[TRP__RNN_B_HH][j];
        NAME(cell)
        (p, p->gate + (first + b) * p->gates, r, p->c ? p->c + b * hidden : NULL,
         p->extra + (first + b) * hidden, width != hidden ? cells + b * hidden : p->h + b * width);
    }
    if (width != hidden) /* also for ended sequences, which have space only here */
        NAME(multiply)
    (p->run, false, true, n->batch, width, hidden, cells, p->w[TRP__RNN_W_HR], false, rest);
    for (int32_t b = 0; b < n->batch; b++) {
        T *result = NAME(result_at)(p, step, b);
        if (step >= p->run->length[b]) {
            memset(result, 0, (size_t)width * sizeof(T));
            continue;
        }
        if (width != hidden)
            memcpy(p->h + b * width, rest + b * width, (size_t)width * sizeof(T));
        memcpy(result, p->h + b * width, (size_t)width * sizeof(T));
    }
}

static void NAME(forward_direction)(const NAME(pass) * p)
{
    const trp__rnn *n = p->n;
    const int64_t vectors = (int64_t)n->steps * n->batch;
    memcpy(p->h, p->h0, (size_t)n->batch * (size_t)n->width * sizeof(T));
    if (p->c)
        memcpy(p->c, p->c0, (size_t)n->batch * (size_t)n->hidden * sizeof(T));
    for (int64_t i = 0; i < vectors && n->bias; i++)
        memcpy(p->gate + i * p->gates, p->w[TRP__RNN_B_IH], (size_t)p->gates * sizeof(T));
    NAME(multiply)
    (p->run, false, true, vectors, p->gates, p->inputs, p->in, p->w[TRP__RNN_W_IH], n->bias,
     p->gate);
    for (int32_t i = 0; i < n->steps; i++)
        NAME(forward_step)(p, NAME(step_of)(p, i));
}

void NAME(trp__rnn_forward)(const trp__rnn_run *run)
{
    for (int32_t layer = 0; layer < run->n.layers; layer++) {
        const T *in = NAME(input_of)(run, layer);
        for (int direction = 0; direction < run->n.directions; direction++) {
            const NAME(pass) p = NAME(begin)(run, layer, direction, in);
            NAME(forward_direction)(&p);
        }
    }
}
