/* Implements embeddings, gathering and scattering of <troupe/training.h>. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

#include <troupe/training.h>

/* The graph has the fields of the call. */
static trp_status gather(trp_actor *dnn, trp__layer_graph *g, const trp_gather_request *r,
                         const trp_dnn_tensor *add, trp_completion *completion)
{
    trp_dnn_node *n = trp__layer_add_node(g, TRP_DNN_GATHER);
    n->gather = r->mode;
    n->axis = r->axis;
    n->x = trp__layer_add(g, &r->x);
    n->index = trp__layer_add(g, &r->index);
    trp__layer_finish_sum(g, trp__layer_writes(g, &n->y), add, &r->y);
    return trp__layer_send(dnn, g, &r->header, &r->options, completion);
}

static trp_status scatter(trp_actor *dnn, trp__layer_graph *g, const trp_gather_request *r,
                          trp_completion *completion)
{
    trp_dnn_node *n = trp__layer_add_node(g, TRP_DNN_SCATTER_ADD);
    n->gather = r->mode;
    n->axis = r->axis;
    n->ignore = r->ignore;
    n->dy = trp__layer_add(g, &r->dy);
    n->index = trp__layer_add(g, &r->index);
    n->x = trp__layer_add(g, &r->add_dx);
    n->y = trp__layer_add(g, &r->dx);
    return trp__layer_send(dnn, g, &r->header, &r->options, completion);
}

trp_status trp_embedding_forward(trp_actor *dnn, const trp_embedding_request *r,
                                 trp_completion *completion)
{
    const trp__layer_tensor all[] = {{"table", &r->table, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"y", &r->y, NEEDED},
                                     {"add", &r->add, OPTIONAL},
                                     {"dy", &r->dy, NONE},
                                     {"dtable", &r->dtable, NONE},
                                     {"add_dtable", &r->add_dtable, NONE}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(padding);
    if (status == TRP_OK && r->padding.given)
        return trp__fail(TRP_E_ARGUMENT, "padding: expected none in this pass");
    if (status != TRP_OK)
        return status;
    const trp_gather_request q = {
        .header = r->header, .x = r->table, .index = r->index, .y = r->y, .options = r->options};
    return gather(dnn, &fields, &q, &r->add, completion);
}

trp_status trp_embedding_backward(trp_actor *dnn, const trp_embedding_request *r,
                                  trp_completion *completion)
{
    const trp__layer_tensor all[] = {{"dy", &r->dy, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"dtable", &r->dtable, NEEDED},
                                     {"table", &r->table, NONE},
                                     {"y", &r->y, NONE},
                                     {"add", &r->add, NONE},
                                     {"add_dtable", &r->add_dtable, OPTIONAL}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(padding);
    if (status != TRP_OK)
        return status;
    const trp_gather_request q = {.header = r->header,
                                  .index = r->index,
                                  .dy = r->dy,
                                  .dx = r->dtable,
                                  .add_dx = r->add_dtable,
                                  .ignore = r->padding,
                                  .options = r->options};
    return scatter(dnn, &fields, &q, completion);
}

trp_status trp_gather_forward(trp_actor *dnn, const trp_gather_request *r,
                              trp_completion *completion)
{
    static const trp_dnn_tensor none;
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED}, {"index", &r->index, NEEDED},
                                     {"y", &r->y, NEEDED}, {"dy", &r->dy, NONE},
                                     {"dx", &r->dx, NONE}, {"add_dx", &r->add_dx, NONE}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    if (status == TRP_OK && r->ignore.given)
        return trp__fail(TRP_E_ARGUMENT, "ignore: expected none in this pass");
    return status == TRP_OK ? gather(dnn, &fields, r, &none, completion) : status;
}

trp_status trp_gather_backward(trp_actor *dnn, const trp_gather_request *r,
                               trp_completion *completion)
{
    const trp__layer_tensor all[] = {{"dy", &r->dy, NEEDED}, {"index", &r->index, NEEDED},
                                     {"dx", &r->dx, NEEDED}, {"x", &r->x, NONE},
                                     {"y", &r->y, NONE},     {"add_dx", &r->add_dx, OPTIONAL}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    return status == TRP_OK ? scatter(dnn, &fields, r, completion) : status;
}
