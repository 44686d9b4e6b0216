#include "actors/dnn/layers/layer_graph.h"

#include "base/error.h"
#include "wire/actor_class.h"

const char *trp__layer_name(const trp__layer_graph *g, const trp_dnn_tensor *t)
{
    const char *copied = NULL;
    for (uint32_t i = 0; i < g->fields; i++) {
        const trp_dnn_tensor *own = g->field[i].tensor;
        if (own == t)
            return g->field[i].name;
        if (!copied && trp__layer_is_given(t) && own->buffer.id == t->buffer.id &&
            own->offset == t->offset && own->type == t->type)
            copied = g->field[i].name;
    }
    return copied;
}

uint32_t trp__layer_add(trp__layer_graph *g, const trp_dnn_tensor *t)
{
    if (!trp__layer_is_given(t))
        return 0;
    g->tensor[++g->tensors] = *t;
    g->name[g->tensors] = trp__layer_name(g, t);
    return g->tensors;
}

uint32_t trp__layer_writes(trp__layer_graph *g, uint32_t *field)
{
    g->last = field;
    return *field = ++g->tensors;
}

void trp__layer_finish(trp__layer_graph *g, const trp_dnn_tensor *t)
{
    g->tensor[*g->last] = *t;
    g->name[*g->last] = trp__layer_name(g, t);
}

void trp__layer_set_dims(trp_dnn_tensor *t, const trp_dnn_tensor *like)
{
    t->rank = like->rank;
    for (uint32_t i = 0; i < like->rank && i < TRP_DNN_RANK_MAX; i++)
        t->dim[i] = like->dim[i];
}

/* Adds a virtual tensor with the dimensions of another one, but 1 along an axis. */
static uint32_t add_reduced(trp__layer_graph *g, const trp_dnn_tensor *like, uint32_t axis)
{
    trp_dnn_tensor *t = &g->tensor[++g->tensors];
    trp__layer_set_dims(t, like);
    t->dim[axis] = 1;
    g->name[g->tensors] = trp__layer_name(g, like); /* whose dimensions are to blame */
    return g->tensors;
}

trp_dnn_node *trp__layer_add_node(trp__layer_graph *g, trp_dnn_kind kind)
{
    trp_dnn_node *n = &g->node[g->nodes++];
    n->kind = kind;
    return n;
}

uint32_t trp__layer_pointwise(trp__layer_graph *g, trp_dnn_pointwise mode, uint32_t x, uint32_t b)
{
    trp_dnn_node *n = trp__layer_add_node(g, TRP_DNN_POINTWISE);
    n->pointwise = mode;
    n->x = x;
    n->b = b;
    return trp__layer_writes(g, &n->y);
}

uint32_t trp__layer_reduce(trp__layer_graph *g, trp_dnn_reduce mode, uint32_t x,
                           const trp_dnn_tensor *like, uint32_t axis)
{
    trp_dnn_node *n = trp__layer_add_node(g, TRP_DNN_REDUCTION);
    n->reduce = mode;
    n->x = x;
    n->y = add_reduced(g, like, axis);
    return n->y;
}

uint32_t trp__layer_activate(trp__layer_graph *g, const trp_layer_activation *a, uint32_t x)
{
    if (a->mode == TRP_DNN_IDENTITY)
        return x;
    uint32_t y = trp__layer_pointwise(g, a->mode, x, 0);
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++)
        g->node[g->nodes - 1].parameter[i] = a->parameter[i];
    return y;
}

uint32_t trp__layer_scaled(trp__layer_graph *g, trp_scalar scalar, uint32_t x)
{
    if (!scalar.given || (scalar.re == 1 && scalar.im == 0))
        return x;
    trp_dnn_tensor value = {.value = scalar};
    g->tensor[++g->tensors] = value;
    return trp__layer_pointwise(g, TRP_DNN_MUL, x, g->tensors);
}

trp_status trp__layer_send(trp_actor *dnn, const trp__layer_graph *g, const trp_request *header,
                           const trp_dnn_options *options, trp_completion *completion)
{
    const trp_dnn_graph_request r = {.header = *header,
                                     .tensors = g->tensor,
                                     .tensor_count = g->tensors + 1,
                                     .nodes = g->node,
                                     .node_count = g->nodes,
                                     .options = *options,
                                     .names = g->name};
    return trp_dnn_graph(dnn, &r, completion);
}

trp_status trp__layer_check_scalars(const trp__layer_scalar *all, size_t count)
{
    trp_error error;
    trp_status status = TRP_OK;
    for (size_t i = 0; i < count && status == TRP_OK; i++)
        status = trp__scalar_check(&error, all[i].name, all[i].value);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

trp_status trp__layer_check_activation(const trp_layer_activation *a, bool allowed)
{
    bool none = a->mode == TRP_DNN_IDENTITY;
    if (!allowed && !none)
        return trp__fail(TRP_E_ARGUMENT, "activation.mode: expected none in this pass, got %d",
                         (int)a->mode);
    if (!none && (a->mode < TRP_DNN_RELU || a->mode > TRP_DNN_SWISH))
        return trp__fail(TRP_E_ARGUMENT,
                         "activation.mode: expected one from TRP_DNN_RELU to TRP_DNN_SWISH, got %d",
                         (int)a->mode);
    const trp__layer_scalar scalars[TRP_DNN_PARAMETERS] = {
        {"activation.parameter[0]", &a->parameter[0]},
        {"activation.parameter[1]", &a->parameter[1]},
        {"activation.parameter[2]", &a->parameter[2]}};
    trp_status status = trp__layer_check_scalars(scalars, TRP_DNN_PARAMETERS);
    if (status != TRP_OK)
        return status;
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++) {
        if (none && a->parameter[i].given)
            return trp__fail(TRP_E_ARGUMENT,
                             "activation.parameter[%d]: expected none without an activation", i);
    }
    return TRP_OK;
}

trp_status trp__layer_check_tensors(trp__layer_graph *g, const trp__layer_tensor *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (g->fields < TRP__LAYER_TENSORS)
            g->field[g->fields++] = all[i];
        const trp_dnn_tensor *t = all[i].tensor;
        trp_error error;
        if (all[i].what == TRP__LAYER_ANY)
            continue;
        if (trp__scalar_check(&error, "value", &t->value) != TRP_OK)
            return trp__fail(TRP_E_ARGUMENT, "%s.%s", all[i].name, error.message);
        if (all[i].what == TRP__LAYER_NEEDED && !trp__layer_is_given(t))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected a tensor with a buffer", all[i].name);
        if (all[i].what == TRP__LAYER_NONE && trp__layer_is_given(t))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected none in this pass", all[i].name);
        if (!trp__layer_is_given(t) && (t->type || t->rank || t->value.given))
            return trp__fail(TRP_E_ARGUMENT, "%s: expected a buffer, or all zero", all[i].name);
    }
    return TRP_OK;
}
