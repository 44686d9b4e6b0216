/* Implements gated activations. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

#include <troupe/training.h>

static trp_status check_glu(trp__layer_graph *g, const trp_glu_request *r, bool forward)
{
    const trp__layer_tensor all[] = {
        {"gate", &r->gate, NEEDED},
        {"up", &r->up, NEEDED},
        {"y", &r->y, forward ? NEEDED : NONE},
        {"dy", &r->dy, forward ? NONE : NEEDED},
        {"dgate", &r->dgate, forward ? NONE : NEEDED},
        {"dup", &r->dup, forward ? NONE : NEEDED},
    };
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = trp__layer_check_activation(&r->activation, true);
    if (status == TRP_OK && r->activation.mode == TRP_DNN_IDENTITY)
        return trp__fail(TRP_E_ARGUMENT, "activation.mode: expected one, got none");
    return status;
}

trp_status trp_glu_forward(trp_actor *dnn, const trp_glu_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_glu(&g, r, true);
    if (status != TRP_OK)
        return status;
    const uint32_t gate = trp__layer_activate(&g, &r->activation, trp__layer_add(&g, &r->gate));
    trp__layer_pointwise(&g, TRP_DNN_MUL, gate, trp__layer_add(&g, &r->up));
    trp__layer_finish(&g, &r->y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_glu_backward(trp_actor *dnn, const trp_glu_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_glu(&g, r, false);
    if (status != TRP_OK)
        return status;
    const uint32_t gate = trp__layer_add(&g, &r->gate), up = trp__layer_add(&g, &r->up);
    const uint32_t dy = trp__layer_add(&g, &r->dy);
    trp__layer_pointwise(&g, TRP_DNN_MUL, dy, trp__layer_activate(&g, &r->activation, gate));
    trp__layer_finish(&g, &r->dup);
    trp__layer_slope(&g, &r->activation, gate, trp__layer_pointwise(&g, TRP_DNN_MUL, dy, up));
    trp__layer_finish(&g, &r->dgate);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
