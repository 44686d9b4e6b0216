/* Checks the dimensions and types of a node's tensors against each other */
#include "actors/dnn/request/shapes.h"

#include "actors/dnn/graph/train_op.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

trp_status trp__dnn_shape_fail(const checked *c, int at, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return trp__error_set(c->m->error, TRP_E_ARGUMENT, "nodes[%u].%s (%s): %s", c->index,
                          c->kind->port[at].name, c->kind->name, text);
}

static trp__dnn_tensor *tensor(const checked *c, int at)
{
    uint8_t number = c->n->port[at];
    return number == TRP__DNN_NO_PORT ? NULL : &c->m->tensor[number];
}

static bool has(const checked *c, int at)
{
    return c->n->port[at] != TRP__DNN_NO_PORT;
}

/* Formats dimensions as "2 x 3 x 5". */
static const char *dims_text(int rank, const int64_t *dim, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < rank && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%lld", i ? " x " : "", (long long)dim[i]);
    return out;
}

trp_status trp__dnn_expect_dims(const checked *c, int at, int rank, const int64_t *dim)
{
    trp__dnn_tensor *t = tensor(c, at);
    char wanted[96], got[96];
    if (t->rank == 0) {
        t->rank = (uint8_t)rank;
        memcpy(t->dim, dim, (size_t)rank * sizeof *dim);
        return TRP_OK;
    }
    if (t->rank == rank && memcmp(t->dim, dim, (size_t)rank * sizeof *dim) == 0)
        return TRP_OK;
    return FAIL(c, at, "expected %s, got %s", dims_text(rank, dim, wanted, sizeof wanted),
                dims_text(t->rank, t->dim, got, sizeof got));
}

#define expect_dims trp__dnn_expect_dims

/* Checks the rank of a tensor that is not a number. */
static trp_status expect_rank(const checked *c, int at, int rank)
{
    const trp__dnn_tensor *t = tensor(c, at);
    if (t->rank == rank)
        return TRP_OK;
    return FAIL(c, at, "expected %d dimensions, got %d", rank, t->rank);
}

/* Checks that a tensor of any rank has one element. */
static trp_status expect_one(const checked *c, int at)
{
    char got[96];
    trp__dnn_tensor *t = tensor(c, at);
    if (t && trp__dnn_elements(t) != 1)
        return FAIL(c, at, "expected one element, got %s",
                    dims_text(t->rank, t->dim, got, sizeof got));
    return TRP_OK;
}

/* The types of inputs: any f64 or i32, which only f64 represents; all i8, for which i32 is
 * possible. */
typedef struct types_read {
    bool any_wide, all_i8;
} types_read;

/* f32 represents integers exactly up to this limit. */
#define F32_WHOLE (INT64_C(1) << 24)

/* Returns the elements of a window. */
static int64_t window_volume(const trp__dnn_node *n)
{
    int64_t volume = 1;
    for (int i = 0; i < n->spatial; i++) {
        if (__builtin_mul_overflow(volume, n->window[i], &volume))
            return INT64_MAX;
    }
    return volume;
}

/* Tells whether an i32 tensor has positions or lengths, which f32 represents up to a limit. */
static bool is_small_integer(const checked *c, int at)
{
    const bool pool =
        c->n->kind == TRP_DNN_RESAMPLE_FORWARD || c->n->kind == TRP_DNN_RESAMPLE_BACKWARD;
    const bool attention =
        c->n->kind == TRP_DNN_ATTENTION || c->n->kind == TRP_DNN_ATTENTION_BACKWARD;
    if (pool && at == TRP__DNN_RESAMPLE_INDEX)
        return window_volume(c->n) <= F32_WHOLE;
    return attention && tensor(c, TRP__DNN_ATTENTION_Q)->dim[2] <= F32_WHOLE &&
           tensor(c, TRP__DNN_ATTENTION_K)->dim[2] <= F32_WHOLE;
}

static bool is_wide(const checked *c, int at)
{
    const uint8_t type = tensor(c, at)->type;
    const bool written = c->kind->port[at].written;
    if (type == TRP_I32 && is_small_integer(c, at))
        return false;
    if (written) /* a position computed by the node */
        return type == TRP_I32 && c->n->kind == TRP_DNN_RESAMPLE_FORWARD &&
               at == TRP__DNN_RESAMPLE_INDEX;
    return type == TRP_F64 || (type == TRP_I32 && c->n->kind != TRP_DNN_PAGED_LOAD);
}

static types_read types_of(const checked *c)
{
    types_read r = {.all_i8 = true};
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        const trp__dnn_tensor *t = has(c, at) ? tensor(c, at) : NULL;
        if (!t || t->type == TRP_DTYPE_NONE)
            continue;
        r.any_wide = r.any_wide || is_wide(c, at);
        r.all_i8 = r.all_i8 && (c->kind->port[at].written || t->type == TRP_I8);
    }
    return r;
}

static trp_status set_compute(const checked *c)
{
    trp__dnn_making *m = c->m;
    types_read r = types_of(c);
    bool sums = c->n->kind == TRP_DNN_CONV_FORWARD || c->n->kind == TRP_DNN_MATMUL;
    trp_dtype given = m->nodes[c->index].compute;
    const bool draws_f64 =
        c->n->kind == TRP_DNN_RANDOM && tensor(c, TRP__DNN_RANDOM_Y)->type == TRP_F64;
    trp_dtype compute = given ? given : r.any_wide || draws_f64 ? TRP_F64 : TRP_F32;
    bool good = compute == TRP_F64 || (compute == TRP_F32 && !r.any_wide) ||
                (compute == TRP_I32 && sums && r.all_i8);
    if (!good)
        return trp__error_set(m->error, TRP_E_ARGUMENT,
                              "nodes[%u].compute (%s): expected %s, got %s", c->index,
                              c->kind->name,
                              r.any_wide         ? "f64, for it reads f64 or i32"
                              : sums && r.all_i8 ? "f32, f64 or i32"
                                                 : "f32 or f64",
                              trp_dtype_name(given));
    c->n->compute = (uint8_t)compute;
    return TRP_OK;
}

/* Values, and virtual tensors without a type, get the type that */
static void fill_types(const checked *c)
{
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        trp__dnn_tensor *t = has(c, at) ? tensor(c, at) : NULL;
        if (t && t->type == TRP_DTYPE_NONE)
            t->type = c->n->compute;
    }
}

/* Returns the number of positions of a window of `window` elements, `dilation` apart, or -1 if it
 * does not fit. */
static int64_t places(int64_t size, int32_t pre, int32_t post, int64_t window, int32_t dilation,
                      int32_t stride)
{
    int64_t reach, padded = size + pre + post;
    if (__builtin_mul_overflow(window - 1, dilation, &reach) || reach >= padded)
        return -1;
    return (padded - reach - 1) / stride + 1;
}

static trp_status check_places(const checked *c, int at, int dim, int64_t count)
{
    if (count < 0)
        return FAIL(c, at, "expected a window that fits into dimension %d with its padding", dim);
    return TRP_OK;
}

/* Requires given dimensions: rounding makes them ambiguous backwards. */
static trp_status need_dims(const checked *c, int at)
{
    if (tensor(c, at)->rank == 0)
        return FAIL(c, at, "expected dimensions: they do not follow from what is read");
    return TRP_OK;
}

static trp_status check_conv(const checked *c)
{
    trp__dnn_node *n = c->n;
    trp__dnn_tensor *x = tensor(c, TRP__DNN_CONV_X), *w = tensor(c, TRP__DNN_CONV_W);
    trp_status status = need_dims(c, TRP__DNN_CONV_X);
    if (status == TRP_OK)
        status = need_dims(c, TRP__DNN_CONV_W);
    if (status != TRP_OK)
        return status;
    if (x->rank < 3 || x->rank > 2 + TRP__DNN_SPATIAL)
        return FAIL(c, TRP__DNN_CONV_X, "expected 3 to %d dimensions, got %d", 2 + TRP__DNN_SPATIAL,
                    x->rank);
    status = expect_rank(c, TRP__DNN_CONV_W, x->rank);
    if (status != TRP_OK)
        return status;
    const bool hollow = x->dim[1] == 0 && w->dim[1] == 0; /* no channels: empty sums */
    if (w->dim[0] < 1 || (w->dim[1] < 1 && !hollow))
        return FAIL(c, TRP__DNN_CONV_W, "expected at least 1 filter of 1 channel, got %lld of %lld",
                    (long long)w->dim[0], (long long)w->dim[1]);
    int64_t groups = hollow ? 1 : x->dim[1] / w->dim[1];
    if (!hollow && (x->dim[1] % w->dim[1] != 0 || groups == 0 || w->dim[0] % groups != 0))
        return FAIL(c, TRP__DNN_CONV_W,
                    "expected channels that divide the %lld of the image into groups, of which "
                    "there is a whole number for %lld filters, got %lld",
                    (long long)x->dim[1], (long long)w->dim[0], (long long)w->dim[1]);
    n->spatial = (uint8_t)(x->rank - 2);
    int64_t dim[TRP__DNN_RANK] = {x->dim[0], w->dim[0]};
    for (int i = 0; i < n->spatial && status == TRP_OK; i++) {
        dim[2 + i] = w->dim[2 + i] < 1 ? -1
                                       : places(x->dim[2 + i], n->pre_pad[i], n->post_pad[i],
                                                w->dim[2 + i], n->dilation[i], n->stride[i]);
        status = check_places(c, TRP__DNN_CONV_W, 2 + i, dim[2 + i]);
    }
    return status == TRP_OK ? expect_dims(c, TRP__DNN_CONV_Y, x->rank, dim) : status;
}

/* Returns the number of pooling windows along a dimension. Rounding up follows frameworks: one more
 * window for the remainder, unless it would begin after the image. */
static int64_t pool_places(const checked *c, int64_t size, int i)
{
    const trp__dnn_node *n = c->n;
    int64_t count = places(size, n->pre_pad[i], n->post_pad[i], n->window[i], 1, n->stride[i]);
    if (count < 0 || !c->m->nodes[c->index].round_up)
        return count;
    const int64_t next = count * n->stride[i]; /* begin of one more window in the padded image */
    const bool left = next - n->stride[i] + n->window[i] < size + n->pre_pad[i] + n->post_pad[i];
    return left && next < size + n->pre_pad[i] ? count + 1 : count;
}

static trp_status check_index(const checked *c)
{
    enum { I8_PLACES = INT8_MAX + 1 };
    trp__dnn_tensor *index = tensor(c, TRP__DNN_RESAMPLE_INDEX);
    const int64_t volume = window_volume(c->n);
    if (c->n->mode != TRP_DNN_POOL_MAX)
        return FAIL(c, TRP__DNN_RESAMPLE_INDEX,
                    "expected none, for it is no maximum that is pooled");
    if (index->type == TRP_DTYPE_NONE)
        index->type = volume <= I8_PLACES ? TRP_I8 : TRP_I32;
    if (index->type != TRP_I8 && index->type != TRP_I32)
        return FAIL(c, TRP__DNN_RESAMPLE_INDEX, "expected i8 or i32, got %s",
                    trp_dtype_name((trp_dtype)index->type));
    if (volume > (index->type == TRP_I8 ? I8_PLACES : INT32_MAX))
        return FAIL(c, TRP__DNN_RESAMPLE_INDEX,
                    "expected %s, for windows have more than %d elements, got %s",
                    index->type == TRP_I8 ? "i32" : "none",
                    index->type == TRP_I8 ? I8_PLACES : INT32_MAX,
                    trp_dtype_name((trp_dtype)index->type));
    return TRP_OK;
}

static trp_status check_resample(const checked *c)
{
    trp__dnn_node *n = c->n;
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_RESAMPLE_X);
    bool backward = n->kind == TRP_DNN_RESAMPLE_BACKWARD, most = n->mode == TRP_DNN_POOL_MAX;
    trp_status status = need_dims(c, TRP__DNN_RESAMPLE_X);
    if (status != TRP_OK)
        return status;
    if (x->rank < 3 || x->rank > 2 + TRP__DNN_SPATIAL)
        return FAIL(c, TRP__DNN_RESAMPLE_X, "expected 3 to %d dimensions, got %d",
                    2 + TRP__DNN_SPATIAL, x->rank);
    n->spatial = (uint8_t)(x->rank - 2);
    int64_t dim[TRP__DNN_RANK] = {x->dim[0], x->dim[1]};
    for (int i = 0; i < n->spatial && status == TRP_OK; i++) {
        if (n->window[i] < 1 || n->pre_pad[i] >= n->window[i] || n->post_pad[i] >= n->window[i])
            return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                                  "nodes[%u].window[%d] (%s): expected at least 1, and more than "
                                  "the padding, %d and %d, got %d",
                                  c->index, i, c->kind->name, n->pre_pad[i], n->post_pad[i],
                                  n->window[i]);
        dim[2 + i] = pool_places(c, x->dim[2 + i], i);
        status = check_places(c, TRP__DNN_RESAMPLE_X, 2 + i, dim[2 + i]);
    }
    if (status == TRP_OK)
        status = expect_dims(c, TRP__DNN_RESAMPLE_Y, x->rank, dim);
    if (status == TRP_OK && has(c, TRP__DNN_RESAMPLE_INDEX)) {
        status = check_index(c);
        if (status == TRP_OK)
            status = expect_dims(c, TRP__DNN_RESAMPLE_INDEX, x->rank, dim);
    }
    if (status != TRP_OK || !backward)
        return status;
    bool old = has(c, TRP__DNN_RESAMPLE_OLD_X) && has(c, TRP__DNN_RESAMPLE_OLD_Y);
    if (most && !old && !has(c, TRP__DNN_RESAMPLE_INDEX))
        return FAIL(c, TRP__DNN_RESAMPLE_INDEX, "expected a tensor, or x and y");
    if (has(c, TRP__DNN_RESAMPLE_OLD_X) != has(c, TRP__DNN_RESAMPLE_OLD_Y))
        return FAIL(c, TRP__DNN_RESAMPLE_OLD_X, "expected both x and y, or none of them");
    if (old)
        status = expect_dims(c, TRP__DNN_RESAMPLE_OLD_X, x->rank, x->dim);
    return status == TRP_OK && old ? expect_dims(c, TRP__DNN_RESAMPLE_OLD_Y, x->rank, dim) : status;
}

static trp_status check_matmul(const checked *c)
{
    const trp__dnn_tensor *a = tensor(c, TRP__DNN_MATMUL_A), *b = tensor(c, TRP__DNN_MATMUL_B);
    int64_t dim[TRP__DNN_RANK];
    int rank = a->rank;
    if (rank < 2)
        return FAIL(c, TRP__DNN_MATMUL_A, "expected at least 2 dimensions, got %d", rank);
    trp_status status = expect_rank(c, TRP__DNN_MATMUL_B, rank);
    for (int i = 0; i < rank - 2 && status == TRP_OK; i++) {
        if (a->dim[i] != b->dim[i] && a->dim[i] != 1 && b->dim[i] != 1)
            status = FAIL(c, TRP__DNN_MATMUL_B, "dimension %d: expected %lld or 1, got %lld", i,
                          (long long)a->dim[i], (long long)b->dim[i]);
        dim[i] = a->dim[i] == 1 ? b->dim[i] : a->dim[i];
    }
    if (status != TRP_OK)
        return status;
    if (b->dim[rank - 2] != a->dim[rank - 1])
        return FAIL(c, TRP__DNN_MATMUL_B, "dimension %d: expected %lld, the last of a, got %lld",
                    rank - 2, (long long)a->dim[rank - 1], (long long)b->dim[rank - 2]);
    dim[rank - 2] = a->dim[rank - 2];
    dim[rank - 1] = b->dim[rank - 1];
    return expect_dims(c, TRP__DNN_MATMUL_Y, rank, dim);
}

static trp_status check_pointwise(const checked *c)
{
    uint32_t inputs = trp__dnn_pointwise_inputs(c->n->mode);
    int64_t dim[TRP__DNN_RANK];
    int rank = 0;
    for (int at = TRP__DNN_POINTWISE_X; at <= TRP__DNN_POINTWISE_T; at++) {
        bool wanted = at < (int)inputs;
        if (has(c, at) != wanted)
            return FAIL(c, at, "expected %s for %s", wanted ? "a tensor" : "none",
                        trp__dnn_pointwise_name(c->n->mode));
        if (wanted && tensor(c, at)->rank > rank)
            rank = tensor(c, at)->rank;
    }
    rank = rank ? rank : tensor(c, TRP__DNN_POINTWISE_Y)->rank;
    for (int i = 0; i < TRP__DNN_RANK; i++)
        dim[i] = 1;
    for (int at = 0; at < (int)inputs; at++) {
        trp__dnn_tensor *t = tensor(c, at);
        if (t->role == TRP__DNN_VALUE && t->rank == 0)
            t->rank = (uint8_t)rank; /* its dimensions are 1 */
        if (t->rank != rank && trp__dnn_elements(t) != 1)
            return FAIL(c, at, "expected %d dimensions, got %d", rank, t->rank);
        for (int i = 0; i < t->rank; i++) {
            if (t->dim[i] != dim[i] && t->dim[i] != 1 && dim[i] != 1)
                return FAIL(c, at, "dimension %d: expected %lld or 1, got %lld", i,
                            (long long)dim[i], (long long)t->dim[i]);
            dim[i] = t->dim[i] != 1 ? t->dim[i] : dim[i];
        }
    }
    return expect_dims(c, TRP__DNN_POINTWISE_Y, rank, dim);
}

static trp_status check_gradient(const checked *c)
{
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_GRADIENT_X);
    trp_status status = expect_dims(c, TRP__DNN_GRADIENT_DY, x->rank, x->dim);
    return status == TRP_OK ? expect_dims(c, TRP__DNN_GRADIENT_DX, x->rank, x->dim) : status;
}

static trp_status check_reduction(const checked *c)
{
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_REDUCTION_X),
                          *y = tensor(c, TRP__DNN_REDUCTION_Y);
    trp_status status = need_dims(c, TRP__DNN_REDUCTION_Y);
    if (status == TRP_OK)
        status = expect_rank(c, TRP__DNN_REDUCTION_Y, x->rank);
    for (int i = 0; i < x->rank && status == TRP_OK; i++) {
        if (y->dim[i] != 1 && y->dim[i] != x->dim[i])
            status = FAIL(c, TRP__DNN_REDUCTION_Y, "dimension %d: expected 1 or %lld, got %lld", i,
                          (long long)x->dim[i], (long long)y->dim[i]);
    }
    return status;
}

/* Computes the dimensions of statistics and of scale and bias from those of x; for LAYER and RMS
 * also from the normalised dimensions, those from `first` on. */
static void norm_dims(const checked *c, int first, int64_t *statistics, int64_t *scale)
{
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_NORM_X);
    uint8_t mode = c->n->mode;
    for (int i = 0; i < x->rank; i++) {
        bool inner = mode == TRP_DNN_LAYER || mode == TRP_DNN_RMS ? i >= first : i >= 2;
        bool kept = mode == TRP_DNN_BATCH ? i == 1 : !inner;
        statistics[i] = kept ? x->dim[i] : 1;
        scale[i] = (mode == TRP_DNN_LAYER || mode == TRP_DNN_RMS ? inner : i == 1) ? x->dim[i] : 1;
    }
}

/* Returns the first dimension that LAYER and RMS normalise over: the one after the last in which
 * scale has 1 and x has not. */
static int first_normalised(const checked *c)
{
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_NORM_X), *scale = tensor(c, TRP__DNN_NORM_SCALE);
    int first = 1;
    for (int i = 1; i < x->rank && i < scale->rank; i++) {
        if (scale->dim[i] == 1 && x->dim[i] != 1)
            first = i + 1;
    }
    return first;
}

/* Checks the optional tensors of a mode. */
static trp_status check_norm_ports(const checked *c)
{
    const trp__dnn_node *n = c->n;
    bool batch = n->mode == TRP_DNN_BATCH, training = n->kind == TRP_DNN_NORM_TRAINING;
    bool inference = n->kind == TRP_DNN_NORM_INFERENCE;
    bool mean = inference ? batch : n->mode != TRP_DNN_RMS;
    if (has(c, TRP__DNN_NORM_MEAN) != mean)
        return FAIL(c, TRP__DNN_NORM_MEAN, "expected %s", mean ? "a tensor" : "none");
    if (inference && has(c, TRP__DNN_NORM_INV_VARIANCE) != batch)
        return FAIL(c, TRP__DNN_NORM_INV_VARIANCE, "expected %s", batch ? "a tensor" : "none");
    if (inference && has(c, TRP__DNN_NORM_EPSILON) == batch)
        return FAIL(c, TRP__DNN_NORM_EPSILON, "expected %s", batch ? "none" : "a tensor");
    if (!training)
        return TRP_OK;
    for (int at = TRP__DNN_NORM_RUNNING_MEAN; at <= TRP__DNN_NORM_NEW_RUNNING_VARIANCE; at++) {
        if (has(c, at) && !batch)
            return FAIL(c, at, "expected none: only TRP_DNN_BATCH has running statistics");
        if (has(c, at) != has(c, TRP__DNN_NORM_RUNNING_MEAN))
            return FAIL(c, at, "expected all five of the running statistics, or none of them");
    }
    return TRP_OK;
}

static trp_status check_norm(const checked *c)
{
    static const struct {
        uint8_t at;
        char what; /* x: as x, s: as scale, m: as the mean, 1: one element */
    } rules[3][TRP__DNN_PORTS] = {
        [0] = {{TRP__DNN_NORM_SCALE, 's'},
               {TRP__DNN_NORM_BIAS, 's'},
               {TRP__DNN_NORM_EPSILON, '1'},
               {TRP__DNN_NORM_Y, 'x'},
               {TRP__DNN_NORM_MEAN, 'm'},
               {TRP__DNN_NORM_INV_VARIANCE, 'm'},
               {TRP__DNN_NORM_RUNNING_MEAN, 'm'},
               {TRP__DNN_NORM_RUNNING_VARIANCE, 'm'},
               {TRP__DNN_NORM_AVERAGE_FACTOR, '1'},
               {TRP__DNN_NORM_NEW_RUNNING_MEAN, 'm'},
               {TRP__DNN_NORM_NEW_RUNNING_VARIANCE, 'm'}},
        [1] = {{TRP__DNN_NORM_SCALE, 's'},
               {TRP__DNN_NORM_BIAS, 's'},
               {TRP__DNN_NORM_EPSILON, '1'},
               {TRP__DNN_NORM_Y, 'x'},
               {TRP__DNN_NORM_MEAN, 'm'},
               {TRP__DNN_NORM_INV_VARIANCE, 'm'}},
        [2] = {{TRP__DNN_NORM_SCALE, 's'},
               {TRP__DNN_NORM_BIAS, 's'},
               {TRP__DNN_NORM_Y, 'x'},
               {TRP__DNN_NORM_MEAN, 'm'},
               {TRP__DNN_NORM_INV_VARIANCE, 'm'},
               {TRP__DNN_NORM_DX, 'x'},
               {TRP__DNN_NORM_DSCALE, 's'}},
    };
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_NORM_X);
    int64_t statistics[TRP__DNN_RANK], scale[TRP__DNN_RANK];
    if (x->rank < 2)
        return FAIL(c, TRP__DNN_NORM_X, "expected at least 2 dimensions, got %d", x->rank);
    trp_status status = check_norm_ports(c);
    norm_dims(c, first_normalised(c), statistics, scale);
    const int row = c->n->kind - TRP_DNN_NORM_TRAINING;
    for (int i = 0; i < TRP__DNN_PORTS && rules[row][i].what && status == TRP_OK; i++) {
        int at = rules[row][i].at;
        char what = rules[row][i].what;
        if (!has(c, at))
            continue;
        status = what == '1' ? expect_one(c, at)
                             : expect_dims(c, at, x->rank,
                                           what == 'x'   ? x->dim
                                           : what == 's' ? scale
                                                         : statistics);
    }
    return status;
}

static trp_status check_statistics(const checked *c)
{
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_STATISTICS_X);
    int64_t dim[TRP__DNN_RANK];
    if (x->rank < 2)
        return FAIL(c, TRP__DNN_STATISTICS_X, "expected at least 2 dimensions, got %d", x->rank);
    for (int i = 0; i < x->rank; i++)
        dim[i] = i == 1 ? x->dim[i] : 1;
    trp_status status = expect_dims(c, TRP__DNN_STATISTICS_SUM, x->rank, dim);
    return status == TRP_OK ? expect_dims(c, TRP__DNN_STATISTICS_SQUARE_SUM, x->rank, dim) : status;
}

static trp_status (*const checks[])(const checked *) = {
    [TRP_DNN_CONV_FORWARD] = check_conv,
    [TRP_DNN_CONV_BACKWARD_DATA] = check_conv,
    [TRP_DNN_CONV_BACKWARD_FILTER] = check_conv,
    [TRP_DNN_MATMUL] = check_matmul,
    [TRP_DNN_POINTWISE] = check_pointwise,
    [TRP_DNN_POINTWISE_BACKWARD] = check_gradient,
    [TRP_DNN_REDUCTION] = check_reduction,
    [TRP_DNN_RESAMPLE_FORWARD] = check_resample,
    [TRP_DNN_RESAMPLE_BACKWARD] = check_resample,
    [TRP_DNN_NORM_TRAINING] = check_norm,
    [TRP_DNN_NORM_INFERENCE] = check_norm,
    [TRP_DNN_NORM_BACKWARD] = check_norm,
    [TRP_DNN_STATISTICS] = check_statistics,
    [TRP_DNN_ATTENTION] = trp__dnn_check_attention,
    [TRP_DNN_ATTENTION_BACKWARD] = trp__dnn_check_attention,
    [TRP_DNN_RANDOM] = trp__dnn_check_random,
    [TRP_DNN_PAGED_LOAD] = trp__dnn_check_paged,
    [TRP_DNN_BLOCK_SCALE_QUANTIZE] = trp__dnn_check_blocks,
    [TRP_DNN_BLOCK_SCALE_DEQUANTIZE] = trp__dnn_check_blocks,
};

static bool is_seed(const checked *c, int at)
{
    return (c->n->kind == TRP_DNN_ATTENTION || c->n->kind == TRP_DNN_ATTENTION_BACKWARD) &&
           (at == TRP__DNN_ATTENTION_SEED || at == TRP__DNN_ATTENTION_OFFSET);
}

/* i64 is for seeds and f8e8m0 for block scales; nodes with only such tensors check their types
 * themselves. */
static trp_status check_special(const checked *c)
{
    const bool own = c->n->kind == TRP_DNN_RANDOM || trp__dnn_has_blocks(c->n->kind);
    for (int at = 0; at < TRP__DNN_PORTS && !own; at++) {
        const uint8_t type = has(c, at) ? tensor(c, at)->type : TRP_DTYPE_NONE;
        if ((type == TRP_I64 && !is_seed(c, at)) || type == TRP_F8E8M0)
            return FAIL(c, at, "expected another type than %s, which is for %s alone",
                        trp_dtype_name((trp_dtype)type),
                        type == TRP_I64 ? "seeds" : "scales of blocks");
    }
    return TRP_OK;
}

trp_status trp__dnn_check_shapes(trp__dnn_making *m, uint32_t index)
{
    checked c = {.m = m, .index = index, .n = &m->node[index]};
    c.kind = trp__dnn_kind_of(c.n->kind);
    if (trp__dnn_is_training(c.n->kind)) /* they check all of their types themselves */
        return trp__train_op_of(c.n->kind)->check(&c);
    trp_status status = check_special(&c);
    if (status == TRP_OK && trp__dnn_is_move(c.n->kind))
        return trp__dnn_check_move(m, index);
    if (status == TRP_OK)
        status = checks[c.n->kind](&c);
    if (status == TRP_OK)
        status = set_compute(&c);
    if (status == TRP_OK)
        fill_types(&c);
    return status;
}
