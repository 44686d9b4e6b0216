/* What moves memory and computes little: functions by element, conversions, reductions, softmax,
 * normalisation, pooling, permutations, an optimiser's step. Each row is a request that is sent
 * back to back, in turns with a copy on the device of as many bytes: both read and write. */
#include "rows.h"
#include "bench/suite/filled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { BUFFERS = 12, SHAPES = 8 };

/* --- one request --- */

typedef enum call {
    GRAPH,
    ACTIVATION_BACKWARD,
    SOFTMAX_FORWARD,
    SOFTMAX_BACKWARD,
    NORM_TRAINING,
    NORM_BACKWARD,
    POOL_FORWARD,
    POOL_BACKWARD,
} call;

typedef struct work {
    suite *suite;
    trp_actor *actor;
    trp_dtype type; /* of the row */
    bool last;      /* channels last */
    const int64_t *dim;
    const unsigned char *piece, *positive; /* numbers */
    bool good;

    call call;
    trp_dnn_tensor tensors[32];
    uint32_t tensor_count;
    trp_dnn_node nodes[16];
    uint32_t node_count;
    trp_activation_request activation;
    trp_softmax_request softmax;
    trp_norm_request norm;
    trp_pool_request pool;

    trp_buffer buffers[BUFFERS], copied[2];
    size_t buffer_count;
    double bytes; /* of all that is read or written, each once */
    trp_dnn_ran ran;
} work;

/* A tensor in memory; `read`: it has numbers. */
static trp_dnn_tensor memory(work *w, trp_dtype type, uint32_t rank, const int64_t *dim, bool read)
{
    trp_dnn_tensor t = {.type = type, .rank = rank};
    uint64_t bytes = trp_dtype_bits(type) / 8;
    for (uint32_t i = 0; i < rank; i++) {
        t.dim[i] = dim[i];
        bytes *= (uint64_t)dim[i];
    }
    if (w->last && rank > 2)
        trp_dnn_channels_last(&t);
    w->good = w->good && w->buffer_count < BUFFERS &&
              filled_buffer(w->suite, read ? w->piece : NULL, bytes, &w->buffers[w->buffer_count]);
    if (!w->good)
        return t;
    t.buffer = w->buffers[w->buffer_count++];
    w->bytes += (double)bytes;
    return t;
}

static uint32_t add(work *w, trp_dnn_tensor t)
{
    w->tensors[w->tensor_count] = t;
    return w->tensor_count++;
}

static uint32_t reads(work *w, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    return add(w, memory(w, type, rank, dim, true));
}

static uint32_t writes(work *w, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    return add(w, memory(w, type, rank, dim, false));
}

static uint32_t number(work *w, double value)
{
    return add(w, (trp_dnn_tensor){.value = trp_real(value)});
}

static uint32_t between(work *w)
{
    return add(w, (trp_dnn_tensor){.type = TRP_DTYPE_NONE});
}

static trp_dnn_node *node(work *w, trp_dnn_kind kind)
{
    trp_dnn_node *n = &w->nodes[w->node_count++];
    n->kind = kind;
    return n;
}

static void pointwise(work *w, trp_dnn_pointwise mode, uint32_t x, uint32_t b, uint32_t y)
{
    trp_dnn_node *n = node(w, TRP_DNN_POINTWISE);
    n->pointwise = mode;
    n->x = x;
    n->b = b;
    n->y = y;
}

/* --- what a row may be: fills the request --- */

typedef void (*build)(work *w, int what);

/* what: a function of one */
static void build_unary(work *w, int what)
{
    pointwise(w, (trp_dnn_pointwise)what, reads(w, w->type, 1, w->dim), 0,
              writes(w, w->type, 1, w->dim));
}

static void build_binary(work *w, int what)
{
    uint32_t x = reads(w, w->type, 1, w->dim), b = reads(w, w->type, 1, w->dim);
    pointwise(w, (trp_dnn_pointwise)what, x, b, writes(w, w->type, 1, w->dim));
}

static void build_number(work *w, int what)
{
    pointwise(w, (trp_dnn_pointwise)what, reads(w, w->type, 1, w->dim), number(w, 0.37),
              writes(w, w->type, 1, w->dim));
}

/* what: the type of the result */
static void build_convert(work *w, int what)
{
    pointwise(w, TRP_DNN_IDENTITY, reads(w, w->type, 1, w->dim), 0,
              writes(w, (trp_dtype)what, 1, w->dim));
}

static void build_bias(work *w, int what)
{
    const int64_t line[2] = {1, w->dim[1]};
    uint32_t x = reads(w, w->type, 2, w->dim);
    pointwise(w, (trp_dnn_pointwise)what, x, reads(w, w->type, 2, line),
              writes(w, w->type, 2, w->dim));
}

/* relu(gelu(x * 0.5 + b) + line) */
static void build_chain(work *w, int what)
{
    (void)what;
    const int64_t line[2] = {1, w->dim[1]};
    uint32_t t[4] = {between(w), between(w), between(w), between(w)};
    pointwise(w, TRP_DNN_MUL, reads(w, w->type, 2, w->dim), number(w, 0.5), t[0]);
    pointwise(w, TRP_DNN_ADD, t[0], reads(w, w->type, 2, w->dim), t[1]);
    pointwise(w, TRP_DNN_GELU, t[1], 0, t[2]);
    pointwise(w, TRP_DNN_ADD, t[2], reads(w, w->type, 2, line), t[3]);
    pointwise(w, TRP_DNN_RELU, t[3], 0, writes(w, w->type, 2, w->dim));
}

static void build_gradient(work *w, int what)
{
    w->call = ACTIVATION_BACKWARD;
    w->activation.activation.mode = (trp_dnn_pointwise)what;
    w->activation.x = memory(w, w->type, 1, w->dim, true);
    w->activation.y = memory(w, w->type, 1, w->dim, true);
    w->activation.dx = memory(w, w->type, 1, w->dim, false);
}

static void reduce(work *w, int what, uint32_t rank, const int64_t *to)
{
    trp_dnn_node *n = node(w, TRP_DNN_REDUCTION);
    n->reduce = (trp_dnn_reduce)what;
    n->x = reads(w, w->type, rank, w->dim);
    n->y = writes(w, w->type, rank, to);
}

static void build_reduce_all(work *w, int what)
{
    reduce(w, what, 1, (const int64_t[]){1});
}

static void build_reduce_rows(work *w, int what) /* along each row: a number a row */
{
    reduce(w, what, 2, (const int64_t[]){w->dim[0], 1});
}

static void build_reduce_columns(work *w, int what)
{
    reduce(w, what, 2, (const int64_t[]){1, w->dim[1]});
}

/* x times a random mask, times 1 / (1 - p) */
static void build_dropout(work *w, int what)
{
    (void)what;
    uint32_t mask = add(w, (trp_dnn_tensor){.type = w->type, .rank = 1, .dim = {w->dim[0]}});
    uint32_t some = between(w);
    trp_dnn_node *n = node(w, TRP_DNN_RANDOM);
    n->random = TRP_DNN_BERNOULLI;
    n->parameter[0] = trp_real(0.9);
    n->seed = add(w, trp_dnn_integer(42));
    n->y = mask;
    pointwise(w, TRP_DNN_MUL, reads(w, w->type, 1, w->dim), mask, some);
    pointwise(w, TRP_DNN_MUL, some, number(w, 1 / 0.9), writes(w, w->type, 1, w->dim));
}

/* A step of AdamW as 14 pointwise nodes: p, m, v and the gradient; p, m and v anew. The moments are
 * f32. */
static void build_adamw(work *w, int what)
{
    (void)what;
    const double b1 = 0.9, b2 = 0.999, rate = 1e-3, decay = 0.01, epsilon = 1e-8, step = 10;
    uint32_t p = reads(w, w->type, 1, w->dim), g = reads(w, w->type, 1, w->dim);
    uint32_t m = reads(w, TRP_F32, 1, w->dim);
    w->piece = w->positive;
    uint32_t v = reads(w, TRP_F32, 1, w->dim);
    uint32_t new_p = writes(w, w->type, 1, w->dim), new_m = writes(w, TRP_F32, 1, w->dim);
    uint32_t new_v = writes(w, TRP_F32, 1, w->dim), t[11];
    for (size_t i = 0; i < COUNT_OF(t); i++)
        t[i] = between(w);
    pointwise(w, TRP_DNN_MUL, m, number(w, b1), t[0]);
    pointwise(w, TRP_DNN_MUL, g, number(w, 1 - b1), t[1]);
    pointwise(w, TRP_DNN_ADD, t[0], t[1], new_m);
    pointwise(w, TRP_DNN_MUL, v, number(w, b2), t[2]);
    pointwise(w, TRP_DNN_MUL, g, g, t[3]);
    pointwise(w, TRP_DNN_MUL, t[3], number(w, 1 - b2), t[4]);
    pointwise(w, TRP_DNN_ADD, t[2], t[4], new_v);
    pointwise(w, TRP_DNN_MUL, new_v, number(w, 1 / (1 - pow(b2, step))), t[5]);
    pointwise(w, TRP_DNN_SQRT, t[5], 0, t[6]);
    pointwise(w, TRP_DNN_ADD, t[6], number(w, epsilon), t[7]);
    pointwise(w, TRP_DNN_DIV, new_m, t[7], t[8]);
    pointwise(w, TRP_DNN_MUL, t[8], number(w, rate / (1 - pow(b1, step))), t[9]);
    pointwise(w, TRP_DNN_MUL, p, number(w, 1 - rate * decay), t[10]);
    pointwise(w, TRP_DNN_SUB, t[10], t[9], new_p);
}

static void build_softmax(work *w, int what)
{
    w->call = SOFTMAX_FORWARD;
    w->softmax.axis = 1;
    w->softmax.log = what != 0;
    w->softmax.x = memory(w, w->type, 2, w->dim, true);
    w->softmax.y = memory(w, w->type, 2, w->dim, false);
}

static void build_softmax_backward(work *w, int what)
{
    w->call = SOFTMAX_BACKWARD;
    w->softmax.axis = 1;
    w->softmax.log = what != 0;
    w->softmax.y = memory(w, w->type, 2, w->dim, true);
    w->softmax.dy = memory(w, w->type, 2, w->dim, true);
    w->softmax.dx = memory(w, w->type, 2, w->dim, false);
}

/* Matrices for LAYER and RMS, images for the others. */
static void norm(work *w, int what, bool backward)
{
    const bool rows = what == TRP_DNN_LAYER || what == TRP_DNN_RMS;
    const uint32_t rank = rows ? 2 : 4;
    const int64_t channels[4] = {1, w->dim[1], 1, 1};
    const int64_t cells[4] = {what == TRP_DNN_BATCH ? 1 : w->dim[0], rows ? 1 : w->dim[1], 1, 1};
    trp_norm_request *r = &w->norm;
    w->call = backward ? NORM_BACKWARD : NORM_TRAINING;
    r->mode = (trp_dnn_norm)what;
    r->x = memory(w, w->type, rank, w->dim, true);
    r->y = memory(w, w->type, rank, w->dim, backward);
    r->scale = memory(w, TRP_F32, rank, channels, true);
    if (what != TRP_DNN_RMS)
        r->mean = memory(w, TRP_F32, rank, cells, backward);
    r->inv_variance = memory(w, TRP_F32, rank, cells, backward);
    if (!backward && what != TRP_DNN_RMS)
        r->bias = memory(w, TRP_F32, rank, channels, true);
    if (!backward)
        return;
    r->dx = memory(w, w->type, rank, w->dim, false);
    r->dscale = memory(w, TRP_F32, rank, channels, false);
    if (what != TRP_DNN_RMS)
        r->dbias = memory(w, TRP_F32, rank, channels, false);
}

static void build_norm(work *w, int what)
{
    norm(w, what, false);
}

static void build_norm_backward(work *w, int what)
{
    norm(w, what, true);
}

/* 32 groups as the channels of an instance norm, then each channel's own factor and bias. */
static void build_group_norm(work *w, int what)
{
    (void)what;
    const int64_t *d = w->dim, channels[4] = {1, d[1], 1, 1}, ones[3] = {1, 32, 1};
    const trp_dnn_tensor grouped = {
        .type = w->type, .rank = 3, .dim = {d[0], 32, d[1] / 32 * d[2] * d[3]}};
    const trp_dnn_tensor whole = {.rank = 4, .dim = {d[0], d[1], d[2], d[3]}};
    trp_dnn_tensor between_norm = grouped;
    between_norm.type = TRP_DTYPE_NONE;
    uint32_t a = add(w, grouped), b = add(w, between_norm), c = add(w, whole), e = between(w);
    trp_dnn_node *n = node(w, TRP_DNN_RESHAPE);
    n->x = reads(w, w->type, 4, d);
    n->y = a;
    n = node(w, TRP_DNN_NORM_INFERENCE);
    n->norm = TRP_DNN_INSTANCE;
    n->x = a;
    n->scale = reads(w, TRP_F32, 3, ones);
    n->epsilon = number(w, 1e-5);
    n->y = b;
    n = node(w, TRP_DNN_RESHAPE);
    n->x = b;
    n->y = c;
    pointwise(w, TRP_DNN_MUL, c, reads(w, TRP_F32, 4, channels), e);
    pointwise(w, TRP_DNN_ADD, e, reads(w, TRP_F32, 4, channels), writes(w, w->type, 4, d));
}

/* 3 x 3, stride 2, padding 1 */
static trp_pool_request *pool(work *w, int what, int64_t out[4])
{
    trp_pool_request *r = &w->pool;
    r->mode = (trp_dnn_resample)what;
    for (int i = 0; i < 2; i++) {
        r->window[i] = 3;
        r->stride[i] = 2;
        r->pre_pad[i] = r->post_pad[i] = 1;
        out[2 + i] = (w->dim[2 + i] + 2 - 3) / 2 + 1;
        out[i] = w->dim[i];
    }
    return r;
}

static void build_pool(work *w, int what)
{
    int64_t out[4];
    trp_pool_request *r = pool(w, what, out);
    w->call = POOL_FORWARD;
    r->x = memory(w, w->type, 4, w->dim, true);
    r->y = memory(w, w->type, 4, out, false);
}

static void build_pool_backward(work *w, int what)
{
    int64_t out[4];
    trp_pool_request *r = pool(w, what, out);
    w->call = POOL_BACKWARD;
    r->y = memory(w, w->type, 4, out, true);
    r->x = memory(w, w->type, 4, w->dim, false);
    if (what != TRP_DNN_POOL_MAX)
        return;
    r->old_x = memory(w, w->type, 4, w->dim, true);
    r->old_y = memory(w, w->type, 4, out, true);
}

static void build_transpose(work *w, int what)
{
    (void)what;
    trp_dnn_node *n = node(w, TRP_DNN_TRANSPOSE);
    n->x = reads(w, w->type, 2, w->dim);
    n->y = writes(w, w->type, 2, (const int64_t[]){w->dim[1], w->dim[0]});
    n->order[0] = 1;
}

/* NCHW to NHWC, in memory */
static void build_permute(work *w, int what)
{
    (void)what;
    uint32_t x = reads(w, w->type, 4, w->dim);
    w->last = true;
    pointwise(w, TRP_DNN_IDENTITY, x, 0, writes(w, w->type, 4, w->dim));
}

/* --- the rows --- */

typedef enum rank { FLAT, MATRIX, WIDTHS, IMAGES, IMAGES_LAST } rank;

/* Shapes; all zero ends a list. The first of each list is the host's. */
static const int64_t shapes[][SHAPES][4] = {
    [FLAT] = {{1 << 12}, {1 << 16}, {1 << 20}, {1 << 22}, {1 << 24}, {1 << 26}, {1 << 28}},
    [MATRIX] = {{64, 64}, {4096, 768}, {4096, 4096}, {65536, 1024}, {1024, 65536}},
    [WIDTHS] =
        {{32, 128}, {262144, 128}, {32768, 1024}, {4096, 8192}, {2048, 50257}, {64, 1000003}},
    [IMAGES] = {{2, 32, 8, 8}, {32, 64, 112, 112}, {64, 256, 56, 56}, {64, 1024, 14, 14}},
    [IMAGES_LAST] = {{2, 32, 8, 8}, {32, 64, 112, 112}, {64, 256, 56, 56}, {64, 1024, 14, 14}},
};

/* A row for each type and each shape. bench/peers/torch_elementwise.py has the same names. */
static const struct {
    const char *name;
    build build;
    int what;
    rank rank;
    trp_dtype only; /* the only type; NONE: f32 and bf16 */
} rows[] = {
    {"relu", build_unary, TRP_DNN_RELU, FLAT, 0},
    {"gelu", build_unary, TRP_DNN_GELU, FLAT, 0},
    {"gelu grad", build_gradient, TRP_DNN_GELU, FLAT, 0},
    {"add", build_binary, TRP_DNN_ADD, FLAT, 0},
    {"mul number", build_number, TRP_DNN_MUL, FLAT, 0},
    {"copy", build_unary, TRP_DNN_IDENTITY, FLAT, 0},
    {"to bf16", build_convert, TRP_BF16, FLAT, TRP_F32},
    {"to f32", build_convert, TRP_F32, FLAT, TRP_BF16},
    {"dropout", build_dropout, 0, FLAT, 0},
    {"adamw", build_adamw, 0, FLAT, 0},
    {"sum all", build_reduce_all, TRP_DNN_SUM, FLAT, 0},
    {"mean all", build_reduce_all, TRP_DNN_MEAN, FLAT, 0},
    {"max all", build_reduce_all, TRP_DNN_MOST, FLAT, 0},
    {"bias", build_bias, TRP_DNN_ADD, MATRIX, 0},
    {"chain of 5", build_chain, 0, MATRIX, 0},
    {"sum rows", build_reduce_rows, TRP_DNN_SUM, MATRIX, 0},
    {"mean rows", build_reduce_rows, TRP_DNN_MEAN, MATRIX, 0},
    {"max rows", build_reduce_rows, TRP_DNN_MOST, MATRIX, 0},
    {"sum columns", build_reduce_columns, TRP_DNN_SUM, MATRIX, 0},
    {"mean columns", build_reduce_columns, TRP_DNN_MEAN, MATRIX, 0},
    {"max columns", build_reduce_columns, TRP_DNN_MOST, MATRIX, 0},
    {"transpose", build_transpose, 0, MATRIX, 0},
    {"softmax fwd", build_softmax, 0, WIDTHS, 0},
    {"softmax bwd", build_softmax_backward, 0, WIDTHS, 0},
    {"log softmax fwd", build_softmax, 1, WIDTHS, 0},
    {"log softmax bwd", build_softmax_backward, 1, WIDTHS, 0},
    {"layer norm fwd", build_norm, TRP_DNN_LAYER, MATRIX, 0},
    {"layer norm bwd", build_norm_backward, TRP_DNN_LAYER, MATRIX, 0},
    {"rms norm fwd", build_norm, TRP_DNN_RMS, MATRIX, 0},
    {"rms norm bwd", build_norm_backward, TRP_DNN_RMS, MATRIX, 0},
    {"batch norm fwd", build_norm, TRP_DNN_BATCH, IMAGES, 0},
    {"batch norm bwd", build_norm_backward, TRP_DNN_BATCH, IMAGES, 0},
    {"batch norm fwd", build_norm, TRP_DNN_BATCH, IMAGES_LAST, 0},
    {"batch norm bwd", build_norm_backward, TRP_DNN_BATCH, IMAGES_LAST, 0},
    {"instance norm fwd", build_norm, TRP_DNN_INSTANCE, IMAGES, 0},
    {"group norm", build_group_norm, 0, IMAGES, 0},
    {"max pool fwd", build_pool, TRP_DNN_POOL_MAX, IMAGES, 0},
    {"max pool bwd", build_pool_backward, TRP_DNN_POOL_MAX, IMAGES, 0},
    {"mean pool fwd", build_pool, TRP_DNN_POOL_AVERAGE_PADDED, IMAGES, 0},
    {"mean pool bwd", build_pool_backward, TRP_DNN_POOL_AVERAGE_PADDED, IMAGES, 0},
    {"max pool fwd", build_pool, TRP_DNN_POOL_MAX, IMAGES_LAST, 0},
    {"max pool bwd", build_pool_backward, TRP_DNN_POOL_MAX, IMAGES_LAST, 0},
    {"mean pool fwd", build_pool, TRP_DNN_POOL_AVERAGE_PADDED, IMAGES_LAST, 0},
    {"mean pool bwd", build_pool_backward, TRP_DNN_POOL_AVERAGE_PADDED, IMAGES_LAST, 0},
    {"permute", build_permute, 0, IMAGES, 0},
};

/* "softmax fwd bf16 4096x8192", "batch norm fwd f32 64x256x56x56 nhwc" */
static void name_of(size_t row, trp_dtype type, const int64_t *dim, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s %s ", rows[row].name, trp_dtype_name(type));
    for (int i = 0; i < 4 && dim[i] > 0 && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "x" : "", (long long)dim[i]);
    if (rows[row].rank == IMAGES_LAST && n < size)
        snprintf(out + n, size - n, " nhwc");
}

/* --- both sides --- */

static trp_status send(work *w, trp_dnn_ran *ran, trp_completion *completion)
{
    const trp_request header = {.wait_ns = TRP_FOREVER,
                                .deadline_ns = completion ? DNN_LONGEST_NS : 0};
    const trp_dnn_options options = {
        .ran = ran, .tune = suite_on_gpu(w->suite) ? w->suite->tune : TRP_TUNE_OFF};
    w->activation.header = w->softmax.header = w->norm.header = w->pool.header = header;
    w->activation.options = w->softmax.options = w->norm.options = w->pool.options = options;
    switch (w->call) {
    case ACTIVATION_BACKWARD:
        return trp_activation_backward(w->actor, &w->activation, completion);
    case SOFTMAX_FORWARD:
        return trp_softmax_forward(w->actor, &w->softmax, completion);
    case SOFTMAX_BACKWARD:
        return trp_softmax_backward(w->actor, &w->softmax, completion);
    case NORM_TRAINING:
        return trp_norm_training(w->actor, &w->norm, completion);
    case NORM_BACKWARD:
        return trp_norm_backward(w->actor, &w->norm, completion);
    case POOL_FORWARD:
        return trp_pool_forward(w->actor, &w->pool, completion);
    case POOL_BACKWARD:
        return trp_pool_backward(w->actor, &w->pool, completion);
    default:
        break;
    }
    const trp_dnn_graph_request r = {.header = header,
                                     .tensors = w->tensors,
                                     .tensor_count = w->tensor_count,
                                     .nodes = w->nodes,
                                     .node_count = w->node_count,
                                     .options = options};
    return trp_dnn_graph(w->actor, &r, completion);
}

static bool run(void *context, uint64_t count)
{
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(w->suite, send(w, NULL, NULL), "a request"))
            return false;
    }
    return suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                       "trp_device_drain");
}

static bool run_copy(void *context, uint64_t count)
{
    enum { MAILBOX = 512 }; /* a copy can't wait for room in its mailbox */
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (i % MAILBOX == MAILBOX - 1 &&
            !suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                         "trp_device_drain"))
            return false;
        if (!suite_check(w->suite,
                         trp_copy(w->suite->device, w->copied[0], 0, w->copied[1], 0,
                                  (uint64_t)(w->bytes / 2), NULL),
                         "trp_copy"))
            return false;
    }
    return suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                       "trp_device_drain");
}

/* The figure is bytes by time, the ratio that to a copy; PyTorch's is in the note. */
static bool time_both(suite *s, work *w, report_row *row)
{
    const stats_side ours = {run, w}, copy = {run_copy, w};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    placement where;
    plan.count = stats_calibrate(ours, s->quick ? 3e6 : 10e6, 10000);
    plan.warm = plan.count / 8 + 1;
    plan.placement = &where;
    placement_begin(&where, s->device, false);
    bool good = plan.count > 0 && suite_time(s, &plan, copy, ours, row);
    placement_end(&where);
    return good;
}

static void measure(const dnn_rows *section, work *w, const char *name)
{
    suite *s = w->suite;
    trp_completion done = {0};
    report_row row = {.section = section->section,
                      .raw = "a copy of as many bytes",
                      .type = trp_dtype_name(w->type),
                      .unit = "GB/s",
                      .rate = true,
                      .scale = w->bytes};
    snprintf(row.name, sizeof row.name, "%s", name);
    for (int i = 0; i < 2 && w->good; i++)
        w->good = filled_buffer(s, w->piece, (uint64_t)(w->bytes / 2) + 1, &w->copied[i]);
    if (!w->good || !suite_await(s, send(w, &w->ran, &done), &done, "the first request") ||
        !time_both(s, w, &row)) {
        suite_fail(s, row.section, row.name);
        return;
    }
    const double torch = dnn_torch_ns(s, row.name);
    char beside[16] = "";
    if (torch > 0)
        snprintf(beside, sizeof beside, "torch %.2fx ", torch / row.troupe_ns.p50);
    snprintf(row.note, sizeof row.note, "%s%s%.16s", beside, w->ran.parts > 1 ? "pieces " : "",
             w->ran.engine);
    report_add(s->report, &row);
}

typedef struct section {
    dnn_rows rows;
    unsigned char *piece, *positive;
} section;

/* All types and shapes of a row. */
static void run_row(void *context, trp_actor *actor, size_t i)
{
    static const trp_dtype types[] = {TRP_F32, TRP_BF16};
    const section *c = context;
    suite *s = c->rows.suite;
    const size_t count = suite_on_gpu(s) ? SHAPES : 1;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t k = suite_on_gpu(s) ? (rows[i].rank != FLAT) : 0; k < count; k++) {
            const int64_t *dim = shapes[rows[i].rank][k];
            if (dim[0] == 0 || (rows[i].only && rows[i].only != types[t]) ||
                dnn_rows_late(&c->rows))
                continue;
            char name[sizeof((report_row *)0)->name];
            work w = {.suite = s,
                      .actor = actor,
                      .type = types[t],
                      .last = rows[i].rank == IMAGES_LAST,
                      .dim = dim,
                      .piece = c->piece,
                      .positive = c->positive,
                      .good = true,
                      .tensor_count = 1};
            name_of(i, types[t], dim, name, sizeof name);
            rows[i].build(&w, rows[i].what);
            measure(&c->rows, &w, name);
            suite_free(s, w.buffers, w.buffer_count);
            suite_free(s, w.copied, COUNT_OF(w.copied));
        }
    }
}

void suite_dnn_elements(suite *s)
{
    section c = {.rows = dnn_rows_begin(s, "elements"),
                 .piece = malloc(FILLED_PIECE),
                 .positive = malloc(FILLED_PIECE)};
    report_section(s->report, "By element, by row, by image: bytes that must move by time",
                   "raw: a device copy of as many bytes, by turns; Troupe: submit all, then drain; "
                   "behind: PyTorch's time to Troupe's, of --torch FILE");
    if (c.piece && c.positive) {
        filled_piece(TRP_BF16, c.piece, s->seed); /* two of them are an f32 of the same size */
        for (size_t i = 0; i < FILLED_PIECE; i++)
            c.positive[i] = c.piece[i] & 0x7f;
        dnn_rows_run(&c.rows, COUNT_OF(rows), run_row, &c);
    } else {
        suite_fail(s, "elements", "no memory");
    }
    free(c.piece);
    free(c.positive);
}
