/* Implements convolutions and pooling as layers: each builds a graph and sends it. The checks of
 * the graph check the fields too, with the graph's messages; only what the graph would not contain
 * is checked here. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

static void copy_geometry(trp_dnn_node *n, const int64_t *pre_pad, const int64_t *post_pad,
                          const int64_t *stride)
{
    for (int i = 0; i < TRP_DNN_SPATIAL_MAX; i++) {
        n->pre_pad[i] = pre_pad[i];
        n->post_pad[i] = post_pad[i];
        n->stride[i] = stride[i];
    }
}

static trp_status check_conv(trp__layer_graph *g, const trp_conv_request *r, trp_dnn_kind kind)
{
    bool forward = kind == TRP_DNN_CONV_FORWARD;
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"w", &r->w, NEEDED},
                                     {"y", &r->y, NEEDED},
                                     {"z", &r->z, OPTIONAL},
                                     {"bias", &r->bias, forward ? OPTIONAL : NONE}};
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = trp__layer_check_activation(&r->activation, forward);
    const trp__layer_scalar scalars[] = {{"alpha", &r->alpha}, {"beta", &r->beta}};
    if (status == TRP_OK)
        status = trp__layer_check_scalars(scalars, COUNT_OF(scalars));
    if (status == TRP_OK && r->beta.given && !trp__layer_is_given(&r->z))
        return trp__fail(TRP_E_ARGUMENT, "beta: expected none without z, got %g", r->beta.re);
    if (status == TRP_OK && !r->beta.given && trp__layer_is_given(&r->z))
        return trp__fail(TRP_E_ARGUMENT,
                         "beta: expected one with z, such as trp_real(1), got none");
    if (status == TRP_OK && r->bias.rank != 0)
        return trp__fail(TRP_E_ARGUMENT, "bias.rank: expected 0, for its dimensions follow, got %u",
                         r->bias.rank);
    return status;
}

/* Adds a bias with the rank of y and all dimensions 1 except the channels. */
static uint32_t add_bias(trp__layer_graph *g, const trp_dnn_tensor *bias, const trp_dnn_tensor *y)
{
    trp_dnn_tensor t = *bias;
    t.rank = y->rank;
    for (uint32_t i = 0; i < y->rank && i < TRP_DNN_RANK_MAX; i++)
        t.dim[i] = i == 1 ? y->dim[1] : 1;
    const uint32_t number = trp__layer_add(g, &t);
    g->name[number] = "bias";
    return number;
}

static trp_status conv(trp_actor *dnn, const trp_conv_request *r, trp_dnn_kind kind,
                       trp_completion *completion)
{
    trp__layer_graph g = {0};
    uint32_t sum;
    const trp_dnn_tensor *to = &r->y;
    trp_status status = check_conv(&g, r, kind);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, kind);
    copy_geometry(n, r->pre_pad, r->post_pad, r->stride);
    for (int i = 0; i < TRP_DNN_SPATIAL_MAX; i++)
        n->dilation[i] = r->dilation[i];
    n->flip = r->flip;
    n->compute = r->compute;
    if (kind != TRP_DNN_CONV_BACKWARD_DATA)
        n->x = trp__layer_add(&g, &r->x);
    if (kind != TRP_DNN_CONV_BACKWARD_FILTER)
        n->w = trp__layer_add(&g, &r->w);
    if (kind != TRP_DNN_CONV_FORWARD)
        n->dy = trp__layer_add(&g, &r->y);
    if (kind == TRP_DNN_CONV_FORWARD) {
        sum = trp__layer_writes(&g, &n->y);
    } else if (kind == TRP_DNN_CONV_BACKWARD_DATA) {
        sum = trp__layer_writes(&g, &n->dx);
        to = &r->x;
    } else {
        sum = trp__layer_writes(&g, &n->dw);
        to = &r->w;
    }
    if (kind != TRP_DNN_CONV_FORWARD) /* its shape does not follow from the inputs */
        trp__layer_set_dims(&g.tensor[sum], to);
    sum = trp__layer_scaled(&g, r->alpha, sum);
    if (r->beta.re != 0 || r->beta.im != 0) { /* otherwise z is not read, as in BLAS */
        uint32_t z = trp__layer_scaled(&g, r->beta, trp__layer_add(&g, &r->z));
        sum = trp__layer_pointwise(&g, TRP_DNN_ADD, sum, z);
    }
    if (trp__layer_is_given(&r->bias)) {
        uint32_t bias = add_bias(&g, &r->bias, &r->y);
        sum = trp__layer_pointwise(&g, TRP_DNN_ADD, sum, bias);
    }
    trp__layer_activate(&g, &r->activation, sum);
    trp__layer_finish(&g, to);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
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

static trp_status pool(trp_actor *dnn, const trp_pool_request *r, bool forward,
                       trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"y", &r->y, NEEDED},
                                     {"index", &r->index, OPTIONAL},
                                     {"old_x", &r->old_x, forward ? NONE : OPTIONAL},
                                     {"old_y", &r->old_y, forward ? NONE : OPTIONAL}};
    trp_status status = CHECK(&g, all);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n =
        trp__layer_add_node(&g, forward ? TRP_DNN_RESAMPLE_FORWARD : TRP_DNN_RESAMPLE_BACKWARD);
    n->resample = r->mode;
    n->round_up = r->round_up;
    copy_geometry(n, r->pre_pad, r->post_pad, r->stride);
    for (int i = 0; i < TRP_DNN_SPATIAL_MAX; i++)
        n->window[i] = r->window[i];
    *(forward ? &n->x : &n->dx) = trp__layer_add(&g, &r->x);
    *(forward ? &n->y : &n->dy) = trp__layer_add(&g, &r->y);
    n->index = trp__layer_add(&g, &r->index);
    if (!forward) {
        n->x = trp__layer_add(&g, &r->old_x);
        n->y = trp__layer_add(&g, &r->old_y);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_pool_forward(trp_actor *dnn, const trp_pool_request *r, trp_completion *completion)
{
    return pool(dnn, r, true, completion);
}

trp_status trp_pool_backward(trp_actor *dnn, const trp_pool_request *r, trp_completion *completion)
{
    return pool(dnn, r, false, completion);
}
