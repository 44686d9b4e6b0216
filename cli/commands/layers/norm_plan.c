/* Checks the files of a normalisation against each other, before a worker is started. */
#include "norm.h"

#include "ui/ui.h"

double norm_epsilon(const norm *job)
{
    return job->epsilon.given ? job->epsilon.re : 1e-5;
}

uint64_t norm_index(const norm *job, const int64_t *dim, uint64_t at)
{
    const file_array *x = &job->layer.tensor[NORM_X].file;
    uint64_t index = 0, step = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        index += dim[i] == 1 ? 0 : at % x->dim[i] * step;
        step *= (uint64_t)dim[i];
        at /= x->dim[i];
    }
    return index;
}

static bool by_layer(const norm *job)
{
    return job->mode == TRP_DNN_LAYER || job->mode == TRP_DNN_RMS;
}

/* Determines dimensions. LAYER and RMS normalise over as many of the last dimensions as scale
 * has. */
static bool find_dims(norm *job)
{
    const tensor *x = &job->layer.tensor[NORM_X], *scale = &job->layer.tensor[NORM_SCALE];
    uint32_t rank = x->file.rank;
    if (!tensor_expect_rank(x, 2, TRP_DNN_RANK_MAX, "n x channels x any sizes") ||
        (by_layer(job) &&
         !tensor_expect_rank(scale, 1, rank - 1, "the last ones of X, but not all")))
        return false;
    job->first = by_layer(job) ? rank - scale->file.rank : 1;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t size = (int64_t)x->file.dim[i];
        bool summed = by_layer(job)                ? i >= job->first
                      : job->mode == TRP_DNN_BATCH ? i != 1
                                                   : i >= 2;
        bool own = by_layer(job) ? i >= job->first : i == 1;
        job->statistic[i] = summed ? 1 : size;
        job->scale[i] = own ? size : 1;
        if (size < 1) {
            ui_error("%s: expected at least 1 in each dimension; %s", x->option,
                     tensor_describe(x).s);
            return false;
        }
    }
    return true;
}

/* Lays out a file with the dimensions [from, to) of X only. */
static bool lay_out_part(norm *job, int which, uint32_t from, uint32_t to, const char *why)
{
    tensor *t = &job->layer.tensor[which];
    const tensor *x = &job->layer.tensor[NORM_X];
    trp_dtype type = job->type == TRP_F64 ? TRP_F64 : TRP_F32;
    int64_t dim[TRP_DNN_RANK_MAX];
    for (uint32_t i = from; i < to; i++)
        dim[i - from] = (int64_t)x->file.dim[i];
    if (t->use == OPERAND_ABSENT)
        return true;
    return (t->use == OPERAND_OUTPUT ? tensor_shape_output(t, type, to - from, dim)
                                     : tensor_expect_dims(t, to - from, dim, why)) &&
           tensor_lay_out(t, type, TENSOR_AS_FILE);
}

/* Lays out an array of X's shape. */
static bool lay_out_whole(norm *job, int which, uint32_t rank, const int64_t *dim)
{
    tensor *t = &job->layer.tensor[which];
    if (t->use == OPERAND_ABSENT)
        return true;
    return (t->use == OPERAND_OUTPUT ? tensor_shape_output(t, job->type, rank, dim)
                                     : tensor_expect_dims(t, rank, dim, "as X has")) &&
           tensor_lay_out(t, job->type, (tensor_order)job->layer.order);
}

static bool lay_out(norm *job)
{
    tensor *t = job->layer.tensor;
    uint32_t rank = t[NORM_X].file.rank;
    uint32_t scale_end = by_layer(job) ? rank : 2;
    uint32_t begin = job->mode == TRP_DNN_BATCH ? 1 : 0, end = by_layer(job) ? job->first : 2;
    int64_t dim[TRP_DNN_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = (int64_t)t[NORM_X].file.dim[i];
    const char *of_scale = by_layer(job) ? "the last dimensions of X" : "one for each channel";
    return lay_out_whole(job, NORM_X, rank, dim) && lay_out_whole(job, NORM_Y, rank, dim) &&
           lay_out_whole(job, NORM_DY, rank, dim) && lay_out_whole(job, NORM_DX, rank, dim) &&
           lay_out_part(job, NORM_SCALE, job->first, scale_end, of_scale) &&
           lay_out_part(job, NORM_BIAS, job->first, scale_end, of_scale) &&
           lay_out_part(job, NORM_DSCALE, job->first, scale_end, of_scale) &&
           lay_out_part(job, NORM_DBIAS, job->first, scale_end, of_scale) &&
           lay_out_part(job, NORM_MEAN, begin, end, "one for each channel") &&
           lay_out_part(job, NORM_INV_VARIANCE, begin, end, "one for each channel");
}

bool norm_plan(norm *job)
{
    return layer_open(&job->layer) && layer_settle_type(&job->layer.tensor[NORM_X], &job->type) &&
           find_dims(job) && lay_out(job);
}
