/* Recurrent networks that are wrong: each error names the field, what was expected and what came,
 * before anything is sent, but that of a reserve that is too small.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <math.h>

enum { BYTES = 1 << 20, BUFFERS = 15, BATCH = 4 };

static h_world world;
static trp_actor *dnn;
static trp_buffer buffer[BUFFERS];
static int32_t lengths[BATCH];
static uint64_t answer;

static void open_world(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    for (int i = 0; i < BUFFERS; i++)
        buffer[i] = h_filled(world.device, BYTES, 0);
}

/* A good one: a pass forward in training, or one back. */
static trp_rnn_request make(bool backward)
{
    trp_rnn_request r = {.net = {.mode = TRP_RNN_LSTM,
                                 .type = TRP_F32,
                                 .input = 5,
                                 .hidden = 6,
                                 .projection = 3,
                                 .layers = 2,
                                 .bidirectional = true},
                         .steps = 7,
                         .batch = BATCH,
                         .lengths = lengths,
                         .training = true,
                         .x = {buffer[0], 0},
                         .w = {buffer[1], 0},
                         .h0 = {buffer[2], 0},
                         .c0 = {buffer[3], 0},
                         .y = {buffer[4], 0},
                         .reserve = {buffer[5], 0}};
    for (int i = 0; i < BATCH; i++)
        lengths[i] = 7 - i;
    if (backward) {
        r.dy.buffer = buffer[6];
        r.dh1.buffer = buffer[7];
        r.dc1.buffer = buffer[8];
        r.dx.buffer = buffer[9];
        r.dh0.buffer = buffer[10];
        r.dc0.buffer = buffer[11];
        r.dw.buffer = buffer[12];
    } else {
        r.h1.buffer = buffer[13];
        r.c1.buffer = buffer[14];
    }
    return r;
}

/* What is done to a good request r, and what is said of it; of both passes. */
#define BAD_CASES(BAD)                                                                             \
    BAD("net.type: expected f64, f32, f16 or bf16, got i8", r.net.type = TRP_I8)                   \
    BAD("net.type: expected f64, f32, f16 or bf16, got none (0)", r.net.type = TRP_DTYPE_NONE)     \
    BAD("net.input: expected 1 to 2147483647, got 0", r.net.input = 0)                             \
    BAD("net.hidden: expected 1 to 2147483647, got -3", r.net.hidden = -3)                         \
    BAD("net.layers: expected 0 to 2147483647, got -1", r.net.layers = -1)                         \
    BAD("net.layers: expected 0 to 2147483647, got 2147483648", r.net.layers = INT64_C(1) << 31)   \
    BAD("net.projection: expected 0 to 5, less than hidden, got 6", r.net.projection = 6)          \
    BAD("net.projection: expected 0 to 5, less than hidden, got -1", r.net.projection = -1)        \
    BAD("net.projection: expected 0, for only an LSTM has one, got 3", r.net.mode = TRP_RNN_GRU)   \
    BAD("net.dropout: expected 0 to less than 1, got 1", r.net.dropout = 1)                        \
    BAD("net.dropout: expected 0 to less than 1, got -0.5", r.net.dropout = -0.5)                  \
    BAD("net.dropout: expected 0 to less than 1, got", r.net.dropout = NAN)                        \
    BAD("net: expected less than 2^40 weights", r.net.hidden = INT32_MAX)                          \
    BAD("net: expected less than 2^40 weights", r.net.layers = INT32_MAX)                          \
    BAD("steps: expected 1 to 2147483647, got 0", r.steps = 0)                                     \
    BAD("batch: expected 1 to 2147483647, got 0", r.batch = 0)                                     \
    BAD("steps: expected less than 2^40 elements", r.steps = INT32_MAX)                            \
    BAD("lengths[2]: expected 1 to 7, got 0", lengths[2] = 0)                                      \
    BAD("lengths[3]: expected 1 to 7, got 8", lengths[3] = 8)                                      \
    BAD("reserve: expected a buffer", r.reserve.buffer.id = 0)                                     \
    BAD("c0: expected none, for only an LSTM has such a state",                                    \
        (r.net.mode = TRP_RNN_GRU, r.net.projection = 0))                                          \
    BAD("h0.offset: expected 0, for it has no buffer, got 16",                                     \
        (r.h0.buffer.id = 0, r.h0.offset = 16))                                                    \
    BAD("x_offset: expected a multiple of 16", r.x.offset = 8)                                     \
    BAD("reserve_offset: expected a multiple of 256", r.reserve.offset = 128)                      \
    BAD("x: the request needs bytes", r.x.offset = BYTES - 16)                                     \
    BAD("w: the request needs bytes", r.w.offset = UINT64_MAX - 15)                                \
    BAD("reserve_bytes: expected NULL", r.reserve_bytes = &answer)

#define BAD_FORWARD(BAD)                                                                           \
    BAD("reserve: expected none in a forward pass without training", r.training = false)           \
    BAD("dy: expected none in a forward pass", r.dy.buffer = buffer[6])                            \
    BAD("dw: expected none in a forward pass", r.dw.buffer = buffer[6])                            \
    BAD("y: it overlaps x, and is written", r.y.buffer = buffer[0])                                \
    BAD("h1: it overlaps h0, and is written", r.h1.buffer = buffer[2])                             \
    BAD("y: it overlaps reserve, and is written", (r.y.buffer = buffer[5], r.y.offset = BYTES / 2))

#define BAD_BACKWARD(BAD)                                                                          \
    BAD("h1: expected none in a backward pass", r.h1.buffer = buffer[13])                          \
    BAD("c1: expected none in a backward pass", r.c1.buffer = buffer[13])                          \
    BAD("dx: expected a buffer, or one of dh0, dc0 and dw",                                        \
        r.dx.buffer.id = r.dh0.buffer.id = r.dc0.buffer.id = r.dw.buffer.id = 0)                   \
    BAD("dx: it overlaps dy, and is written", r.dx.buffer = buffer[6])                             \
    BAD("dx: it overlaps reserve, and is written",                                                 \
        (r.dx.buffer = buffer[5], r.dx.offset = BYTES / 2))

static void check(bool backward, int which, const char *says, const trp_rnn_request *r)
{
    trp_completion c = {.future = {7}};
    trp_status status = backward ? trp_rnn_backward(dnn, r, &c) : trp_rnn_forward(dnn, r, &c);
    if (status != TRP_E_ARGUMENT)
        printf("  case %d of %s\n", which, backward ? "backward" : "forward");
    H_IS(status, TRP_E_ARGUMENT);
    H_SAYS(says);
    H_EQUAL(c.future.id, 7);
}

static void wrong_requests(void)
{
    open_world();
    for (int backward = 0; backward < 2; backward++) {
        int at = 0;
#define TRY(says, change)                                                                          \
    {                                                                                              \
        trp_rnn_request r = make(backward);                                                        \
        change;                                                                                    \
        check(backward, at++, says, &r);                                                           \
    }
        BAD_CASES(TRY)
        if (backward) {
            BAD_BACKWARD(TRY)
        } else {
            BAD_FORWARD(TRY)
        }
#undef TRY
    }
    /* Good ones are. */
    trp_completion done = {0};
    trp_rnn_request r = make(false);
    H_OK(trp_rnn_forward(dnn, &r, &done));
    H_OK(h_await_any(done));
    r = make(true);
    H_OK(trp_rnn_backward(dnn, &r, &done));
    H_OK(h_await_any(done));
    h_close(&world);
}

static void reserves(void)
{
    trp_completion done = {0}, c = {.future = {7}};
    open_world();
    trp_rnn_request r = make(false);
    H_IS(trp_rnn_reserve(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("reserve_bytes: expected where to put the answer, got NULL");
    r.reserve_bytes = &answer;
    H_OK(trp_rnn_reserve(dnn, &r, &done));
    H_OK(h_await_any(done));
    H_CHECK(answer > 0 && answer < BYTES);
    r.reserve_bytes = NULL;
    for (int backward = 0; backward < 2; backward++) {
        r = make(backward);
        r.lengths = NULL;
        r.reserve.offset = BYTES - (answer & ~UINT64_C(255));
        if (answer % 256 == 0)
            r.reserve.offset += 256;
        H_OK(backward ? trp_rnn_backward(dnn, &r, &done) : trp_rnn_forward(dnn, &r, &done));
        trp_error error;
        H_IS(h_await(done.future, &error), TRP_E_ARGUMENT);
        H_CHECK(strstr(error.message, "reserve: expected") != NULL);
    }
    /* As many lengths as go with a request. */
    enum { MANY = 16385 };
    int32_t *many = calloc(MANY, sizeof *many);
    r = make(false);
    r.batch = MANY;
    r.lengths = many;
    H_IS(trp_rnn_forward(dnn, &r, &c), TRP_E_UNSUPPORTED);
    H_SAYS("lengths: expected at most 16384 of them, got a batch of 16385");
    free(many);
    h_close(&world);
}

static void weight_counts(void)
{
    uint64_t count;
    trp_rnn net = {.mode = TRP_RNN_LSTM, .type = TRP_F32, .input = 5, .hidden = 7};
    H_OK(trp_rnn_weight_count(&net, &count));
    H_EQUAL(count, 4 * 7 * (5 + 7 + 2));
    net.bidirectional = true;
    net.layers = 3;
    net.projection = 2;
    H_OK(trp_rnn_weight_count(&net, &count));
    H_EQUAL(count, 2 * (4 * 7 * (5 + 2 + 2) + 2 * 7) + 4 * (4 * 7 * (4 + 2 + 2) + 2 * 7));
    net = (trp_rnn){.mode = TRP_RNN_GRU, .type = TRP_F16, .input = 5, .hidden = 7, .no_bias = true};
    H_OK(trp_rnn_weight_count(&net, &count));
    H_EQUAL(count, 3 * 7 * (5 + 7));
    net.hidden = 0;
    H_IS(trp_rnn_weight_count(&net, &count), TRP_E_ARGUMENT);
    H_SAYS("net.hidden: expected 1 to 2147483647, got 0");
    H_EQUAL(count, 0);
}

H_CASES(H_CASE(wrong_requests), H_CASE(reserves), H_CASE(weight_counts))
