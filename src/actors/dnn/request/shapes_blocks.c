/* Checks the tensors of both BLOCK_SCALE_... against each other. */
#include "actors/dnn/request/shapes.h"
#include "base/error.h"

#include <string.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

static trp__dnn_tensor *tensor(const checked *c, int at)
{
    return &c->m->tensor[c->n->port[at]];
}

static bool is_wide(uint8_t type)
{
    return type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

static bool is_narrow(uint8_t type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static bool is_scale(uint8_t type)
{
    return type == TRP_F8E8M0 || type == TRP_F8E4M3 || type == TRP_F32;
}

/* Checks a type; a virtual tensor or a value without a type gets one. */
static trp_status check_type(const checked *c, int at, bool (*good)(uint8_t), trp_dtype none,
                             const char *expected)
{
    trp__dnn_tensor *t = tensor(c, at);
    if (t->type == TRP_DTYPE_NONE)
        t->type = (uint8_t)none;
    if (!good(t->type))
        return FAIL(c, at, "expected %s, got %s", expected, trp_dtype_name((trp_dtype)t->type));
    return TRP_OK;
}

trp_status trp__dnn_check_blocks(const checked *c)
{
    const bool quantize = c->n->kind == TRP_DNN_BLOCK_SCALE_QUANTIZE;
    const int few = quantize ? TRP__DNN_BLOCKS_Y : TRP__DNN_BLOCKS_X;
    const int many = quantize ? TRP__DNN_BLOCKS_X : TRP__DNN_BLOCKS_Y;
    const trp__dnn_tensor *x = tensor(c, TRP__DNN_BLOCKS_X);
    const int axis = c->n->mode;
    int64_t scales[TRP__DNN_RANK];
    if (x->role == TRP__DNN_VALUE)
        return FAIL(c, TRP__DNN_BLOCKS_X, "expected a tensor with elements, got a number");
    trp_status status = check_type(c, many, is_wide, TRP_F32, "f32, f16 or bf16");
    if (status == TRP_OK)
        status = check_type(c, few, is_narrow, TRP_F8E4M3, "f8e4m3 or f8e5m2");
    if (status == TRP_OK)
        status =
            check_type(c, TRP__DNN_BLOCKS_SCALE, is_scale, TRP_F8E8M0, "f8e8m0, f8e4m3 or f32");
    if (status != TRP_OK)
        return status;
    if (axis >= x->rank)
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].axis (%s): expected less than the %d dimensions, got %d",
                              c->index, c->kind->name, x->rank, axis);
    memcpy(scales, x->dim, sizeof scales);
    scales[axis] = (x->dim[axis] + c->n->window[0] - 1) / c->n->window[0];
    status = trp__dnn_expect_dims(c, TRP__DNN_BLOCKS_SCALE, x->rank, scales);
    return status == TRP_OK ? trp__dnn_expect_dims(c, TRP__DNN_BLOCKS_Y, x->rank, x->dim) : status;
}
