/* Implements largest elements and sampling. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

#include <troupe/training.h>

static trp_status pick(trp_actor *dnn, const trp_top_k_request *r, trp_dnn_kind kind,
                       trp_completion *completion)
{
    trp__layer_graph g = {0};
    const bool arg = kind == TRP_DNN_ARG;
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"values", &r->values, arg ? NONE : OPTIONAL}};
    trp_status status = CHECK(&g, all);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, kind);
    n->extreme = r->extreme;
    n->axis = r->axis;
    n->x = trp__layer_add(&g, &r->x);
    n->index = trp__layer_add(&g, &r->index);
    n->y = trp__layer_add(&g, &r->values);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_arg(trp_actor *dnn, const trp_top_k_request *r, trp_completion *completion)
{
    return pick(dnn, r, TRP_DNN_ARG, completion);
}

trp_status trp_top_k(trp_actor *dnn, const trp_top_k_request *r, trp_completion *completion)
{
    return pick(dnn, r, TRP_DNN_TOP_K, completion);
}

trp_status trp_sample(trp_actor *dnn, const trp_sample_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {{"logits", &r->logits, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"seed", &r->seed, ANY},
                                     {"offset", &r->offset, ANY}};
    const trp__layer_scalar scalars[] = {SCALAR(temperature), SCALAR(top_p)};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = trp__layer_check_scalars(scalars, sizeof scalars / sizeof *scalars);
    if (status == TRP_OK && !r->seed.buffer.id && !r->seed.value.given)
        return trp__fail(TRP_E_ARGUMENT, "seed: expected a number, trp_dnn_integer(), or a buffer");
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_SAMPLE);
    n->x = trp__layer_add(&g, &r->logits);
    n->index = trp__layer_add(&g, &r->index);
    n->seed = trp__layer_add_any(&g, &r->seed);
    n->offset = trp__layer_add_any(&g, &r->offset);
    n->scale = trp__layer_add_number(&g, TRP_F64, r->temperature);
    n->limit = trp__layer_add_number(&g, TRP_F64, r->top_p);
    if (r->top_k > 0) {
        const trp_dnn_tensor count = trp_dnn_integer(r->top_k);
        n->count = trp__layer_add_any(&g, &count);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
