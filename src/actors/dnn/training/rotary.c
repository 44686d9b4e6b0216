/* Checks the tensors of ROTARY and ROTARY_BACKWARD. */
#include "actors/dnn/math/rotary.h"
#include "actors/dnn/training/real.h"
#include "base/error.h"

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

static bool has(const checked *c, int at)
{
    return c->n->port[at] != TRP__DNN_NO_PORT;
}

static trp_status check_tables(const checked *c)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__ROTARY_X);
    const trp__dnn_tensor *cosines = trp__train_tensor(c, TRP__ROTARY_COS);
    const int64_t width = x->dim[x->rank - 1];
    if (has(c, TRP__ROTARY_COS) != has(c, TRP__ROTARY_SIN))
        return FAIL(c, has(c, TRP__ROTARY_COS) ? TRP__ROTARY_COS : TRP__ROTARY_SIN,
                    "expected both tables or none");
    if (!cosines)
        return TRP_OK;
    if (c->m->nodes[c->index].parameter[0].given || c->m->nodes[c->index].parameter[1].given)
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].parameter[0] (%s): expected none with tables", c->index,
                              c->kind->name);
    trp_status status = trp__train_check_real(c, TRP__ROTARY_COS, TRP_F32);
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__ROTARY_SIN, TRP_F32);
    if (status == TRP_OK && cosines->rank != 2)
        return FAIL(c, TRP__ROTARY_COS,
                    "expected 2 dimensions, positions and half the width, "
                    "got %d",
                    cosines->rank);
    if (status == TRP_OK && cosines->dim[1] > width / 2)
        return FAIL(c, TRP__ROTARY_COS, "dimension 1: expected at most %lld, half of x's, got %lld",
                    (long long)width / 2, (long long)cosines->dim[1]);
    return status == TRP_OK ? trp__dnn_expect_dims(c, TRP__ROTARY_SIN, 2, cosines->dim) : status;
}

static trp_status check_positions(const checked *c)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__ROTARY_X);
    const trp__dnn_tensor *index = trp__train_tensor(c, TRP__ROTARY_INDEX);
    trp_status status = trp__train_check_index(c, TRP__ROTARY_INDEX);
    if (status == TRP_OK)
        status = trp__train_check_one(c, TRP__ROTARY_OFFSET, true);
    if (status != TRP_OK || !index)
        return status;
    if (has(c, TRP__ROTARY_OFFSET))
        return FAIL(c, TRP__ROTARY_OFFSET, "expected none beside index");
    if (index->rank != x->rank)
        return FAIL(c, TRP__ROTARY_INDEX, "expected %d dimensions, as x has, got %d", x->rank,
                    index->rank);
    for (int i = 0; i < x->rank; i++) {
        const int64_t most = i == x->rank - 1 ? 1 : x->dim[i];
        if (index->dim[i] != most && index->dim[i] != 1)
            return FAIL(c, TRP__ROTARY_INDEX, "dimension %d: expected %lld%s, got %lld", i,
                        (long long)most, most == 1 ? "" : " or 1", (long long)index->dim[i]);
    }
    return TRP_OK;
}

static trp_status check(const checked *c)
{
    const double *p = c->n->parameter;
    trp_status status = trp__train_check_real(c, TRP__ROTARY_X, TRP_F32);
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__ROTARY_X);
    if (status == TRP_OK && x->rank < 2)
        return FAIL(c, TRP__ROTARY_X, "expected at least 2 dimensions, positions and width, got %d",
                    x->rank);
    if (status == TRP_OK)
        status = trp__dnn_expect_dims(c, TRP__ROTARY_Y, x->rank, x->dim);
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__ROTARY_Y, (trp_dtype)x->type);
    if (status == TRP_OK)
        status = check_tables(c);
    if (status == TRP_OK && !(p[0] > 0))
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].parameter[0] (%s): expected a base of more than 0, got %g",
                              c->index, c->kind->name, p[0]);
    const int64_t r = (int64_t)p[1];
    if (status == TRP_OK &&
        !(p[1] >= 0 && p[1] <= (double)x->dim[x->rank - 1] && p[1] == (double)r && r % 2 == 0))
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].parameter[1] (%s): expected an even number up to %lld, "
                              "got %g",
                              c->index, c->kind->name, (long long)x->dim[x->rank - 1], p[1]);
    if (status == TRP_OK)
        status = check_positions(c);
    return status == TRP_OK ? trp__train_set_compute(c, TRP__ROTARY_X) : status;
}

static uint32_t parameters(uint32_t mode, double value[TRP_DNN_PARAMETERS])
{
    (void)mode;
    value[0] = 10000;
    return 2;
}

/* Returns the bytes for cosines and sines of all positions, if they follow from rows. */
static size_t table_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    const trp__dnn_tensor *x = t[TRP__ROTARY_X];
    const int64_t turning = trp__rotary_turning(n, x, t[TRP__ROTARY_COS]);
    return t[TRP__ROTARY_COS] || t[TRP__ROTARY_INDEX]
               ? 0
               : (size_t)(x->dim[x->rank - 2] * turning) * sizeof(double);
}

const trp__train_op trp__train_rotary = {
    .kind = {.name = "rotary",
             .port = {[TRP__ROTARY_X] = TRP__PORT_IN(x),
                      [TRP__ROTARY_COS] = TRP__PORT_MAY(a),
                      [TRP__ROTARY_SIN] = TRP__PORT_MAY(b),
                      [TRP__ROTARY_INDEX] = TRP__PORT_MAY(index),
                      [TRP__ROTARY_OFFSET] = TRP__PORT_MAY(offset),
                      [TRP__ROTARY_Y] = TRP__PORT_OUT(y)}},
    .parameters = parameters,
    .check = check,
    .host_bytes = table_bytes,
    .run_f32 = trp__train_rotary_f32,
    .run_f64 = trp__train_rotary_f64,
};

const trp__train_op trp__train_rotary_backward = {
    .kind = {.name = "rotary_backward",
             .port = {[TRP__ROTARY_X] = TRP__PORT_IN(dy),
                      [TRP__ROTARY_COS] = TRP__PORT_MAY(a),
                      [TRP__ROTARY_SIN] = TRP__PORT_MAY(b),
                      [TRP__ROTARY_INDEX] = TRP__PORT_MAY(index),
                      [TRP__ROTARY_OFFSET] = TRP__PORT_MAY(offset),
                      [TRP__ROTARY_Y] = TRP__PORT_OUT(dx)}},
    .parameters = parameters,
    .check = check,
    .host_bytes = table_bytes,
    .run_f32 = trp__train_rotary_f32,
    .run_f64 = trp__train_rotary_f64,
};
