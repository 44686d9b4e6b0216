/* Checks the tensors of a RANDOM node, and its parameters in the type of y. */
#include "actors/dnn/request/shapes.h"
#include "base/error.h"

#include <troupe/convert.h>

#include <float.h>
#include <math.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

#define FAIL_PARAMETER(c, which, format, ...)                                                      \
    trp__error_set((c)->m->error, TRP_E_ARGUMENT,                                                  \
                   "nodes[%u].parameter[%d] (random): expected " format, (c)->index, which,        \
                   __VA_ARGS__)

static trp__dnn_tensor *tensor(const checked *c, int at)
{
    const uint8_t number = c->n->port[at];
    return number == TRP__DNN_NO_PORT ? NULL : &c->m->tensor[number];
}

static bool is_floating(uint8_t type)
{
    return type >= TRP_F64 && type <= TRP_F8E5M2;
}

static bool is_whole(double value, double most)
{
    return value >= 0 && value <= most && value == floor(value);
}

trp_status trp__dnn_check_integer(const checked *c, int at)
{
    trp__dnn_tensor *t = tensor(c, at);
    if (!t)
        return TRP_OK;
    if (t->type == TRP_DTYPE_NONE && t->role == TRP__DNN_VALUE)
        t->type = TRP_I64;
    if (t->type != TRP_I64)
        return FAIL(c, at, "expected i64, got %s", trp_dtype_name((trp_dtype)t->type));
    if (trp__dnn_elements(t) != 1)
        return FAIL(c, at, "expected one element, got %lld", (long long)trp__dnn_elements(t));
    const trp_scalar *value = &c->m->given[c->m->name[c->n->port[at]]].value;
    if (t->role == TRP__DNN_VALUE &&
        !(is_whole(value->re, 0x1p53) && is_whole(value->im, UINT32_MAX)))
        return FAIL(c, at, "expected whole numbers, 0 to 2^53 and 0 to 2^32 - 1, got %g + %gi",
                    value->re, value->im);
    uint64_t whole;
    if (t->role == TRP__DNN_VALUE &&
        __builtin_add_overflow((uint64_t)value->re, (uint64_t)value->im << 32, &whole))
        return FAIL(c, at, "expected less than 2^64 of re + 2^32 im, got %.17g + %.17gi", value->re,
                    value->im);
    return TRP_OK;
}

/* Rounds a number to y's type. */
static double hold(uint8_t type, double value)
{
    double held = value;
    _Alignas(8) unsigned char bytes[8];
    (void)trp_convert(TRP_F64, &value, (trp_dtype)type, bytes, 1);
    (void)trp_convert((trp_dtype)type, bytes, TRP_F64, &held, 1);
    return held;
}

/* Returns the next smaller number of a type: the first of doubling steps down that changes the
 * rounded number. */
static double below(uint8_t type, double value)
{
    double step = fmax(fabs(value) * 0x1p-54, 0x1p-1074), next = value;
    while (next == value) {
        next = hold(type, value - step);
        step *= 2;
    }
    return next;
}

static trp_status check_bounds(const checked *c, uint8_t type)
{
    double *p = c->n->parameter;
    for (int i = 0; i < 2; i++) {
        const double held = hold(type, p[i]);
        if (!isfinite(held) || fabs(p[i]) > hold(type, DBL_MAX))
            return FAIL_PARAMETER(c, i, "a number that %s holds, got %g",
                                  trp_dtype_name((trp_dtype)type), p[i]);
        p[i] = held;
    }
    if (!(p[0] < p[1]) || !isfinite(p[1] - p[0]))
        return FAIL_PARAMETER(c, 1, "more than the low end, %g in %s, but no infinity more, got %g",
                              p[0], trp_dtype_name((trp_dtype)type), p[1]);
    p[2] = below(type, p[1]);
    return TRP_OK;
}

trp_status trp__dnn_check_random(const checked *c)
{
    trp__dnn_tensor *y = tensor(c, TRP__DNN_RANDOM_Y);
    const trp_dtype compute = c->m->nodes[c->index].compute;
    trp_status status = trp__dnn_check_integer(c, TRP__DNN_RANDOM_SEED);
    if (status == TRP_OK)
        status = trp__dnn_check_integer(c, TRP__DNN_RANDOM_OFFSET);
    if (status != TRP_OK)
        return status;
    if (y->rank == 0)
        return FAIL(c, TRP__DNN_RANDOM_Y,
                    "expected dimensions: they do not follow from what is read");
    if (y->type == TRP_DTYPE_NONE)
        y->type = compute == TRP_F64 ? TRP_F64 : TRP_F32;
    const char *name = trp_dtype_name((trp_dtype)y->type);
    if (y->type == TRP_I64 || y->type == TRP_F8E8M0 || /* a type without 0 */
        (c->n->mode != TRP_DNN_BERNOULLI && !is_floating(y->type)))
        return FAIL(c, TRP__DNN_RANDOM_Y, "expected a floating type%s, got %s",
                    c->n->mode == TRP_DNN_BERNOULLI ? ", i8, u8, i32 or bool" : "", name);
    const double *p = c->n->parameter;
    if (c->n->mode == TRP_DNN_UNIFORM)
        return check_bounds(c, compute == TRP_F32 && y->type == TRP_F64 ? TRP_F32 : y->type);
    if (c->n->mode == TRP_DNN_NORMAL && p[1] < 0)
        return FAIL_PARAMETER(c, 1, "at least 0, got %g", p[1]);
    if (c->n->mode == TRP_DNN_BERNOULLI && !(p[0] >= 0 && p[0] <= 1))
        return FAIL_PARAMETER(c, 0, "0 to 1, got %g", p[0]);
    return TRP_OK;
}
