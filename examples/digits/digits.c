/* Trains a small convolutional network on images of handwritten digits, twice: once in peace, and
 * once with its worker process killed again and again. The weights are the same to the last bit.
 *
 *     digits DIGITS.npy [EPOCHS [KILLS]]
 *
 * 8 filters of 3 x 3, relu, pooling, 16 filters of 3 x 3, relu, pooling, 10 sums; gradients by
 * hand. Every step reads the weights of one set of buffers and writes those of another: so a step
 * that a fault has hit is simply made again. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <troupe/layers.h>
#include <troupe/troupe.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, ROW = PIXELS + 1, ROWS = 1797 };
enum { BATCH = 60, BATCHES = 25, TRAINED = BATCH * BATCHES, TESTED = ROWS - TRAINED };
enum { F1 = 8, F2 = 16, FLAT = F2 * 2 * 2 };

static const double RATE = 0.15;

/* What is trained. */
enum { W1, B1, W2, B2, W3, B3, WEIGHTS };
static const int weight_count[WEIGHTS] = {F1 * 9, F1, F2 *F1 * 9, F2, FLAT *CLASSES, CLASSES};

/* What lies between the layers, and the gradients on the way back. */
enum { C1, P1, I1, C2, P2, I2, OUT, D_OUT, D_P2, D_C2, D_P1, D_C1, VALUES };
static const int value_count[VALUES] = {F1 * PIXELS, F1 * 16, F1 * 16, F2 * 16,
                                        FLAT,        FLAT,    CLASSES, CLASSES,
                                        FLAT,        F2 * 16, F1 * 16, F1 *PIXELS};

typedef struct net {
    trp_system *system;
    trp_device *device;
    trp_actor *dnn;
    trp_buffer images, labels;     /* of all rows; labels as 10 numbers, one of which is 1 */
    trp_buffer weight[2][WEIGHTS]; /* those that are, and those that will be */
    trp_buffer value[VALUES];      /* of one batch, or of all tests */
    int now;                       /* which weights are */
} net;

static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1);
}

/* --- Data --- */

static unsigned char row[ROWS][ROW];

static uint64_t seed = 1;

/* From 0 up to 1: the same numbers on any machine. */
static double draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 33) / 2147483648.0;
}

/* In another order than in the file, where those of one writer lie together. */
static void read_rows(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, -(long)sizeof row, SEEK_END) != 0 ||
        fread(row, sizeof row, 1, file) != 1) {
        fprintf(stderr, "%s: expected an array of %d x %d bytes\n", path, ROWS, ROW);
        exit(1);
    }
    fclose(file);
    for (int i = ROWS - 1; i > 0; i--) {
        unsigned char kept[ROW];
        int other = (int)(draw() * (i + 1));
        memcpy(kept, row[i], ROW);
        memcpy(row[i], row[other], ROW);
        memcpy(row[other], kept, ROW);
    }
}

static trp_buffer filled(net *n, const void *data, size_t bytes)
{
    trp_buffer buffer;
    trp_completion done = {0};
    need(trp_buffer_create(n->device, bytes, &buffer), "a buffer");
    need(trp_write(n->device, buffer, 0, data, bytes, &done), "a write");
    need(trp_await(done.future, TRP_FOREVER, NULL), "a write");
    return buffer;
}

static void place_data(net *n)
{
    static float image[ROWS][PIXELS], label[ROWS][CLASSES];
    for (int i = 0; i < ROWS; i++) {
        for (int p = 0; p < PIXELS; p++)
            image[i][p] = (float)row[i][p] / 16;
        label[i][row[i][PIXELS]] = 1;
    }
    n->images = filled(n, image, sizeof image);
    n->labels = filled(n, label, sizeof label);
}

/* Filters and sums begin at random, with a spread that keeps what they make as wide as what they
 * are given; biases at 0. */
static void place_weights(net *n)
{
    static const int inputs[WEIGHTS] = {[W1] = 9, [W2] = F1 * 9, [W3] = FLAT};
    seed = 1;
    for (int w = 0; w < WEIGHTS; w++) {
        float start[F2 * F1 * 9] = {0};
        for (int i = 0; i < weight_count[w] && inputs[w]; i++)
            start[i] = (float)((2 * draw() - 1) * sqrt(6.0 / inputs[w]));
        for (int set = 0; set < 2; set++)
            n->weight[set][w] = filled(n, start, (size_t)weight_count[w] * sizeof *start);
    }
    for (int v = 0; v < VALUES; v++)
        need(trp_buffer_create(n->device, (size_t)(value_count[v] * TESTED) * sizeof(float),
                               &n->value[v]),
             "a buffer");
    n->now = 0;
}

/* --- Tensors --- */

static trp_dnn_tensor of4(trp_buffer buffer, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    return (trp_dnn_tensor){.type = TRP_F32, .rank = 4, .dim = {d0, d1, d2, d3}, .buffer = buffer};
}

static trp_dnn_tensor of2(trp_buffer buffer, int64_t rows, int64_t columns)
{
    return (trp_dnn_tensor){.type = TRP_F32, .rank = 2, .dim = {rows, columns}, .buffer = buffer};
}

/* The same memory, seen as its transpose. */
static trp_dnn_tensor transposed(trp_buffer buffer, int64_t rows, int64_t columns)
{
    return (trp_dnn_tensor){
        .type = TRP_F32, .rank = 2, .dim = {rows, columns}, .stride = {1, rows}, .buffer = buffer};
}

static trp_buffer old(const net *n, int weight)
{
    return n->weight[n->now][weight];
}

static trp_buffer new (const net *n, int weight)
{
    return n->weight[1 - n->now][weight];
}

static trp_dnn_tensor as_i8(trp_dnn_tensor t)
{
    t.type = TRP_I8;
    return t;
}

static trp_dnn_tensor images(const net *n, int first, int count)
{
    trp_dnn_tensor t = of4(n->images, count, 1, SIDE, SIDE);
    t.offset = (uint64_t)first * PIXELS * sizeof(float);
    return t;
}

/* --- Forward --- */

static void convolve(const net *n, trp_dnn_tensor x, int w, int b, trp_dnn_tensor y)
{
    const trp_conv_request r = {.x = x,
                                .w = of4(old(n, w), y.dim[1], x.dim[1], 3, 3),
                                .y = y,
                                .pre_pad = {1, 1},
                                .post_pad = {1, 1},
                                .bias = {.type = TRP_F32, .buffer = old(n, b)},
                                .activation.mode = TRP_DNN_RELU,
                                .options.deterministic = true};
    need(trp_conv_forward(n->dnn, &r, NULL), "a convolution");
}

static void pool(const net *n, trp_dnn_tensor x, trp_dnn_tensor y, trp_buffer index)
{
    const trp_pool_request r = {.mode = TRP_DNN_POOL_MAX,
                                .x = x,
                                .y = y,
                                .index = as_i8(of4(index, y.dim[0], y.dim[1], y.dim[2], y.dim[3])),
                                .window = {2, 2},
                                .stride = {2, 2}};
    need(trp_pool_forward(n->dnn, &r, NULL), "pooling");
}

/* From images to what the last layer is given. */
static void forward(const net *n, int first, int count)
{
    const trp_buffer *v = n->value;
    convolve(n, images(n, first, count), W1, B1, of4(v[C1], count, F1, 8, 8));
    pool(n, of4(v[C1], count, F1, 8, 8), of4(v[P1], count, F1, 4, 4), v[I1]);
    convolve(n, of4(v[P1], count, F1, 4, 4), W2, B2, of4(v[C2], count, F2, 4, 4));
    pool(n, of4(v[C2], count, F2, 4, 4), of4(v[P2], count, F2, 2, 2), v[I2]);
}

/* The last layer as one graph. In training it goes on to the gradient of the cross entropy:
 * (softmax(out) - label) / BATCH. */
static void last_layer(const net *n, int first, int count, bool training, trp_completion *done)
{
    enum {
        NONE,
        X,
        W,
        B,
        PRODUCT,
        Z,
        MOST,
        SHIFTED,
        POWER,
        SUM,
        CHANCE,
        LABEL,
        WRONG,
        SHARE,
        D,
        TENSORS
    };
    const trp_dnn_tensor column = {.rank = 2, .dim = {count, 1}};
    trp_dnn_tensor t[TENSORS] = {
        [X] = of2(n->value[P2], count, FLAT),
        [W] = of2(old(n, W3), FLAT, CLASSES),
        [B] = of2(old(n, B3), 1, CLASSES),
        [MOST] = column,
        [SUM] = column,
        [LABEL] = of2(n->labels, count, CLASSES),
        [SHARE] = {.value = trp_real(1.0 / BATCH)},
        [D] = of2(n->value[D_OUT], count, CLASSES),
    };
    t[LABEL].offset = (uint64_t)first * CLASSES * sizeof(float);
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_MATMUL, .a = X, .b = W, .y = PRODUCT},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = PRODUCT, .b = B, .y = Z},
        {.kind = TRP_DNN_REDUCTION, .reduce = TRP_DNN_MOST, .x = Z, .y = MOST},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = Z, .b = MOST, .y = SHIFTED},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_EXP, .x = SHIFTED, .y = POWER},
        {.kind = TRP_DNN_REDUCTION, .reduce = TRP_DNN_SUM, .x = POWER, .y = SUM},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_DIV, .x = POWER, .b = SUM, .y = CHANCE},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = CHANCE, .b = LABEL, .y = WRONG},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = WRONG, .b = SHARE, .y = D},
    };
    if (!training)
        t[Z] = of2(n->value[OUT], count, CLASSES);
    const trp_dnn_graph_request r = {.tensors = t,
                                     .tensor_count = training ? TENSORS : Z + 1,
                                     .nodes = nodes,
                                     .node_count = training ? 9 : 2,
                                     .options.deterministic = true};
    need(trp_dnn_graph(n->dnn, &r, done), "the last layer");
}

/* --- Backward --- */

/* new = old - RATE * sums, where `sums` writes to a tensor of the weight's shape, the last of those
 * that are given: one graph. */
static void update(const net *n, const trp_dnn_tensor *read, uint32_t reads, trp_dnn_node sums,
                   trp_dnn_tensor shape, int weight, trp_completion *done)
{
    trp_dnn_tensor t[8] = {{0}};
    memcpy(t + 1, read, reads * sizeof *read);
    const uint32_t gradient = reads + 1, rate = reads + 2, step = reads + 3, was = reads + 4;
    t[gradient] = (trp_dnn_tensor){.rank = shape.rank};
    memcpy(t[gradient].dim, shape.dim, sizeof shape.dim);
    t[rate].value = trp_real(RATE);
    t[was] = t[was + 1] = shape;
    t[was].buffer = old(n, weight);
    t[was + 1].buffer = new (n, weight);
    sums.y = gradient;
    const trp_dnn_node nodes[] = {
        sums,
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = gradient, .b = rate, .y = step},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_SUB, .x = was, .b = step, .y = was + 1},
    };
    const trp_dnn_graph_request r = {.tensors = t,
                                     .tensor_count = was + 2,
                                     .nodes = nodes,
                                     .node_count = 3,
                                     .options.deterministic = true};
    need(trp_dnn_graph(n->dnn, &r, done), "an update");
}

/* A bias was added to all but the dimension that it has. */
static void update_bias(const net *n, trp_dnn_tensor gradient, int weight, trp_completion *done)
{
    trp_dnn_tensor shape = {.type = TRP_F32, .rank = gradient.rank};
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = i == 1 ? gradient.dim[1] : 1;
    update(n, &gradient, 1,
           (trp_dnn_node){.kind = TRP_DNN_REDUCTION, .reduce = TRP_DNN_SUM, .x = 1}, shape, weight,
           done);
}

/* Filters: the gradient times -RATE plus the old ones, in one request. */
static void update_filters(const net *n, trp_dnn_tensor x, trp_dnn_tensor dy, int weight,
                           trp_completion *done)
{
    const trp_conv_request r = {.x = x,
                                .w = of4(new (n, weight), dy.dim[1], x.dim[1], 3, 3),
                                .y = dy,
                                .z = of4(old(n, weight), dy.dim[1], x.dim[1], 3, 3),
                                .pre_pad = {1, 1},
                                .post_pad = {1, 1},
                                .alpha = trp_real(-RATE),
                                .beta = trp_real(1),
                                .options.deterministic = true};
    need(trp_conv_backward_filter(n->dnn, &r, done), "gradients of filters");
}

/* Through pooling and relu, whose result `y` says where it let something through. */
static void back_through(const net *n, trp_dnn_tensor dy, trp_buffer index, trp_dnn_tensor y,
                         trp_buffer dx)
{
    enum { NONE, DY, INDEX, Y, BETWEEN, DX, TENSORS };
    const trp_dnn_tensor t[TENSORS] = {
        [DY] = dy,
        [INDEX] = as_i8(of4(index, dy.dim[0], dy.dim[1], dy.dim[2], dy.dim[3])),
        [Y] = y,
        [BETWEEN] = {.rank = 4, .dim = {y.dim[0], y.dim[1], y.dim[2], y.dim[3]}},
        [DX] = of4(dx, y.dim[0], y.dim[1], y.dim[2], y.dim[3])};
    const trp_dnn_node nodes[] = {{.kind = TRP_DNN_RESAMPLE_BACKWARD,
                                   .resample = TRP_DNN_POOL_MAX,
                                   .dy = DY,
                                   .index = INDEX,
                                   .dx = BETWEEN,
                                   .window = {2, 2},
                                   .stride = {2, 2}},
                                  {.kind = TRP_DNN_POINTWISE_BACKWARD,
                                   .pointwise = TRP_DNN_RELU,
                                   .x = Y,
                                   .dy = BETWEEN,
                                   .dx = DX}};
    const trp_dnn_graph_request r = {
        .tensors = t, .tensor_count = TENSORS, .nodes = nodes, .node_count = 2};
    need(trp_dnn_graph(n->dnn, &r, NULL), "gradients of pooling");
}

static void backward(const net *n, int first, trp_completion done[WEIGHTS])
{
    const trp_buffer *v = n->value;
    const trp_dnn_tensor d_out = of2(v[D_OUT], BATCH, CLASSES);
    const trp_dnn_tensor d_c2 = of4(v[D_C2], BATCH, F2, 4, 4), d_c1 = of4(v[D_C1], BATCH, F1, 8, 8);
    const trp_dnn_tensor last[] = {transposed(v[P2], FLAT, BATCH), d_out};
    update(n, last, 2, (trp_dnn_node){.kind = TRP_DNN_MATMUL, .a = 1, .b = 2},
           (trp_dnn_tensor){.type = TRP_F32, .rank = 2, .dim = {FLAT, CLASSES}}, W3, &done[W3]);
    update_bias(n, d_out, B3, &done[B3]);

    const trp_dnn_tensor t[] = {
        {0}, d_out, transposed(old(n, W3), CLASSES, FLAT), of2(v[D_P2], BATCH, FLAT)};
    const trp_dnn_node node = {.kind = TRP_DNN_MATMUL, .a = 1, .b = 2, .y = 3};
    const trp_dnn_graph_request r = {
        .tensors = t, .tensor_count = 4, .nodes = &node, .node_count = 1};
    need(trp_dnn_graph(n->dnn, &r, NULL), "gradients of sums");

    back_through(n, of4(v[D_P2], BATCH, F2, 2, 2), v[I2], of4(v[C2], BATCH, F2, 4, 4), v[D_C2]);
    update_filters(n, of4(v[P1], BATCH, F1, 4, 4), d_c2, W2, &done[W2]);
    update_bias(n, d_c2, B2, &done[B2]);
    const trp_conv_request data = {.x = of4(v[D_P1], BATCH, F1, 4, 4),
                                   .w = of4(old(n, W2), F2, F1, 3, 3),
                                   .y = d_c2,
                                   .pre_pad = {1, 1},
                                   .post_pad = {1, 1},
                                   .options.deterministic = true};
    need(trp_conv_backward_data(n->dnn, &data, NULL), "gradients of data");
    back_through(n, of4(v[D_P1], BATCH, F1, 4, 4), v[I1], of4(v[C1], BATCH, F1, 8, 8), v[D_C1]);
    update_filters(n, images(n, first, BATCH), d_c1, W1, &done[W1]);
    update_bias(n, d_c1, B1, &done[B1]);
}

/* --- Training --- */

static void kill_worker(const net *n)
{
    trp_device_info info;
    need(trp_device_get_info(n->device, &info), "the device");
    if (info.worker_pid > 0)
        kill((pid_t)info.worker_pid, SIGKILL);
}

/* Whether all new weights were made. */
static bool step(net *n, int first, bool killing)
{
    trp_completion done[WEIGHTS] = {0};
    bool made = true;
    forward(n, first, BATCH);
    last_layer(n, first, BATCH, true, NULL);
    if (killing)
        kill_worker(n); /* while it works */
    backward(n, first, done);
    for (int w = 0; w < WEIGHTS; w++)
        made = trp_await(done[w].future, TRP_FOREVER, NULL) == TRP_OK && made;
    n->now = made ? 1 - n->now : n->now;
    return made;
}

static double right_of_tests(const net *n)
{
    static float out[TESTED][CLASSES];
    trp_completion done = {0};
    int right = 0;
    forward(n, TRAINED, TESTED);
    last_layer(n, TRAINED, TESTED, false, NULL);
    need(trp_read(n->device, n->value[OUT], 0, out, sizeof out, &done), "a read");
    need(trp_await(done.future, TRP_FOREVER, NULL), "a read");
    for (int i = 0; i < TESTED; i++) {
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            best = out[i][c] > out[i][best] ? c : best;
        right += best == row[TRAINED + i][PIXELS];
    }
    return 100.0 * right / TESTED;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Trains from the start; the weights go to `out`. */
static double train(net *n, int epochs, int kills, float *out)
{
    const int steps = epochs * BATCHES;
    int again = 0;
    double begun = seconds();
    place_weights(n);
    for (int s = 0; s < steps; s++) {
        bool killing = kills > 0 && s % (steps / kills) == steps / kills / 2;
        while (!step(n, s % BATCHES * BATCH, killing)) {
            killing = false;
            again++;
        }
    }
    double right = right_of_tests(n);
    printf("%d epochs in %.2f s%s%.0d%s: %.1f %% of %d images right\n", epochs, seconds() - begun,
           kills ? ", worker killed " : "", kills, kills ? " times" : "", right, TESTED);
    if (again)
        printf("  steps made again: %d\n", again);
    for (int w = 0; w < WEIGHTS; w++) {
        trp_completion done = {0};
        need(trp_read(n->device, old(n, w), 0, out, (size_t)weight_count[w] * sizeof *out, &done),
             "a read");
        need(trp_await(done.future, TRP_FOREVER, NULL), "a read");
        out += weight_count[w];
        trp_buffer_free(n->device, n->weight[0][w]);
        trp_buffer_free(n->device, n->weight[1][w]);
    }
    for (int v = 0; v < VALUES; v++)
        trp_buffer_free(n->device, n->value[v]);
    return right;
}

int main(int argc, char **argv)
{
    static float weights[2][F1 * 9 + F1 + F2 * F1 * 9 + F2 + FLAT * CLASSES + CLASSES];
    net n = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: digits DIGITS.npy [EPOCHS [KILLS]]\n");
        return 2;
    }
    const int epochs = argc > 2 ? atoi(argv[2]) : 20, kills = argc > 3 ? atoi(argv[3]) : 10;
    const trp_device_options options = {.restart_budget = 1000};
    trp_device_info info;
    read_rows(argv[1]);
    need(trp_system_create(NULL, &n.system), "system");
    need(trp_device_open(n.system, &options, &n.device), "device");
    need(trp_actor_create(n.device, &(trp_actor_options){.kind = "dnn"}, &n.dnn), "dnn");
    place_data(&n);
    double peace = train(&n, epochs, 0, weights[0]);
    double trouble = train(&n, epochs, kills, weights[1]);
    bool same = memcmp(weights[0], weights[1], sizeof weights[0]) == 0;
    need(trp_device_get_info(n.device, &info), "the device");
    printf("weights are %s; %u restarts\n", same ? "the same to the last bit" : "NOT THE SAME",
           info.restarts);
    trp_actor_destroy(n.dnn);
    trp_device_close(n.device);
    need(trp_system_destroy(n.system), "system");
    return !same || peace < 95 || trouble < 95;
}
