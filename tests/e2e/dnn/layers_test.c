/* Graphs of several nodes, and layers, which are graphs too: against a float64 reference; and
 * gradients against finite differences of what the actor itself computes forward.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all", "TROUPE_TEST_REGULAR=1");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

/* The types between the nodes: the default, or what the graph rounds to there. */
static trp_dtype draw_between(void)
{
    static const trp_dtype types[] = {TRP_DTYPE_NONE, TRP_DTYPE_NONE, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(5)];
}

static trp_dtype draw_wide(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(4)];
}

/* What the node writes becomes virtual, of a type; returns the tensor that it would have had. */
static uint32_t intercept(dp_problem *p, uint32_t *field, trp_dtype type)
{
    uint32_t kept = *field;
    *field = dp_virtual(p, type);
    return kept;
}

static uint32_t then(dp_problem *p, trp_dnn_pointwise mode, uint32_t x, uint32_t b, trp_dtype type)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = mode;
    n->x = x;
    n->b = b;
    return n->y = dp_virtual(p, type);
}

static trp_dnn_node *then_activate(dp_problem *p, uint32_t x, uint32_t y)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = (trp_dnn_pointwise)dp_from(TRP_DNN_RELU, TRP_DNN_SWISH);
    dd_parameters(n);
    n->x = x;
    n->y = y;
    return n;
}

/* A tensor of the dimensions of another one, 1 but at the channels. */
static uint32_t per_channel(dp_problem *p, trp_dtype type, uint32_t like, uint32_t axis)
{
    int64_t dim[TRP_DNN_RANK_MAX];
    for (uint32_t i = 0; i < p->tensor[like].rank; i++)
        dim[i] = i == axis ? p->tensor[like].dim[i] : 1;
    return dp_memory(p, type, p->tensor[like].rank, dim);
}

/* --- chains --- */

/* activation(conv(x, w) + bias) */
static void conv_chain(dp_problem *p)
{
    p->kind = "conv, bias, activation";
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONV_FORWARD);
    trp_dtype type = draw_wide();
    dd_conv(p, n, type, 4);
    uint32_t y = intercept(p, &n->y, draw_between());
    uint32_t bias = per_channel(p, type, y, 1);
    uint32_t sum = then(p, TRP_DNN_ADD, n->y, bias, draw_between());
    then_activate(p, sum, y);
}

/* The sum is written too, and pooled. */
static void pool_chain(dp_problem *p)
{
    p->kind = "conv, pool";
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONV_FORWARD);
    dd_conv(p, n, draw_wide(), 4);
    trp_dnn_node *pool = dp_node(p, TRP_DNN_RESAMPLE_FORWARD);
    const trp_dnn_tensor *x = &p->tensor[n->y];
    int64_t y[TRP_DNN_RANK_MAX] = {x->dim[0], x->dim[1]};
    pool->resample = (trp_dnn_resample)dp_below(3);
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        pool->window[i] = dp_from(1, x->dim[2 + i] < 3 ? x->dim[2 + i] : 3);
        y[2 + i] = x->dim[2 + i] - pool->window[i] + 1;
    }
    pool->x = n->y;
    pool->y = dp_memory(p, draw_wide(), x->rank, y);
}

/* log(sum(exp(a b))) along the rows, and what was summed. */
static void product_chain(dp_problem *p)
{
    const int64_t m = dp_from(1, 9), k = dp_from(1, 5), columns = dp_from(1, 9);
    const trp_dtype type = draw_wide();
    p->kind = "matmul, exp, sum, log";
    trp_dnn_node *n = dp_node(p, TRP_DNN_MATMUL);
    n->a = dp_memory(p, type, 3, (const int64_t[]){2, m, k});
    n->b = dp_memory(p, type, 3, (const int64_t[]){1, k, columns});
    n->y = dp_virtual(p, draw_between());
    uint32_t scaled = then(p, TRP_DNN_MUL, n->y, dp_value(p, 0.25), draw_between());
    trp_dnn_node *power = dp_node(p, TRP_DNN_POINTWISE);
    power->pointwise = TRP_DNN_EXP;
    power->x = scaled;
    power->y = dp_memory(p, TRP_F32, 3, (const int64_t[]){2, m, columns});
    trp_dnn_node *sum = dp_node(p, TRP_DNN_REDUCTION);
    sum->x = power->y;
    sum->y = dp_virtual(p, TRP_DTYPE_NONE);
    p->tensor[sum->y].rank = 3;
    memcpy(p->tensor[sum->y].dim, (const int64_t[]){2, m, 1}, 3 * sizeof(int64_t));
    trp_dnn_node *log = dp_node(p, TRP_DNN_POINTWISE);
    log->pointwise = TRP_DNN_LOG;
    log->x = sum->y;
    log->y = dp_memory(p, type, 3, (const int64_t[]){2, m, 1});
}

/* activation(norm(x)), with a value that two nodes read. */
static void norm_chain(dp_problem *p)
{
    p->kind = "norm, scale, activation";
    dd_training(p, dd_wide(), (trp_dnn_norm)dp_below(4), false);
    trp_dnn_node *n = &p->node[0];
    uint32_t y = intercept(p, &n->y, draw_between()), twice = dp_value(p, 1.5);
    uint32_t more = then(p, TRP_DNN_MUL, n->y, twice, draw_between());
    uint32_t sum = then(p, TRP_DNN_SUB, more, twice, TRP_DTYPE_NONE);
    then_activate(p, sum, y);
}

static void (*const chains[])(dp_problem *) = {conv_chain, pool_chain, product_chain, norm_chain};

static void chains_of_nodes(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(160); i++) {
        dp_problem p = {0};
        chains[i % 4](&p);
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* The same graph, its tensors under other numbers. */
static void renumber(const dp_problem *p, dp_problem *q)
{
    uint32_t number[DP_TENSORS] = {0};
    *q = *p;
    for (uint32_t i = 1; i <= p->tensors; i++) {
        uint32_t at = 1 + (uint32_t)dp_below(i);
        number[i] = number[at];
        number[at] = i;
    }
    for (uint32_t i = 1; i <= p->tensors; i++)
        q->tensor[number[i]] = p->tensor[i];
    for (uint32_t i = 0; i < p->nodes; i++) {
        for (uint32_t *field = &q->node[i].x; field <= &q->node[i].square_sum; field++)
            *field = number[*field];
    }
}

static void order_of_tensors(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(24); i++) {
        dp_problem p = {0}, q;
        double *first[DP_TENSORS] = {NULL}, *second;
        chains[i % 4](&p);
        dp_make(world.device, &p);
        dp_compute(dnn, &p);
        for (uint32_t t = 1; t <= p.tensors; t++) {
            if (!p.written[t] || !p.memory[t])
                continue;
            first[t] = dp_read(&p, t);
            h_write(world.device, p.tensor[t].buffer, 0, p.data[t], p.bytes[t]);
        }
        renumber(&p, &q);
        dp_compute(dnn, &q);
        for (uint32_t t = 1; t <= p.tensors; t++) {
            if (!first[t])
                continue;
            second = dp_read(&p, t);
            H_SAME(second, first[t], p.value[t].count * sizeof *second);
            free(second);
            free(first[t]);
        }
        dp_drop(&p);
    }
    dp_close(&world);
}

/* --- layers --- */

#define LAYER(p, call)                                                                             \
    do {                                                                                           \
        trp_completion done = {0};                                                                 \
        trp_status status = call;                                                                  \
        dp_await(p, status, done);                                                                 \
    } while (0)

static trp_layer_activation activation_of(const trp_dnn_node *n)
{
    trp_layer_activation a = {.mode = n->pointwise};
    memcpy(a.parameter, n->parameter, sizeof a.parameter);
    return a;
}

static void copy_windows(const trp_dnn_node *n, int64_t *pre, int64_t *post, int64_t *stride)
{
    memcpy(pre, n->pre_pad, sizeof n->pre_pad);
    memcpy(post, n->post_pad, sizeof n->post_pad);
    memcpy(stride, n->stride, sizeof n->stride);
}

/* activation(alpha * conv + beta * z + bias), each part of it there or not. */
static void conv_layer(int kind)
{
    static const char *const names[] = {"conv layer", "conv layer, data", "conv layer, filter"};
    dp_problem p = {.kind = names[kind]};
    trp_conv_request r = {.alpha = {0}};
    trp_dnn_node *n = dp_node(&p, (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + kind));
    uint32_t z = 0, bias = 0;
    const trp_dtype type = draw_wide();
    dd_conv(&p, n, type, 4);
    const uint32_t x = kind == 1 ? n->dx : n->x, w = kind == 2 ? n->dw : n->w;
    const uint32_t y = kind == 0 ? n->y : n->dy, to = kind == 0 ? y : kind == 1 ? x : w;
    uint32_t *last = kind == 0 ? &n->y : kind == 1 ? &n->dx : &n->dw;
    uint32_t sum = dp_virtual(&p, TRP_DTYPE_NONE);
    p.tensor[sum].rank = p.tensor[to].rank;
    memcpy(p.tensor[sum].dim, p.tensor[to].dim, sizeof p.tensor[to].dim);
    *last = sum;
    if (dp_below(2)) {
        r.alpha = trp_real(-1.5);
        sum = then(&p, TRP_DNN_MUL, sum, dp_value(&p, -1.5), TRP_DTYPE_NONE);
    }
    if (dp_below(2)) {
        z = dp_memory(&p, type, p.tensor[to].rank, p.tensor[to].dim);
        r.beta = trp_real(dp_below(2) ? 0.75 : 1);
        uint32_t part = z;
        if (r.beta.re != 1)
            part = then(&p, TRP_DNN_MUL, z, dp_value(&p, 0.75), TRP_DTYPE_NONE);
        sum = then(&p, TRP_DNN_ADD, sum, part, TRP_DTYPE_NONE);
    }
    if (kind == 0 && dp_below(2)) {
        bias = per_channel(&p, type, y, 1);
        sum = then(&p, TRP_DNN_ADD, sum, bias, TRP_DTYPE_NONE);
    }
    if (kind == 0 && dp_below(2)) {
        r.activation = activation_of(then_activate(&p, sum, to));
    } else {
        trp_dnn_node *store = dp_node(&p, TRP_DNN_POINTWISE);
        store->x = sum;
        store->y = to;
    }
    dp_make(world.device, &p);
    r.x = p.tensor[x];
    r.w = p.tensor[w];
    r.y = p.tensor[y];
    r.z = z ? p.tensor[z] : r.z;
    if (bias) {
        const trp_dnn_tensor *b = &p.tensor[bias];
        r.bias = (trp_dnn_tensor){.type = b->type, .buffer = b->buffer, .offset = b->offset};
        memcpy(r.bias.stride, b->stride, sizeof b->stride);
    }
    copy_windows(&p.node[0], r.pre_pad, r.post_pad, r.stride);
    memcpy(r.dilation, p.node[0].dilation, sizeof r.dilation);
    r.flip = p.node[0].flip;
    r.compute = p.node[0].compute;
    LAYER(&p, kind == 0   ? trp_conv_forward(dnn, &r, &done)
              : kind == 1 ? trp_conv_backward_data(dnn, &r, &done)
                          : trp_conv_backward_filter(dnn, &r, &done));
    dp_compare(&p);
    dp_drop(&p);
}

static void pool_layer(int mode)
{
    const bool index = mode == TRP_DNN_POOL_MAX && dp_below(2);
    dp_problem p = {.kind = "pool layer"};
    dd_pool(&p, dp_below(3) ? TRP_F32 : TRP_F16, index);
    trp_dnn_node *n = &p.node[0], *back = dp_node(&p, TRP_DNN_RESAMPLE_BACKWARD);
    const uint32_t x = n->x, y = n->y, rank = p.tensor[x].rank;
    const trp_dtype type = p.tensor[x].type;
    n->resample = (trp_dnn_resample)mode;
    if (index && !p.memory[n->index])
        n->index = 0;
    if (index && !n->index)
        n->index = dp_memory(&p, TRP_I8, rank, p.tensor[y].dim);
    for (uint32_t i = p.tensors; p.tensor[i].rank == 0; i--)
        p.tensors--; /* the virtual index */
    n->index = index ? p.tensors : 0;
    p.unknown[n->index] = index;
    p.tensor[y].type = type;
    p.fill[x] = DP_DISTINCT;
    *back = *n;
    back->kind = TRP_DNN_RESAMPLE_BACKWARD;
    back->x = mode == TRP_DNN_POOL_MAX && !index ? x : 0;
    back->y = back->x ? y : 0;
    back->dy = dp_memory(&p, type, rank, p.tensor[y].dim);
    back->dx = dp_memory(&p, type, rank, p.tensor[x].dim);
    dp_make(world.device, &p);
    trp_pool_request r = {
        .mode = n->resample, .x = p.tensor[x], .y = p.tensor[y], .round_up = n->round_up};
    r.index = p.tensor[n->index];
    memcpy(r.window, n->window, sizeof r.window);
    copy_windows(n, r.pre_pad, r.post_pad, r.stride);
    LAYER(&p, trp_pool_forward(dnn, &r, &done));
    r.old_x = p.tensor[back->x];
    r.old_y = p.tensor[back->y];
    r.x = p.tensor[back->dx];
    r.y = p.tensor[back->dy];
    LAYER(&p, trp_pool_backward(dnn, &r, &done));
    dp_compare(&p);
    dp_drop(&p);
}

static trp_norm_request norm_request(const dp_problem *p, const trp_dnn_node *n)
{
    const trp_dnn_tensor *t = p->tensor;
    return (trp_norm_request){.mode = n->norm,
                              .x = t[n->x],
                              .scale = t[n->scale],
                              .bias = t[n->bias],
                              .y = t[n->y],
                              .mean = t[n->mean],
                              .inv_variance = t[n->inv_variance],
                              .running_mean = t[n->running_mean],
                              .running_variance = t[n->running_variance],
                              .new_running_mean = t[n->new_running_mean],
                              .new_running_variance = t[n->new_running_variance]};
}

/* A number of a node, which the layer is told as such or has as its default. */
static double number(dp_problem *p, uint32_t *field, double standard, double other)
{
    bool given = dp_below(2);
    *field = dp_value(p, given ? other : standard);
    return given ? other : 0;
}

static void norm_layer(trp_dnn_norm norm, bool training)
{
    static const char *const names[] = {"norm layer, inference", "norm layer, training"};
    dp_problem p = {.kind = names[training]};
    double epsilon = 0, factor = 0;
    if (training)
        dd_training(&p, dd_wide(), norm, true);
    else
        dd_inference(&p, dd_float(), norm);
    trp_dnn_node *n = &p.node[0];
    if (n->epsilon && !p.memory[n->epsilon]) {
        epsilon = number(&p, &n->epsilon, 1e-5, 0.125);
    } else if (n->epsilon) { /* layers have numbers only */
        epsilon = 0.5;
        p.memory[n->epsilon] = false;
        p.tensor[n->epsilon] = (trp_dnn_tensor){.value = trp_real(0.5)};
    }
    if (n->average_factor)
        factor = number(&p, &n->average_factor, 0.1, 0.625);
    trp_layer_activation activation = {0};
    const uint32_t y = n->y;
    if (dp_below(2)) {
        n->y = dp_virtual(&p, TRP_DTYPE_NONE);
        activation = activation_of(then_activate(&p, n->y, y));
    }
    dp_make(world.device, &p);
    trp_norm_request r = norm_request(&p, n);
    r.y = p.tensor[y];
    if (epsilon != 0) /* else the defaults */
        r.epsilon = trp_real(epsilon);
    if (factor != 0)
        r.average_factor = trp_real(factor);
    r.activation = activation;
    if (training)
        LAYER(&p, trp_norm_training(dnn, &r, &done));
    else
        LAYER(&p, trp_norm_inference(dnn, &r, &done));
    if (training) {
        const trp_dnn_node *b = &p.node[1];
        trp_norm_request back = norm_request(&p, b);
        back.y = p.tensor[b->dy];
        back.dx = p.tensor[b->dx];
        back.dscale = p.tensor[b->dscale];
        back.dbias = p.tensor[b->dbias];
        LAYER(&p, trp_norm_backward(dnn, &back, &done));
    }
    dp_compare(&p);
    dp_drop(&p);
}

static void activation_layer(void)
{
    dp_problem p = {.kind = "activation layer"};
    const int64_t dim[] = {dp_from(1, 3), dp_from(1, 9), dp_from(1, 9)};
    const trp_dtype type = dd_float();
    uint32_t x = dp_memory(&p, type, 3, dim), y = dp_memory(&p, type, 3, dim);
    trp_dnn_node *n = then_activate(&p, x, y), *back = dp_node(&p, TRP_DNN_POINTWISE_BACKWARD);
    p.fill[x] = DP_AWAY;
    back->pointwise = n->pointwise;
    memcpy(back->parameter, n->parameter, sizeof n->parameter);
    back->x = x;
    back->dy = dp_memory(&p, type, 3, dim);
    back->dx = dp_memory(&p, type, 3, dim);
    dp_make(world.device, &p);
    trp_activation_request r = {.activation = activation_of(n), .x = p.tensor[x], .y = p.tensor[y]};
    LAYER(&p, trp_activation_forward(dnn, &r, &done));
    r.y = p.tensor[back->dy];
    r.dx = p.tensor[back->dx];
    LAYER(&p, trp_activation_backward(dnn, &r, &done));
    dp_compare(&p);
    dp_drop(&p);
}

static void layers(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(48); i++) {
        conv_layer(i % 3);
        pool_layer(i % 3);
        norm_layer((trp_dnn_norm)(i % 4), i / 4 % 2);
        activation_layer();
    }
    dp_close(&world);
}

H_CASES(H_CASE(chains_of_nodes), H_CASE(order_of_tensors), H_CASE(layers))
