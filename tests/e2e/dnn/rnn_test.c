/* Dropout in recurrent networks, of which the reference of tests/conformance knows nothing: how
 * much is dropped, that the same is in every run, and gradients against differences of what is
 * computed forward. SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST("one isolation");

enum { RESERVE = 1 << 20 };

static h_world world;
static trp_actor *dnn;

static void open_world(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
}

static void await(trp_status sent, trp_completion done)
{
    H_OK(sent);
    H_OK(h_await_any(done));
}

static void forward(trp_rnn_request r, bool training)
{
    trp_completion done = {0};
    r.training = training;
    if (!training)
        r.reserve.buffer.id = 0;
    r.dy = r.dx = r.dw = r.dh0 = (trp_rnn_place){0};
    await(trp_rnn_forward(dnn, &r, &done), done);
}

static void backward(trp_rnn_request r)
{
    trp_completion done = {0};
    await(trp_rnn_backward(dnn, &r, &done), done);
}

/* --- what is dropped --- */

/* The second layer hands on what it reads. */
static void dropouts(void)
{
    enum { WIDE = 16, STEPS = 40, BATCH = 10, ALL = STEPS * BATCH * WIDE };
    static float w[4 * WIDE * WIDE], x[ALL], y[ALL], again[ALL];
    open_world();
    for (int i = 0; i < WIDE; i++) /* w_ih of both layers */
        w[i * WIDE + i] = w[2 * WIDE * WIDE + i * WIDE + i] = 1;
    for (int i = 0; i < ALL; i++)
        x[i] = 1;
    trp_rnn_request r = {.net = {.mode = TRP_RNN_RELU,
                                 .type = TRP_F32,
                                 .input = WIDE,
                                 .hidden = WIDE,
                                 .layers = 2,
                                 .no_bias = true,
                                 .dropout = 0.25,
                                 .seed = ref_rng_next(h_rng())},
                         .steps = STEPS,
                         .batch = BATCH};
    r.x.buffer = h_buffer(world.device, sizeof x);
    r.w.buffer = h_buffer(world.device, sizeof w);
    r.y.buffer = h_buffer(world.device, sizeof y);
    r.reserve.buffer = h_buffer(world.device, RESERVE);
    h_write(world.device, r.x.buffer, 0, x, sizeof x);
    h_write(world.device, r.w.buffer, 0, w, sizeof w);
    for (int round = 0; round < 3; round++) {
        double gone = 0;
        r.net.seed += round == 2;
        forward(r, true);
        h_read(world.device, r.y.buffer, 0, y, sizeof y);
        for (int i = 0; i < ALL; i++) {
            if (y[i] != 0 && fabs(y[i] - 1 / 0.75) > 1e-3)
                h_fail(__FILE__, __LINE__, "element %d is %g", i, (double)y[i]);
            gone += y[i] == 0;
        }
        H_CHECK(fabs(gone / ALL - 0.25) < 0.04);
        H_CHECK(round == 0 || (memcmp(y, again, sizeof y) == 0) == (round == 1));
        memcpy(again, y, sizeof y);
    }
    forward(r, false); /* not in inference */
    h_read(world.device, r.y.buffer, 0, y, sizeof y);
    H_SAME(y, x, sizeof y);
    h_close(&world);
}

/* --- gradients --- */

enum { STEPS = 4, BATCH = 3, INPUT = 5, HIDDEN = 6, LAYERS = 3, MOST = 4096 };

/* An array of f64, and a direction to move it in. */
typedef struct array {
    trp_buffer buffer;
    size_t count;
    double v[MOST], direction[MOST];
} array;

static void fill(array *a, size_t count)
{
    H_CHECK(count <= MOST);
    a->count = count;
    a->buffer = h_buffer(world.device, count * sizeof(double));
    for (size_t i = 0; i < count; i++) {
        a->v[i] = ref_rng_uniform(h_rng(), -0.6, 0.6);
        a->direction[i] = ref_rng_uniform(h_rng(), -1, 1);
    }
    h_write(world.device, a->buffer, 0, a->v, count * sizeof(double));
}

/* <y, dy> with all that is read a step away along its direction. */
static double along(const trp_rnn_request *r, array *const in[3], const array *dy, double step)
{
    static double moved[MOST];
    double loss = 0;
    for (int k = 0; k < 3; k++) {
        for (size_t i = 0; i < in[k]->count; i++)
            moved[i] = in[k]->v[i] + step * in[k]->direction[i];
        h_write(world.device, in[k]->buffer, 0, moved, in[k]->count * sizeof *moved);
    }
    forward(*r, true);
    h_read(world.device, r->y.buffer, 0, moved, dy->count * sizeof *moved);
    for (size_t i = 0; i < dy->count; i++)
        loss += moved[i] * dy->v[i];
    return loss;
}

/* Rectifiers have no slope at 0. */
static void slopes(void)
{
    static array x, w, h0, dy, gradient[3];
    array *const in[] = {&x, &w, &h0};
    open_world();
    for (int i = 0; i < (H_SANITIZED ? 6 : 24); i++) {
        const trp_rnn_mode modes[] = {TRP_RNN_TANH, TRP_RNN_LSTM, TRP_RNN_GRU};
        const int64_t ways = 1 + i / 3 % 2;
        const double step = 1e-5;
        uint64_t weights;
        double slope = 0, size = 1;
        trp_rnn_request r = {.net = {.mode = modes[i % 3],
                                     .type = TRP_F64,
                                     .input = INPUT,
                                     .hidden = HIDDEN,
                                     .layers = LAYERS,
                                     .bidirectional = ways == 2,
                                     .dropout = 0.4,
                                     .seed = (uint64_t)i},
                             .steps = STEPS,
                             .batch = BATCH};
        H_OK(trp_rnn_weight_count(&r.net, &weights));
        fill(&x, STEPS * BATCH * INPUT), fill(&w, weights);
        fill(&h0, (size_t)(LAYERS * ways * BATCH * HIDDEN));
        fill(&dy, (size_t)(STEPS * BATCH * HIDDEN * ways));
        for (int k = 0; k < 3; k++)
            fill(&gradient[k], in[k]->count);
        r.x.buffer = x.buffer, r.w.buffer = w.buffer, r.h0.buffer = h0.buffer;
        r.dy.buffer = dy.buffer, r.dx.buffer = gradient[0].buffer;
        r.dw.buffer = gradient[1].buffer, r.dh0.buffer = gradient[2].buffer;
        r.y.buffer = h_buffer(world.device, dy.count * sizeof(double));
        r.reserve.buffer = h_buffer(world.device, RESERVE);
        forward(r, true);
        backward(r);
        for (int k = 0; k < 3; k++) {
            array *g = &gradient[k];
            h_read(world.device, g->buffer, 0, g->v, g->count * sizeof *g->v);
            for (size_t e = 0; e < g->count; e++) {
                slope += g->v[e] * in[k]->direction[e];
                size += fabs(g->v[e] * in[k]->direction[e]);
            }
        }
        const double difference =
            (along(&r, in, &dy, step) - along(&r, in, &dy, -step)) / (2 * step);
        if (!(fabs(difference - slope) <= 1e-7 * size))
            h_fail(__FILE__, __LINE__, "mode %d: slope %.12g, difference %.12g", (int)r.net.mode,
                   slope, difference);
    }
    h_close(&world);
}

H_CASES(H_CASE(dropouts), H_CASE(slopes))
