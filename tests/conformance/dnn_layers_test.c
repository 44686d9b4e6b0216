/* Calls of layers.h in the conformance suite: draws the graph that a layer stands for, forward and
 * backward, and sends the layer's calls. */
#include "conformance/dnn_graphs.h"

TROUPE_TEST("one isolation", "computes");
TROUPE_TEST_FAKE_GPU("as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all", "TROUPE_TEST_REGULAR=1");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static void copy_windows(const trp_dnn_node *n, int64_t *pre, int64_t *post, int64_t *stride)
{
    memcpy(pre, n->pre_pad, sizeof n->pre_pad);
    memcpy(post, n->post_pad, sizeof n->post_pad);
    memcpy(stride, n->stride, sizeof n->stride);
}

/* ---- convolutions ---- */

/* activation(alpha * conv + beta * z + bias), where each part may be absent. */
static void conv(dp_problem *p, trp_dtype type, int way)
{
    dp_layer *l = &p->layer;
    trp_dnn_node *n = dp_node(p, (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + way));
    dd_conv(p, n, type, 4);
    uint32_t *last = way == 0 ? &n->y : way == 1 ? &n->dx : &n->dw, sum;
    const uint32_t to = *last;
    l->x = way == 1 ? n->dx : n->x;
    l->w = way == 2 ? n->dw : n->w;
    l->y = way == 0 ? n->y : n->dy;
    *last = sum = dp_virtual(p, TRP_DTYPE_NONE);
    p->tensor[sum].rank = p->tensor[to].rank;
    memcpy(p->tensor[sum].dim, p->tensor[to].dim, sizeof p->tensor[to].dim);
    if (dp_below(2)) {
        l->alpha = trp_real(-1.5);
        sum = dd_then(p, TRP_DNN_MUL, sum, dp_value(p, -1.5), TRP_DTYPE_NONE);
    }
    if (dp_below(2)) {
        l->z = dp_memory(p, type, p->tensor[to].rank, p->tensor[to].dim);
        l->beta = trp_real(dp_below(2) ? 0.75 : 1);
        sum = dd_then(p, TRP_DNN_ADD, sum,
                      l->beta.re == 1
                          ? l->z
                          : dd_then(p, TRP_DNN_MUL, l->z, dp_value(p, 0.75), TRP_DTYPE_NONE),
                      TRP_DTYPE_NONE);
    }
    if (way == 0 && dp_below(2)) {
        int64_t dim[TRP_DNN_RANK_MAX];
        for (uint32_t i = 0; i < p->tensor[to].rank; i++)
            dim[i] = i == 1 ? p->tensor[to].dim[i] : 1;
        l->bias = dp_memory(p, type, p->tensor[to].rank, dim);
        sum = dd_then(p, TRP_DNN_ADD, sum, l->bias, TRP_DTYPE_NONE);
    }
    if (way == 0 && dp_below(2)) {
        dd_activate(p, sum, to);
    } else {
        trp_dnn_node *store = dp_node(p, TRP_DNN_POINTWISE);
        store->x = sum;
        store->y = to;
    }
}

static trp_status send_conv(trp_actor *dnn, dp_problem *p, trp_completion *done)
{
    const dp_layer *l = &p->layer;
    const trp_dnn_node *n = &p->node[0];
    const trp_dnn_tensor *t = p->tensor, *bias = &t[l->bias];
    trp_conv_request r = {.x = t[l->x],
                          .w = t[l->w],
                          .y = t[l->y],
                          .z = t[l->z],
                          .alpha = l->alpha,
                          .beta = l->beta,
                          .activation = l->activation,
                          .flip = n->flip,
                          .compute = n->compute};
    if (l->bias) {
        r.bias =
            (trp_dnn_tensor){.type = bias->type, .buffer = bias->buffer, .offset = bias->offset};
        memcpy(r.bias.stride, bias->stride, sizeof bias->stride);
    }
    copy_windows(n, r.pre_pad, r.post_pad, r.stride);
    memcpy(r.dilation, n->dilation, sizeof r.dilation);
    return n->kind == TRP_DNN_CONV_FORWARD         ? trp_conv_forward(dnn, &r, done)
           : n->kind == TRP_DNN_CONV_BACKWARD_DATA ? trp_conv_backward_data(dnn, &r, done)
                                                   : trp_conv_backward_filter(dnn, &r, done);
}

/* ---- pools ---- */

static void pool(dp_problem *p, trp_dtype type, int way)
{
    const bool index = way == TRP_DNN_POOL_MAX && dp_below(2);
    dd_pool(p, type, index);
    trp_dnn_node *n = &p->node[0], *back = dp_node(p, TRP_DNN_RESAMPLE_BACKWARD);
    const uint32_t x = n->x, y = n->y, rank = p->tensor[x].rank;
    n->resample = (trp_dnn_resample)way;
    if (index && !p->memory[n->index])
        n->index = 0;
    if (index && !n->index)
        n->index = dp_memory(p, TRP_I8, rank, p->tensor[y].dim);
    for (uint32_t i = p->tensors; p->tensor[i].rank == 0; i--)
        p->tensors--; /* drops the virtual index */
    n->index = index ? p->tensors : 0;
    p->unknown[n->index] = index;
    p->tensor[y].type = type;
    p->fill[x] = DP_DISTINCT;
    *back = *n;
    back->kind = TRP_DNN_RESAMPLE_BACKWARD;
    back->x = way == TRP_DNN_POOL_MAX && !index ? x : 0;
    back->y = back->x ? y : 0;
    back->dy = dp_memory(p, type, rank, p->tensor[y].dim);
    back->dx = dp_memory(p, type, rank, p->tensor[x].dim);
}

static trp_status send_pool(trp_actor *dnn, dp_problem *p, trp_completion *done)
{
    const trp_dnn_node *n = &p->node[0], *back = &p->node[1];
    const trp_dnn_tensor *t = p->tensor;
    trp_pool_request r = {.mode = n->resample,
                          .x = t[n->x],
                          .y = t[n->y],
                          .index = t[n->index],
                          .round_up = n->round_up};
    memcpy(r.window, n->window, sizeof r.window);
    copy_windows(n, r.pre_pad, r.post_pad, r.stride);
    trp_status status = trp_pool_forward(dnn, &r, NULL);
    r.old_x = t[back->x];
    r.old_y = t[back->y];
    r.x = t[back->dx];
    r.y = t[back->dy];
    return status == TRP_OK ? trp_pool_backward(dnn, &r, done) : status;
}

/* ---- norms ---- */

/* A number of a node: given to the layer, or its default. */
static trp_scalar number(dp_problem *p, uint32_t *field, double standard, double other)
{
    const bool given = dp_below(2);
    *field = dp_value(p, given ? other : standard);
    return given ? trp_real(other) : (trp_scalar){0};
}

static void norm(dp_problem *p)
{
    trp_dnn_node *n = &p->node[0];
    if (n->epsilon && !p->memory[n->epsilon]) {
        p->layer.epsilon = number(p, &n->epsilon, 1e-5, 0.125);
    } else if (n->epsilon) { /* layers take numbers, not tensors */
        p->layer.epsilon = trp_real(0.5);
        p->memory[n->epsilon] = false;
        p->tensor[n->epsilon] = (trp_dnn_tensor){.value = trp_real(0.5)};
    }
    if (n->average_factor)
        p->layer.factor = number(p, &n->average_factor, 0.1, 0.625);
    p->layer.y = n->y;
    if (dp_below(2)) {
        n->y = dp_virtual(p, TRP_DTYPE_NONE);
        dd_activate(p, n->y, p->layer.y);
    }
}

static void norm_training(dp_problem *p, trp_dtype type, int way)
{
    dd_training(p, type, (trp_dnn_norm)way, true);
    norm(p);
}

static void norm_inference(dp_problem *p, trp_dtype type, int way)
{
    dd_inference(p, type, (trp_dnn_norm)way);
    norm(p);
}

static trp_norm_request norm_request(const dp_problem *p, const trp_dnn_node *n)
{
    const trp_dnn_tensor *t = p->tensor;
    return (trp_norm_request){.mode = n->norm,
                              .x = t[n->x],
                              .scale = t[n->scale],
                              .bias = t[n->bias],
                              .mean = t[n->mean],
                              .inv_variance = t[n->inv_variance],
                              .running_mean = t[n->running_mean],
                              .running_variance = t[n->running_variance],
                              .new_running_mean = t[n->new_running_mean],
                              .new_running_variance = t[n->new_running_variance]};
}

static trp_status send_norm(trp_actor *dnn, dp_problem *p, trp_completion *done)
{
    const trp_dnn_node *n = &p->node[0], *b = &p->node[1];
    const trp_dnn_tensor *t = p->tensor;
    trp_norm_request r = norm_request(p, n);
    r.y = t[p->layer.y];
    r.epsilon = p->layer.epsilon;
    r.average_factor = p->layer.factor;
    r.activation = p->layer.activation;
    if (n->kind == TRP_DNN_NORM_INFERENCE)
        return trp_norm_inference(dnn, &r, done);
    trp_status status = trp_norm_training(dnn, &r, NULL);
    r = norm_request(p, b);
    r.y = t[b->dy];
    r.dx = t[b->dx];
    r.dscale = t[b->dscale];
    r.dbias = t[b->dbias];
    return status == TRP_OK ? trp_norm_backward(dnn, &r, done) : status;
}

/* ---- activations ---- */

static void activation(dp_problem *p, trp_dtype type, int way)
{
    const int64_t dim[] = {dp_from(1, 3), dp_from(1, 9), dp_from(1, 9)};
    (void)way;
    uint32_t x = dp_memory(p, type, 3, dim), y = dp_memory(p, type, 3, dim);
    trp_dnn_node *n = dd_activate(p, x, y), *back = dp_node(p, TRP_DNN_POINTWISE_BACKWARD);
    p->fill[x] = DP_AWAY;
    back->pointwise = n->pointwise;
    memcpy(back->parameter, n->parameter, sizeof n->parameter);
    back->x = x;
    back->dy = dp_memory(p, type, 3, dim);
    back->dx = dp_memory(p, type, 3, dim);
}

static trp_status send_activation(trp_actor *dnn, dp_problem *p, trp_completion *done)
{
    const trp_dnn_node *n = &p->node[0], *back = &p->node[1];
    const trp_dnn_tensor *t = p->tensor;
    trp_activation_request r = {.activation = p->layer.activation, .x = t[n->x], .y = t[n->y]};
    trp_status status = trp_activation_forward(dnn, &r, NULL);
    r.y = t[back->dy];
    r.dx = t[back->dx];
    return status == TRP_OK ? trp_activation_backward(dnn, &r, done) : status;
}

static const cf_graph rows[] = {
    CF_GRAPH("conv_layer", conv, CF_WIDE, 3, .send = send_conv),
    CF_GRAPH("pool_layer", pool, 2, 3, .first = 1, .send = send_pool),
    CF_GRAPH("norm_layer", norm_training, CF_WIDE, 4, .send = send_norm),
    CF_GRAPH("norm_layer_inference", norm_inference, CF_FLOATS, 4, .send = send_norm),
    CF_GRAPH("activation_layer", activation, CF_FLOATS, 4, .send = send_activation),
};

int main(int argc, char **argv)
{
    return cf_graphs_main(argc, argv, "dnn: layers", rows, sizeof rows / sizeof *rows);
}
