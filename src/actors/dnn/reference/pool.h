/* RESAMPLE_...: a part of kernels.h. */

/* Returns the tap of a window's largest element, with `base` the window's offset from the tensor's
 * first element: the first of several, and the first NaN. -1: only padding. */
static int64_t largest(const trp__direct *d, int port, const window *v, int64_t base,
                       const int64_t stride[DIMS], const int64_t out[DIMS], double *value)
{
    int64_t best = -1, tap[DIMS], in[DIMS];
    double most = 0;
    for (int64_t t = 0; t < volume(v->taps); t++) {
        unfold(t, v->taps, tap);
        if (!met(v, out, tap, in))
            continue;
        double x = load(d, port, base + along(in, stride));
        if (best < 0 || (most == most && !(x <= most))) {
            best = t;
            most = x;
        }
    }
    *value = most;
    return best;
}

/* Returns the divisor of the sum over a window. Explicit padding counts in AVERAGE_PADDED; padding
 * that results from rounding up the output's size never does. */
static double divisor(const trp__direct *d, const window *v, const int64_t out[DIMS])
{
    int64_t count = 1;
    for (int k = 0; k < DIMS; k++) {
        const int from = k - (DIMS - d->node.spatial);
        const bool padded = d->node.mode == TRP_DNN_POOL_AVERAGE_PADDED && from >= 0;
        const int64_t most = v->in[k] + (padded ? d->node.post_pad[from] : 0);
        int64_t first = out[k] * v->stride[k] - v->pad[k], end = first + v->taps[k];
        first = first > 0 || padded ? first : 0;
        end = end < most ? end : most;
        count *= end > first ? end - first : 0;
    }
    return (double)count;
}

/* Sums a window, each element times a factor. */
static double window_sum(const trp__direct *d, const window *v, int64_t base,
                         const int64_t out[DIMS], double factor)
{
    int64_t tap[DIMS], in[DIMS];
    double sum = 0;
    for (int64_t t = 0; t < volume(v->taps); t++) {
        unfold(t, v->taps, tap);
        if (met(v, out, tap, in))
            sum += factor * load(d, TRP__DNN_RESAMPLE_X, base + along(in, v->in_stride));
    }
    return sum;
}

TRP__KERNEL void trp_direct_pool(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_RESAMPLE_X], *y = &d.tensor[TRP__DNN_RESAMPLE_Y];
    const window v = window_of(&d, x, NULL, y);
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK], out[DIMS];
        double value = 0;
        position(y, i, at);
        unfold(i % volume(v.out), v.out, out);
        const int64_t base = at[0] * x->stride[0] + at[1] * x->stride[1];
        if (d.node.mode == TRP_DNN_POOL_MAX) {
            int64_t best = largest(&d, TRP__DNN_RESAMPLE_X, &v, base, v.in_stride, out, &value);
            if (best < 0)
                value = -INFINITY;
            if (d.used[TRP__DNN_RESAMPLE_INDEX])
                store(&d, TRP__DNN_RESAMPLE_INDEX,
                      offset(&d.tensor[TRP__DNN_RESAMPLE_INDEX], y->rank, at), (double)best);
        } else {
            const double count = divisor(&d, &v, out);
            value = window_sum(&d, &v, base, out, 1);
            if (isinf(value)) /* the mean may still be finite */
                value = window_sum(&d, &v, base, out, 1 / count);
            else
                value = count > 0 ? value / count : 0;
        }
        store(&d, TRP__DNN_RESAMPLE_Y, offset(y, y->rank, at), value);
    }
}

/* Each element of dx searches the windows that contain it. */
TRP__KERNEL void trp_direct_pool_backward(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_RESAMPLE_X], *y = &d.tensor[TRP__DNN_RESAMPLE_Y];
    const trp__dnn_tensor *old = &d.tensor[TRP__DNN_RESAMPLE_OLD_X];
    const trp__dnn_tensor *index = &d.tensor[TRP__DNN_RESAMPLE_INDEX];
    const bool given = d.used[TRP__DNN_RESAMPLE_INDEX];
    const window v = window_of(&d, x, NULL, y);
    int64_t old_stride[DIMS];
    for (int i = 0; i < DIMS; i++) {
        const int from = i - (DIMS - d.node.spatial);
        old_stride[i] = from >= 0 && d.used[TRP__DNN_RESAMPLE_OLD_X] ? old->stride[2 + from] : 0;
    }
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK], in[DIMS], tap[DIMS], out[DIMS];
        double sum = 0;
        position(x, i, at);
        unfold(i % volume(v.in), v.in, in);
        for (int64_t t = 0; t < volume(v.taps); t++) {
            double most;
            unfold(t, v.taps, tap);
            if (!meets(&v, in, tap, out))
                continue;
            for (int k = 0; k < d.node.spatial; k++)
                at[2 + k] = out[DIMS - d.node.spatial + k];
            double dy = load(&d, TRP__DNN_RESAMPLE_Y, offset(y, y->rank, at));
            if (d.node.mode != TRP_DNN_POOL_MAX)
                sum += dy / divisor(&d, &v, out);
            else if ((given ? (int64_t)load(&d, TRP__DNN_RESAMPLE_INDEX, offset(index, y->rank, at))
                            : largest(&d, TRP__DNN_RESAMPLE_OLD_X, &v,
                                      at[0] * old->stride[0] + at[1] * old->stride[1], old_stride,
                                      out, &most)) == t)
                sum += dy;
        }
        for (int k = 0; k < d.node.spatial; k++)
            at[2 + k] = in[DIMS - d.node.spatial + k];
        store(&d, TRP__DNN_RESAMPLE_X, offset(x, x->rank, at), sum);
    }
}
