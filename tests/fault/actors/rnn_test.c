/* A recurrent network is trained while workers die: each request whose outputs are not its inputs
 * runs again on the next worker, with the same elements dropped out, so that the weights are the
 * same to the bit as without any death. SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"
#include "support/label.h"

#include <troupe/layers.h>

TROUPE_TEST("many workers");

enum { BATCH = 6, LENGTH = 12, INPUT = 5, HIDDEN = 8, OUTPUTS = 2 * HIDDEN };
enum { STEPS = 20, AT_ONCE = 5, REQUESTS = 4 /* of a step */ };

/* Weights are there twice, for a step reads the old ones and writes the new ones. */
enum { X, WANTED, H0, Y, OFF, DW, RESERVE, W, NEXT, BUFFERS };

typedef struct net {
    h_world world;
    trp_actor *dnn;
    trp_buffer buffer[BUFFERS];
    uint64_t weights;
    trp_completion done[AT_ONCE * REQUESTS];
    size_t sent;
} net;

static const int32_t lengths[BATCH] = {12, 3, 7, 12, 1, 9};

static trp_rnn_request request_of(const net *n)
{
    return (trp_rnn_request){.net = {.mode = TRP_RNN_GRU,
                                     .type = TRP_F32,
                                     .input = INPUT,
                                     .hidden = HIDDEN,
                                     .layers = 2,
                                     .bidirectional = true,
                                     .dropout = 0.2,
                                     .seed = 5},
                             .steps = LENGTH,
                             .batch = BATCH,
                             .lengths = lengths,
                             .training = true,
                             .x = {n->buffer[X], 0},
                             .h0 = {n->buffer[H0], 0},
                             .y = {n->buffer[Y], 0},
                             .reserve = {n->buffer[RESERVE], 0}};
}

static trp_buffer random_buffer(const net *n, size_t count, double size)
{
    float *data = h_malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)ref_rng_uniform(h_rng(), -size, size);
    trp_buffer b = h_buffer(n->world.device, count * sizeof *data);
    h_write(n->world.device, b, 0, data, count * sizeof *data);
    free(data);
    return b;
}

static net open_net(void)
{
    net n = {.world = h_open(NULL)};
    uint64_t reserve = 0;
    trp_completion done = {0};
    n.dnn = h_actor(n.world.device, "dnn");
    trp_rnn_request r = request_of(&n);
    H_OK(trp_rnn_weight_count(&r.net, &n.weights));
    r.reserve_bytes = &reserve;
    H_OK(trp_rnn_reserve(n.dnn, &r, &done));
    H_OK(h_await_any(done));
    n.buffer[X] = random_buffer(&n, LENGTH * BATCH * INPUT, 1);
    n.buffer[H0] = random_buffer(&n, 4 * BATCH * HIDDEN, 1);
    n.buffer[WANTED] = random_buffer(&n, LENGTH * BATCH * OUTPUTS, 1);
    n.buffer[W] = random_buffer(&n, n.weights, 0.4);
    n.buffer[NEXT] = random_buffer(&n, n.weights, 0.4);
    n.buffer[Y] = h_buffer(n.world.device, LENGTH * BATCH * OUTPUTS * sizeof(float));
    n.buffer[OFF] = h_buffer(n.world.device, LENGTH * BATCH * OUTPUTS * sizeof(float));
    n.buffer[DW] = h_buffer(n.world.device, n.weights * sizeof(float));
    n.buffer[RESERVE] = h_buffer(n.world.device, reserve);
    return n;
}

static trp_completion *next(net *n)
{
    n->done[n->sent] = (trp_completion){0};
    return &n->done[n->sent++];
}

/* to = a - factor * b */
static void subtract(net *n, int64_t count, trp_buffer a, double factor, trp_buffer b,
                     trp_buffer to)
{
    const trp_dnn_tensor tensors[] = {{0},
                                      {.type = TRP_F32, .rank = 1, .dim = {count}, .buffer = a},
                                      {.type = TRP_F32, .rank = 1, .dim = {count}, .buffer = b},
                                      {.value = trp_real(factor)},
                                      {0},
                                      {.type = TRP_F32, .rank = 1, .dim = {count}, .buffer = to}};
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = 2, .b = 3, .y = 4},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = 1, .b = 4, .y = 5}};
    const trp_dnn_graph_request r = {
        .tensors = tensors, .tensor_count = 6, .nodes = nodes, .node_count = 2};
    H_OK(trp_dnn_graph(n->dnn, &r, next(n)));
}

static void step(net *n, int which)
{
    const trp_buffer *b = n->buffer, old = b[which % 2 ? NEXT : W], new = b[which % 2 ? W : NEXT];
    trp_rnn_request r = request_of(n);
    r.w.buffer = old;
    H_OK(trp_rnn_forward(n->dnn, &r, next(n)));
    subtract(n, LENGTH * BATCH * OUTPUTS, b[Y], 1, b[WANTED], b[OFF]);
    r.dy.buffer = b[OFF];
    r.dw.buffer = b[DW];
    H_OK(trp_rnn_backward(n->dnn, &r, next(n)));
    subtract(n, (int64_t)n->weights, old, 0.01, b[DW], new);
}

/* A few steps are in flight at a time, and at most one death comes to each of them: some time
 * before `span`, if it is not 0. Returns how long they took, on average. */
static int64_t train(net *n, int64_t span)
{
    const int64_t begin = h_now();
    for (int first = 0; first < STEPS; first += AT_ONCE) {
        h_killer killer;
        n->sent = 0;
        h_killer_start(&killer, n->world.device, span);
        for (int i = first; i < first + AT_ONCE; i++)
            step(n, i);
        H_EQUAL(n->sent, AT_ONCE * REQUESTS);
        for (size_t i = 0; i < n->sent; i++)
            H_OK(h_await_any(n->done[i]));
        h_killer_end(&killer);
    }
    return (h_now() - begin) / (STEPS / AT_ONCE);
}

static void training(void)
{
    net n = open_net();
    trp_device *d = n.world.device;
    const size_t bytes = (size_t)n.weights * sizeof(float);
    float *old = h_malloc(bytes), *first = h_malloc(bytes), *w = h_malloc(bytes);
    h_read(d, n.buffer[W], 0, old, bytes);
    const int64_t span = train(&n, 0);
    h_read(d, n.buffer[W], 0, first, bytes);
    H_CHECK(memcmp(first, old, bytes) != 0);
    for (int round = 0; round < (H_SANITIZED ? 2 : 6); round++) {
        h_write(d, n.buffer[W], 0, old, bytes);
        train(&n, span);
        h_read(d, n.buffer[W], 0, w, bytes);
        H_SAME(w, first, bytes);
    }
    H_CHECK_DEATHS(d, span);
    free(w);
    free(first);
    free(old);
    h_close(&n.world);
}

static const h_case cases[] = {{"training", training}};

int main(int argc, char **argv)
{
    h_need_process_isolation();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
