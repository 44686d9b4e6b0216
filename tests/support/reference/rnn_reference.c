#include "support/reference/rnn_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number on the tape: its dependence on two others, by index; 0 is the constant 0, which depends
 * on nothing. */
typedef struct number {
    double v, gradient;
    uint32_t parent[2];
    double slope[2];
} number;

typedef struct tape {
    number *at;
    size_t count, room;
} tape;

typedef struct run {
    rr_problem *p;
    tape t;
    size_t width, directions, gates;
    uint32_t *w; /* indices of all weights */
    /* of x, or of the outputs of the previous layer: in the layout of x, with steps x batch vectors
     */
    uint32_t *x;
    size_t inputs;
} run;

static uint32_t note(tape *t, double v, uint32_t a, double by_a, uint32_t b, double by_b)
{
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 1 << 16;
        t->at = realloc(t->at, t->room * sizeof *t->at);
        if (!t->at || t->room > UINT32_MAX / 2) {
            fprintf(stderr, "rnn_reference: %zu numbers\n", t->room);
            abort();
        }
    }
    t->at[t->count] = (number){.v = v, .parent = {a, b}, .slope = {by_a, by_b}};
    return (uint32_t)t->count++;
}

static double value(const tape *t, uint32_t a)
{
    return t->at[a].v;
}

static uint32_t constant(tape *t, double v)
{
    return note(t, v, 0, 0, 0, 0);
}

static uint32_t sum(tape *t, uint32_t a, uint32_t b)
{
    return note(t, value(t, a) + value(t, b), a, 1, b, 1);
}

static uint32_t product(tape *t, uint32_t a, uint32_t b)
{
    return note(t, value(t, a) * value(t, b), a, value(t, b), b, value(t, a));
}

static uint32_t one_minus(tape *t, uint32_t a)
{
    return note(t, 1 - value(t, a), a, -1, 0, 0);
}

/* By exponentials, not by the functions that the actor calls. */
static uint32_t sigmoid(tape *t, uint32_t a)
{
    const double e = exp(-fabs(value(t, a)));
    return note(t, value(t, a) >= 0 ? 1 / (1 + e) : e / (1 + e), a, e / ((1 + e) * (1 + e)), 0, 0);
}

static uint32_t tangent(tape *t, uint32_t a)
{
    const double e = exp(-2 * fabs(value(t, a))), v = (1 - e) / (1 + e);
    return note(t, value(t, a) >= 0 ? v : -v, a, 4 * e / ((1 + e) * (1 + e)), 0, 0);
}

static uint32_t rectified(run *r, uint32_t a)
{
    const double v = value(&r->t, a);
    r->p->kink = fmin(r->p->kink, fabs(v));
    return note(&r->t, v > 0 ? v : 0, a, v > 0 ? 1 : 0, 0, 0);
}

/* Offsets of the weights of one layer and direction, one parameter after another. */
typedef struct parameters {
    const uint32_t *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
} parameters;

static const uint32_t *take(const uint32_t **next, size_t count)
{
    const uint32_t *at = *next;
    *next += count;
    return at;
}

static parameters next_parameters(const run *r, const uint32_t **next)
{
    const trp_rnn *net = &r->p->net;
    const size_t rows = r->gates * (size_t)net->hidden;
    parameters all = {.w_ih = take(next, rows * r->inputs), .w_hh = take(next, rows * r->width)};
    if (!net->no_bias) {
        all.b_ih = take(next, rows);
        all.b_hh = take(next, rows);
    }
    if (net->projection)
        all.w_hr = take(next, r->width * (size_t)net->hidden);
    return all;
}

/* Returns the product of a row and a vector, plus the bias. */
static uint32_t row(run *r, const uint32_t *matrix, size_t at, size_t count, const uint32_t *vector,
                    const uint32_t *bias)
{
    uint32_t s = bias ? bias[at] : 0;
    for (size_t i = 0; i < count; i++)
        s = sum(&r->t, s, product(&r->t, matrix[at * count + i], vector[i]));
    return s;
}

/* W x + b + R h + d for row j of a gate. */
static uint32_t both(run *r, const parameters *w, size_t gate, size_t j, const uint32_t *x,
                     const uint32_t *h)
{
    const size_t at = gate * (size_t)r->p->net.hidden + j;
    return sum(&r->t, row(r, w->w_ih, at, r->inputs, x, w->b_ih),
               row(r, w->w_hh, at, r->width, h, w->b_hh));
}

static void lstm(run *r, const parameters *w, size_t j, const uint32_t *x, const uint32_t *h,
                 uint32_t *c, uint32_t *out)
{
    tape *t = &r->t;
    const uint32_t in = sigmoid(t, both(r, w, 0, j, x, h));
    const uint32_t forget = sigmoid(t, both(r, w, 1, j, x, h));
    const uint32_t fresh = tangent(t, both(r, w, 2, j, x, h));
    const uint32_t open = sigmoid(t, both(r, w, 3, j, x, h));
    *c = sum(t, product(t, forget, *c), product(t, in, fresh));
    *out = product(t, open, tangent(t, *c));
}

static uint32_t gru(run *r, const parameters *w, size_t j, const uint32_t *x, const uint32_t *h)
{
    tape *t = &r->t;
    const size_t at = 2 * (size_t)r->p->net.hidden + j;
    const uint32_t reset = sigmoid(t, both(r, w, 0, j, x, h));
    const uint32_t keep = sigmoid(t, both(r, w, 1, j, x, h));
    const uint32_t fresh =
        tangent(t, sum(t, row(r, w->w_ih, at, r->inputs, x, w->b_ih),
                       product(t, reset, row(r, w->w_hh, at, r->width, h, w->b_hh))));
    return sum(t, product(t, one_minus(t, keep), fresh), product(t, keep, h[j]));
}

/* Computes one step of one sequence: h and c become the next states. */
static void cell(run *r, const parameters *w, const uint32_t *x, uint32_t *h, uint32_t *c)
{
    const trp_rnn *net = &r->p->net;
    const size_t hidden = (size_t)net->hidden;
    uint32_t *next = calloc(hidden, sizeof *next);
    for (size_t j = 0; j < hidden; j++) {
        if (net->mode == TRP_RNN_LSTM)
            lstm(r, w, j, x, h, &c[j], &next[j]);
        else if (net->mode == TRP_RNN_GRU)
            next[j] = gru(r, w, j, x, h);
        else if (net->mode == TRP_RNN_TANH)
            next[j] = tangent(&r->t, both(r, w, 0, j, x, h));
        else
            next[j] = rectified(r, both(r, w, 0, j, x, h));
    }
    for (size_t j = 0; j < r->width; j++)
        h[j] = w->w_hr ? row(r, w->w_hr, j, hidden, next, NULL) : next[j];
    free(next);
}

static uint32_t *constants(run *r, const double *from, size_t count)
{
    uint32_t *to = calloc(count + 1, sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = from ? constant(&r->t, from[i]) : 0;
    return to;
}

static int64_t length_of(const rr_problem *p, int64_t b)
{
    return p->lengths ? p->lengths[b] : p->steps;
}

/* Returns the index of a vector in x or y. */
static size_t vector_at(const rr_problem *p, int64_t step, int64_t b)
{
    return (size_t)(p->batch_first ? b * p->steps + step : step * p->batch + b);
}

/* Adds the gradients of the loss <result, given>, and stores results. */
static void end(run *r, const uint32_t *n, double *result, const double *given, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (result)
            result[i] = value(&r->t, n[i]);
        if (given)
            r->t.at[n[i]].gradient += given[i];
    }
}

static void go_back(run *r)
{
    for (size_t i = r->t.count; i-- > 1;) {
        const number *n = &r->t.at[i];
        for (int k = 0; k < 2; k++)
            r->t.at[n->parent[k]].gradient += n->slope[k] * n->gradient;
    }
}

static void gradients(const run *r, const uint32_t *n, double *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = n[i] ? r->t.at[n[i]].gradient : 0;
}

/* Runs all layers; h and c become the last states. Leaves y in r->x. */
static void all_layers(run *r, uint32_t *h, uint32_t *c)
{
    const rr_problem *p = r->p;
    const uint32_t *next = r->w;
    const size_t outputs = r->directions * r->width;
    for (int64_t layer = 0; layer < (p->net.layers ? p->net.layers : 1); layer++) {
        uint32_t *y = calloc(rr_vectors(p, (int64_t)outputs), sizeof *y);
        for (size_t d = 0; d < r->directions; d++) {
            const parameters w = next_parameters(r, &next);
            for (int64_t b = 0; b < p->batch; b++) {
                const size_t state =
                    ((size_t)layer * r->directions + d) * (size_t)p->batch + (size_t)b;
                uint32_t *own = h + state * r->width, *own_c = c + state * (size_t)p->net.hidden;
                for (int64_t i = 0; i < length_of(p, b); i++) {
                    const size_t at = vector_at(p, d ? length_of(p, b) - 1 - i : i, b);
                    cell(r, &w, r->x + at * r->inputs, own, own_c);
                    memcpy(y + at * outputs + d * r->width, own, r->width * sizeof *y);
                }
            }
        }
        free(r->x);
        r->x = y;
        r->inputs = outputs;
    }
}

size_t rr_outputs(const trp_rnn *net)
{
    return (size_t)(net->projection ? net->projection : net->hidden) * (net->bidirectional ? 2 : 1);
}

size_t rr_vectors(const rr_problem *p, int64_t elements)
{
    return (size_t)(p->steps * p->batch * elements);
}

size_t rr_states(const rr_problem *p, bool c)
{
    const size_t cells = (size_t)(p->net.layers ? p->net.layers : 1) *
                         (p->net.bidirectional ? 2 : 1) * (size_t)p->batch;
    return cells * (size_t)(c || !p->net.projection ? p->net.hidden : p->net.projection);
}

void rr_run(rr_problem *p)
{
    run r = {.p = p,
             .width = (size_t)(p->net.projection ? p->net.projection : p->net.hidden),
             .directions = p->net.bidirectional ? 2 : 1,
             .gates = p->net.mode == TRP_RNN_LSTM  ? 4
                      : p->net.mode == TRP_RNN_GRU ? 3
                                                   : 1,
             .inputs = (size_t)p->net.input};
    const size_t xs = rr_vectors(p, p->net.input), hs = rr_states(p, false),
                 cs = rr_states(p, true), ys = rr_vectors(p, (int64_t)rr_outputs(&p->net));
    uint64_t weights;
    if (trp_rnn_weight_count(&p->net, &weights) != TRP_OK)
        abort();
    constant(&r.t, 0);
    p->kink = HUGE_VAL;
    uint32_t *x = constants(&r, p->x, xs);
    r.w = constants(&r, p->w, weights);
    r.x = calloc(xs + 1, sizeof *r.x);
    memcpy(r.x, x, xs * sizeof *x);
    uint32_t *h0 = constants(&r, p->h0, hs), *h = calloc(hs + 1, sizeof *h);
    uint32_t *c0 = constants(&r, p->c0, cs), *c = calloc(cs + 1, sizeof *c);
    for (size_t i = 0; i < hs && !p->h0; i++) /* their gradients may be requested as well */
        h0[i] = constant(&r.t, 0);
    for (size_t i = 0; i < cs && !p->c0; i++)
        c0[i] = constant(&r.t, 0);
    memcpy(h, h0, hs * sizeof *h);
    memcpy(c, c0, cs * sizeof *c);
    all_layers(&r, h, c);
    end(&r, r.x, p->y, p->dy, ys);
    end(&r, h, p->h1, p->dh1, hs);
    end(&r, c, p->c1, p->dc1, cs);
    if (p->dx) {
        go_back(&r);
        gradients(&r, x, p->dx, xs);
        gradients(&r, h0, p->dh0, hs);
        gradients(&r, c0, p->dc0, cs);
        gradients(&r, r.w, p->dw, weights);
    }
    free(x);
    free(r.w);
    free(r.x);
    free(h0);
    free(h);
    free(c0);
    free(c);
    free(r.t.at);
}
