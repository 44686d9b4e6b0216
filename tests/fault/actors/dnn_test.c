/* A small net is trained while workers die: each request whose outputs are not its inputs runs
 * again on the next worker, so that the weights are the same to the bit as without any death.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"
#include "support/label.h"

#include <troupe/layers.h>

TROUPE_TEST("many workers");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn", "FAKE_CUDA_REPORT_MS=1");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDA_REPORT_MS=1",
                     "FAKE_CUDNN_TAKES=conv,pool");

enum { IMAGES = 8, CHANNELS = 2, FILTERS = 4, SIDE = 8, HALF = SIDE / 2, CLASSES = 3 };
enum { FEATURES = FILTERS * HALF * HALF, STEPS = 20, AT_ONCE = 5 };
enum { REQUESTS = 9 }; /* of a step */

/* Where things are: weights twice, for a step reads the old ones and writes the new ones. */
enum { X, WANTED, BIAS, SUM, ACTIVE, POOLED, OFF, D_POOLED, D_ACTIVE, D_SUM, D_W, D_V, BUFFERS };

typedef struct net {
    h_world world;
    trp_actor *dnn;
    trp_buffer buffer[BUFFERS], w[2], v[2];
    trp_completion done[AT_ONCE * REQUESTS];
    size_t sent;
} net;

static const int64_t image[] = {IMAGES, CHANNELS, SIDE, SIDE},
                     active[] = {IMAGES, FILTERS, SIDE, SIDE},
                     pooled[] = {IMAGES, FILTERS, HALF, HALF}, filter[] = {FILTERS, CHANNELS, 3, 3},
                     features[] = {IMAGES, FEATURES}, turned[] = {FEATURES, IMAGES},
                     weights[] = {FEATURES, CLASSES}, weights_turned[] = {CLASSES, FEATURES},
                     result[] = {IMAGES, CLASSES};

static trp_dnn_tensor tensor(trp_buffer buffer, uint32_t rank, const int64_t *dim)
{
    trp_dnn_tensor t = {.type = TRP_F32, .rank = rank, .buffer = buffer};
    memcpy(t.dim, dim, rank * sizeof *dim);
    return t;
}

/* A matrix of these dimensions that lies as its transpose. */
static trp_dnn_tensor transposed(trp_buffer buffer, const int64_t *dim)
{
    trp_dnn_tensor t = tensor(buffer, 2, dim);
    t.stride[0] = 1;
    t.stride[1] = dim[0];
    return t;
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
    static const size_t counts[BUFFERS] = {[SUM] = IMAGES * FILTERS * SIDE * SIDE,
                                           [ACTIVE] = IMAGES * FILTERS * SIDE * SIDE,
                                           [D_SUM] = IMAGES * FILTERS * SIDE * SIDE,
                                           [D_ACTIVE] = IMAGES * FILTERS * SIDE * SIDE,
                                           [POOLED] = IMAGES * FEATURES,
                                           [D_POOLED] = IMAGES * FEATURES,
                                           [OFF] = IMAGES * CLASSES,
                                           [D_V] = FEATURES * CLASSES,
                                           [D_W] = FILTERS * CHANNELS * 9};
    net n = {.world = h_open(NULL)};
    n.dnn = h_actor(n.world.device, "dnn");
    for (int i = SUM; i < BUFFERS; i++)
        n.buffer[i] = h_buffer(n.world.device, counts[i] * sizeof(float));
    n.buffer[X] = random_buffer(&n, IMAGES * CHANNELS * SIDE * SIDE, 1);
    n.buffer[WANTED] = random_buffer(&n, IMAGES * CLASSES, 1);
    n.buffer[BIAS] = random_buffer(&n, FILTERS, 0.1);
    for (int i = 0; i < 2; i++) {
        n.w[i] = random_buffer(&n, FILTERS * CHANNELS * 9, 0.5);
        n.v[i] = random_buffer(&n, FEATURES * CLASSES, 0.2);
    }
    return n;
}

static trp_completion *next(net *n)
{
    n->done[n->sent] = (trp_completion){0};
    return &n->done[n->sent++];
}

static void send_graph(net *n, const trp_dnn_tensor *tensors, uint32_t tensor_count,
                       const trp_dnn_node *nodes, uint32_t node_count)
{
    const trp_dnn_graph_request r = {.tensors = tensors,
                                     .tensor_count = tensor_count,
                                     .nodes = nodes,
                                     .node_count = node_count,
                                     .options = {.deterministic = true}};
    H_OK(trp_dnn_graph(n->dnn, &r, next(n)));
}

static void forward(net *n, int old)
{
    const trp_buffer *b = n->buffer;
    const trp_conv_request conv = {.x = tensor(b[X], 4, image),
                                   .w = tensor(n->w[old], 4, filter),
                                   .y = tensor(b[SUM], 4, active),
                                   .bias = {.type = TRP_F32, .buffer = b[BIAS]},
                                   .pre_pad = {1, 1},
                                   .post_pad = {1, 1},
                                   .options = {.deterministic = true}};
    H_OK(trp_conv_forward(n->dnn, &conv, next(n)));
    const trp_activation_request relu = {.activation = {.mode = TRP_DNN_RELU},
                                         .x = tensor(b[SUM], 4, active),
                                         .y = tensor(b[ACTIVE], 4, active)};
    H_OK(trp_activation_forward(n->dnn, &relu, next(n)));
    const trp_pool_request pool = {.x = tensor(b[ACTIVE], 4, active),
                                   .y = tensor(b[POOLED], 4, pooled),
                                   .window = {2, 2},
                                   .stride = {2, 2}};
    H_OK(trp_pool_forward(n->dnn, &pool, next(n)));
    /* What is off: pooled * v - wanted. */
    const trp_dnn_tensor tensors[] = {
        {0}, tensor(b[POOLED], 2, features), tensor(n->v[old], 2, weights),
        {0}, tensor(b[WANTED], 2, result),   tensor(b[OFF], 2, result)};
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_MATMUL, .a = 1, .b = 2, .y = 3},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = 3, .b = 4, .y = 5}};
    send_graph(n, tensors, 6, nodes, 2);
}

static void backward(net *n, int old)
{
    const trp_buffer *b = n->buffer;
    const trp_dnn_tensor tensors[] = {{0},
                                      transposed(b[POOLED], turned),
                                      tensor(b[OFF], 2, result),
                                      tensor(b[D_V], 2, weights),
                                      transposed(n->v[old], weights_turned),
                                      tensor(b[D_POOLED], 2, features)};
    const trp_dnn_node nodes[] = {{.kind = TRP_DNN_MATMUL, .a = 1, .b = 2, .y = 3},
                                  {.kind = TRP_DNN_MATMUL, .a = 2, .b = 4, .y = 5}};
    send_graph(n, tensors, 6, nodes, 2);
    const trp_pool_request pool = {.x = tensor(b[D_ACTIVE], 4, active),
                                   .y = tensor(b[D_POOLED], 4, pooled),
                                   .old_x = tensor(b[ACTIVE], 4, active),
                                   .old_y = tensor(b[POOLED], 4, pooled),
                                   .window = {2, 2},
                                   .stride = {2, 2},
                                   .options = {.deterministic = true}};
    H_OK(trp_pool_backward(n->dnn, &pool, next(n)));
    const trp_activation_request relu = {.activation = {.mode = TRP_DNN_RELU},
                                         .x = tensor(b[SUM], 4, active),
                                         .y = tensor(b[D_ACTIVE], 4, active),
                                         .dx = tensor(b[D_SUM], 4, active)};
    H_OK(trp_activation_backward(n->dnn, &relu, next(n)));
    const trp_conv_request conv = {.x = tensor(b[X], 4, image),
                                   .w = tensor(b[D_W], 4, filter),
                                   .y = tensor(b[D_SUM], 4, active),
                                   .pre_pad = {1, 1},
                                   .post_pad = {1, 1},
                                   .options = {.deterministic = true}};
    H_OK(trp_conv_backward_filter(n->dnn, &conv, next(n)));
}

/* new = old - rate * gradient, of both weights in one graph. */
static void descend(net *n, int old)
{
    const trp_buffer *b = n->buffer;
    const trp_dnn_tensor tensors[] = {{0},
                                      tensor(n->w[old], 4, filter),
                                      tensor(b[D_W], 4, filter),
                                      {0},
                                      tensor(n->w[!old], 4, filter),
                                      tensor(n->v[old], 2, weights),
                                      tensor(b[D_V], 2, weights),
                                      {0},
                                      tensor(n->v[!old], 2, weights),
                                      {.value = trp_real(0.002)},
                                      {.value = trp_real(0.002)}};
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = 2, .b = 9, .y = 3},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = 1, .b = 3, .y = 4},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = 6, .b = 10, .y = 7},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = 5, .b = 7, .y = 8}};
    send_graph(n, tensors, 11, nodes, 4);
}

/* A few steps are in flight at a time, and at most one death comes to each of them: some time
 * before `span`, if it is not 0. Returns how long they took, on average. */
static int64_t train(net *n, int64_t span)
{
    const int64_t begin = h_now();
    for (int step = 0; step < STEPS; step += AT_ONCE) {
        h_killer killer;
        n->sent = 0;
        h_killer_start(&killer, n->world.device, span);
        for (int i = step; i < step + AT_ONCE; i++) {
            forward(n, i % 2);
            backward(n, i % 2);
            descend(n, i % 2);
        }
        H_EQUAL(n->sent, AT_ONCE * REQUESTS);
        for (size_t i = 0; i < n->sent; i++)
            H_OK(h_await_any(n->done[i]));
        h_killer_end(&killer);
    }
    return (h_now() - begin) / (STEPS / AT_ONCE);
}

static void training(void)
{
    float w[FILTERS * CHANNELS * 9], v[FEATURES * CLASSES], first_w[FILTERS * CHANNELS * 9],
        first_v[FEATURES * CLASSES], old_w[FILTERS * CHANNELS * 9], old_v[FEATURES * CLASSES];
    net n = open_net();
    trp_device *d = n.world.device;
    h_read(d, n.w[0], 0, old_w, sizeof old_w);
    h_read(d, n.v[0], 0, old_v, sizeof old_v);
    const int64_t span = train(&n, 0);
    h_read(d, n.w[STEPS % 2], 0, first_w, sizeof first_w);
    h_read(d, n.v[STEPS % 2], 0, first_v, sizeof first_v);
    H_CHECK(memcmp(first_w, old_w, sizeof old_w) != 0 && memcmp(first_v, old_v, sizeof old_v) != 0);
    for (int round = 0; round < (H_SANITIZED ? 2 : 6); round++) {
        h_write(d, n.w[0], 0, old_w, sizeof old_w);
        h_write(d, n.v[0], 0, old_v, sizeof old_v);
        train(&n, span);
        h_read(d, n.w[STEPS % 2], 0, w, sizeof w);
        h_read(d, n.v[STEPS % 2], 0, v, sizeof v);
        H_SAME(w, first_w, sizeof w);
        H_SAME(v, first_v, sizeof v);
    }
    H_CHECK_DEATHS(d, span);
    h_close(&n.world);
}

static const h_case cases[] = {{"training", training}};

int main(int argc, char **argv)
{
    h_need_process_isolation();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
