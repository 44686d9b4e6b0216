/* Implements rotary embedding. */
#include "actors/dnn/layers/operands.h"

#include <troupe/training.h>

static trp_status rotary(trp_actor *dnn, const trp_rotary_request *r, bool forward,
                         trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {
        {"x", &r->x, forward ? NEEDED : NONE},   {"y", &r->y, forward ? NEEDED : NONE},
        {"dy", &r->dy, forward ? NONE : NEEDED}, {"dx", &r->dx, forward ? NONE : NEEDED},
        {"cosines", &r->cosines, OPTIONAL},      {"sines", &r->sines, OPTIONAL},
        {"positions", &r->positions, OPTIONAL},  {"start", &r->start, ANY}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(base);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, forward ? TRP_DNN_ROTARY : TRP_DNN_ROTARY_BACKWARD);
    n->rotary = r->mode;
    n->parameter[0] = r->base;
    if (r->turning != 0)
        n->parameter[1] = trp_real((double)r->turning);
    n->a = trp__layer_add(&g, &r->cosines);
    n->b = trp__layer_add(&g, &r->sines);
    n->index = trp__layer_add(&g, &r->positions);
    n->offset = trp__layer_add_any(&g, &r->start);
    *(forward ? &n->x : &n->dy) = trp__layer_add(&g, forward ? &r->x : &r->dy);
    *(forward ? &n->y : &n->dx) = trp__layer_add(&g, forward ? &r->y : &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_rotary_forward(trp_actor *dnn, const trp_rotary_request *r,
                              trp_completion *completion)
{
    return rotary(dnn, r, true, completion);
}

trp_status trp_rotary_backward(trp_actor *dnn, const trp_rotary_request *r,
                               trp_completion *completion)
{
    return rotary(dnn, r, false, completion);
}
