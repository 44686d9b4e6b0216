/* Implements attention as a layer. */
#include "actors/dnn/layers/layer_graph.h"

#include "base/error.h"

enum { ALL = 16 };

/* Adds an integer in memory or by value. */
static uint32_t add_integer(trp__layer_graph *g, const trp_dnn_tensor *t, const char *name)
{
    const trp_scalar *v = &t->value; /* a wrong value is refused with the graph */
    if (!t->buffer.id && !v->given && v->re == 0 && v->im == 0)
        return 0;
    g->tensor[++g->tensors] = *t;
    g->name[g->tensors] = name;
    return g->tensors;
}

static trp_status check_pages(const trp_attention_request *r, bool backward)
{
    const bool k = trp__layer_is_given(&r->table_k), v = trp__layer_is_given(&r->table_v);
    const char *name = k ? "table_k" : "table_v";
    if (!k && !v)
        return r->columns == 0 ? TRP_OK
                               : trp__fail(TRP_E_ARGUMENT,
                                           "columns: expected 0, for there is no table, got %lld",
                                           (long long)r->columns);
    if (backward)
        return trp__fail(TRP_E_UNSUPPORTED,
                         "%s: the gradient of attention knows no pages: a graph with "
                         "TRP_DNN_PAGED_LOAD makes keys and values that it can read",
                         name);
    if (!trp__layer_is_given(&r->seq_kv))
        return trp__fail(TRP_E_ARGUMENT, "seq_kv: expected a tensor with a buffer, for %s is there",
                         name);
    if (r->columns < 0)
        return trp__fail(TRP_E_ARGUMENT, "columns: expected 0 or more, got %lld",
                         (long long)r->columns);
    return TRP_OK;
}

/* Replaces the pages, `field` of the last node, by what is gathered from them. */
static void gather(trp__layer_graph *g, trp_dnn_node *n, uint32_t *field, uint32_t table,
                   uint32_t lengths, int64_t columns)
{
    const trp_dnn_tensor *pages = &g->tensor[*field];
    n->x = *field;
    n->table = table;
    n->seq_kv = lengths;
    *field = trp__layer_writes(g, &n->y);
    if (columns == 0)
        return;
    trp_dnn_tensor *y = &g->tensor[n->y];
    y->rank = 4;
    y->dim[0] = g->tensor[table].dim[0];
    y->dim[1] = pages->dim[1];
    y->dim[2] = columns;
    y->dim[3] = pages->dim[3];
}

static trp_status send(trp_actor *dnn, const trp_attention_request *r, bool backward,
                       trp_completion *completion)
{
    enum { NEEDED = TRP__LAYER_NEEDED, OPTIONAL = TRP__LAYER_OPTIONAL, NONE = TRP__LAYER_NONE };
    trp__layer_graph g = {0};
    trp_status status = check_pages(r, backward);
    if (status == TRP_OK)
        status = trp__layer_check_scalars(&(trp__layer_scalar){"scale", &r->scale}, 1);
    if (status != TRP_OK)
        return status;
    const bool pages_k = trp__layer_is_given(&r->table_k);
    const bool pages_v = trp__layer_is_given(&r->table_v);
    const int64_t columns = r->columns            ? r->columns
                            : pages_k && !pages_v ? r->v.dim[2]
                            : pages_v && !pages_k ? r->k.dim[2]
                                                  : 0;
    trp_dnn_node *k = pages_k ? trp__layer_add_node(&g, TRP_DNN_PAGED_LOAD) : NULL;
    trp_dnn_node *v = pages_v ? trp__layer_add_node(&g, TRP_DNN_PAGED_LOAD) : NULL;
    trp_dnn_node *n =
        trp__layer_add_node(&g, backward ? TRP_DNN_ATTENTION_BACKWARD : TRP_DNN_ATTENTION);
    uint32_t table_k = 0, table_v = 0;
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
        {"table_k", &r->table_k, &table_k, OPTIONAL, NONE},
        {"table_v", &r->table_v, &table_v, OPTIONAL, NONE},
    };
    trp__layer_tensor all[ALL];
    for (size_t i = 0; i < ALL; i++)
        all[i] = (trp__layer_tensor){rows[i].name, rows[i].tensor,
                                     backward ? rows[i].backward : rows[i].forward};
    status = trp__layer_check_tensors(&g, all, ALL);
    if (status != TRP_OK)
        return status;
    for (size_t i = 0; i < ALL; i++)
        *rows[i].field = trp__layer_add(&g, rows[i].tensor);
    n->parameter[0] = r->scale;
    n->mask = r->mask;
    n->window[0] = r->window;
    if (r->dropout != 0)
        n->parameter[1] = trp_real(r->dropout);
    if (k)
        gather(&g, k, &n->k, table_k, n->seq_kv, columns);
    if (v)
        gather(&g, v, &n->v, table_v, n->seq_kv, columns);
    n->seed = add_integer(&g, &r->seed, "seed");
    n->offset = add_integer(&g, &r->offset, "offset");
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
