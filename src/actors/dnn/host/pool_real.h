/* Pooling in one real type. Included by nodes_real.h. */

/* A window of a plane: its beginning, which may be in the padding, and its part in the plane. */
typedef struct NAME(window) {
    int64_t in[CONV_DIMS], start[CONV_DIMS], size[CONV_DIMS];
    int64_t first[CONV_DIMS], end[CONV_DIMS];
} NAME(window);

typedef struct NAME(pool) {
    const trp__dnn_host_node *x;
    NAME(window) shape; /* without its position */
    int64_t out[CONV_DIMS], planes, in_volume, out_volume;
    int32_t pad[CONV_DIMS], post_pad[CONV_DIMS], stride[CONV_DIMS];
    int64_t chunk; /* output elements per piece */
} NAME(pool);

static NAME(pool) NAME(describe_pool)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *in = x->tensor[TRP__DNN_RESAMPLE_X];
    const trp__dnn_tensor *out = x->tensor[TRP__DNN_RESAMPLE_Y];
    NAME(pool)
    p = {.x = x, .planes = in->dim[0] * in->dim[1], .in_volume = 1, .out_volume = 1};
    for (int i = 0; i < CONV_DIMS; i++) {
        int from = i - (CONV_DIMS - x->n->spatial);
        p.shape.in[i] = from < 0 ? 1 : in->dim[2 + from];
        p.shape.size[i] = from < 0 ? 1 : x->n->window[from];
        p.out[i] = from < 0 ? 1 : out->dim[2 + from];
        p.pad[i] = from < 0 ? 0 : x->n->pre_pad[from];
        p.post_pad[i] = from < 0 ? 0 : x->n->post_pad[from];
        p.stride[i] = from < 0 ? 1 : x->n->stride[from];
        p.in_volume *= p.shape.in[i];
        p.out_volume *= p.out[i];
    }
    return p;
}

static NAME(window) NAME(window_of)(const NAME(pool) * p, int64_t pixel)
{
    NAME(window) w = p->shape;
    for (int i = CONV_DIMS - 1; i >= 0; i--) {
        w.start[i] = pixel % p->out[i] * p->stride[i] - p->pad[i];
        w.first[i] = w.start[i] > 0 ? w.start[i] : 0;
        w.end[i] = w.start[i] + w.size[i] < w.in[i] ? w.start[i] + w.size[i] : w.in[i];
        pixel /= p->out[i];
    }
    return w;
}

/* Iterates over the elements of a plane in a window, in order; `at` is the position. */
#define FOR_WINDOW(w, at)                                                                          \
    for (int64_t at##_d = (w)->first[0]; at##_d < (w)->end[0]; at##_d++)                           \
        for (int64_t at##_h = (w)->first[1]; at##_h < (w)->end[1]; at##_h++)                       \
            for (int64_t at##_row = (at##_d * (w)->in[1] + at##_h) * (w)->in[2],                   \
                         at = at##_row + (w)->first[2];                                            \
                 at < at##_row + (w)->end[2]; at++)

/* Returns the position in the plane of place `tap` of a window; -1: padding. */
static int64_t NAME(place_in)(const NAME(window) * w, int64_t tap)
{
    int64_t at[CONV_DIMS];
    for (int i = CONV_DIMS - 1; i >= 0; i--) {
        at[i] = w->start[i] + tap % w->size[i];
        tap /= w->size[i];
        if (at[i] < 0 || at[i] >= w->in[i])
            return -1;
    }
    return (at[0] * w->in[1] + at[1]) * w->in[2] + at[2];
}

/* Returns the place in the window of a position in the plane. */
static int64_t NAME(tap_at)(const NAME(window) * w, int64_t at)
{
    int64_t d = at / (w->in[1] * w->in[2]), h = at / w->in[2] % w->in[1], x = at % w->in[2];
    return ((d - w->start[0]) * w->size[1] + h - w->start[1]) * w->size[2] + x - w->start[2];
}

/* Returns the position of the maximum: the first of several, and the first NaN. -1: only
 * padding. */
static int64_t NAME(largest_in)(const NAME(window) * w, const T *plane)
{
    int64_t best = -1;
    T most = 0;
    FOR_WINDOW(w, at)
    {
        if (best < 0 || (most == most && !(plane[at] <= most))) {
            best = at;
            most = plane[at];
        }
    }
    return best;
}

/* Returns the divisor of the sum over a window. Explicit padding counts in AVERAGE_PADDED; padding
 * that results from rounding up the output's size never does. */
static double NAME(divisor)(const NAME(pool) * p, const NAME(window) * w)
{
    int64_t count = 1;
    for (int i = 0; i < CONV_DIMS; i++) {
        int64_t size = w->end[i] - w->first[i];
        if (p->x->n->mode == TRP_DNN_POOL_AVERAGE_PADDED) {
            const int64_t most = w->in[i] + p->post_pad[i] - w->start[i];
            size = w->size[i] < most ? w->size[i] : most;
        }
        count *= size > 0 ? size : 0;
    }
    return (double)count;
}

static T NAME(average)(const NAME(pool) * p, const NAME(window) * w, const T *plane)
{
    double sum = 0, lost = 0, divisor = NAME(divisor)(p, w);
    FOR_WINDOW(w, at)
    {
        NAME(add)(&sum, &lost, (double)plane[at]);
    }
    if (!IS_F32 && isinf(sum)) { /* the mean may still be finite */
        sum = lost = 0;
        FOR_WINDOW(w, at)
        {
            NAME(add)(&sum, &lost, (double)plane[at] / divisor);
        }
        return (T)NAME(total)(sum, lost);
    }
    return (T)(divisor > 0 ? NAME(total)(sum, lost) / divisor : 0);
}

static void NAME(pool_piece)(void *context, int64_t piece, int worker)
{
    const NAME(pool) *p = context;
    const trp__dnn_host_node *x = p->x;
    const T *in = x->at[TRP__DNN_RESAMPLE_X];
    T *out = x->at[TRP__DNN_RESAMPLE_Y], *index = x->at[TRP__DNN_RESAMPLE_INDEX];
    const int64_t all = p->planes * p->out_volume, from = piece * p->chunk;
    (void)worker;
    for (int64_t i = from; i < all && i < from + p->chunk; i++) {
        const T *plane = in + i / p->out_volume * p->in_volume;
        const NAME(window) w = NAME(window_of)(p, i % p->out_volume);
        if (x->n->mode != TRP_DNN_POOL_MAX) {
            out[i] = NAME(average)(p, &w, plane);
            continue;
        }
        int64_t at = NAME(largest_in)(&w, plane);
        out[i] = at < 0 ? -(T)INFINITY : plane[at];
        if (index)
            index[i] = (T)(at < 0 ? at : NAME(tap_at)(&w, at));
    }
}

static void NAME(run_pool)(const trp__dnn_host_node *x)
{
    enum { SHARED = 1 << 14 }; /* least elements that are worth a thread */
    NAME(pool) p = NAME(describe_pool)(x);
    const int64_t *size = p.shape.size, taps = size[0] * size[1] * size[2];
    p.chunk = taps < SHARED ? SHARED / taps : 1;
    trp__team_run(NAME(pool_piece), &p, (p.planes * p.out_volume + p.chunk - 1) / p.chunk);
}

static void NAME(run_pool_backward)(const trp__dnn_host_node *x)
{
    const NAME(pool) p = NAME(describe_pool)(x);
    T *in = x->at[TRP__DNN_RESAMPLE_X];
    const T *out = x->at[TRP__DNN_RESAMPLE_Y], *index = x->at[TRP__DNN_RESAMPLE_INDEX];
    const T *old = x->at[TRP__DNN_RESAMPLE_OLD_X];
    memset(in, 0, (size_t)(p.planes * p.in_volume) * sizeof *in);
    for (int64_t i = 0; i < p.planes * p.out_volume; i++) {
        int64_t begin = i / p.out_volume * p.in_volume;
        const NAME(window) w = NAME(window_of)(&p, i % p.out_volume);
        if (x->n->mode != TRP_DNN_POOL_MAX) {
            const T share = (T)((double)out[i] / NAME(divisor)(&p, &w));
            FOR_WINDOW(&w, at)
            {
                in[begin + at] += share;
            }
            continue;
        }
        int64_t tap = index ? (int64_t)index[i] : -1, at = -1;
        if (!index)
            at = NAME(largest_in)(&w, old + begin);
        else if (tap >= 0 && tap < w.size[0] * w.size[1] * w.size[2]) /* the index is an input and
                                                                       * may be invalid */
            at = NAME(place_in)(&w, tap);
        if (at >= 0)
            in[begin + at] += out[i];
    }
}

#undef FOR_WINDOW
