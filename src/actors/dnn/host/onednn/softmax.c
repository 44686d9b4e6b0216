/* Runs the nodes of a softmax as one primitive of oneDNN: */
#include "actors/dnn/host/onednn/api.h"

#if TRP__ONEDNN

enum { WORTH = 1 << 15 };

/* The inputs of each node, as the number of an earlier one, or X; the first may be any tensor.
 */
enum { MOST, SHIFTED, POWER, SUM, QUOTIENT, X, NOTHING };

_Static_assert((int)X == (int)TRP__ONEDNN_SOFTMAX_NODES, "as many nodes");

static const struct {
    uint8_t kind, mode, x, b;
} steps[] = {
    [MOST] = {TRP_DNN_REDUCTION, TRP_DNN_MOST, X, NOTHING},
    [SHIFTED] = {TRP_DNN_POINTWISE, TRP_DNN_SUB, X, MOST},
    [POWER] = {TRP_DNN_POINTWISE, TRP_DNN_EXP, SHIFTED, NOTHING},
    [SUM] = {TRP_DNN_REDUCTION, TRP_DNN_SUM, POWER, NOTHING},
    [QUOTIENT] = {TRP_DNN_POINTWISE, TRP_DNN_DIV, POWER, SUM},
};

static uint8_t written_by(const trp__dnn_node *n)
{
    return n->port[n->kind == TRP_DNN_REDUCTION ? TRP__DNN_REDUCTION_Y : TRP__DNN_POINTWISE_Y];
}

/* Returns the number of nodes that read a tensor, in the softmax or after it. */
static int readers_of(const trp__dnn_graph *g, int first, uint8_t tensor)
{
    int readers = 0;
    for (int i = first; i < g->head->nodes; i++) {
        const trp__dnn_kind *kind = trp__dnn_kind_of(g->node[i].kind);
        for (int at = 0; at < TRP__DNN_PORTS; at++)
            readers += g->node[i].port[at] == tensor && !kind->port[at].written;
    }
    return readers;
}

/* Tells whether a result is intermediate, read by no other node, and not rounded. */
static bool is_inner(const trp__dnn_graph *g, int first, int step)
{
    const uint8_t number = written_by(&g->node[first + step]);
    const trp__dnn_tensor *t = &g->tensor[number];
    return t->role == TRP__DNN_VIRTUAL && t->type == TRP_F32 &&
           readers_of(g, first, number) == (step == POWER ? 2 : 1);
}

static bool has_step(const trp__dnn_graph *g, int first, int step)
{
    const trp__dnn_node *n = &g->node[first + step];
    const uint8_t x = g->node[first].port[TRP__DNN_REDUCTION_X];
    uint8_t wanted_x = steps[step].x == X ? x : written_by(&g->node[first + steps[step].x]);
    if (n->kind != steps[step].kind || n->mode != steps[step].mode || n->compute != TRP_F32 ||
        n->port[0] != wanted_x) /* equal for both kinds */
        return false;
    if (steps[step].b != NOTHING &&
        n->port[TRP__DNN_POINTWISE_B] != written_by(&g->node[first + steps[step].b]))
        return false;
    return step == QUOTIENT || is_inner(g, first, step);
}

int trp__onednn_softmax_axis(const trp__dnn_graph *g, int first)
{
    int axis = -1;
    if (first + TRP__ONEDNN_SOFTMAX_NODES > g->head->nodes)
        return -1;
    for (int i = 0; i < TRP__ONEDNN_SOFTMAX_NODES; i++) {
        if (!has_step(g, first, i))
            return -1;
    }
    const trp__dnn_tensor *x = &g->tensor[g->node[first].port[TRP__DNN_REDUCTION_X]];
    const trp__dnn_tensor *most = &g->tensor[written_by(&g->node[first + MOST])];
    const trp__dnn_tensor *sum = &g->tensor[written_by(&g->node[first + SUM])];
    if (trp__dnn_elements(x) < WORTH)
        return -1;
    for (int i = 0; i < x->rank; i++) {
        if (most->dim[i] != sum->dim[i] || (most->dim[i] != x->dim[i] && axis >= 0))
            return -1;
        axis = most->dim[i] != x->dim[i] ? i : axis;
    }
    return axis;
}

bool trp__onednn_softmax(const trp__onednn_engine *dnn, const trp__dnn_host_node *x, int axis)
{
    const trp__dnn_tensor *t = x->tensor[TRP__DNN_POINTWISE_X];
    int64_t dims[] = {1, t->dim[axis], 1};
    dnnl_memory_desc_t all;
    dnnl_softmax_desc_t what;
    trp__onednn_call c;
    for (int i = 0; i < t->rank; i++)
        dims[i < axis ? 0 : 2] *= i == axis ? 1 : t->dim[i];
    if (!trp__onednn_within(x->at[TRP__DNN_POINTWISE_X], trp__dnn_elements(t), 1e30F) ||
        !trp__onednn_dense(dnn, 3, dims, &all))
        return false;
    dnnl_status_t status =
        dnn->f->dnnl_softmax_forward_desc_init(&what, dnnl_forward_inference, &all, 1);
    trp__onednn_describe(dnn, status, &what, NULL, &c);
    trp__onednn_give(&c, DNNL_ARG_SRC, &all, x->at[TRP__DNN_POINTWISE_X]);
    trp__onednn_give(&c, DNNL_ARG_DST, &all, x->at[TRP__DNN_POINTWISE_Y]);
    bool good = trp__onednn_execute(&c);
    trp__onednn_end(&c);
    return good;
}

#endif
