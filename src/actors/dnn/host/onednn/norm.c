/* Normalisation by oneDNN: batch and instance as its batch normalisation, layer as its layer
 * normalisation. oneDNN uses variances where the actor has 1 / sqrt(variance + epsilon).
 *
 * oneDNN sums in f32, so means and variances are computed here in f64, and it only applies them.
 * Own loops handle inputs that f32 cannot normalise even so: a mean far larger than the differences
 * from it, and numbers whose squares and products leave its range. */
#include "actors/dnn/host/onednn/api.h"
#include "actors/dnn/math/functions.h"

#if TRP__ONEDNN

#include <math.h>
#include <stdlib.h>

enum { WORTH = 1 << 15 };

/* x as images x groups x elements for batches, as rows x */
typedef struct norm {
    const trp__onednn_engine *dnn;
    const trp__dnn_host_node *x;
    bool layer;
    int64_t groups, group;  /* number of statistics and elements of each */
    int64_t scales, copies; /* elements of the scale, and its repetitions in a row */
    dnnl_memory_desc_t all, statistics, scale;
    int64_t images;         /* lines of each group; the elements of a line are contiguous */
    float *memory;          /* memory of the arrays below */
    float *mean, *variance; /* groups */
    float *factor, *shift;  /* scales * copies: scale and bias; backward their gradients too */
    float *dfactor, *dshift;
} norm;

static bool is_split(const norm *n, const trp__dnn_tensor *statistics)
{
    const trp__dnn_tensor *in = n->x->tensor[TRP__DNN_NORM_X];
    int first = n->x->n->mode == TRP_DNN_INSTANCE ? 2 : 1; /* first normalised dimension */
    if (n->layer) {
        while (first < in->rank && statistics->dim[first] == in->dim[first])
            first++;
    }
    for (int i = 0; i < in->rank; i++) {
        int64_t wanted = i < first ? in->dim[i] : 1;
        if (n->x->n->mode == TRP_DNN_BATCH)
            wanted = i == 1 ? in->dim[i] : 1;
        if (statistics->dim[i] != wanted)
            return false;
    }
    return true;
}

/* Returns false if oneDNN does not support the node or it is too small. */
static bool begin(const trp__onednn_engine *dnn, const trp__dnn_host_node *x, norm *n)
{
    const trp__dnn_tensor *in = x->tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor statistics = trp__dnn_statistics_shape(x->n, x->tensor);
    const int64_t count = trp__dnn_elements(in);
    *n = (norm){.dnn = dnn, .x = x, .layer = x->n->mode == TRP_DNN_LAYER, .copies = 1};
    if (x->n->mode == TRP_DNN_RMS || count < WORTH || !is_split(n, &statistics))
        return false;
    n->groups = trp__dnn_elements(&statistics);
    n->group = count / n->groups;
    n->scales = trp__dnn_elements(x->tensor[TRP__DNN_NORM_SCALE]);
    if (x->n->mode == TRP_DNN_INSTANCE)
        n->copies = in->dim[0];
    const int64_t wide = n->scales * n->copies;
    n->images = x->n->mode == TRP_DNN_BATCH ? in->dim[0] : 1;
    const int64_t as_layer[] = {n->groups, n->group};
    const int64_t as_batch[] = {n->images, n->groups, 1, n->group / n->images};
    if (wide != (n->layer ? n->group : n->groups) ||
        !trp__onednn_dense(dnn, n->layer ? 2 : 4, n->layer ? as_layer : as_batch, &n->all) ||
        !trp__onednn_dense(dnn, 1, &n->groups, &n->statistics) ||
        !trp__onednn_dense(dnn, 1, &wide, &n->scale))
        return false;
    n->memory = malloc((size_t)(2 * n->groups + 4 * wide) * sizeof *n->memory);
    n->mean = n->memory;
    n->variance = n->mean + n->groups;
    n->factor = n->variance + n->groups;
    n->shift = n->factor + wide;
    n->dfactor = n->shift + wide;
    n->dshift = n->dfactor + wide;
    return n->memory != NULL;
}

static void set_scale(norm *n)
{
    const float *scale = n->x->at[TRP__DNN_NORM_SCALE];
    const float *bias =
        n->x->n->kind == TRP_DNN_NORM_BACKWARD ? NULL : n->x->at[TRP__DNN_NORM_BIAS];
    for (int64_t i = 0; i < n->scales * n->copies; i++) {
        n->factor[i] = scale[i % n->scales];
        n->shift[i] = bias ? bias[i % n->scales] : 0;
    }
}

/* The largest magnitude whose squares and products stay within f32. */
static const float LARGE = 1e12F;
static const double SMALL = 1e-12;

/* Computes variances without epsilon from the given statistics. Returns false if f32 cannot square
 * some. */
static bool read_statistics(norm *n)
{
    const float *mean = n->x->at[TRP__DNN_NORM_MEAN];
    const float *inverse = n->x->at[TRP__DNN_NORM_INV_VARIANCE];
    const float *dy = n->x->n->kind == TRP_DNN_NORM_BACKWARD ? n->x->at[TRP__DNN_NORM_Y] : NULL;
    const int64_t count = n->groups * n->group;
    for (int64_t i = 0; i < n->groups; i++) {
        if (!((double)inverse[i] > SMALL && inverse[i] < LARGE))
            return false;
        n->mean[i] = mean[i];
        n->variance[i] = (float)(1 / ((double)inverse[i] * (double)inverse[i]));
    }
    return trp__onednn_within(mean, n->groups, LARGE) &&
           trp__onednn_within(n->x->at[TRP__DNN_NORM_SCALE], n->scales, LARGE) &&
           trp__onednn_within(n->x->at[TRP__DNN_NORM_X], count, LARGE) &&
           (!dy ||
            (trp__onednn_within(dy, count, LARGE) &&
             (!trp__onednn_within(dy, count, (float)SMALL) || trp__onednn_within(dy, count, 0))));
}

/* Adds up a line and its squares in blocks of constant length, so that loops are vectorised. */
static void add_line(const float *x, int64_t count, double *sum, double *squares)
{
    enum { LANES = 16 };
    double s[LANES] = {0}, q[LANES] = {0};
    int64_t at = 0;
    for (; at + LANES <= count; at += LANES) {
        for (int i = 0; i < LANES; i++) {
            const double value = (double)x[at + i];
            s[i] += value;
            q[i] += value * value;
        }
    }
    for (; at < count; at++) {
        s[0] += (double)x[at];
        q[0] += (double)x[at] * (double)x[at];
    }
    for (int i = 0; i < LANES; i++) {
        *sum += s[i];
        *squares += q[i];
    }
}

/* Computes means and variances. Returns false if x - mean or a square loses its precision in f32,
 * and for infinities and NaN. Below that ratio of mean and deviation the difference of two f64 sums
 * is accurate to some 2^-45 of the variance. */
static bool take_statistics(norm *n, double epsilon)
{
    const float *x = n->x->at[TRP__DNN_NORM_X];
    const int64_t line = n->group / n->images;
    const double ratio = 8;
    for (int64_t g = 0; g < n->groups; g++) {
        double sum = 0, squares = 0;
        for (int64_t image = 0; image < n->images; image++)
            add_line(x + (image * n->groups + g) * line, line, &sum, &squares);
        const double mean = sum / (double)n->group;
        const double variance = squares / (double)n->group - mean * mean;
        const double wide = variance + epsilon;
        if (!(mean * mean <= ratio * ratio * wide && wide >= SMALL * SMALL &&
              wide <= (double)LARGE * (double)LARGE))
            return false;
        n->mean[g] = (float)mean;
        n->variance[g] = (float)(variance > 0 ? variance : 0);
    }
    return trp__onednn_within(n->x->at[TRP__DNN_NORM_SCALE], n->scales, LARGE);
}

static void write_statistics(const norm *n, double epsilon)
{
    void *const *at = n->x->at;
    float *mean = at[TRP__DNN_NORM_MEAN], *inverse = at[TRP__DNN_NORM_INV_VARIANCE];
    const float *old_mean = at[TRP__DNN_NORM_RUNNING_MEAN];
    const float *old_variance = at[TRP__DNN_NORM_RUNNING_VARIANCE];
    float *new_mean = at[TRP__DNN_NORM_NEW_RUNNING_MEAN];
    float *new_variance = at[TRP__DNN_NORM_NEW_RUNNING_VARIANCE];
    const double share = old_mean ? (double)*(float *)at[TRP__DNN_NORM_AVERAGE_FACTOR] : 0;
    const double others = n->group > 1 ? (double)n->group / (double)(n->group - 1) : 1;
    for (int64_t i = 0; i < n->groups; i++) {
        double m = (double)n->mean[i], v = (double)n->variance[i];
        mean[i] = n->mean[i];
        inverse[i] = (float)(1 / sqrt(v + epsilon));
        if (!old_mean)
            continue;
        new_mean[i] = (float)((1 - share) * (double)old_mean[i] + share * m);
        new_variance[i] = (float)((1 - share) * (double)old_variance[i] + share * v * others);
    }
}

static void describe_forward(const norm *n, dnnl_prop_kind_t kind, float epsilon, unsigned flags,
                             trp__onednn_call *c)
{
    const trp__onednn *f = n->dnn->f;
    dnnl_batch_normalization_desc_t batch;
    dnnl_layer_normalization_desc_t layer;
    dnnl_status_t status =
        n->layer
            ? f->dnnl_layer_normalization_forward_desc_init(&layer, kind, &n->all, &n->statistics,
                                                            epsilon, flags)
            : f->dnnl_batch_normalization_forward_desc_init(&batch, kind, &n->all, epsilon, flags);
    trp__onednn_describe(n->dnn, status, n->layer ? (void *)&layer : (void *)&batch, NULL, c);
}

/* Passes the inputs of both passes. */
static void give_rest(const norm *n, trp__onednn_call *c)
{
    trp__onednn_give(c, DNNL_ARG_SRC, &n->all, n->x->at[TRP__DNN_NORM_X]);
    trp__onednn_give(c, DNNL_ARG_MEAN, &n->statistics, n->mean);
    trp__onednn_give(c, DNNL_ARG_VARIANCE, &n->statistics, n->variance);
    trp__onednn_give(c, DNNL_ARG_SCALE, &n->scale, n->factor);
    trp__onednn_give(c, DNNL_ARG_SHIFT, &n->scale, n->shift); /* unused backward, but required */
}

static bool run(norm *n)
{
    const float *epsilon = n->x->at[TRP__DNN_NORM_EPSILON];
    const unsigned flags = dnnl_use_scale | dnnl_use_shift | dnnl_use_global_stats;
    trp__onednn_call c;
    set_scale(n);
    if (!(epsilon ? take_statistics(n, (double)*epsilon) : read_statistics(n)))
        return false;
    describe_forward(n, dnnl_forward_inference, epsilon ? *epsilon : 0, flags, &c);
    give_rest(n, &c);
    trp__onednn_give(&c, DNNL_ARG_DST, &n->all, n->x->at[TRP__DNN_NORM_Y]);
    bool good = trp__onednn_execute(&c);
    trp__onednn_end(&c);
    if (good && epsilon && n->x->n->kind == TRP_DNN_NORM_TRAINING)
        write_statistics(n, (double)*epsilon);
    return good;
}

bool trp__onednn_norm(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    norm n;
    bool good = begin(dnn, x, &n) && run(&n);
    free(n.memory);
    return good;
}

/* Adds the gradients over the copies. */
static void write_gradients(const norm *n)
{
    float *dscale = n->x->at[TRP__DNN_NORM_DSCALE], *dbias = n->x->at[TRP__DNN_NORM_BIAS];
    for (int64_t i = 0; i < n->scales; i++) {
        double factor = 0, shift = 0;
        for (int64_t copy = 0; copy < n->copies; copy++) {
            factor += (double)n->dfactor[copy * n->scales + i];
            shift += (double)n->dshift[copy * n->scales + i];
        }
        dscale[i] = (float)factor;
        if (dbias)
            dbias[i] = (float)shift;
    }
}

static bool run_backward(norm *n)
{
    const trp__onednn *f = n->dnn->f;
    const unsigned flags = dnnl_use_scale | dnnl_use_shift;
    dnnl_batch_normalization_desc_t batch;
    dnnl_layer_normalization_desc_t layer;
    trp__onednn_call forward, c;
    set_scale(n);
    if (!read_statistics(n))
        return false;
    describe_forward(n, dnnl_forward_training, 0, flags, &forward);
    dnnl_status_t status =
        n->layer ? f->dnnl_layer_normalization_backward_desc_init(&layer, dnnl_backward, &n->all,
                                                                  &n->all, &n->statistics, 0, flags)
                 : f->dnnl_batch_normalization_backward_desc_init(&batch, dnnl_backward, &n->all,
                                                                  &n->all, 0, flags);
    trp__onednn_describe(n->dnn, status, n->layer ? (void *)&layer : (void *)&batch, &forward, &c);
    give_rest(n, &c);
    trp__onednn_give(&c, DNNL_ARG_DIFF_DST, &n->all, n->x->at[TRP__DNN_NORM_Y]);
    trp__onednn_give(&c, DNNL_ARG_DIFF_SRC, &n->all, n->x->at[TRP__DNN_NORM_DX]);
    trp__onednn_give(&c, DNNL_ARG_DIFF_SCALE, &n->scale, n->dfactor);
    trp__onednn_give(&c, DNNL_ARG_DIFF_SHIFT, &n->scale, n->dshift);
    bool good = trp__onednn_execute(&c);
    trp__onednn_end(&c);
    trp__onednn_end(&forward);
    if (good)
        write_gradients(n);
    return good;
}

bool trp__onednn_norm_backward(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    norm n;
    bool good = begin(dnn, x, &n) && run_backward(&n);
    free(n.memory);
    return good;
}

#endif
