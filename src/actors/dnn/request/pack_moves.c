/* Checks nodes that move data in a request: their fields other than tensors, and the dimensions and
 * types of their tensors. */
#include "actors/dnn/graph/train_op.h"
#include "actors/dnn/request/making.h"
#include "base/error.h"

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

static trp_status take_number(making *m, uint32_t index, const char *field, int at, int64_t value,
                              bool mine, int32_t *to)
{
    const int64_t most = mine ? INT32_MAX : 0;
    if (value < 0 || value > most)
        return FAIL(m, "nodes[%u].%s[%d] (%s): expected 0 to %lld, got %lld", index, field, at,
                    trp__dnn_kind_of(m->node[index].kind)->name, (long long)most, (long long)value);
    if (mine)
        *to = (int32_t)value;
    return TRP_OK;
}

trp_status trp__dnn_take_move(making *m, uint32_t index)
{
    const trp_dnn_node *given = &m->nodes[index];
    trp__dnn_node *n = &m->node[index];
    const bool slice = n->kind == TRP_DNN_SLICE, transpose = n->kind == TRP_DNN_TRANSPOSE;
    const bool blocks = trp__dnn_has_blocks(n->kind);
    const bool along = n->kind == TRP_DNN_CONCATENATE || blocks;
    const bool axis = along || trp__train_has_axis(n->kind);
    if (given->axis >= (axis ? TRP_DNN_RANK_MAX : 1))
        return FAIL(m, "nodes[%u].axis (%s): expected 0%s, got %u", index,
                    trp__dnn_kind_of(n->kind)->name, axis ? " to 7" : "", given->axis);
    if (along)
        n->mode = (uint8_t)given->axis;
    if (given->block != 0 && !(blocks && (given->block == 16 || given->block == 32)))
        return FAIL(m, "nodes[%u].block (%s): expected %s, got %u", index,
                    trp__dnn_kind_of(n->kind)->name, blocks ? "16 or 32" : "0", given->block);
    if (blocks)
        n->window[0] = given->block ? (int32_t)given->block : 32;
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__DNN_RANK && status == TRP_OK; i++) {
        status = take_number(m, index, "start", i, given->start[i], slice, &n->start[i]);
        if (status == TRP_OK)
            status = take_number(m, index, "step", i, given->step[i], slice, &n->step[i]);
        if (status == TRP_OK)
            status = take_number(m, index, "order", i, given->order[i], transpose, &n->start[i]);
        if (slice && n->step[i] == 0)
            n->step[i] = 1;
    }
    return status;
}

static trp__dnn_tensor *tensor(making *m, uint32_t index, int port)
{
    const uint8_t number = m->node[index].port[port];
    return number == TRP__DNN_NO_PORT ? NULL : &m->tensor[number];
}

/* Checks that y has these dimensions, or sets them. */
static trp_status expect_dims(making *m, uint32_t index, int rank, const int64_t *dim)
{
    trp__dnn_tensor *y = tensor(m, index, TRP__DNN_MOVE_Y);
    const char *kind = trp__dnn_kind_of(m->node[index].kind)->name;
    const bool given = y->rank != 0;
    if (given && y->rank != rank)
        return FAIL(m, "nodes[%u].y (%s): expected %d dimensions, got %d", index, kind, rank,
                    y->rank);
    for (int i = 0; i < rank; i++) {
        if (given && y->dim[i] != dim[i])
            return FAIL(m, "nodes[%u].y (%s): dimension %d: expected %lld, got %lld", index, kind,
                        i, (long long)dim[i], (long long)y->dim[i]);
        y->dim[i] = dim[i];
    }
    y->rank = (uint8_t)rank;
    return TRP_OK;
}

static trp_status check_concatenate(making *m, uint32_t index)
{
    const trp__dnn_tensor *first = tensor(m, index, TRP__DNN_MOVE_X);
    const int axis = m->node[index].mode;
    int64_t dim[TRP__DNN_RANK] = {0};
    if (axis >= first->rank)
        return FAIL(m, "nodes[%u].axis (concatenate): expected less than the %d dimensions, got %d",
                    index, first->rank, axis);
    for (int i = 0; i < first->rank; i++)
        dim[i] = i == axis ? 0 : first->dim[i];
    for (int k = 0; k < TRP_DNN_PARTS_MAX; k++) {
        const trp__dnn_tensor *part = tensor(m, index, k);
        if (!part)
            continue;
        if (part->rank != first->rank)
            return FAIL(m, "nodes[%u].part[%d] (concatenate): expected %d dimensions, got %d",
                        index, k, first->rank, part->rank);
        for (int i = 0; i < first->rank; i++) {
            if (i != axis && part->dim[i] != dim[i])
                return FAIL(m,
                            "nodes[%u].part[%d] (concatenate): dimension %d: expected %lld, got "
                            "%lld",
                            index, k, i, (long long)dim[i], (long long)part->dim[i]);
        }
        dim[axis] += part->dim[axis];
    }
    return expect_dims(m, index, first->rank, dim);
}

static trp_status check_slice(making *m, uint32_t index)
{
    const trp__dnn_node *n = &m->node[index];
    const trp__dnn_tensor *x = tensor(m, index, TRP__DNN_MOVE_X),
                          *y = tensor(m, index, TRP__DNN_MOVE_Y);
    int64_t dim[TRP__DNN_RANK] = {0};
    for (int i = 0; i < TRP__DNN_RANK; i++) {
        const int64_t size = i < x->rank ? x->dim[i] : 0;
        if (n->start[i] > size)
            return FAIL(m, "nodes[%u].start[%d] (slice): expected 0 to %lld, got %d", index, i,
                        (long long)size, n->start[i]);
        if (i >= x->rank && m->nodes[index].step[i] != 0)
            return FAIL(m,
                        "nodes[%u].step[%d] (slice): expected 0, for x has %d dimensions, got %d",
                        index, i, x->rank, n->step[i]);
        const int64_t most = (size - n->start[i] + n->step[i] - 1) / n->step[i];
        if (i < y->rank && i < x->rank && y->dim[i] > most)
            return FAIL(m, "nodes[%u].y (slice): dimension %d: expected 0 to %lld, got %lld", index,
                        i, (long long)most, (long long)y->dim[i]);
        dim[i] = i < y->rank ? y->dim[i] : most;
    }
    return expect_dims(m, index, x->rank, dim);
}

static trp_status check_transpose(making *m, uint32_t index)
{
    const trp__dnn_node *n = &m->node[index];
    const trp__dnn_tensor *x = tensor(m, index, TRP__DNN_MOVE_X);
    int64_t dim[TRP__DNN_RANK] = {0};
    uint32_t seen = 0;
    for (int i = 0; i < TRP__DNN_RANK; i++) {
        const int32_t from = n->start[i];
        const bool good = i < x->rank ? from < x->rank && !(seen >> from & 1) : from == 0;
        if (!good)
            return FAIL(m,
                        "nodes[%u].order[%d] (transpose): expected each of the %d dimensions once, "
                        "then 0, got %d",
                        index, i, x->rank, from);
        if (i < x->rank) {
            seen |= UINT32_C(1) << from;
            dim[i] = x->dim[from];
        }
    }
    return expect_dims(m, index, x->rank, dim);
}

static trp_status check_reshape(making *m, uint32_t index)
{
    const trp__dnn_tensor *x = tensor(m, index, TRP__DNN_MOVE_X),
                          *y = tensor(m, index, TRP__DNN_MOVE_Y);
    if (y->rank == 0)
        return FAIL(m, "nodes[%u].y (reshape): expected dimensions: they do not follow from x",
                    index);
    trp_status status = trp__dnn_check_span(m, m->node[index].port[TRP__DNN_MOVE_Y]);
    if (status == TRP_OK && trp__dnn_elements(x) != trp__dnn_elements(y))
        return FAIL(m, "nodes[%u].y (reshape): expected the %lld elements of x, got %lld", index,
                    (long long)trp__dnn_elements(x), (long long)trp__dnn_elements(y));
    return status;
}

/* Checks types; f32 represents all other types exactly. */
static trp_status check_types(making *m, uint32_t index)
{
    trp__dnn_node *n = &m->node[index];
    const trp_dtype given = m->nodes[index].compute;
    trp__dnn_tensor *y = tensor(m, index, TRP__DNN_MOVE_Y);
    bool wide = false;
    for (int k = 0; k < TRP__DNN_MOVE_Y; k++) {
        const trp__dnn_tensor *x = tensor(m, index, k);
        wide = wide || (x && (x->type == TRP_F64 || x->type == TRP_I32));
    }
    if (given != TRP_DTYPE_NONE && given != TRP_F64 && (given != TRP_F32 || wide))
        return FAIL(m, "nodes[%u].compute (%s): expected %s, got %s", index,
                    trp__dnn_kind_of(n->kind)->name,
                    wide ? "f64, for it reads f64 or i32" : "f32 or f64", trp_dtype_name(given));
    n->compute = (uint8_t)(given ? given : wide ? TRP_F64 : TRP_F32);
    if (y->type == TRP_DTYPE_NONE)
        y->type = tensor(m, index, TRP__DNN_MOVE_X)->type;
    return TRP_OK;
}

trp_status trp__dnn_check_move(making *m, uint32_t index)
{
    static trp_status (*const checks[])(making *, uint32_t) = {
        [TRP_DNN_CONCATENATE] = check_concatenate,
        [TRP_DNN_SLICE] = check_slice,
        [TRP_DNN_TRANSPOSE] = check_transpose,
        [TRP_DNN_RESHAPE] = check_reshape,
    };
    const trp__dnn_kind *kind = trp__dnn_kind_of(m->node[index].kind);
    for (int k = 0; k < TRP__DNN_MOVE_Y; k++) {
        const trp__dnn_tensor *x = tensor(m, index, k);
        if (x && x->role == TRP__DNN_VALUE)
            return FAIL(m, "nodes[%u].%s (%s): expected a tensor with elements, got a number",
                        index, kind->port[k].name, kind->name);
    }
    trp_status status = checks[m->node[index].kind](m, index);
    return status == TRP_OK ? check_types(m, index) : status;
}
