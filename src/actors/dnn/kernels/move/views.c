#include "actors/dnn/kernels/move/views.h"

#include <string.h>

uint8_t trp__move_input(const trp__dnn_node *n)
{
    return n->port[n->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_X : TRP__DNN_MOVE_X];
}

uint8_t trp__move_output(const trp__dnn_node *n)
{
    return n->port[n->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_Y : TRP__DNN_MOVE_Y];
}

static bool is_packed(const trp__dnn_tensor *t)
{
    int64_t next = 1;
    for (int i = t->rank; i-- > 0;) {
        if (t->dim[i] != 1 && t->stride[i] != next)
            return false;
        next *= t->dim[i];
    }
    return true;
}

/* A packed tensor with the dimensions of another one. */
static void view_packed(trp__dnn_tensor *t, const trp__dnn_tensor *like)
{
    int64_t next = 1;
    t->rank = like->rank;
    memcpy(t->dim, like->dim, sizeof t->dim);
    memset(t->stride, 0, sizeof t->stride);
    for (int i = t->rank; i-- > 0;) {
        t->stride[i] = next;
        next *= t->dim[i];
    }
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
    case TRP_DNN_RESHAPE: /* as lines of elements; one side packed is a view of the other */
        if (is_packed(x)) {
            view_packed(&out[0].x, y);
            return 1;
        }
        if (is_packed(y)) {
            view_packed(&out[0].y, x);
            return 1;
        }
        return 0;
    case TRP_DNN_CONCATENATE: {
        int64_t at = 0;
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
