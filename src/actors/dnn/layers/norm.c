/* Implements normalisation, activations and softmax as layers. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

#include <math.h>

#define EPSILON_DEFAULT        1e-5
#define AVERAGE_FACTOR_DEFAULT 0.1

static uint32_t add_value(trp__layer_graph *g, trp_scalar value, double otherwise)
{
    g->tensor[++g->tensors] =
        (trp_dnn_tensor){.value = trp_real(value.given ? value.re : otherwise)};
    return g->tensors;
}

static trp_status check_numbers(const trp_norm_request *r)
{
    const struct {
        const char *name;
        const trp_scalar *value;
        double least;
    } all[] = {{"epsilon", &r->epsilon, 0}, {"average_factor", &r->average_factor, -INFINITY}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const trp_scalar *v = all[i].value;
        trp_status status = trp__layer_check_scalars(&(trp__layer_scalar){all[i].name, v}, 1);
        if (status != TRP_OK)
            return status;
        if (v->given && (!isfinite(v->re) || v->im != 0 || v->re < all[i].least))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected a real finite number%s, got %g + %gi",
                             all[i].name, all[i].least == 0 ? ", 0 or more" : "", v->re, v->im);
    }
    return TRP_OK;
}

static trp_status check_norm(trp__layer_graph *g, const trp_norm_request *r, trp_dnn_kind kind)
{
    const bool training = kind == TRP_DNN_NORM_TRAINING, backward = kind == TRP_DNN_NORM_BACKWARD;
    const bool running = training && trp__layer_is_given(&r->running_mean);
    const bool batch = r->mode == TRP_DNN_BATCH, inference = !training && !backward;
    const trp__layer_tensor all[] = {
        {"x", &r->x, NEEDED},
        {"scale", &r->scale, NEEDED},
        {"bias", &r->bias, backward ? NONE : OPTIONAL},
        {"y", &r->y, NEEDED},
        {"mean", &r->mean, (inference ? batch : r->mode != TRP_DNN_RMS) ? NEEDED : NONE},
        {"inv_variance", &r->inv_variance, inference && !batch ? NONE : NEEDED},
        {"running_mean", &r->running_mean, training ? OPTIONAL : NONE},
        {"running_variance", &r->running_variance, running ? NEEDED : NONE},
        {"new_running_mean", &r->new_running_mean, running ? NEEDED : NONE},
        {"new_running_variance", &r->new_running_variance, running ? NEEDED : NONE},
        {"dx", &r->dx, backward ? NEEDED : NONE},
        {"dscale", &r->dscale, backward ? NEEDED : NONE},
        {"dbias", &r->dbias, backward ? OPTIONAL : NONE}};
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = trp__layer_check_activation(&r->activation, !backward);
    return status == TRP_OK && !backward ? check_numbers(r) : status;
}

static trp_status norm_forward(trp_actor *dnn, const trp_norm_request *r, trp_dnn_kind kind,
                               trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_norm(&g, r, kind);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, kind);
    n->norm = r->mode;
    n->x = trp__layer_add(&g, &r->x);
    n->scale = trp__layer_add(&g, &r->scale);
    n->bias = trp__layer_add(&g, &r->bias);
    n->mean = trp__layer_add(&g, &r->mean);
    n->inv_variance = trp__layer_add(&g, &r->inv_variance);
    if (kind == TRP_DNN_NORM_TRAINING || r->mode != TRP_DNN_BATCH)
        n->epsilon = add_value(&g, r->epsilon, EPSILON_DEFAULT);
    if (trp__layer_is_given(&r->running_mean)) {
        n->running_mean = trp__layer_add(&g, &r->running_mean);
        n->running_variance = trp__layer_add(&g, &r->running_variance);
        n->average_factor = add_value(&g, r->average_factor, AVERAGE_FACTOR_DEFAULT);
        n->new_running_mean = trp__layer_add(&g, &r->new_running_mean);
        n->new_running_variance = trp__layer_add(&g, &r->new_running_variance);
    }
    trp__layer_activate(&g, &r->activation, trp__layer_writes(&g, &n->y));
    trp__layer_finish(&g, &r->y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_norm_training(trp_actor *dnn, const trp_norm_request *r, trp_completion *completion)
{
    return norm_forward(dnn, r, TRP_DNN_NORM_TRAINING, completion);
}

trp_status trp_norm_inference(trp_actor *dnn, const trp_norm_request *r, trp_completion *completion)
{
    return norm_forward(dnn, r, TRP_DNN_NORM_INFERENCE, completion);
}

trp_status trp_norm_backward(trp_actor *dnn, const trp_norm_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_norm(&g, r, TRP_DNN_NORM_BACKWARD);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_NORM_BACKWARD);
    n->norm = r->mode;
    n->dy = trp__layer_add(&g, &r->y);
    n->x = trp__layer_add(&g, &r->x);
    n->scale = trp__layer_add(&g, &r->scale);
    n->mean = trp__layer_add(&g, &r->mean);
    n->inv_variance = trp__layer_add(&g, &r->inv_variance);
    n->dx = trp__layer_add(&g, &r->dx);
    n->dscale = trp__layer_add(&g, &r->dscale);
    n->dbias = trp__layer_add(&g, &r->dbias);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

static trp_status check_activation(trp__layer_graph *g, const trp_activation_request *r,
                                   bool forward)
{
    const trp__layer_tensor all[] = {
        {"x", &r->x, NEEDED}, {"y", &r->y, NEEDED}, {"dx", &r->dx, forward ? NONE : NEEDED}};
    trp_status status = CHECK(g, all);
    return status == TRP_OK ? trp__layer_check_activation(&r->activation, true) : status;
}

trp_status trp_activation_forward(trp_actor *dnn, const trp_activation_request *r,
                                  trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_activation(&g, r, true);
    if (status != TRP_OK)
        return status;
    if (r->activation.mode == TRP_DNN_IDENTITY)
        trp__layer_pointwise(&g, TRP_DNN_IDENTITY, trp__layer_add(&g, &r->x), 0);
    else
        trp__layer_activate(&g, &r->activation, trp__layer_add(&g, &r->x));
    trp__layer_finish(&g, &r->y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_activation_backward(trp_actor *dnn, const trp_activation_request *r,
                                   trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_activation(&g, r, false);
    if (status == TRP_OK && r->activation.mode == TRP_DNN_IDENTITY)
        return trp__fail(TRP_E_ARGUMENT, "activation.mode: expected one, got none");
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_POINTWISE_BACKWARD);
    n->pointwise = r->activation.mode;
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++)
        n->parameter[i] = r->activation.parameter[i];
    n->x = trp__layer_add(&g, &r->x);
    n->dy = trp__layer_add(&g, &r->y);
    n->dx = trp__layer_add(&g, &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

static trp_status check_softmax(trp__layer_graph *g, const trp_softmax_request *r, bool forward)
{
    const trp__layer_tensor all[] = {{"x", &r->x, forward ? NEEDED : NONE},
                                     {"y", &r->y, NEEDED},
                                     {"dy", &r->dy, forward ? NONE : NEEDED},
                                     {"dx", &r->dx, forward ? NONE : NEEDED}};
    trp_status status = CHECK(g, all);
    uint32_t rank = r->y.rank < TRP_DNN_RANK_MAX ? r->y.rank : TRP_DNN_RANK_MAX;
    if (status == TRP_OK && r->axis >= rank)
        return trp__fail(TRP_E_ARGUMENT, "axis: expected less than the rank of y, %u, got %u", rank,
                         r->axis);
    return status;
}

trp_status trp_softmax_forward(trp_actor *dnn, const trp_softmax_request *r,
                               trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_softmax(&g, r, true);
    if (status != TRP_OK)
        return status;
    uint32_t x = trp__layer_add(&g, &r->x);
    uint32_t most = trp__layer_reduce(&g, TRP_DNN_MOST, x, &r->x, r->axis);
    uint32_t shifted = trp__layer_pointwise(&g, TRP_DNN_SUB, x, most);
    uint32_t power = trp__layer_pointwise(&g, TRP_DNN_EXP, shifted, 0);
    uint32_t sum = trp__layer_reduce(&g, TRP_DNN_SUM, power, &r->x, r->axis);
    if (r->log)
        trp__layer_pointwise(&g, TRP_DNN_SUB, shifted,
                             trp__layer_pointwise(&g, TRP_DNN_LOG, sum, 0));
    else
        trp__layer_pointwise(&g, TRP_DNN_DIV, power, sum);
    trp__layer_finish(&g, &r->y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_softmax_backward(trp_actor *dnn, const trp_softmax_request *r,
                                trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_softmax(&g, r, false);
    if (status != TRP_OK)
        return status;
    uint32_t y = trp__layer_add(&g, &r->y), dy = trp__layer_add(&g, &r->dy);
    if (r->log) {
        uint32_t sum = trp__layer_reduce(&g, TRP_DNN_SUM, dy, &r->y, r->axis);
        uint32_t part =
            trp__layer_pointwise(&g, TRP_DNN_MUL, trp__layer_pointwise(&g, TRP_DNN_EXP, y, 0), sum);
        trp__layer_pointwise(&g, TRP_DNN_SUB, dy, part);
    } else {
        uint32_t part = trp__layer_pointwise(&g, TRP_DNN_MUL, dy, y);
        uint32_t sum = trp__layer_reduce(&g, TRP_DNN_SUM, part, &r->y, r->axis);
        trp__layer_pointwise(&g, TRP_DNN_MUL, trp__layer_pointwise(&g, TRP_DNN_SUB, dy, sum), y);
    }
    trp__layer_finish(&g, &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
