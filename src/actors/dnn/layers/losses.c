/* Implements losses. Their fields are checked with the graph. */
#include "actors/dnn/layers/operands.h"

#include <troupe/training.h>

trp_status trp_cross_entropy(trp_actor *dnn, const trp_cross_entropy_request *r,
                             trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {
        {"logits", &r->logits, NEEDED},     {"labels", &r->labels, OPTIONAL},
        {"target", &r->target, OPTIONAL},   {"loss", &r->loss, OPTIONAL},
        {"rows", &r->rows, OPTIONAL},       {"stats", &r->stats, OPTIONAL},
        {"dlogits", &r->dlogits, OPTIONAL}, {"dloss", &r->dloss, ANY}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_CROSS_ENTROPY);
    n->reduction = r->reduction;
    n->ignore = r->ignore;
    n->parameter[0] = trp_real(r->smoothing);
    n->parameter[1] = trp_real(r->z_loss);
    n->x = trp__layer_add(&g, &r->logits);
    n->index = trp__layer_add(&g, &r->labels);
    n->t = trp__layer_add(&g, &r->target);
    n->dy = trp__layer_add_any(&g, &r->dloss);
    n->y = trp__layer_add(&g, &r->loss);
    n->rows = trp__layer_add(&g, &r->rows);
    n->stats = trp__layer_add(&g, &r->stats);
    n->dx = trp__layer_add(&g, &r->dlogits);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_loss(trp_actor *dnn, const trp_loss_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"target", &r->target, NEEDED},
                                     {"loss", &r->loss, OPTIONAL},
                                     {"rows", &r->rows, OPTIONAL},
                                     {"dx", &r->dx, OPTIONAL},
                                     {"weight", &r->weight, ANY},
                                     {"positive_weight", &r->positive_weight, ANY},
                                     {"dloss", &r->dloss, ANY}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(beta);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_LOSS);
    n->loss = r->mode;
    n->reduction = r->reduction;
    n->parameter[0] = r->beta;
    n->x = trp__layer_add(&g, &r->x);
    n->t = trp__layer_add(&g, &r->target);
    n->w = trp__layer_add_any(&g, &r->weight);
    n->b = trp__layer_add_any(&g, &r->positive_weight);
    n->dy = trp__layer_add_any(&g, &r->dloss);
    n->y = trp__layer_add(&g, &r->loss);
    n->rows = trp__layer_add(&g, &r->rows);
    n->dx = trp__layer_add(&g, &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
