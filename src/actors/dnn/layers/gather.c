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

static trp_status check_embedding(trp__layer_graph *g, const trp_embedding_request *r, bool forward)
{
    const trp__layer_tensor all[] = {{"index", &r->index, NEEDED},
                                     {"table", &r->table, forward ? NEEDED : NONE},
                                     {"y", &r->y, forward ? NEEDED : NONE},
                                     {"add", &r->add, forward ? OPTIONAL : NONE},
                                     {"dy", &r->dy, forward ? NONE : NEEDED},
                                     {"dtable", &r->dtable, forward ? NONE : NEEDED},
                                     {"add_dtable", &r->add_dtable, forward ? NONE : OPTIONAL}};
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(padding);
    if (status == TRP_OK && forward && r->padding.given)
        return trp__fail(TRP_E_ARGUMENT, "padding: expected none in this pass");
    return status;
}

trp_status trp_embedding_forward(trp_actor *dnn, const trp_embedding_request *r,
                                 trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_embedding(&g, r, true);
    const trp_gather_request q = {
        .header = r->header, .x = r->table, .index = r->index, .y = r->y, .options = r->options};
    return status == TRP_OK ? gather(dnn, &g, &q, &r->add, completion) : status;
}

trp_status trp_embedding_backward(trp_actor *dnn, const trp_embedding_request *r,
                                  trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_embedding(&g, r, false);
    const trp_gather_request q = {.header = r->header,
                                  .index = r->index,
                                  .dy = r->dy,
                                  .dx = r->dtable,
                                  .add_dx = r->add_dtable,
                                  .ignore = r->padding,
                                  .options = r->options};
    return status == TRP_OK ? scatter(dnn, &g, &q, completion) : status;
}

static trp_status check_gather(trp__layer_graph *g, const trp_gather_request *r, bool forward)
{
    const trp__layer_tensor all[] = {{"index", &r->index, NEEDED},
                                     {"x", &r->x, forward ? NEEDED : NONE},
                                     {"y", &r->y, forward ? NEEDED : NONE},
                                     {"dy", &r->dy, forward ? NONE : NEEDED},
                                     {"dx", &r->dx, forward ? NONE : NEEDED},
                                     {"add_dx", &r->add_dx, forward ? NONE : OPTIONAL}};
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    if (status == TRP_OK && forward && r->ignore.given)
        return trp__fail(TRP_E_ARGUMENT, "ignore: expected none in this pass");
    return status;
}

trp_status trp_gather_forward(trp_actor *dnn, const trp_gather_request *r,
                              trp_completion *completion)
{
    static const trp_dnn_tensor none;
    trp__layer_graph g = {0};
    trp_status status = check_gather(&g, r, true);
    return status == TRP_OK ? gather(dnn, &g, r, &none, completion) : status;
}

trp_status trp_gather_backward(trp_actor *dnn, const trp_gather_request *r,
                               trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_gather(&g, r, false);
    return status == TRP_OK ? scatter(dnn, &g, r, completion) : status;
}
