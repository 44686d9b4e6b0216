/* Measures recurrent networks, forward and backward, against the figures of PyTorch's cuDNN calls
 * if given. */
#include "rows.h"
#include "bench/suite/filled.h"

#include <troupe/rnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef struct rnn_shape {
    trp_rnn_mode mode;
    int64_t width, layers, steps, batch; /* width: inputs and state elements */
    bool bidirectional;
} rnn_shape;

/* The shapes of bench/peers/torch_dnn.py: one wide layer, and two bidirectional layers. */
static const rnn_shape shapes[] = {{TRP_RNN_LSTM, 1024, 1, 50, 64, false},
                                   {TRP_RNN_LSTM, 512, 2, 100, 64, true},
                                   {TRP_RNN_GRU, 1024, 1, 50, 64, false},
                                   {TRP_RNN_GRU, 512, 2, 100, 64, true}};

/* For the host backend. */
static const rnn_shape small[] = {{TRP_RNN_LSTM, 16, 2, 4, 3, true},
                                  {TRP_RNN_GRU, 16, 1, 4, 3, false}};

static const struct {
    const char *name;
    trp_dtype type;
    bool tf32;
} types[] = {{"f16", TRP_F16, false}, {"tf32", TRP_F32, true}, {"f32", TRP_F32, false}};

enum { X, DY, W, Y, DX, DW, RESERVE, BUFFERS }; /* inputs up to W */

typedef struct rnn {
    suite *suite;
    trp_actor *actor;
    rnn_shape what;
    size_t type; /* index into types[] */
    bool backward;
    trp_buffer buffer[BUFFERS];
} rnn;

static int64_t directions(const rnn *n)
{
    return n->what.bidirectional ? 2 : 1;
}

/* Counts each gate's products with input and state; backward those with both gradients and for both
 * weight gradients. */
static double flop_of(const rnn *n)
{
    const rnn_shape *x = &n->what;
    double gates = x->mode == TRP_RNN_LSTM ? 4 : 3, sum = 0;
    for (int64_t i = 0; i < x->layers; i++) {
        double inputs = (double)(i == 0 ? x->width : directions(n) * x->width);
        sum += gates * (double)x->width * (inputs + (double)x->width);
    }
    double forward = 2 * sum * (double)(directions(n) * x->steps * x->batch);
    return n->backward ? 2 * forward : forward;
}

static void name_of(const rnn *n, char *out, size_t size)
{
    const rnn_shape *x = &n->what;
    snprintf(out, size, "%s %s h%d l%d%s t%d b%d %s", x->mode == TRP_RNN_LSTM ? "lstm" : "gru",
             types[n->type].name, (int)x->width, (int)x->layers, x->bidirectional ? " bi" : "",
             (int)x->steps, (int)x->batch, n->backward ? "bwd" : "fwd");
}

static trp_rnn_request request_of(const rnn *n)
{
    const rnn_shape *x = &n->what;
    trp_rnn_request r = {.header = {.wait_ns = TRP_FOREVER},
                         .net = {.mode = x->mode,
                                 .type = types[n->type].type,
                                 .input = x->width,
                                 .hidden = x->width,
                                 .layers = x->layers,
                                 .bidirectional = x->bidirectional},
                         .steps = x->steps,
                         .batch = x->batch,
                         .tf32 = types[n->type].tf32,
                         .x = {.buffer = n->buffer[X]},
                         .w = {.buffer = n->buffer[W]},
                         .y = {.buffer = n->buffer[Y]}};
    return r;
}

/* Fills the piece with random numbers of either sign whose magnitude lies between 2^-(down + 1) and
 * 2^-down. */
static void make_piece(const rnn *n, unsigned down, unsigned char *piece)
{
    const bool half = types[n->type].type == TRP_F16;
    for (size_t i = 0; i < FILLED_PIECE / 2; i += half ? 1 : 2) {
        const uint64_t random = suite_random(n->suite->seed, i);
        const uint16_t bits16 = (uint16_t)((random & 0x83ff) | (14 - down) << 10);
        const uint32_t bits32 = (uint32_t)((random & 0x807fffff) | (126 - down) << 23);
        if (half)
            memcpy(piece + i * 2, &bits16, sizeof bits16);
        else
            memcpy(piece + i * 2, &bits32, sizeof bits32);
    }
}

static bool make_buffers(rnn *n, unsigned char *piece, uint64_t reserve)
{
    const rnn_shape *x = &n->what;
    const trp_rnn_request r = request_of(n);
    const uint64_t size = trp_dtype_bits(r.net.type) / 8;
    uint64_t weights = 0;
    if (!suite_check(n->suite, trp_rnn_weight_count(&r.net, &weights), "trp_rnn_weight_count"))
        return false;
    const uint64_t in = (uint64_t)(x->steps * x->batch * x->width) * size;
    const uint64_t out = in * (uint64_t)directions(n);
    const uint64_t bytes[BUFFERS] = {[X] = in,           [DY] = out, [W] = weights * size,
                                     [Y] = out,          [DX] = in,  [DW] = weights * size,
                                     [RESERVE] = reserve};
    bool good = true;
    for (int i = 0; i < BUFFERS && good; i++) {
        if (i == X || i == W) /* weights about as large as PyTorch's initial ones */
            make_piece(n, i == X ? 0 : 5, piece);
        good = filled_buffer(n->suite, i <= W ? piece : NULL, bytes[i], &n->buffer[i]);
    }
    return good;
}

static bool begin(rnn *n)
{
    uint64_t reserve = 0;
    trp_completion done = {0};
    trp_rnn_request r = request_of(n);
    unsigned char *piece = malloc(FILLED_PIECE);
    r.training = true;
    r.reserve_bytes = &reserve;
    bool good =
        piece &&
        suite_await(n->suite, trp_rnn_reserve(n->actor, &r, &done), &done, "trp_rnn_reserve") &&
        make_buffers(n, piece, reserve);
    free(piece);
    return good;
}

static void end(rnn *n)
{
    suite_free(n->suite, n->buffer, BUFFERS);
}

static trp_status send(rnn *n, bool backward, bool training, trp_completion *completion)
{
    trp_rnn_request r = request_of(n);
    r.header.deadline_ns = completion ? DNN_LONGEST_NS : 0;
    r.training = training;
    if (training || backward)
        r.reserve.buffer = n->buffer[RESERVE];
    if (!backward)
        return trp_rnn_forward(n->actor, &r, completion);
    r.dy.buffer = n->buffer[DY];
    r.dx.buffer = n->buffer[DX];
    r.dw.buffer = n->buffer[DW];
    return trp_rnn_backward(n->actor, &r, completion);
}

static bool run(void *context, uint64_t count)
{
    rnn *n = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(n->suite, send(n, n->backward, false, NULL), "a network"))
            return false;
    }
    return suite_drain(n->suite, DNN_LONGEST_NS);
}

/* Runs forward in training mode, which the gradient requires. */
static bool run_first(rnn *n)
{
    trp_completion done = {0};
    return suite_await(n->suite, send(n, false, n->backward, &done), &done, "a network");
}

static void measure(const dnn_rows *rows, rnn *n)
{
    char name[sizeof((report_row *)0)->name];
    report_row row;
    const dnn_work work = {.name = name,
                           .type = types[n->type].type,
                           .flop = flop_of(n),
                           .side = {.run = run, .context = n}};
    name_of(n, name, sizeof name);
    if (run_first(n))
        dnn_rows_measure(rows, &work, &row);
    else
        suite_fail(n->suite, name);
}

static void run_shape(void *context, trp_actor *actor, size_t i)
{
    const dnn_rows *rows = context;
    const rnn_shape *all = suite_on_gpu(rows->suite) ? shapes : small;
    rnn n = {.suite = rows->suite,
             .actor = actor,
             .what = all[i / COUNT_OF(types)],
             .type = i % COUNT_OF(types)};
    bool good = begin(&n);
    if (!good)
        suite_fail(n.suite, "buffers");
    for (int pass = 0; good && pass < 2 && !dnn_rows_late(rows); pass++) {
        n.backward = pass == 1;
        measure(rows, &n);
    }
    end(&n);
}

void suite_dnn_rnn(suite *s)
{
    const size_t count = COUNT_OF(types) * (suite_on_gpu(s) ? COUNT_OF(shapes) : COUNT_OF(small));
    dnn_rows rows = dnn_rows_begin(s);
    report_section(s->report, "Recurrent networks: LSTM and GRU",
                   "raw: PyTorch with cuDNN, of --torch FILE; Troupe: submit all, then drain");
    dnn_rows_run(&rows, count, run_shape, &rows);
}
