/* Checks the tensors of OPTIMIZER. */
#include "actors/dnn/math/optimizer.h"
#include "actors/dnn/training/real.h"
#include "base/error.h"

#include <troupe/training.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

enum { CHUNK = 1 << 15 }; /* elements per sum of squares, see optimizer_real.h */

static bool has(const checked *c, int at)
{
    return c->n->port[at] != TRP__DNN_NO_PORT;
}

/* Checks a tensor of all elements: real, with w's dimensions, row-major and without gaps. */
static trp_status check_all(const checked *c, int at)
{
    const trp__dnn_tensor *w = trp__train_tensor(c, TRP__OPT_W), *t = trp__train_tensor(c, at);
    int64_t next = 1;
    if (!t)
        return TRP_OK;
    trp_status status = trp__train_check_real(c, at, TRP_F32);
    if (status == TRP_OK)
        status = trp__dnn_expect_dims(c, at, w->rank, w->dim);
    bool any = false;
    for (int i = 0; i < t->rank; i++)
        any = any || t->stride[i] != 0;
    for (int i = t->rank - 1; i >= 0 && status == TRP_OK && any; i--) {
        if (t->dim[i] > 1 && t->stride[i] != next)
            return FAIL(c, at, "expected a packed tensor, got dimension %d with a stride of %lld",
                        i, (long long)t->stride[i]);
        next *= t->dim[i] ? t->dim[i] : 1;
    }
    return status;
}

static trp_status check_moments(const checked *c)
{
    const int mode = c->n->mode;
    const int count = mode == TRP_DNN_SGD ? c->n->parameter[0] != 0 : mode == TRP_DNN_LION ? 1 : 2;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            const int at = (k ? TRP__OPT_NEW_MOMENT : TRP__OPT_MOMENT) + i;
            if (has(c, at) != (i < count))
                return FAIL(c, at, "expected %s", i < count ? "a tensor" : "none");
            trp_status status = check_all(c, at);
            if (status != TRP_OK)
                return status;
        }
    }
    return TRP_OK;
}

static trp_status fail_parameter(const checked *c, int which, const char *expected)
{
    return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                          "nodes[%u].parameter[%d] (optimizer): expected %s, got %g", c->index,
                          which, expected, c->n->parameter[which]);
}

static trp_status check_parameters(const checked *c)
{
    const double *p = c->n->parameter;
    if (c->n->mode == TRP_DNN_SGD) {
        if (!(p[0] >= 0))
            return fail_parameter(c, 0, "a momentum of at least 0");
        if (p[1] != 0 && (p[2] != 0 || p[0] == 0))
            return fail_parameter(c, 1, "0 with nesterov or without momentum");
        if (p[2] != 0 && (p[2] != 1 || p[0] == 0))
            return fail_parameter(c, 2, "0, or 1 with momentum");
        return TRP_OK;
    }
    for (int i = 0; i < 2; i++) {
        if (!(p[i] >= 0 && p[i] < 1))
            return fail_parameter(c, i, "0 to less than 1");
    }
    return p[2] >= 0 ? TRP_OK : fail_parameter(c, 2, "at least 0");
}

/* Checks that ranges are ordered and within bounds. Those in memory are checked when they are
 * used. */
static trp_status check_ranges(const checked *c, const double *range, int64_t count)
{
    const double all = (double)trp__dnn_elements(trp__train_tensor(c, TRP__OPT_W));
    double end = 0;
    for (int64_t i = 0; i < count; i++, range += TRP__SEGMENT_COLUMNS) {
        const double from = range[TRP__SEGMENT_OFFSET], some = range[TRP__SEGMENT_COUNT];
        if (!(from >= end && from <= all && from == (double)(int64_t)from))
            return FAIL(c, TRP__OPT_SEGMENTS,
                        "row %lld: expected an offset from %.0f, where the one before ends, to "
                        "%.0f, got %g",
                        (long long)i, end, all, from);
        if (!(some >= 0 && some <= all - from && some == (double)(int64_t)some))
            return FAIL(c, TRP__OPT_SEGMENTS, "row %lld: expected a count of 0 to %.0f, got %g",
                        (long long)i, all - from, some);
        if (!(range[TRP__SEGMENT_RATE] - range[TRP__SEGMENT_RATE] == 0 &&
              range[TRP__SEGMENT_DECAY] - range[TRP__SEGMENT_DECAY] == 0))
            return FAIL(c, TRP__OPT_SEGMENTS,
                        "row %lld: expected a finite rate and decay, got %g and %g", (long long)i,
                        range[TRP__SEGMENT_RATE], range[TRP__SEGMENT_DECAY]);
        end = from + some;
    }
    return TRP_OK;
}

static trp_status check_segments(const checked *c)
{
    const trp__dnn_tensor *t = trp__train_tensor(c, TRP__OPT_SEGMENTS);
    if (!t)
        return TRP_OK;
    if (t->type != TRP_F64 || t->role == TRP__DNN_VALUE || t->rank != 2 ||
        t->dim[1] != TRP__SEGMENT_COLUMNS || (t->dim[1] > 1 && t->stride[1] != 1) ||
        (t->dim[0] > 1 && t->stride[0] != TRP__SEGMENT_COLUMNS))
        return FAIL(c, TRP__OPT_SEGMENTS, "expected packed rows of %d f64, got %s of %d dimensions",
                    TRP__SEGMENT_COLUMNS, trp_dtype_name((trp_dtype)t->type), t->rank);
    if (t->role != TRP__DNN_DATA)
        return TRP_OK;
    if (t->dim[0] > TRP_SEGMENTS_MAX)
        return FAIL(c, TRP__OPT_SEGMENTS, "expected at most %d rows, got %lld", TRP_SEGMENTS_MAX,
                    (long long)t->dim[0]);
    return check_ranges(c, c->m->given[c->m->name[c->n->port[TRP__OPT_SEGMENTS]]].data, t->dim[0]);
}

/* Checks a flag of one element. */
static trp_status check_flag(const checked *c, int at, bool integer)
{
    trp__dnn_tensor *t = trp__train_tensor(c, at);
    if (!t)
        return TRP_OK;
    if (t->type == TRP_DTYPE_NONE)
        t->type = TRP_I32;
    if (t->rank == 0 && c->kind->port[at].written) {
        t->rank = 1;
        t->dim[0] = 1;
    }
    if (t->type != TRP_I32 && (integer || t->type != TRP_BOOL))
        return integer ? FAIL(c, at, "expected i32, got %s", trp_dtype_name((trp_dtype)t->type))
                       : trp__train_check_one(c, at, false);
    return trp__dnn_elements(t) == 1
               ? TRP_OK
               : FAIL(c, at, "expected one element, got %lld", (long long)trp__dnn_elements(t));
}

static trp_status check(const checked *c)
{
    static const uint8_t all[] = {TRP__OPT_W, TRP__OPT_DW, TRP__OPT_NEW_W, TRP__OPT_NARROW};
    static const uint8_t ones[] = {TRP__OPT_RATE, TRP__OPT_DECAY, TRP__OPT_SCALE, TRP__OPT_LIMIT,
                                   TRP__OPT_NORM};
    trp_status status = TRP_OK;
    for (size_t i = 0; i < sizeof all && status == TRP_OK; i++)
        status = check_all(c, all[i]);
    for (size_t i = 0; i < sizeof ones && status == TRP_OK; i++)
        status = trp__train_check_one(c, ones[i], false);
    if (status == TRP_OK)
        status = check_parameters(c);
    if (status == TRP_OK)
        status = check_moments(c);
    if (status == TRP_OK)
        status = trp__train_check_one(c, TRP__OPT_COUNT, true);
    if (status == TRP_OK && !has(c, TRP__OPT_COUNT) &&
        (c->n->mode == TRP_DNN_ADAM || c->n->mode == TRP_DNN_ADAMW))
        return FAIL(c, TRP__OPT_COUNT, "expected the number of the step");
    if (status == TRP_OK && has(c, TRP__OPT_COUNT)) {
        const trp__dnn_tensor *t = trp__train_tensor(c, TRP__OPT_COUNT);
        const trp_scalar *value = &c->m->given[c->m->name[c->n->port[TRP__OPT_COUNT]]].value;
        if (t->role == TRP__DNN_VALUE && value->re + value->im < 1)
            return FAIL(c, TRP__OPT_COUNT, "expected the number of the step, from 1 on, got 0");
    }
    if (status == TRP_OK)
        status = check_segments(c);
    if (status == TRP_OK)
        status = check_flag(c, TRP__OPT_FOUND, false);
    if (status == TRP_OK)
        status = check_flag(c, TRP__OPT_SKIPPED, true);
    return status == TRP_OK ? trp__train_set_compute(c, TRP__OPT_W) : status;
}

static uint32_t parameters(uint32_t mode, double value[TRP_DNN_PARAMETERS])
{
    if (mode == TRP_DNN_SGD)
        return 3;
    value[0] = 0.9;
    value[1] = mode == TRP_DNN_LION ? 0.99 : 0.999;
    value[2] = mode == TRP_DNN_LION ? 0 : 1e-8;
    return mode == TRP_DNN_LION ? 2 : 3;
}

static size_t host_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    (void)n;
    return (size_t)(trp__dnn_elements(t[TRP__OPT_W]) / CHUNK + 1) * 2 * sizeof(double);
}

/* Returns the bytes of the sums of each part, see reference/optimizer.h, the norm, and whether the
 * step is skipped. */
static uint64_t device_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    (void)n;
    (void)t;
    return (TRP__OPT_SUMS * TRP__TRAIN_PARTS + 2) * sizeof(double);
}

const trp__train_op trp__train_optimizer = {
    .kind = {.name = "optimizer",
             .port = {[TRP__OPT_W] = TRP__PORT_IN(w),
                      [TRP__OPT_DW] = TRP__PORT_IN(dw),
                      [TRP__OPT_MOMENT] = TRP__PORT_MAY(moment[0]),
                      [TRP__OPT_MOMENT + 1] = TRP__PORT_MAY(moment[1]),
                      [TRP__OPT_RATE] = TRP__PORT_IN(rate),
                      [TRP__OPT_DECAY] = TRP__PORT_MAY(decay),
                      [TRP__OPT_COUNT] = TRP__PORT_MAY(count),
                      [TRP__OPT_SCALE] = TRP__PORT_MAY(scale),
                      [TRP__OPT_LIMIT] = TRP__PORT_MAY(limit),
                      [TRP__OPT_FOUND] = TRP__PORT_MAY(found),
                      [TRP__OPT_SEGMENTS] = TRP__PORT_MAY(segments),
                      [TRP__OPT_NEW_W] = TRP__PORT_OUT(new_w),
                      [TRP__OPT_NEW_MOMENT] = TRP__PORT_GET(new_moment[0]),
                      [TRP__OPT_NEW_MOMENT + 1] = TRP__PORT_GET(new_moment[1]),
                      [TRP__OPT_NARROW] = TRP__PORT_GET(narrow),
                      [TRP__OPT_NORM] = TRP__PORT_GET(grad_norm),
                      [TRP__OPT_SKIPPED] = TRP__PORT_GET(skipped)}},
    .parameters = parameters,
    .check = check,
    .host_bytes = host_bytes,
    .run_f32 = trp__train_optimizer_f32,
    .run_f64 = trp__train_optimizer_f64,
    .device_bytes = device_bytes,
};
