/* Measures element-wise functions, conversions, reductions, softmax, normalisation, pooling,
 * permutations, and an optimiser step as a graph. */
#include "elements.h"

#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef elements_work work;

ELEMENTS_SEND(activation, trp_activation_request, activation, trp_activation_backward)
ELEMENTS_SEND(softmax, trp_softmax_request, softmax,
              (w->backward ? trp_softmax_backward : trp_softmax_forward))
ELEMENTS_SEND(norm, trp_norm_request, norm, (w->backward ? trp_norm_backward : trp_norm_training))
ELEMENTS_SEND(pool, trp_pool_request, pool, (w->backward ? trp_pool_backward : trp_pool_forward))

/* Adds a tensor in memory; with `read` it contains random numbers. */
static trp_dnn_tensor memory(work *w, trp_dtype type, uint32_t rank, const int64_t *dim, bool read)
{
    return elements_memory(w, type, rank, dim, read ? w->piece : NULL);
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

/* `what` is a unary function. */
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

/* `what` is the result type. */
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
    w->send = send_activation;
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

static void build_reduce_rows(work *w, int what) /* reduces each row to one number */
{
    reduce(w, what, 2, (const int64_t[]){w->dim[0], 1});
}

static void build_reduce_columns(work *w, int what)
{
    reduce(w, what, 2, (const int64_t[]){1, w->dim[1]});
}

/* Multiplies x by a random mask and by 1 / (1 - p). */
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

/* A step of AdamW as 14 pointwise nodes: reads p, m, v and the gradient, writes p, m and v. The
 * moments are f32. */
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
    w->send = send_softmax;
    w->softmax.axis = 1;
    w->softmax.log = what != 0;
    w->softmax.x = memory(w, w->type, 2, w->dim, true);
    w->softmax.y = memory(w, w->type, 2, w->dim, false);
}

static void build_softmax_backward(work *w, int what)
{
    w->send = send_softmax;
    w->backward = true;
    w->softmax.axis = 1;
    w->softmax.log = what != 0;
    w->softmax.y = memory(w, w->type, 2, w->dim, true);
    w->softmax.dy = memory(w, w->type, 2, w->dim, true);
    w->softmax.dx = memory(w, w->type, 2, w->dim, false);
}

/* LAYER and RMS take matrices, the others images. */
static void norm(work *w, int what, bool backward)
{
    const bool rows = what == TRP_DNN_LAYER || what == TRP_DNN_RMS;
    const uint32_t rank = rows ? 2 : 4;
    const int64_t channels[4] = {1, w->dim[1], 1, 1};
    const int64_t cells[4] = {what == TRP_DNN_BATCH ? 1 : w->dim[0], rows ? 1 : w->dim[1], 1, 1};
    trp_norm_request *r = &w->norm;
    w->send = send_norm;
    w->backward = backward;
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

/* Normalises 32 groups as channels of an instance norm, then applies each channel's factor and
 * bias. */
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

/* Pools with a 3 x 3 window, stride 2, padding 1. */
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
    w->send = send_pool;
    r->x = memory(w, w->type, 4, w->dim, true);
    r->y = memory(w, w->type, 4, out, false);
}

static void build_pool_backward(work *w, int what)
{
    int64_t out[4];
    trp_pool_request *r = pool(w, what, out);
    w->send = send_pool;
    w->backward = true;
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

/* Converts NCHW to NHWC in memory. */
static void build_permute(work *w, int what)
{
    (void)what;
    uint32_t x = reads(w, w->type, 4, w->dim);
    w->last = true;
    pointwise(w, TRP_DNN_IDENTITY, x, 0, writes(w, w->type, 4, w->dim));
}

/* --- the rows --- */

/* The kinds of request. bench/peers/torch_elementwise.py uses the same names. */
static const elements_row rows[] = {
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

void suite_dnn_elements(suite *s)
{
    report_section(s->report, "By element, by row, by image: bytes that must move by time",
                   "raw: a device copy of as many bytes, by turns; Troupe: submit all, then drain; "
                   "behind: PyTorch's time to Troupe's, of --torch FILE");
    elements_measure(s, rows, COUNT_OF(rows));
}
