/* Attention as a layer. */
#include "actors/dnn/layer_graph.h"

enum { ALL = 14 };

/* A number in memory, or by value. */
static uint32_t add_integer(trp__layer_graph *g, const trp_dnn_tensor *t)
{
    if (!t->buffer.id && !t->value.given)
        return 0;
    g->tensor[++g->tensors] = *t;
    return g->tensors;
}

static trp_status send(trp_actor *dnn, const trp_attention_request *r, bool backward,
                       trp_completion *completion)
{
    enum { NEEDED = TRP__LAYER_NEEDED, OPTIONAL = TRP__LAYER_OPTIONAL, NONE = TRP__LAYER_NONE };
    trp__layer_graph g = {0};
    trp_dnn_node *n =
        trp__layer_add_node(&g, backward ? TRP_DNN_ATTENTION_BACKWARD : TRP_DNN_ATTENTION);
    const struct {
        const char *name;
        const trp_dnn_tensor *tensor;
        uint32_t *field;
        uint32_t forward, backward;
    } rows[ALL] = {
        {"q", &r->q, &n->q, NEEDED, NEEDED},
        {"k", &r->k, &n->k, NEEDED, NEEDED},
        {"v", &r->v, &n->v, NEEDED, NEEDED},
        {"y", &r->y, &n->y, NEEDED, NEEDED},
        {"stats", &r->stats, &n->stats, OPTIONAL, NEEDED},
        {"bias", &r->bias, &n->bias, OPTIONAL, OPTIONAL},
        {"slopes", &r->slopes, &n->slopes, OPTIONAL, OPTIONAL},
        {"seq_q", &r->seq_q, &n->seq_q, OPTIONAL, OPTIONAL},
        {"seq_kv", &r->seq_kv, &n->seq_kv, OPTIONAL, OPTIONAL},
        {"dy", &r->dy, &n->dy, NONE, NEEDED},
        {"dq", &r->dq, &n->dq, NONE, NEEDED},
        {"dk", &r->dk, &n->dk, NONE, NEEDED},
        {"dv", &r->dv, &n->dv, NONE, NEEDED},
        {"dbias", &r->dbias, &n->dbias, NONE, OPTIONAL},
    };
    trp__layer_tensor all[ALL];
    for (size_t i = 0; i < ALL; i++)
        all[i] = (trp__layer_tensor){rows[i].name, rows[i].tensor,
                                     backward ? rows[i].backward : rows[i].forward};
    trp_status status = trp__layer_check_tensors(all, ALL);
    if (status != TRP_OK)
        return status;
    for (size_t i = 0; i < ALL; i++)
        *rows[i].field = trp__layer_add(&g, rows[i].tensor);
    n->parameter[0] = r->scale;
    n->mask = r->mask;
    n->window[0] = r->window;
    if (r->dropout != 0)
        n->parameter[1] = trp_real(r->dropout);
    n->seed = add_integer(&g, &r->seed);
    n->offset = add_integer(&g, &r->offset);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_attention_forward(trp_actor *dnn, const trp_attention_request *r,
                                 trp_completion *completion)
{
    return send(dnn, r, false, completion);
}

trp_status trp_attention_backward(trp_actor *dnn, const trp_attention_request *r,
                                  trp_completion *completion)
{
    return send(dnn, r, true, completion);
}
