#include "actors/dnn/kernels/move/views.h"

#include "actors/dnn/lower/layout.h"

#include <string.h>

uint8_t trp__move_input(const trp__dnn_node *n)
{
    return n->port[n->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_X : TRP__DNN_MOVE_X];
}

uint8_t trp__move_output(const trp__dnn_node *n)
{
    return n->port[n->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_Y : TRP__DNN_MOVE_Y];
}

uint64_t trp__move_cleared(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    const trp__dnn_tensor *y = &g->tensor[trp__move_output(n)];
    return trp__move_has_margins(n)
               ? (uint64_t)trp__dnn_extent(y) * (trp_dtype_bits((trp_dtype)y->type) / 8)
               : 0;
}

int trp__move_views(const trp__dnn_graph *g, const trp__dnn_node *n,
                    trp__move_view out[TRP__MOVE_VIEWS])
{
    const uint8_t ny = trp__move_output(n), nx = trp__move_input(n);
    const trp__dnn_tensor *y = &g->tensor[ny], *x = &g->tensor[nx];
    int count = 0;
    out[0] = (trp__move_view){.x = *x, .y = *y, .tensor = nx};
    switch (n->kind) {
    case TRP_DNN_POINTWISE:
        return 1;
    case TRP_DNN_TRANSPOSE:
        for (int i = 0; i < y->rank; i++) {
            out[0].x.dim[i] = y->dim[i];
            out[0].x.stride[i] = x->stride[n->start[i]];
        }
        return 1;
    case TRP_DNN_SLICE:
        for (int i = 0; i < y->rank; i++) {
            out[0].from += n->start[i] * x->stride[i];
            out[0].x.dim[i] = y->dim[i];
            out[0].x.stride[i] = x->stride[i] * n->step[i];
        }
        return 1;
    case TRP_DNN_RESHAPE: /* a packed side can be viewed in the shape of the other */
        if (trp__dnn_same_dims(x, y))
            return 1;
        if (trp__dnn_is_packed(x)) {
            trp__dnn_view_as(&out[0].x, y);
            return 1;
        }
        if (trp__dnn_is_packed(y)) {
            trp__dnn_view_as(&out[0].y, x);
            return 1;
        }
        return 0;
    case TRP_DNN_CONCATENATE: {
        int64_t at = 0;
        if (trp__move_has_margins(n)) {
            memcpy(out[0].y.dim, x->dim, sizeof x->dim);
            for (int i = 0; i < y->rank; i++)
                out[0].to += n->start[i] * y->stride[i];
            return 1;
        }
        for (int i = 0; i < TRP__MOVE_VIEWS; i++) {
            if (n->port[i] == TRP__DNN_NO_PORT)
                continue;
            const trp__dnn_tensor *part = &g->tensor[n->port[i]];
            out[count] = (trp__move_view){.x = *part, .y = *y, .tensor = n->port[i]};
            memcpy(out[count].y.dim, part->dim, sizeof part->dim);
            out[count].to = at * y->stride[n->mode];
            at += part->dim[n->mode];
            count += trp__dnn_elements(part) > 0;
        }
        return count;
    }
    default:
        return 0;
    }
}

void trp__move_graph_make(trp__move_graph *out, const trp__dnn_head *like, const trp__dnn_tensor *x,
                          const trp__dnn_tensor *y, trp_dnn_kind kind, int from, int to)
{
    *out = (trp__move_graph){.head = *like, .tensor = {*x, *y}, .node = {.kind = (uint8_t)kind}};
    out->head.tensors = 2;
    out->head.nodes = 1;
    out->graph = (trp__dnn_graph){
        .head = &out->head, .tensor = out->tensor, .node = &out->node, .value = out->value};
    for (int i = 0; i < 2; i++) {
        if (out->tensor[i].role != TRP__DNN_BUFFER)
            out->tensor[i].alignment = 16;
        out->tensor[i].role = TRP__DNN_BUFFER;
    }
    memset(out->node.port, TRP__DNN_NO_PORT, sizeof out->node.port);
    out->node.port[from] = 0;
    out->node.port[to] = 1;
}
