/* troupe cutlass conv: tensors in files of matrices. */
#include "cutlass.h"

#include "ui/sizes.h"
#include "ui/ui.h"

#include <inttypes.h>

/* Options. */

bool cutlass_read_conv(cutlass *job)
{
    trp_cutlass_conv_request *r = &job->conv;
    int64_t sizes[SIZES_MAX];
    uint32_t count = sizes_read("input", job->input, sizes);
    if (count == 1)
        ui_error("--input: expected images and one to three sizes, got '%s'", job->input);
    if (!job->filter)
        ui_error("expected --filter R,S, the sizes of the filter");
    if (count < 2 || !job->filter)
        return false;
    r->operation = (trp_conv_operation)job->operation;
    r->images = sizes[0];
    r->dims = count - 1;
    for (uint32_t i = 0; i < r->dims; i++)
        r->input[i] = sizes[1 + i];
    r->groups = job->conv_groups;
    r->flip = job->flip;
    return sizes_each("filter", job->filter, r->dims, r->filter) &&
           sizes_each("pad", job->pad, r->dims, r->pad) &&
           sizes_each("pad-after", job->pad_after ? job->pad_after : job->pad, r->dims,
                      r->pad_after) &&
           sizes_each("stride", job->stride, r->dims, r->stride) &&
           sizes_each("dilation", job->dilation, r->dims, r->dilation);
}

/* Shapes. */

/* An overflow gives a size that no file has. */
static uint64_t volume(const int64_t *sizes, uint32_t dims, uint64_t factor)
{
    for (uint32_t i = 0; i < dims; i++) {
        if (__builtin_mul_overflow(factor, (uint64_t)sizes[i], &factor))
            return UINT64_MAX;
    }
    return factor;
}

static bool set_output(trp_cutlass_conv_request *r)
{
    for (uint32_t i = 0; i < r->dims; i++) {
        int64_t dilation = r->dilation[i] ? r->dilation[i] : 1;
        int64_t wide = (r->filter[i] - 1) * dilation + 1;
        int64_t padded = r->input[i] + r->pad[i] + r->pad_after[i];
        if (r->filter[i] < 1 || wide > padded) {
            ui_wrong("--filter: expected one that fits into the padded image, of %" PRId64
                     ", got one that reaches over %" PRId64,
                     padded, wide);
            return false;
        }
        r->output[i] = (padded - wide) / (r->stride[i] ? r->stride[i] : 1) + 1;
    }
    return true;
}

static bool expect_rows(const operand *o, uint64_t rows, const char *of)
{
    if (o->file.rows == rows)
        return true;
    ui_error("%s: expected %" PRIu64 " rows, %s; %s", o->option, rows, of, operand_describe(o).s);
    return false;
}

static bool expect_columns(const operand *o, uint64_t columns)
{
    if (o->file.cols == columns)
        return true;
    ui_error("%s: expected %" PRIu64 " columns, the channels of each pixel of a filter; %s",
             o->option, columns, operand_describe(o).s);
    return false;
}

static const char pixels_in[] = "a pixel of the activation each";
static const char pixels_out[] = "a pixel of the output each";

static bool settle(cutlass *job)
{
    trp_cutlass_conv_request *r = &job->conv;
    const operand *a = &job->operand[CUTLASS_A], *b = &job->operand[CUTLASS_B];
    uint64_t groups = r->groups ? (uint64_t)r->groups : 1;
    if (!set_output(r))
        return false;
    uint64_t in = volume(r->input, r->dims, (uint64_t)r->images);
    uint64_t out = volume(r->output, r->dims, (uint64_t)r->images);
    uint64_t taps = volume(r->filter, r->dims, 1), weights;
    bool ok;
    if (r->operation == TRP_CONV_FPROP) {
        r->channels = (int64_t)a->file.cols;
        r->filters = (int64_t)b->file.rows;
        weights = taps * (a->file.cols / groups);
        ok = expect_rows(a, in, pixels_in) && expect_columns(b, weights);
    } else if (r->operation == TRP_CONV_DGRAD) {
        r->channels = (int64_t)(b->file.cols / taps * groups);
        r->filters = (int64_t)a->file.cols;
        weights = taps * (b->file.cols / taps);
        ok = expect_rows(a, out, pixels_out) && expect_columns(b, weights) &&
             expect_rows(b, a->file.cols, "a filter each");
    } else {
        r->channels = (int64_t)b->file.cols;
        r->filters = (int64_t)a->file.cols;
        weights = taps * (b->file.cols / groups);
        ok = expect_rows(a, out, pixels_out) && expect_rows(b, in, pixels_in);
    }
    job->d_rows = r->operation == TRP_CONV_FPROP   ? out
                  : r->operation == TRP_CONV_DGRAD ? in
                                                   : (uint64_t)r->filters;
    job->d_cols = r->operation == TRP_CONV_FPROP   ? (uint64_t)r->filters
                  : r->operation == TRP_CONV_DGRAD ? (uint64_t)r->channels
                                                   : weights;
    job->m = job->d_rows;
    job->n = job->d_cols;
    job->k = r->operation == TRP_CONV_FPROP   ? weights
             : r->operation == TRP_CONV_DGRAD ? taps * ((uint64_t)r->filters / groups)
                                              : out;
    job->flop = 2 * out * (uint64_t)r->filters * weights;
    return ok;
}

/* Sending. */

static trp_conv_tensor tensor_of(const trp_matmul_matrix *x)
{
    return (trp_conv_tensor){.buffer = x->buffer, .type = x->type};
}

static trp_status send(cutlass *job, const trp_cutlass_gemm_request *r, trp_completion *done)
{
    const cutlass_choice choice = cutlass_choice_of(job);
    trp_cutlass_conv_request c = job->conv;
    trp_cutlass_chosen chosen = {0};
    c.compute = r->compute;
    c.a = tensor_of(&r->a);
    c.b = tensor_of(&r->b);
    c.c = tensor_of(&r->c);
    c.d = tensor_of(&r->d);
    c.epilogue = job->tree.node;
    c.epilogue_count = job->tree.count;
    c.kernel = choice.kernel;
    c.tune = choice.tune;
    c.chosen = &chosen;
    return cutlass_sent(job, &chosen, trp_cutlass_conv(job->run.actor, &c, done));
}

const cutlass_kind cutlass_conv = {"convolution", "convolving", true, settle, send};
