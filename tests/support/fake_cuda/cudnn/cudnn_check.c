/* Checks whether the tensors of an operation of the fake cuDNN are compatible. */
#include "support/fake_cuda/cudnn/cudnn.h"

typedef const trp__dnn_tensor *const tensors[];

static bool same(const trp__dnn_tensor *a, const trp__dnn_tensor *b)
{
    bool all = a->rank == b->rank;
    for (int i = 0; i < TRP__DNN_RANK; i++)
        all = all && a->dim[i] == b->dim[i];
    return all;
}

/* Dimensions of 1 are repeated. */
static bool goes_with(const trp__dnn_tensor *t, const trp__dnn_tensor *whole)
{
    bool all = t->rank == whole->rank;
    for (int i = 0; i < TRP__DNN_RANK; i++)
        all = all && (t->dim[i] == 1 || t->dim[i] == whole->dim[i]);
    return all;
}

static bool conv(const trp__dnn_node *n, tensors t)
{
    const trp__dnn_tensor *x = t[TRP__DNN_CONV_X], *w = t[TRP__DNN_CONV_W], *y = t[TRP__DNN_CONV_Y];
    bool good = x->rank == n->spatial + 2 && w->rank == x->rank && y->rank == x->rank &&
                x->dim[0] == y->dim[0] && y->dim[1] == w->dim[0] && x->dim[1] % w->dim[1] == 0 &&
                w->dim[0] % (x->dim[1] / w->dim[1]) == 0;
    for (int i = 0; i < n->spatial && good; i++) {
        int64_t room = x->dim[2 + i] + n->pre_pad[i] + n->post_pad[i] -
                       (w->dim[2 + i] - 1) * n->dilation[i] - 1;
        good = room >= 0 && y->dim[2 + i] == room / n->stride[i] + 1;
    }
    return good;
}

static bool matmul(const trp__dnn_node *n, tensors t)
{
    const trp__dnn_tensor *a = t[TRP__DNN_MATMUL_A], *b = t[TRP__DNN_MATMUL_B];
    const trp__dnn_tensor *y = t[TRP__DNN_MATMUL_Y];
    int last = y->rank - 1;
    bool good = a->rank == y->rank && b->rank == y->rank && a->dim[last - 1] == y->dim[last - 1] &&
                b->dim[last] == y->dim[last] && a->dim[last] == b->dim[last - 1];
    (void)n;
    for (int i = 0; i < last - 1 && good; i++)
        good = (a->dim[i] == 1 || a->dim[i] == y->dim[i]) &&
               (b->dim[i] == 1 || b->dim[i] == y->dim[i]);
    return good;
}

static bool pointwise(const trp__dnn_node *n, tensors t)
{
    uint32_t inputs = trp__dnn_pointwise_inputs(n->mode);
    const trp__dnn_tensor *y = t[TRP__DNN_POINTWISE_Y];
    bool good = y != NULL;
    for (uint32_t i = 0; i < 3 && good; i++) {
        const trp__dnn_tensor *in = t[TRP__DNN_POINTWISE_X + i];
        good = (in != NULL) == (i < inputs) && (!in || goes_with(in, y));
    }
    return good;
}

static bool gradient(const trp__dnn_node *n, tensors t)
{
    (void)n;
    return t[TRP__DNN_GRADIENT_DY] && t[TRP__DNN_GRADIENT_DX] &&
           same(t[TRP__DNN_GRADIENT_X], t[TRP__DNN_GRADIENT_DX]) &&
           goes_with(t[TRP__DNN_GRADIENT_DY], t[TRP__DNN_GRADIENT_DX]);
}

static bool reduction(const trp__dnn_node *n, tensors t)
{
    (void)n;
    return goes_with(t[TRP__DNN_REDUCTION_Y], t[TRP__DNN_REDUCTION_X]);
}

static bool pool(const trp__dnn_node *n, tensors t)
{
    const trp__dnn_tensor *x = t[TRP__DNN_RESAMPLE_X], *y = t[TRP__DNN_RESAMPLE_Y];
    const trp__dnn_tensor *index = t[TRP__DNN_RESAMPLE_INDEX];
    bool back = n->kind == TRP_DNN_RESAMPLE_BACKWARD, most = n->mode == TRP_DNN_POOL_MAX;
    const trp__dnn_tensor *old_x = back ? t[TRP__DNN_RESAMPLE_OLD_X] : NULL;
    const trp__dnn_tensor *old_y = back ? t[TRP__DNN_RESAMPLE_OLD_Y] : NULL;
    bool good = x->rank == n->spatial + 2 && y->rank == x->rank && x->dim[0] == y->dim[0] &&
                x->dim[1] == y->dim[1] && (!index || (most && same(index, y))) &&
                (!old_x || same(old_x, x)) && (!old_y || same(old_y, y)) &&
                (!back || !most || index || (old_x && old_y));
    for (int i = 0; i < n->spatial && good; i++) {
        int64_t room = x->dim[2 + i] + n->pre_pad[i] + n->post_pad[i] - n->window[i];
        good = room >= 0 && y->dim[2 + i] == room / n->stride[i] + 1;
    }
    return good;
}

static bool norm(const trp__dnn_node *n, tensors t)
{
    const trp__dnn_tensor *x = t[TRP__DNN_NORM_X], *mean = t[TRP__DNN_NORM_MEAN];
    const trp__dnn_tensor *inverse = t[TRP__DNN_NORM_INV_VARIANCE], *y = t[TRP__DNN_NORM_Y];
    bool back = n->kind == TRP_DNN_NORM_BACKWARD, rms = n->mode == TRP_DNN_RMS;
    bool epsilon = !back && t[TRP__DNN_NORM_EPSILON] != NULL;
    bool good = same(x, y) && goes_with(t[TRP__DNN_NORM_SCALE], x) && (!mean || !rms) &&
                (!mean || (inverse && same(mean, inverse))) && (!inverse || goes_with(inverse, x));
    if (back)
        return good && (mean || rms) && same(t[TRP__DNN_NORM_DX], x) &&
               same(t[TRP__DNN_NORM_DSCALE], t[TRP__DNN_NORM_SCALE]) &&
               (!t[TRP__DNN_NORM_BIAS] || same(t[TRP__DNN_NORM_BIAS], t[TRP__DNN_NORM_SCALE]));
    bool running = t[TRP__DNN_NORM_RUNNING_MEAN] != NULL;
    for (int i = TRP__DNN_NORM_RUNNING_MEAN; i <= TRP__DNN_NORM_NEW_RUNNING_VARIANCE; i++)
        good = good && (t[i] != NULL) == running && (!running || goes_with(t[i], x));
    if (n->kind == TRP_DNN_NORM_INFERENCE)
        return good && !running && (epsilon || (mean && inverse));
    return good && epsilon && inverse && (mean || rms) && (!running || n->mode == TRP_DNN_BATCH);
}

static bool statistics(const trp__dnn_node *n, tensors t)
{
    const trp__dnn_tensor *x = t[TRP__DNN_STATISTICS_X], *sum = t[TRP__DNN_STATISTICS_SUM];
    (void)n;
    return goes_with(sum, x) && sum->dim[1] == x->dim[1] && trp__dnn_elements(sum) == x->dim[1] &&
           same(sum, t[TRP__DNN_STATISTICS_SQUARE_SUM]);
}

int fake_cudnn_check(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[])
{
    static bool (*const checks[])(const trp__dnn_node *, tensors) = {
        [TRP_DNN_CONV_FORWARD] = conv,         [TRP_DNN_CONV_BACKWARD_DATA] = conv,
        [TRP_DNN_CONV_BACKWARD_FILTER] = conv, [TRP_DNN_MATMUL] = matmul,
        [TRP_DNN_POINTWISE] = pointwise,       [TRP_DNN_POINTWISE_BACKWARD] = gradient,
        [TRP_DNN_REDUCTION] = reduction,       [TRP_DNN_RESAMPLE_FORWARD] = pool,
        [TRP_DNN_RESAMPLE_BACKWARD] = pool,    [TRP_DNN_NORM_TRAINING] = norm,
        [TRP_DNN_NORM_INFERENCE] = norm,       [TRP_DNN_NORM_BACKWARD] = norm,
        [TRP_DNN_STATISTICS] = statistics,
    };
    return checks[n->kind](n, tensor)
               ? FAKE_CUDNN_SUCCESS
               : fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "%s: its tensors don't go together",
                                trp__dnn_kind_of(n->kind)->name);
}
