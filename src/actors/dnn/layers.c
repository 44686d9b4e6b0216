/* Layers: each makes a graph and sends it. What their fields must be is checked with the graph, so
 * that its words are used for errors; here only what would get lost on the way. */
#include "base/error.h"

#include <troupe/layers.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { TENSORS = 24, NODES = 12 };

/* A graph in the making. */
typedef struct graph {
    trp_dnn_tensor tensor[TENSORS];
    uint32_t tensors;
    trp_dnn_node node[NODES];
    uint32_t nodes;
    uint32_t *last; /* the field of the last node for what it writes: the last tensor, virtual */
} graph;

static bool is_given(const trp_dnn_tensor *t)
{
    return t->buffer.id != 0;
}

/* 0 for a tensor that is not given. */
static uint32_t add(graph *g, const trp_dnn_tensor *t)
{
    if (!is_given(t))
        return 0;
    g->tensor[++g->tensors] = *t;
    return g->tensors;
}

/* What the last node writes to `field`: a virtual tensor whose shape follows, unless finish() puts
 * another one there. */
static uint32_t writes(graph *g, uint32_t *field)
{
    g->last = field;
    return *field = ++g->tensors;
}

/* The last node writes to a tensor that is given. */
static void finish(graph *g, const trp_dnn_tensor *t)
{
    g->tensor[*g->last] = *t;
}

static void set_dims(trp_dnn_tensor *t, const trp_dnn_tensor *like)
{
    t->rank = like->rank;
    for (uint32_t i = 0; i < like->rank && i < TRP_DNN_RANK_MAX; i++)
        t->dim[i] = like->dim[i];
}

/* A virtual tensor of the dimensions of another one, but 1 along an axis. */
static uint32_t add_reduced(graph *g, const trp_dnn_tensor *like, uint32_t axis)
{
    trp_dnn_tensor *t = &g->tensor[++g->tensors];
    set_dims(t, like);
    t->dim[axis] = 1;
    return g->tensors;
}

static trp_dnn_node *add_node(graph *g, trp_dnn_kind kind)
{
    trp_dnn_node *n = &g->node[g->nodes++];
    n->kind = kind;
    return n;
}

/* mode(x, b) */
static uint32_t pointwise(graph *g, trp_dnn_pointwise mode, uint32_t x, uint32_t b)
{
    trp_dnn_node *n = add_node(g, TRP_DNN_POINTWISE);
    n->pointwise = mode;
    n->x = x;
    n->b = b;
    return writes(g, &n->y);
}

/* `reduce` of x along an axis, whose dimensions are those of `like`. */
static uint32_t reduce(graph *g, trp_dnn_reduce mode, uint32_t x, const trp_dnn_tensor *like,
                       uint32_t axis)
{
    trp_dnn_node *n = add_node(g, TRP_DNN_REDUCTION);
    n->reduce = mode;
    n->x = x;
    n->y = add_reduced(g, like, axis);
    return n->y;
}

static uint32_t activate(graph *g, const trp_layer_activation *a, uint32_t x)
{
    if (a->mode == TRP_DNN_IDENTITY)
        return x;
    uint32_t y = pointwise(g, a->mode, x, 0);
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++)
        g->node[g->nodes - 1].parameter[i] = a->parameter[i];
    return y;
}

/* x times a scalar, unless that is 1. */
static uint32_t scaled(graph *g, trp_scalar scalar, uint32_t x)
{
    if (!scalar.given || (scalar.re == 1 && scalar.im == 0))
        return x;
    trp_dnn_tensor value = {.value = scalar};
    g->tensor[++g->tensors] = value;
    return pointwise(g, TRP_DNN_MUL, x, g->tensors);
}

static trp_status send(trp_actor *dnn, const graph *g, const trp_request *header,
                       const trp_dnn_options *options, trp_completion *completion)
{
    const trp_dnn_graph_request r = {.header = *header,
                                     .tensors = g->tensor,
                                     .tensor_count = g->tensors + 1,
                                     .nodes = g->node,
                                     .node_count = g->nodes,
                                     .options = *options};
    return trp_dnn_graph(dnn, &r, completion);
}

static trp_status check_activation(const trp_layer_activation *a, bool allowed)
{
    bool none = a->mode == TRP_DNN_IDENTITY;
    if (!allowed && !none)
        return trp__fail(TRP_E_ARGUMENT, "activation.mode: expected none in this pass, got %d",
                         (int)a->mode);
    if (!none && (a->mode < TRP_DNN_RELU || a->mode > TRP_DNN_SWISH))
        return trp__fail(TRP_E_ARGUMENT,
                         "activation.mode: expected one from TRP_DNN_RELU to TRP_DNN_SWISH, got %d",
                         (int)a->mode);
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++) {
        if (none && a->parameter[i].given)
            return trp__fail(TRP_E_ARGUMENT,
                             "activation.parameter[%d]: expected none without an activation", i);
    }
    return TRP_OK;
}

/* Which tensors a call must have, and must not have. */
typedef struct expected {
    const char *name;
    const trp_dnn_tensor *tensor;
    enum { NEEDED, OPTIONAL, NONE } what;
} expected;

static trp_status check_tensors(const expected *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const trp_dnn_tensor *t = all[i].tensor;
        if (all[i].what == NEEDED && !is_given(t))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected a tensor with a buffer", all[i].name);
        if (all[i].what == NONE && is_given(t))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected none in this pass", all[i].name);
        if (!is_given(t) && (t->type || t->rank || t->value.given))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected a buffer, or all zero", all[i].name);
    }
    return TRP_OK;
}

/* Convolutions. */

static void copy_geometry(trp_dnn_node *n, const int64_t *pre_pad, const int64_t *post_pad,
                          const int64_t *stride)
{
    for (int i = 0; i < TRP_DNN_SPATIAL_MAX; i++) {
        n->pre_pad[i] = pre_pad[i];
        n->post_pad[i] = post_pad[i];
        n->stride[i] = stride[i];
    }
}

static trp_status check_conv(const trp_conv_request *r, trp_dnn_kind kind)
{
    bool forward = kind == TRP_DNN_CONV_FORWARD;
    const expected all[] = {{"x", &r->x, NEEDED},
                            {"w", &r->w, NEEDED},
                            {"y", &r->y, NEEDED},
                            {"z", &r->z, OPTIONAL},
                            {"bias", &r->bias, forward ? OPTIONAL : NONE}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK)
        status = check_activation(&r->activation, forward);
    if (status == TRP_OK && r->beta.given && !is_given(&r->z))
        return trp__fail(TRP_E_ARGUMENT, "beta: expected none without z, got %g", r->beta.re);
    if (status == TRP_OK && r->bias.rank != 0)
        return trp__fail(TRP_E_ARGUMENT, "bias.rank: expected 0, for its dimensions follow, got %u",
                         r->bias.rank);
    return status;
}

/* A bias has the dimensions of y, all 1 but the channels. */
static uint32_t add_bias(graph *g, const trp_dnn_tensor *bias, const trp_dnn_tensor *y)
{
    trp_dnn_tensor t = *bias;
    t.rank = y->rank;
    for (uint32_t i = 0; i < y->rank && i < TRP_DNN_RANK_MAX; i++)
        t.dim[i] = i == 1 ? y->dim[1] : 1;
    return add(g, &t);
}

static trp_status conv(trp_actor *dnn, const trp_conv_request *r, trp_dnn_kind kind,
                       trp_completion *completion)
{
    graph g = {0};
    uint32_t sum;
    const trp_dnn_tensor *to = &r->y;
    trp_status status = check_conv(r, kind);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_node(&g, kind);
    copy_geometry(n, r->pre_pad, r->post_pad, r->stride);
    for (int i = 0; i < TRP_DNN_SPATIAL_MAX; i++)
        n->dilation[i] = r->dilation[i];
    n->flip = r->flip;
    n->compute = r->compute;
    if (kind != TRP_DNN_CONV_BACKWARD_DATA)
        n->x = add(&g, &r->x);
    if (kind != TRP_DNN_CONV_BACKWARD_FILTER)
        n->w = add(&g, &r->w);
    if (kind != TRP_DNN_CONV_FORWARD)
        n->dy = add(&g, &r->y);
    if (kind == TRP_DNN_CONV_FORWARD) {
        sum = writes(&g, &n->y);
    } else if (kind == TRP_DNN_CONV_BACKWARD_DATA) {
        sum = writes(&g, &n->dx);
        to = &r->x;
    } else {
        sum = writes(&g, &n->dw);
        to = &r->w;
    }
    if (kind != TRP_DNN_CONV_FORWARD) /* does not follow from what is read */
        set_dims(&g.tensor[sum], to);
    sum = scaled(&g, r->alpha, sum);
    if (is_given(&r->z)) {
        uint32_t z = scaled(&g, r->beta, add(&g, &r->z));
        sum = pointwise(&g, TRP_DNN_ADD, sum, z);
    }
    if (is_given(&r->bias)) {
        uint32_t bias = add_bias(&g, &r->bias, &r->y);
        sum = pointwise(&g, TRP_DNN_ADD, sum, bias);
    }
    activate(&g, &r->activation, sum);
    finish(&g, to);
    return send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_conv_forward(trp_actor *dnn, const trp_conv_request *request,
                            trp_completion *completion)
{
    return conv(dnn, request, TRP_DNN_CONV_FORWARD, completion);
}

trp_status trp_conv_backward_data(trp_actor *dnn, const trp_conv_request *request,
                                  trp_completion *completion)
{
    return conv(dnn, request, TRP_DNN_CONV_BACKWARD_DATA, completion);
}

trp_status trp_conv_backward_filter(trp_actor *dnn, const trp_conv_request *request,
                                    trp_completion *completion)
{
    return conv(dnn, request, TRP_DNN_CONV_BACKWARD_FILTER, completion);
}

/* Pooling. */

static trp_dnn_node *add_pool(graph *g, const trp_pool_request *r, trp_dnn_kind kind)
{
    trp_dnn_node *n = add_node(g, kind);
    n->resample = r->mode;
    copy_geometry(n, r->pre_pad, r->post_pad, r->stride);
    for (int i = 0; i < TRP_DNN_SPATIAL_MAX; i++)
        n->window[i] = r->window[i];
    return n;
}

trp_status trp_pool_forward(trp_actor *dnn, const trp_pool_request *r, trp_completion *completion)
{
    graph g = {0};
    const expected all[] = {{"x", &r->x, NEEDED},
                            {"y", &r->y, NEEDED},
                            {"index", &r->index, OPTIONAL},
                            {"old_x", &r->old_x, NONE},
                            {"old_y", &r->old_y, NONE}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_pool(&g, r, TRP_DNN_RESAMPLE_FORWARD);
    n->x = add(&g, &r->x);
    n->y = add(&g, &r->y);
    n->index = add(&g, &r->index);
    return send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_pool_backward(trp_actor *dnn, const trp_pool_request *r, trp_completion *completion)
{
    graph g = {0};
    const expected all[] = {{"x", &r->x, NEEDED},
                            {"y", &r->y, NEEDED},
                            {"index", &r->index, OPTIONAL},
                            {"old_x", &r->old_x, OPTIONAL},
                            {"old_y", &r->old_y, OPTIONAL}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_pool(&g, r, TRP_DNN_RESAMPLE_BACKWARD);
    n->dy = add(&g, &r->y);
    n->dx = add(&g, &r->x);
    n->index = add(&g, &r->index);
    n->x = add(&g, &r->old_x);
    n->y = add(&g, &r->old_y);
    return send(dnn, &g, &r->header, &r->options, completion);
}

/* Normalisation. */

#define EPSILON_DEFAULT        1e-5
#define AVERAGE_FACTOR_DEFAULT 0.1

static uint32_t add_value(graph *g, double value, double zero)
{
    g->tensor[++g->tensors] = (trp_dnn_tensor){.value = trp_real(value != 0 ? value : zero)};
    return g->tensors;
}

trp_status trp_norm_training(trp_actor *dnn, const trp_norm_request *r, trp_completion *completion)
{
    graph g = {0};
    bool running = is_given(&r->running_mean);
    const expected all[] = {
        {"x", &r->x, NEEDED},
        {"scale", &r->scale, NEEDED},
        {"bias", &r->bias, OPTIONAL},
        {"y", &r->y, NEEDED},
        {"mean", &r->mean, r->mode == TRP_DNN_RMS ? NONE : NEEDED},
        {"inv_variance", &r->inv_variance, NEEDED},
        {"running_variance", &r->running_variance, running ? NEEDED : NONE},
        {"new_running_mean", &r->new_running_mean, running ? NEEDED : NONE},
        {"new_running_variance", &r->new_running_variance, running ? NEEDED : NONE},
        {"dx", &r->dx, NONE},
        {"dscale", &r->dscale, NONE},
        {"dbias", &r->dbias, NONE}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK)
        status = check_activation(&r->activation, true);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_node(&g, TRP_DNN_NORM_TRAINING);
    n->norm = r->mode;
    n->x = add(&g, &r->x);
    n->scale = add(&g, &r->scale);
    n->bias = add(&g, &r->bias);
    n->epsilon = add_value(&g, r->epsilon, EPSILON_DEFAULT);
    n->mean = add(&g, &r->mean);
    n->inv_variance = add(&g, &r->inv_variance);
    if (running) {
        n->running_mean = add(&g, &r->running_mean);
        n->running_variance = add(&g, &r->running_variance);
        n->average_factor = add_value(&g, r->average_factor, AVERAGE_FACTOR_DEFAULT);
        n->new_running_mean = add(&g, &r->new_running_mean);
        n->new_running_variance = add(&g, &r->new_running_variance);
    }
    activate(&g, &r->activation, writes(&g, &n->y));
    finish(&g, &r->y);
    return send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_norm_inference(trp_actor *dnn, const trp_norm_request *r, trp_completion *completion)
{
    graph g = {0};
    bool batch = r->mode == TRP_DNN_BATCH;
    const expected all[] = {{"x", &r->x, NEEDED},
                            {"scale", &r->scale, NEEDED},
                            {"bias", &r->bias, OPTIONAL},
                            {"y", &r->y, NEEDED},
                            {"mean", &r->mean, batch ? NEEDED : NONE},
                            {"inv_variance", &r->inv_variance, batch ? NEEDED : NONE},
                            {"running_mean", &r->running_mean, NONE},
                            {"running_variance", &r->running_variance, NONE},
                            {"new_running_mean", &r->new_running_mean, NONE},
                            {"new_running_variance", &r->new_running_variance, NONE},
                            {"dx", &r->dx, NONE},
                            {"dscale", &r->dscale, NONE},
                            {"dbias", &r->dbias, NONE}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK)
        status = check_activation(&r->activation, true);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_node(&g, TRP_DNN_NORM_INFERENCE);
    n->norm = r->mode;
    n->x = add(&g, &r->x);
    n->scale = add(&g, &r->scale);
    n->bias = add(&g, &r->bias);
    n->mean = add(&g, &r->mean);
    n->inv_variance = add(&g, &r->inv_variance);
    if (!batch)
        n->epsilon = add_value(&g, r->epsilon, EPSILON_DEFAULT);
    activate(&g, &r->activation, writes(&g, &n->y));
    finish(&g, &r->y);
    return send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_norm_backward(trp_actor *dnn, const trp_norm_request *r, trp_completion *completion)
{
    graph g = {0};
    const expected all[] = {{"x", &r->x, NEEDED},
                            {"scale", &r->scale, NEEDED},
                            {"bias", &r->bias, NONE},
                            {"y", &r->y, NEEDED},
                            {"mean", &r->mean, r->mode == TRP_DNN_RMS ? NONE : NEEDED},
                            {"inv_variance", &r->inv_variance, NEEDED},
                            {"running_mean", &r->running_mean, NONE},
                            {"running_variance", &r->running_variance, NONE},
                            {"new_running_mean", &r->new_running_mean, NONE},
                            {"new_running_variance", &r->new_running_variance, NONE},
                            {"dx", &r->dx, NEEDED},
                            {"dscale", &r->dscale, NEEDED},
                            {"dbias", &r->dbias, OPTIONAL}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK)
        status = check_activation(&r->activation, false);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_node(&g, TRP_DNN_NORM_BACKWARD);
    n->norm = r->mode;
    n->dy = add(&g, &r->y);
    n->x = add(&g, &r->x);
    n->scale = add(&g, &r->scale);
    n->mean = add(&g, &r->mean);
    n->inv_variance = add(&g, &r->inv_variance);
    n->dx = add(&g, &r->dx);
    n->dscale = add(&g, &r->dscale);
    n->dbias = add(&g, &r->dbias);
    return send(dnn, &g, &r->header, &r->options, completion);
}

/* Activations and softmax. */

trp_status trp_activation_forward(trp_actor *dnn, const trp_activation_request *r,
                                  trp_completion *completion)
{
    graph g = {0};
    const expected all[] = {{"x", &r->x, NEEDED}, {"y", &r->y, NEEDED}, {"dx", &r->dx, NONE}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK)
        status = check_activation(&r->activation, true);
    if (status != TRP_OK)
        return status;
    if (r->activation.mode == TRP_DNN_IDENTITY)
        pointwise(&g, TRP_DNN_IDENTITY, add(&g, &r->x), 0);
    else
        activate(&g, &r->activation, add(&g, &r->x));
    finish(&g, &r->y);
    return send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_activation_backward(trp_actor *dnn, const trp_activation_request *r,
                                   trp_completion *completion)
{
    graph g = {0};
    const expected all[] = {{"x", &r->x, NEEDED}, {"y", &r->y, NEEDED}, {"dx", &r->dx, NEEDED}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK)
        status = check_activation(&r->activation, true);
    if (status == TRP_OK && r->activation.mode == TRP_DNN_IDENTITY)
        return trp__fail(TRP_E_ARGUMENT, "activation.mode: expected one, got none");
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = add_node(&g, TRP_DNN_POINTWISE_BACKWARD);
    n->pointwise = r->activation.mode;
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++)
        n->parameter[i] = r->activation.parameter[i];
    n->x = add(&g, &r->x);
    n->dy = add(&g, &r->y);
    n->dx = add(&g, &r->dx);
    return send(dnn, &g, &r->header, &r->options, completion);
}

static trp_status check_softmax(const trp_softmax_request *r, bool forward)
{
    const expected all[] = {{"x", &r->x, forward ? NEEDED : NONE},
                            {"y", &r->y, NEEDED},
                            {"dy", &r->dy, forward ? NONE : NEEDED},
                            {"dx", &r->dx, forward ? NONE : NEEDED}};
    trp_status status = check_tensors(all, COUNT_OF(all));
    if (status == TRP_OK && r->axis >= r->y.rank)
        return trp__fail(TRP_E_ARGUMENT, "axis: expected less than the rank of y, %u, got %u",
                         r->y.rank, r->axis);
    return status;
}

trp_status trp_softmax_forward(trp_actor *dnn, const trp_softmax_request *r,
                               trp_completion *completion)
{
    graph g = {0};
    trp_status status = check_softmax(r, true);
    if (status != TRP_OK)
        return status;
    uint32_t x = add(&g, &r->x);
    uint32_t most = reduce(&g, TRP_DNN_MOST, x, &r->x, r->axis);
    uint32_t shifted = pointwise(&g, TRP_DNN_SUB, x, most);
    uint32_t power = pointwise(&g, TRP_DNN_EXP, shifted, 0);
    uint32_t sum = reduce(&g, TRP_DNN_SUM, power, &r->x, r->axis);
    if (r->log)
        pointwise(&g, TRP_DNN_SUB, shifted, pointwise(&g, TRP_DNN_LOG, sum, 0));
    else
        pointwise(&g, TRP_DNN_DIV, power, sum);
    finish(&g, &r->y);
    return send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_softmax_backward(trp_actor *dnn, const trp_softmax_request *r,
                                trp_completion *completion)
{
    graph g = {0};
    trp_status status = check_softmax(r, false);
    if (status != TRP_OK)
        return status;
    uint32_t y = add(&g, &r->y), dy = add(&g, &r->dy);
    if (r->log) {
        uint32_t sum = reduce(&g, TRP_DNN_SUM, dy, &r->y, r->axis);
        uint32_t part = pointwise(&g, TRP_DNN_MUL, pointwise(&g, TRP_DNN_EXP, y, 0), sum);
        pointwise(&g, TRP_DNN_SUB, dy, part);
    } else {
        uint32_t part = pointwise(&g, TRP_DNN_MUL, dy, y);
        uint32_t sum = reduce(&g, TRP_DNN_SUM, part, &r->y, r->axis);
        pointwise(&g, TRP_DNN_MUL, pointwise(&g, TRP_DNN_SUB, dy, sum), y);
    }
    finish(&g, &r->dx);
    return send(dnn, &g, &r->header, &r->options, completion);
}
