/* Checks the files of attention against each other, before a worker is started. */
#include "attention.h"

#include "ui/sizes.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

double attention_scale(const attention *job)
{
    return job->scale.given ? job->scale.re : 1 / sqrt((double)job->depth);
}

static int64_t length_of(const attention *job, int which, int64_t batch)
{
    return job->length[which] ? job->length[which][batch] : which ? job->columns : job->rows;
}

void attention_seen(const attention *job, int64_t batch, int64_t row, int64_t *first, int64_t *end)
{
    int64_t rows = length_of(job, 0, batch), columns = length_of(job, 1, batch);
    int64_t diagonal = row + (job->mask == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT ? columns - rows : 0);
    *first = *end = 0;
    if (row >= rows)
        return;
    *end = job->mask != TRP_DNN_MASK_NONE && diagonal + 1 < columns ? diagonal + 1 : columns;
    *first = job->window > 0 && diagonal + 1 > job->window ? diagonal + 1 - job->window : 0;
    *end = *end > *first ? *end : *first;
}

/* Returns a file's dimension in the order batch, head, row, depth. */
static int64_t dim_of(const attention *job, int which, int i)
{
    int at = job->interleaved && (i == 1 || i == 2) ? 3 - i : i;
    return (int64_t)job->layer.tensor[which].file.dim[at];
}

static bool find_dims(attention *job)
{
    const tensor *t = job->layer.tensor;
    const char *what =
        job->interleaved ? "batch x rows x heads x depth" : "batch x heads x rows x depth";
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++) {
        if (!tensor_expect_rank(&t[i], 4, 4, what))
            return false;
        for (int d = 0; d < 4; d++) {
            if (t[i].file.dim[d] < 1) {
                ui_error("%s: expected at least 1 in each dimension; %s", t[i].option,
                         tensor_describe(&t[i]).s);
                return false;
            }
        }
    }
    job->batches = dim_of(job, ATTENTION_Q, 0);
    job->heads = dim_of(job, ATTENTION_Q, 1);
    job->rows = dim_of(job, ATTENTION_Q, 2);
    job->depth = dim_of(job, ATTENTION_Q, 3);
    job->shared = dim_of(job, ATTENTION_K, 1);
    job->columns = dim_of(job, ATTENTION_K, 2);
    job->width = dim_of(job, ATTENTION_V, 3);
    if (job->heads % job->shared == 0)
        return true;
    ui_error("K: expected heads that divide the %" PRId64 " of Q, got %" PRId64 "; %s", job->heads,
             job->shared, tensor_describe(&t[ATTENTION_K]).s);
    return false;
}

static bool lay_out_one(attention *job, int which, int64_t heads, int64_t rows, int64_t depth,
                        const char *why)
{
    tensor *t = &job->layer.tensor[which];
    int64_t dim[] = {job->batches, heads, rows, depth};
    if (job->interleaved) {
        dim[1] = rows;
        dim[2] = heads;
    }
    if (t->use == OPERAND_ABSENT)
        return true;
    return (t->use == OPERAND_OUTPUT ? tensor_shape_output(t, job->type, 4, dim)
                                     : tensor_expect_dims(t, 4, dim, why)) &&
           tensor_lay_out(t, job->type, TENSOR_AS_FILE);
}

static bool lay_out(attention *job)
{
    return lay_out_one(job, ATTENTION_Q, job->heads, job->rows, job->depth, "") &&
           lay_out_one(job, ATTENTION_K, job->shared, job->columns, job->depth,
                       "batches and depth of Q") &&
           lay_out_one(job, ATTENTION_V, job->shared, job->columns, job->width,
                       "batches, heads and rows of K") &&
           lay_out_one(job, ATTENTION_Y, job->heads, job->rows, job->width, "") &&
           lay_out_one(job, ATTENTION_DY, job->heads, job->rows, job->width, "as the result has") &&
           lay_out_one(job, ATTENTION_DQ, job->heads, job->rows, job->depth, "") &&
           lay_out_one(job, ATTENTION_DK, job->shared, job->columns, job->depth, "") &&
           lay_out_one(job, ATTENTION_DV, job->shared, job->columns, job->width, "");
}

/* Stats always has heads before rows, and no last dimension of 1. */
static bool lay_out_stats(attention *job)
{
    tensor *t = &job->layer.tensor[ATTENTION_STATS];
    const int64_t dim[] = {job->batches, job->heads, job->rows};
    trp_dtype type = job->type == TRP_F64 ? TRP_F64 : TRP_F32;
    return t->use == OPERAND_ABSENT ||
           (tensor_shape_output(t, type, 3, dim) && tensor_lay_out(t, type, TENSOR_AS_FILE));
}

/* Lays out bias: the last two to four dimensions of the scores, or 1. */
static bool lay_out_bias(attention *job)
{
    tensor *t = &job->layer.tensor[ATTENTION_BIAS], *to = &job->layer.tensor[ATTENTION_DBIAS];
    const int64_t scores[] = {job->batches, job->heads, job->rows, job->columns};
    int64_t dim[4];
    if (t->use == OPERAND_ABSENT)
        return true;
    if (!tensor_expect_rank(t, 2, 4, "the last ones of batch x heads x rows x columns"))
        return false;
    uint32_t rank = t->file.rank;
    for (uint32_t i = 0; i < rank; i++) {
        dim[i] = (int64_t)t->file.dim[i];
        if (dim[i] != 1 && dim[i] != scores[4 - rank + i]) {
            ui_error("--bias: expected 1 or %" PRId64 " in dimension %u; %s", scores[4 - rank + i],
                     i, tensor_describe(t).s);
            return false;
        }
    }
    return tensor_lay_out(t, job->type, TENSOR_AS_FILE) &&
           (to->use == OPERAND_ABSENT || (tensor_shape_output(to, job->type, rank, dim) &&
                                          tensor_lay_out(to, job->type, TENSOR_AS_FILE)));
}

static bool lay_out_slopes(attention *job)
{
    tensor *t = &job->layer.tensor[ATTENTION_SLOPES];
    return t->use == OPERAND_ABSENT ||
           (tensor_expect_dims(t, 1, &job->heads, "one for each head") &&
            tensor_lay_out(t, job->type == TRP_F64 ? TRP_F64 : TRP_F32, TENSOR_AS_FILE));
}

/* Reads "3,7": a length for each batch, or one for all. */
static bool read_lengths(attention *job, int which, const char *name, const char *text)
{
    const int64_t most = which ? job->columns : job->rows;
    tensor *t = &job->layer.tensor[which ? ATTENTION_SEQ_KV : ATTENTION_SEQ_Q];
    int32_t *length = calloc((size_t)job->batches, sizeof *length);
    const char *next = text;
    int64_t count = 0, value = 0;
    job->length[which] = length;
    if (!length) {
        ui_error("out of memory");
        return false;
    }
    while (next && count < job->batches && (count == 0 || *next)) {
        next = sizes_next(next, &value);
        next = value <= most ? next : NULL;
        length[count++] = (int32_t)value;
    }
    if (!next || *next || (count != 1 && count != job->batches)) {
        ui_wrong("--%s: expected %s of 0 to %" PRId64 ", one for each batch or one for all, got "
                 "'%s'",
                 name, ui_plural((uint64_t)job->batches, "number").s, most, text);
        return false;
    }
    for (; count < job->batches; count++)
        length[count] = length[0];
    *t = (tensor){.use = OPERAND_INPUT, .option = name};
    t->device = (trp_dnn_tensor){.type = TRP_I32, .rank = 4, .dim = {job->batches, 1, 1, 1}};
    t->bytes = (uint64_t)job->batches * sizeof *length;
    return true;
}

static bool lay_out_lengths(attention *job)
{
    if (!job->lengths)
        return true;
    return read_lengths(job, 0, "lengths", job->lengths) &&
           read_lengths(job, 1, job->lengths_kv ? "lengths-kv" : "lengths",
                        job->lengths_kv ? job->lengths_kv : job->lengths);
}

static bool settle_type(attention *job)
{
    const tensor *q = &job->layer.tensor[ATTENTION_Q];
    if (!layer_settle_type(q, &job->type))
        return false;
    if (job->type == TRP_F64 || job->type == TRP_F32 || job->type == TRP_F16 ||
        job->type == TRP_BF16)
        return true;
    ui_error("Q: expected f64, f32 or f16, or --type; %s; convert it with .astype(np.float32)",
             tensor_describe(q).s);
    return false;
}

bool attention_plan(attention *job)
{
    return layer_open(&job->layer) && settle_type(job) && find_dims(job) && lay_out(job) &&
           lay_out_stats(job) && lay_out_bias(job) && lay_out_slopes(job) && lay_out_lengths(job);
}
