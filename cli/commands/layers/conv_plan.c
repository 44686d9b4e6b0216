/* Checks the files of a convolution against each other, before a worker is started. */
#include "conv.h"

#include "ui/sizes.h"
#include "ui/ui.h"

#include <inttypes.h>

int conv_result(const conv *job)
{
    return job->pass == CONV_FORWARD ? CONV_Y : job->pass == CONV_DATA ? CONV_X : CONV_W;
}

/* Geometry. */

static bool read_geometry(conv *job)
{
    trp_conv_request *r = &job->request;
    return layer_read_steps("dilation", job->dilation, job->dims, r->dilation) &&
           layer_read_window(&job->window, job->dims, r->pre_pad, r->post_pad, r->stride);
}

/* Returns the number of outputs in one dimension; 0: the filter does not fit. */
static int64_t places(const conv *job, uint32_t i, int64_t size, int64_t taps)
{
    const trp_conv_request *r = &job->request;
    int64_t reach = (taps - 1) * r->dilation[i] + 1;
    int64_t padded = size + r->pre_pad[i] + r->post_pad[i];
    return reach > padded ? 0 : (padded - reach) / r->stride[i] + 1;
}

/* Returns a size of a backward pass's result, as it follows from the others at stride 1. */
static int64_t following(const conv *job, uint32_t i)
{
    const trp_conv_request *r = &job->request;
    int64_t padding = r->pre_pad[i] + r->post_pad[i], out = job->y[2 + i];
    if (job->pass == CONV_DATA)
        return out - 1 + (job->w[2 + i] - 1) * r->dilation[i] + 1 - padding;
    return (job->x[2 + i] + padding - out) / r->dilation[i] + 1;
}

/* Determines the spatial sizes of a backward pass's result. */
static bool find_sizes(conv *job)
{
    int64_t *size = job->pass == CONV_DATA ? job->x + 2 : job->w + 2;
    for (uint32_t i = 0; i < job->dims; i++) {
        if (!job->size && job->request.stride[i] != 1) {
            ui_wrong("expected --size %s, the sizes of the result, which --stride leaves open",
                     job->dims == 1   ? "N"
                     : job->dims == 2 ? "H,W"
                                      : "D,H,W");
            return false;
        }
        size[i] = following(job, i);
    }
    if (!sizes_each("size", job->size, job->dims, size))
        return false;
    for (uint32_t i = 0; i < job->dims; i++) {
        int64_t count = size[i] < 1 ? 0 : places(job, i, job->x[2 + i], job->w[2 + i]);
        if (count != job->y[2 + i]) {
            ui_error("%s: expected %" PRId64 " in dimension %u, as many as a filter of %" PRId64
                     " has places in %" PRId64 " with their padding; %s",
                     job->layer.tensor[CONV_Y].option, count, 2 + i, job->w[2 + i], job->x[2 + i],
                     tensor_describe(&job->layer.tensor[CONV_Y]).s);
            return false;
        }
    }
    return true;
}

static bool find_places(conv *job)
{
    const tensor *w = &job->layer.tensor[CONV_W];
    for (uint32_t i = 0; i < job->dims; i++) {
        job->y[2 + i] = places(job, i, job->x[2 + i], job->w[2 + i]);
        if (job->y[2 + i] < 1) {
            ui_error("%s: expected a filter that fits into %" PRId64
                     " and its padding in dimension "
                     "%u; %s",
                     w->option, job->x[2 + i], 2 + i, tensor_describe(w).s);
            return false;
        }
    }
    return true;
}

/* Shapes. */

static void copy_dims(const tensor *t, int64_t *out)
{
    for (uint32_t i = 0; i < t->file.rank; i++)
        out[i] = (int64_t)t->file.dim[i];
}

static bool expect(bool good, const tensor *t, uint32_t dimension, int64_t expected,
                   const char *why)
{
    if (!good)
        ui_error("%s: expected %" PRId64 " in dimension %u, %s; %s", t->option, expected, dimension,
                 why, tensor_describe(t).s);
    return good;
}

/* Checks that a filter has elements. */
static bool check_filter(const conv *job)
{
    const tensor *w = &job->layer.tensor[CONV_W];
    for (uint32_t i = 0; i < job->dims + 2; i++) {
        if (w->use == OPERAND_INPUT && job->w[i] < 1) {
            ui_error("%s: expected at least 1 in each dimension; %s", w->option,
                     tensor_describe(w).s);
            return false;
        }
    }
    return true;
}

static bool check_groups(const conv *job, int64_t groups)
{
    const tensor *of = &job->layer.tensor[job->pass == CONV_FILTER ? CONV_Y : CONV_W];
    if (job->w[0] % groups == 0)
        return true;
    ui_error("%s: expected a multiple of the %" PRId64 " groups for the %" PRId64 " filters; %s",
             of->option, groups, job->w[0], tensor_describe(of).s);
    return false;
}

static bool settle_forward(conv *job)
{
    const tensor *w = &job->layer.tensor[CONV_W];
    int64_t groups = job->w[1] > 0 ? job->x[1] / job->w[1] : 0;
    job->y[0] = job->x[0];
    job->y[1] = job->w[0];
    if (!check_filter(job))
        return false;
    if (groups < 1 || job->x[1] % job->w[1] != 0)
        return expect(false, w, 1, job->x[1], "the channels of X, or a part of them");
    if (job->groups && !expect(groups == job->groups, w, 1, job->x[1] / job->groups,
                               "the channels of X divided by --groups"))
        return false;
    return check_groups(job, groups) && find_places(job);
}

static bool settle_data(conv *job)
{
    int64_t groups = job->groups ? job->groups : 1;
    job->x[0] = job->y[0];
    job->x[1] = job->w[1] * groups;
    return check_filter(job) &&
           expect(job->y[1] == job->w[0], &job->layer.tensor[CONV_Y], 1, job->w[0],
                  "the number of filters") &&
           check_groups(job, groups) && find_sizes(job);
}

static bool settle_filter(conv *job)
{
    const tensor *x = &job->layer.tensor[CONV_X], *y = &job->layer.tensor[CONV_Y];
    int64_t groups = job->groups ? job->groups : 1;
    job->w[0] = job->y[1];
    job->w[1] = job->x[1] / groups;
    if (!expect(job->y[0] == job->x[0], y, 0, job->x[0], "the images of X"))
        return false;
    if (job->w[1] < 1 || job->x[1] % groups != 0 || job->w[0] < 1) {
        ui_wrong("%s: expected channels that --groups %" PRId64 " divides; %s", x->option, groups,
                 tensor_describe(x).s);
        return false;
    }
    return check_groups(job, groups) && find_sizes(job);
}

static bool settle_shapes(conv *job)
{
    tensor *t = job->layer.tensor;
    static const char images[] = "n x channels x 1 to 3 sizes", filters[] = "k x channels x sizes";
    const tensor *first = &t[job->pass == CONV_DATA ? CONV_Y : CONV_X];
    const tensor *second = &t[job->pass == CONV_FILTER ? CONV_Y : CONV_W];
    if (!tensor_expect_rank(first, 3, 5, images) ||
        !tensor_expect_rank(second, first->file.rank, first->file.rank,
                            job->pass == CONV_FILTER ? "as the first file has" : filters))
        return false;
    job->dims = first->file.rank - 2;
    copy_dims(first, job->pass == CONV_DATA ? job->y : job->x);
    copy_dims(second, job->pass == CONV_FILTER ? job->y : job->w);
    return read_geometry(job) && (job->pass == CONV_FORWARD ? settle_forward(job)
                                  : job->pass == CONV_DATA  ? settle_data(job)
                                                            : settle_filter(job));
}

/* Types. */

static bool settle_types(conv *job)
{
    const tensor *t = job->layer.tensor;
    const tensor *first = &t[job->pass == CONV_DATA ? CONV_Y : CONV_X];
    const tensor *second = &t[job->pass == CONV_FILTER ? CONV_Y : CONV_W];
    bool same = first->file.type == second->file.type;
    bool plain = t[CONV_ADD].use == OPERAND_ABSENT && t[CONV_BIAS].use == OPERAND_ABSENT &&
                 !job->request.alpha.given && !job->request.activation.mode;
    if (!job->type && !same) {
        ui_error("both arrays must be of one type: %s, %s; see --type, or convert one with "
                 ".astype(%s)",
                 tensor_describe(first).s, tensor_describe(second).s,
                 array_file_numpy(first->file.type));
        return false;
    }
    if (!layer_settle_type(first, &job->type))
        return false;
    bool whole = job->type == TRP_I8 && job->pass == CONV_FORWARD;
    if (whole)
        job->request.compute = TRP_I32;
    if (!job->type_y)
        job->type_y = whole && plain ? TRP_I32
                      : job->type == TRP_F8E4M3 || job->type == TRP_F8E5M2
                          ? TRP_BF16
                          : layer_side_type(job->type);
    return true;
}

static bool lay_out(conv *job)
{
    layer *l = &job->layer;
    tensor *t = l->tensor;
    int result = conv_result(job);
    const int64_t *dim = result == CONV_Y ? job->y : result == CONV_X ? job->x : job->w;
    tensor_order order = (tensor_order)l->order;
    trp_dtype side = layer_side_type(job->type_y);
    for (int i = CONV_X; i <= CONV_Y; i++) {
        if (i != result && !tensor_lay_out(&t[i], job->type, order))
            return false;
    }
    if (!tensor_shape_output(&t[result], job->type_y, job->dims + 2, dim) ||
        !tensor_lay_out(&t[result], job->type_y, order))
        return false;
    if (t[CONV_ADD].use != OPERAND_ABSENT &&
        (!tensor_expect_dims(&t[CONV_ADD], job->dims + 2, dim, "as the result has") ||
         !tensor_lay_out(&t[CONV_ADD], side, order)))
        return false;
    return t[CONV_BIAS].use == OPERAND_ABSENT ||
           (tensor_expect_dims(&t[CONV_BIAS], 1, job->w, "one for each filter") &&
            tensor_lay_out(&t[CONV_BIAS], side, TENSOR_AS_FILE));
}

bool conv_plan(conv *job)
{
    return layer_open(&job->layer) && settle_shapes(job) && settle_types(job) && lay_out(job);
}
