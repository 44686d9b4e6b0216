/* Checks the tensors of CROSS_ENTROPY and LOSS. */
#include "actors/dnn/math/loss.h"
#include "actors/dnn/training/real.h"
#include "base/error.h"

#include <string.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

static bool has(const checked *c, int at)
{
    return c->n->port[at] != TRP__DNN_NO_PORT;
}

/* Checks for one element per row of x, with a last dimension of 1 or without it. */
static trp_status expect_rows(const checked *c, int at)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__LOSS_X), *t = trp__train_tensor(c, at);
    int64_t rows[TRP__DNN_RANK];
    if (!t)
        return TRP_OK;
    memcpy(rows, x->dim, sizeof rows);
    rows[x->rank - 1] = 1;
    return trp__dnn_expect_dims(c, at, t->rank > 0 && t->rank == x->rank - 1 ? t->rank : x->rank,
                                rows);
}

static trp_status expect_x(const checked *c, int at)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__LOSS_X);
    return has(c, at) ? trp__dnn_expect_dims(c, at, x->rank, x->dim) : TRP_OK;
}

/* Checks that each dimension is x's or 1. */
static trp_status expect_spread(const checked *c, int at)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__LOSS_X), *t = trp__train_tensor(c, at);
    if (!t || t->role == TRP__DNN_VALUE)
        return TRP_OK;
    if (t->rank != x->rank)
        return FAIL(c, at, "expected %d dimensions, as x has, got %d", x->rank, t->rank);
    for (int i = 0; i < x->rank; i++) {
        if (t->dim[i] != x->dim[i] && t->dim[i] != 1)
            return FAIL(c, at, "dimension %d: expected %lld or 1, got %lld", i,
                        (long long)x->dim[i], (long long)t->dim[i]);
    }
    return TRP_OK;
}

/* Checks dy and y: one element, or one per row checked by rows(), or x's dimensions. */
static trp_status check_reduced(const checked *c, trp_status (*rows)(const checked *, int))
{
    const bool none = trp__train_reduction(c->n) == TRP_DNN_REDUCE_NONE;
    const trp__dnn_tensor *dy = trp__train_tensor(c, TRP__LOSS_DY);
    const trp_dtype real = (trp_dtype)c->n->compute;
    trp_status status = TRP_OK;
    if (dy && !has(c, TRP__LOSS_DX))
        return FAIL(c, TRP__LOSS_DY, "expected none without dx");
    if (none && dy && dy->role != TRP__DNN_VALUE) {
        status = trp__train_check_real(c, TRP__LOSS_DY, real);
        if (status == TRP_OK)
            status = rows(c, TRP__LOSS_DY);
    } else {
        status = trp__train_check_one(c, TRP__LOSS_DY, false);
    }
    if (status == TRP_OK && none)
        status = rows(c, TRP__LOSS_Y);
    trp__dnn_tensor *y = trp__train_tensor(c, TRP__LOSS_Y);
    if (y && y->type == TRP_DTYPE_NONE)
        y->type = (uint8_t)real;
    if (status == TRP_OK)
        status = none ? trp__train_check_real(c, TRP__LOSS_Y, real)
                      : trp__train_check_one(c, TRP__LOSS_Y, false);
    return status;
}

/* Checks the tensors that both kinds have. */
static trp_status check_common(const checked *c, trp_status (*rows)(const checked *, int))
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__LOSS_X);
    trp_status status = trp__train_check_real(c, TRP__LOSS_X, TRP_F32);
    if (status == TRP_OK && !has(c, TRP__LOSS_Y) && !has(c, TRP__LOSS_ROWS) &&
        !has(c, TRP__LOSS_STATS) && !has(c, TRP__LOSS_DX))
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u] (%s): expected at least one tensor to write", c->index,
                              c->kind->name);
    if (status == TRP_OK)
        status = trp__train_set_compute(c, TRP__LOSS_X);
    const trp_dtype real = (trp_dtype)c->n->compute;
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__LOSS_T, TRP_F32);
    if (status == TRP_OK)
        status = expect_x(c, TRP__LOSS_T);
    if (status == TRP_OK)
        status = check_reduced(c, rows);
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__LOSS_ROWS, real);
    if (status == TRP_OK && has(c, TRP__LOSS_ROWS))
        status = rows(c, TRP__LOSS_ROWS);
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__LOSS_DX, (trp_dtype)x->type);
    return status == TRP_OK ? expect_x(c, TRP__LOSS_DX) : status;
}

static trp_status check_cross_entropy(const checked *c)
{
    const double *p = c->n->parameter;
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__LOSS_X);
    if (has(c, TRP__LOSS_T) == has(c, TRP__LOSS_INDEX))
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u] (cross_entropy): expected index or t, got %s", c->index,
                              has(c, TRP__LOSS_T) ? "both" : "neither");
    if (!has(c, TRP__LOSS_INDEX) && c->m->nodes[c->index].ignore.given)
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].ignore (cross_entropy): expected none without an index",
                              c->index);
    if (!(p[0] >= 0 && p[0] <= 1))
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].parameter[0] (cross_entropy): expected label smoothing, "
                              "0 to 1, got %g",
                              c->index, p[0]);
    if (x->rank > 0 && x->dim[x->rank - 1] < 1)
        return FAIL(c, TRP__LOSS_X, "expected at least 1 class, got 0");
    trp_status status = check_common(c, expect_rows);
    if (status == TRP_OK)
        status = trp__train_check_index(c, TRP__LOSS_INDEX);
    if (status == TRP_OK)
        status = expect_rows(c, TRP__LOSS_INDEX);
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__LOSS_STATS, (trp_dtype)c->n->compute);
    return status == TRP_OK ? expect_rows(c, TRP__LOSS_STATS) : status;
}

/* Checks a weight, which may be a number. */
static trp_status check_weight(const checked *c, int at)
{
    const trp__dnn_tensor *t = trp__train_tensor(c, at);
    if (t && t->role == TRP__DNN_VALUE)
        return trp__train_check_one(c, at, false);
    trp_status status = trp__train_check_real(c, at, TRP_F32);
    return status == TRP_OK ? expect_spread(c, at) : status;
}

static trp_status check_loss(const checked *c)
{
    const double beta = c->n->parameter[0];
    if (has(c, TRP__LOSS_B) && c->n->mode != TRP_DNN_BCE_LOGITS)
        return FAIL(c, TRP__LOSS_B, "expected none: only TRP_DNN_BCE_LOGITS has it");
    if (!(beta >= 0))
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].parameter[0] (loss): expected at least 0, got %g",
                              c->index, beta);
    trp_status status = check_common(c, expect_x);
    if (status == TRP_OK)
        status = check_weight(c, TRP__LOSS_W);
    return status == TRP_OK ? check_weight(c, TRP__LOSS_B) : status;
}

static uint32_t cross_entropy_parameters(uint32_t mode, double value[TRP_DNN_PARAMETERS])
{
    (void)mode;
    (void)value; /* 0 */
    return 2;
}

static uint32_t loss_parameters(uint32_t mode, double value[TRP_DNN_PARAMETERS])
{
    if (mode != TRP_DNN_SMOOTH_L1)
        return 0;
    value[0] = 1;
    return 1;
}

/* Return the bytes of sums: one per row, or line along the last dimension; on a GPU one per row or
 * element, then the number of those that count. */
static size_t row_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    const trp__dnn_tensor *x = t[TRP__LOSS_X];
    int64_t rows = 1;
    (void)n;
    for (int i = 0; i + 1 < x->rank; i++)
        rows *= x->dim[i];
    return (size_t)rows * sizeof(double);
}

static uint64_t cross_entropy_device_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    return 2 * row_bytes(n, t) + sizeof(double);
}

static uint64_t loss_device_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    (void)n;
    (void)t;
    return TRP__TRAIN_PARTS * sizeof(double);
}

const trp__train_op trp__train_cross_entropy = {
    .kind = {.name = "cross_entropy",
             .port = {[TRP__LOSS_X] = TRP__PORT_IN(x),
                      [TRP__LOSS_T] = TRP__PORT_MAY(t),
                      [TRP__LOSS_INDEX] = TRP__PORT_MAY(index),
                      [TRP__LOSS_DY] = TRP__PORT_MAY(dy),
                      [TRP__LOSS_Y] = TRP__PORT_GET(y),
                      [TRP__LOSS_ROWS] = TRP__PORT_GET(rows),
                      [TRP__LOSS_STATS] = TRP__PORT_GET(stats),
                      [TRP__LOSS_DX] = TRP__PORT_GET(dx)}},
    .parameters = cross_entropy_parameters,
    .check = check_cross_entropy,
    .host_bytes = row_bytes,
    .run_f32 = trp__train_cross_entropy_f32,
    .run_f64 = trp__train_cross_entropy_f64,
    .device_bytes = cross_entropy_device_bytes,
};

const trp__train_op trp__train_loss = {
    .kind = {.name = "loss",
             .port = {[TRP__LOSS_X] = TRP__PORT_IN(x),
                      [TRP__LOSS_T] = TRP__PORT_IN(t),
                      [TRP__LOSS_W] = TRP__PORT_MAY(w),
                      [TRP__LOSS_B] = TRP__PORT_MAY(b),
                      [TRP__LOSS_DY] = TRP__PORT_MAY(dy),
                      [TRP__LOSS_Y] = TRP__PORT_GET(y),
                      [TRP__LOSS_ROWS] = TRP__PORT_GET(rows),
                      [TRP__LOSS_DX] = TRP__PORT_GET(dx)}},
    .parameters = loss_parameters,
    .check = check_loss,
    .host_bytes = row_bytes,
    .run_f32 = trp__train_loss_f32,
    .run_f64 = trp__train_loss_f64,
    .device_bytes = loss_device_bytes,
};
