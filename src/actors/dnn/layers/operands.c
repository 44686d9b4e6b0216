#include "actors/dnn/layers/operands.h"

#include "base/error.h"

#include <string.h>

uint32_t trp__layer_add_any(trp__layer_graph *g, const trp_dnn_tensor *t)
{
    const trp_scalar *v = &t->value; /* a wrong value is refused with the graph */
    if (!t->buffer.id && !v->given && v->re == 0 && v->im == 0)
        return 0;
    g->tensor[++g->tensors] = *t;
    g->name[g->tensors] = trp__layer_name(g, t);
    return g->tensors;
}

uint32_t trp__layer_add_number(trp__layer_graph *g, trp_dtype type, trp_scalar value)
{
    if (!value.given)
        return 0;
    g->tensor[++g->tensors] = (trp_dnn_tensor){.type = type, .value = value};
    return g->tensors;
}

void trp__layer_finish_sum(trp__layer_graph *g, uint32_t x, const trp_dnn_tensor *b,
                           const trp_dnn_tensor *y)
{
    if (trp__layer_is_given(b))
        trp__layer_pointwise(g, TRP_DNN_ADD, x, trp__layer_add(g, b));
    trp__layer_finish(g, y);
}

trp_status trp__layer_as_rows(const char *name, const trp_dnn_tensor *t, trp_dnn_tensor *out)
{
    int64_t rows = 1, stride = 0, next = 0;
    *out = *t;
    if (!trp__layer_is_given(t))
        return TRP_OK;
    if (t->rank < 1 || t->rank > TRP_DNN_RANK_MAX)
        return trp__fail(TRP_E_ARGUMENT, "%s.rank: expected 1 to %d, got %u", name,
                         TRP_DNN_RANK_MAX, t->rank);
    bool packed = true;
    for (uint32_t i = 0; i < t->rank; i++)
        packed = packed && t->stride[i] == 0;
    for (uint32_t i = t->rank - 1; i-- > 0;) {
        const int64_t dim = t->dim[i];
        if (dim != 1 && stride == 0) {
            stride = t->stride[i];
            next = stride;
        }
        if (dim != 1 && !packed && t->stride[i] != next)
            return trp__fail(TRP_E_ARGUMENT,
                             "%s.stride[%u]: expected %lld, so that rows follow each other, got "
                             "%lld",
                             name, i, (long long)next, (long long)t->stride[i]);
        if (dim < 0 || __builtin_mul_overflow(rows, dim, &rows) ||
            __builtin_mul_overflow(next, dim, &next))
            return trp__fail(TRP_E_ARGUMENT, "%s.dim[%u]: expected fewer elements, got %lld", name,
                             i, (long long)dim);
    }
    const int64_t width = t->dim[t->rank - 1], step = t->stride[t->rank - 1];
    memset(out->dim, 0, sizeof out->dim);
    memset(out->stride, 0, sizeof out->stride);
    out->rank = 2;
    out->dim[0] = rows;
    out->dim[1] = width;
    if (!packed) {
        out->stride[0] = stride ? stride : width * step; /* of one row, or repeated */
        out->stride[1] = step;
    }
    return TRP_OK;
}

trp_status trp__layer_as_vector(const char *name, const trp_dnn_tensor *t, bool column,
                                int64_t count, trp_dnn_tensor *out)
{
    int64_t elements = 1;
    *out = *t;
    if (!trp__layer_is_given(t))
        return TRP_OK;
    bool packed = true;
    for (uint32_t i = 0; i < t->rank && i < TRP_DNN_RANK_MAX; i++) {
        packed = packed && (t->stride[i] == 0 || (t->rank == 1 && t->stride[i] == 1));
        if (t->dim[i] < 0 || __builtin_mul_overflow(elements, t->dim[i], &elements))
            elements = -1;
    }
    if (t->rank > 0 && elements != count)
        return trp__fail(TRP_E_ARGUMENT, "%s.dim: expected %lld elements, got %lld", name,
                         (long long)count, (long long)elements);
    if (!packed)
        return trp__fail(TRP_E_ARGUMENT, "%s.stride: expected 0, for it is packed", name);
    memset(out->dim, 0, sizeof out->dim);
    memset(out->stride, 0, sizeof out->stride);
    out->rank = 2;
    out->dim[0] = column ? count : 1;
    out->dim[1] = column ? 1 : count;
    return TRP_OK;
}

trp_dnn_tensor trp__layer_transposed(const trp_dnn_tensor *t)
{
    trp_dnn_tensor out = *t;
    const bool packed = t->stride[0] == 0 && t->stride[1] == 0;
    out.dim[0] = t->dim[1];
    out.dim[1] = t->dim[0];
    out.stride[0] = packed ? 1 : t->stride[1];
    out.stride[1] = packed ? t->dim[1] : t->stride[0];
    return out;
}

uint32_t trp__layer_slope(trp__layer_graph *g, const trp_layer_activation *a, uint32_t z,
                          uint32_t x)
{
    trp_dnn_node *n = trp__layer_add_node(g, TRP_DNN_POINTWISE_BACKWARD);
    n->pointwise = a->mode;
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++)
        n->parameter[i] = a->parameter[i];
    n->x = z;
    n->dy = x;
    return trp__layer_writes(g, &n->dx);
}
