/* POINTWISE, data that moves, and its gradients: a part of kernels.h. */

TRP__KERNEL void trp_direct_pointwise(const trp__direct d)
{
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_POINTWISE_Y];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double in[3] = {0, 0, 0};
        position(y, i, at);
        for (int k = 0; k < 3; k++) {
            const int port = TRP__DNN_POINTWISE_X + k;
            if (d.used[port])
                in[k] = load(&d, port, offset(&d.tensor[port], y->rank, at));
        }
        store(&d, TRP__DNN_POINTWISE_Y, offset(y, y->rank, at),
              trp__dnn_pointwise_value(&d.node, in[0], in[1], in[2]));
    }
}

/* --- Data that moves --- */

/* Turns a position of y into one in the part that margins surround. False: it is in the margins. */
static bool is_in_part(const trp__direct *d, int64_t *at)
{
    const trp__dnn_tensor *x = &d->tensor[TRP__DNN_MOVE_X];
    bool inside = true;
    for (int i = 0; i < x->rank; i++) {
        at[i] -= d->node.start[i];
        inside = inside && at[i] >= 0 && at[i] < x->dim[i];
    }
    return inside;
}

/* Finds the source of the element at a position of y; the position becomes that in x. -1: the
 * element is 0. */
static int source_of(const trp__direct *d, int64_t number, int64_t *at)
{
    const trp__dnn_node *n = &d->node;
    int64_t to[TRP__DNN_RANK];
    int port = TRP__DNN_MOVE_X;
    if (n->kind == TRP_DNN_RESHAPE)
        position(&d->tensor[port], number, at);
    if (n->kind == TRP_DNN_CONCATENATE && n->mode == TRP__DNN_MARGINS)
        return is_in_part(d, at) ? port : -1;
    if (n->kind == TRP_DNN_CONCATENATE) {
        for (;; port++) {
            const int64_t size = d->used[port] ? d->tensor[port].dim[n->mode] : 0;
            if (at[n->mode] < size)
                break;
            at[n->mode] -= size;
        }
    }
    for (int i = 0; i < d->tensor[TRP__DNN_MOVE_Y].rank; i++)
        to[i] = at[i];
    for (int i = 0; i < d->tensor[port].rank; i++) {
        if (n->kind == TRP_DNN_SLICE)
            at[i] = n->start[i] + to[i] * n->step[i];
        if (n->kind == TRP_DNN_TRANSPOSE)
            at[n->start[i]] = to[i];
    }
    return port;
}

TRP__KERNEL void trp_direct_move(const trp__direct d)
{
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_MOVE_Y];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(y, i, at);
        const int64_t to = offset(y, y->rank, at);
        const int port = source_of(&d, i, at);
        store(&d, TRP__DNN_MOVE_Y, to,
              port < 0 ? 0 : load(&d, port, offset(&d.tensor[port], d.tensor[port].rank, at)));
    }
}

TRP__KERNEL void trp_direct_gradient(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_GRADIENT_X];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(x, i, at);
        double in = load(&d, TRP__DNN_GRADIENT_X, offset(x, x->rank, at));
        double dy =
            load(&d, TRP__DNN_GRADIENT_DY, offset(&d.tensor[TRP__DNN_GRADIENT_DY], x->rank, at));
        store(&d, TRP__DNN_GRADIENT_DX, offset(&d.tensor[TRP__DNN_GRADIENT_DX], x->rank, at),
              trp__dnn_activation_gradient(&d.node, in, dy));
    }
}
