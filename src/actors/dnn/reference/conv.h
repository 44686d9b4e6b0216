/* Windows, of convolutions and of pooling, and convolutions: a part of kernels.h. */

/* A window in three dimensions; missing ones come first. */
typedef struct window {
    int64_t in[DIMS], out[DIMS], taps[DIMS];
    int64_t in_stride[DIMS], out_stride[DIMS], tap_stride[DIMS]; /* strides of the tensors in
                                                                  * memory */
    int64_t pad[DIMS], stride[DIMS], dilation[DIMS];
} window;

static window window_of(const trp__direct *d, const trp__dnn_tensor *in, const trp__dnn_tensor *w,
                        const trp__dnn_tensor *out)
{
    window x;
    for (int i = 0; i < DIMS; i++) {
        const int from = i - (DIMS - d->node.spatial);
        const bool there = from >= 0;
        x.in[i] = there ? in->dim[2 + from] : 1;
        x.out[i] = there ? out->dim[2 + from] : 1;
        x.taps[i] = !there ? 1 : w ? w->dim[2 + from] : d->node.window[from];
        x.in_stride[i] = there ? in->stride[2 + from] : 0;
        x.out_stride[i] = there ? out->stride[2 + from] : 0;
        x.tap_stride[i] = there && w ? w->stride[2 + from] : 0;
        x.pad[i] = there ? d->node.pre_pad[from] : 0;
        x.stride[i] = there ? d->node.stride[from] : 1;
        x.dilation[i] = there && w ? d->node.dilation[from] : 1;
    }
    return x;
}

/* Computes the coordinates of index `i` in a box. */
static void unfold(int64_t i, const int64_t size[DIMS], int64_t at[DIMS])
{
    for (int k = DIMS - 1; k >= 0; k--) {
        at[k] = i % size[k];
        i /= size[k];
    }
}

static int64_t volume(const int64_t size[DIMS])
{
    return size[0] * size[1] * size[2];
}

static int64_t along(const int64_t at[DIMS], const int64_t stride[DIMS])
{
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
}

/* Computes the input's position for an output position and a tap; returns false in the padding. */
static bool met(const window *w, const int64_t out[DIMS], const int64_t tap[DIMS], int64_t in[DIMS])
{
    bool inside = true;
    for (int k = 0; k < DIMS; k++) {
        in[k] = out[k] * w->stride[k] - w->pad[k] + tap[k] * w->dilation[k];
        inside = inside && in[k] >= 0 && in[k] < w->in[k];
    }
    return inside;
}

/* Computes the output's position for an input position and a tap; returns false if there is
 * none. */
static bool meets(const window *w, const int64_t in[DIMS], const int64_t tap[DIMS],
                  int64_t out[DIMS])
{
    bool inside = true;
    for (int k = 0; k < DIMS; k++) {
        int64_t away = in[k] + w->pad[k] - tap[k] * w->dilation[k];
        out[k] = away / w->stride[k];
        inside = inside && away >= 0 && away % w->stride[k] == 0 && out[k] < w->out[k];
    }
    return inside;
}

/* Returns the index in the filter of a tap's weight. */
static int64_t weight_at(const trp__direct *d, const window *w, const int64_t tap[DIMS])
{
    int64_t sum = 0;
    for (int k = 0; k < DIMS; k++)
        sum += (d->node.mode ? w->taps[k] - 1 - tap[k] : tap[k]) * w->tap_stride[k];
    return sum;
}

TRP__KERNEL void trp_direct_conv_forward(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_CONV_X], *w = &d.tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_CONV_Y];
    const window v = window_of(&d, x, w, y);
    const int64_t out_volume = volume(v.out), taps = volume(v.taps), channels = w->dim[1];
    const int64_t filters = w->dim[0] / (x->dim[1] / channels); /* filters per group */
    FOR_THREADS(i, d.count)
    {
        const int64_t n = i / out_volume / w->dim[0], k = i / out_volume % w->dim[0];
        int64_t out[DIMS], tap[DIMS], in[DIMS];
        double sum = 0;
        unfold(i % out_volume, v.out, out);
        for (int64_t t = 0; t < taps; t++) {
            unfold(t, v.taps, tap);
            if (!met(&v, out, tap, in))
                continue;
            int64_t of_x =
                n * x->stride[0] + k / filters * channels * x->stride[1] + along(in, v.in_stride);
            int64_t of_w = k * w->stride[0] + weight_at(&d, &v, tap);
            for (int64_t c = 0; c < channels; c++)
                sum += load(&d, TRP__DNN_CONV_X, of_x + c * x->stride[1]) *
                       load(&d, TRP__DNN_CONV_W, of_w + c * w->stride[1]);
        }
        store(&d, TRP__DNN_CONV_Y, n * y->stride[0] + k * y->stride[1] + along(out, v.out_stride),
              sum);
    }
}

TRP__KERNEL void trp_direct_conv_backward_data(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_CONV_X], *w = &d.tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_CONV_Y];
    const window v = window_of(&d, x, w, y);
    const int64_t in_volume = volume(v.in), taps = volume(v.taps), channels = w->dim[1];
    const int64_t filters = w->dim[0] / (x->dim[1] / channels);
    FOR_THREADS(i, d.count)
    {
        const int64_t n = i / in_volume / x->dim[1], c = i / in_volume % x->dim[1];
        const int64_t first = c / channels * filters; /* first filter of the group */
        int64_t in[DIMS], tap[DIMS], out[DIMS];
        double sum = 0;
        unfold(i % in_volume, v.in, in);
        for (int64_t t = 0; t < taps; t++) {
            unfold(t, v.taps, tap);
            if (!meets(&v, in, tap, out))
                continue;
            int64_t of_y = n * y->stride[0] + first * y->stride[1] + along(out, v.out_stride);
            int64_t of_w =
                first * w->stride[0] + c % channels * w->stride[1] + weight_at(&d, &v, tap);
            for (int64_t k = 0; k < filters; k++)
                sum += load(&d, TRP__DNN_CONV_Y, of_y + k * y->stride[1]) *
                       load(&d, TRP__DNN_CONV_W, of_w + k * w->stride[0]);
        }
        store(&d, TRP__DNN_CONV_X, n * x->stride[0] + c * x->stride[1] + along(in, v.in_stride),
              sum);
    }
}

/* One block per element of the filter. */
TRP__KERNEL void trp_direct_conv_backward_filter(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_CONV_X], *w = &d.tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_CONV_Y];
    const window v = window_of(&d, x, w, y);
    const int64_t out_volume = volume(v.out), taps = volume(v.taps), channels = w->dim[1];
    const int64_t filters = w->dim[0] / (x->dim[1] / channels);
    FOR_BLOCKS(i, d.count)
    {
        const int64_t k = i / taps / channels, c = i / taps % channels;
        const int64_t channel = k / filters * channels + c;
        int64_t tap[DIMS], out[DIMS], in[DIMS];
        double sum = 0;
        unfold(i % taps, v.taps, tap);
        FOR_IN_BLOCK(p, x->dim[0] * out_volume)
        {
            const int64_t n = p / out_volume;
            unfold(p % out_volume, v.out, out);
            if (met(&v, out, tap, in))
                sum += load(&d, TRP__DNN_CONV_X,
                            n * x->stride[0] + channel * x->stride[1] + along(in, v.in_stride)) *
                       load(&d, TRP__DNN_CONV_Y,
                            n * y->stride[0] + k * y->stride[1] + along(out, v.out_stride));
        }
        sum = sum_of_block(sum);
        if (TRP__THREAD == 0)
            store(&d, TRP__DNN_CONV_W, k * w->stride[0] + c * w->stride[1] + weight_at(&d, &v, tap),
                  sum);
    }
}
