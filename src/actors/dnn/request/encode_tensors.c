/* Takes the tensors of a request. */
#include "actors/dnn/request/making.h"
#include "base/error.h"
#include "wire/actor_class.h"

#include <math.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

/* Largest number of elements or bytes: sums of a few such numbers do not overflow. */
#define SPAN_MAX (INT64_C(1) << 48)

static bool is_type(trp_dtype type)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2,
                                      TRP_I8,  TRP_U8,  TRP_I32, TRP_BOOL, TRP_I64,    TRP_F8E8M0};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (types[i] == type)
            return true;
    }
    return false;
}

static trp__dnn_role role_of(const trp_dnn_tensor *t)
{
    return t->buffer.id     ? TRP__DNN_BUFFER
           : t->value.given ? TRP__DNN_VALUE
           : t->data        ? TRP__DNN_DATA
                            : TRP__DNN_VIRTUAL;
}

static trp_status check_value(making *m, uint32_t name)
{
    const trp_dnn_tensor *t = &m->given[name];
    trp_error error;
    if (trp__scalar_check(&error, "value", &t->value) != TRP_OK)
        return FAIL(m, "tensors[%u].%s", name, error.message);
    if (t->buffer.id && t->value.given)
        return FAIL(m, "tensors[%u].value: expected none, for it has a buffer", name);
    if (t->data && (t->buffer.id || t->value.given))
        return FAIL(m, "tensors[%u].data: expected none, for it has a %s", name,
                    t->buffer.id ? "buffer" : "value");
    if (t->value.given && t->type != TRP_I64 && (t->value.im != 0 || !isfinite(t->value.re)))
        return FAIL(m, "tensors[%u].value: expected a real finite number, got %g + %gi", name,
                    t->value.re, t->value.im);
    if (!t->buffer.id && t->offset != 0)
        return FAIL(m, "tensors[%u].offset: expected 0, for it has no buffer, got %llu", name,
                    (unsigned long long)t->offset);
    return TRP_OK;
}

static trp_status check_type(making *m, uint32_t name)
{
    const trp_dnn_tensor *t = &m->given[name];
    if (t->data && t->type != TRP_F64)
        return FAIL(m, "tensors[%u].type: expected f64 of what has data, got %s", name,
                    trp_dtype_name(t->type));
    if (is_type(t->type) || (t->type == TRP_DTYPE_NONE && !t->buffer.id))
        return TRP_OK;
    return FAIL(m,
                "tensors[%u].type: expected f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, "
                "bool or, for seeds and scales of blocks, i64 and f8e8m0, got %s (%d)",
                name, trp_dtype_name(t->type), (int)t->type);
}

static trp_status check_dims(making *m, uint32_t name)
{
    const trp_dnn_tensor *t = &m->given[name];
    int64_t least = role_of(t) == TRP__DNN_VALUE ? 1 : 0;
    int64_t most = role_of(t) == TRP__DNN_VALUE ? 1 : SPAN_MAX;
    const bool somewhere = t->buffer.id || t->data;
    if (t->rank > TRP_DNN_RANK_MAX || (t->rank == 0 && somewhere))
        return FAIL(m, "tensors[%u].rank: expected %d to %d, got %u", name, somewhere ? 1 : 0,
                    TRP_DNN_RANK_MAX, t->rank);
    for (uint32_t i = 0; i < TRP_DNN_RANK_MAX; i++) {
        if (i < t->rank ? t->dim[i] < least || t->dim[i] > most : t->dim[i] != 0)
            return FAIL(m, "tensors[%u].dim[%u]: expected %lld to %lld, got %lld", name, i,
                        (long long)(i < t->rank ? least : 0), (long long)(i < t->rank ? most : 0),
                        (long long)t->dim[i]);
        if (t->stride[i] < 0 || t->stride[i] > (i < t->rank ? SPAN_MAX : 0))
            return FAIL(m, "tensors[%u].stride[%u]: expected 0 to %lld, got %lld", name, i,
                        (long long)(i < t->rank ? SPAN_MAX : 0), (long long)t->stride[i]);
    }
    return TRP_OK;
}

void trp__dnn_pack_strides(trp__dnn_tensor *t, const trp__dnn_tensor *like)
{
    int order[TRP__DNN_RANK];
    for (int i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    for (int i = 1; like && i < t->rank; i++) { /* fastest first; a stable sort */
        int moved = order[i], at = i;
        for (; at > 0 && like->stride[order[at - 1]] > like->stride[moved]; at--)
            order[at] = order[at - 1];
        order[at] = moved;
    }
    int64_t next = 1;
    for (int i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        if (t->dim[order[i]] > 1 && __builtin_mul_overflow(next, t->dim[order[i]], &next))
            next = INT64_MAX; /* too large, which the check of the span detects */
    }
}

trp_status trp__dnn_check_span(making *m, uint8_t number)
{
    const trp__dnn_tensor *t = &m->tensor[number];
    int64_t elements = 1, last = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t dim = t->dim[i] ? t->dim[i] : 1, reach;
        if (__builtin_mul_overflow(elements, dim, &elements) || elements > SPAN_MAX ||
            __builtin_mul_overflow(dim - 1, t->stride[i], &reach) || reach > SPAN_MAX ||
            (last += reach) > SPAN_MAX)
            return FAIL(m, "tensors[%u]: expected less than 2^48 elements, and not further apart",
                        m->name[number]);
    }
    return TRP_OK;
}

trp_status trp__dnn_take_tensor(making *m, uint32_t name, uint8_t *number)
{
    const trp_dnn_tensor *given = &m->given[name];
    *number = m->number[name];
    if (*number != TRP__DNN_NO_NUMBER)
        return TRP_OK;
    trp_status status = check_value(m, name);
    if (status == TRP_OK)
        status = check_type(m, name);
    if (status == TRP_OK)
        status = check_dims(m, name);
    if (status != TRP_OK)
        return status;
    *number = m->number[name] = (uint8_t)m->head.tensors;
    m->name[m->head.tensors] = (uint8_t)name;
    trp__dnn_tensor *t = &m->tensor[m->head.tensors++];
    *t = (trp__dnn_tensor){.type = (uint8_t)given->type,
                           .rank = (uint8_t)given->rank,
                           .role = (uint8_t)role_of(given)};
    bool packed = true;
    for (int i = 0; i < TRP__DNN_RANK; i++) {
        t->dim[i] = i < t->rank ? given->dim[i] : 1;
        t->stride[i] = given->stride[i];
        packed = packed && given->stride[i] == 0;
    }
    if (t->role == TRP__DNN_DATA && !packed)
        return FAIL(m, "tensors[%u].stride: expected 0, for data is packed", name);
    if (packed && t->role != TRP__DNN_VIRTUAL)
        trp__dnn_pack_strides(t, NULL);
    return trp__dnn_check_span(m, *number);
}
