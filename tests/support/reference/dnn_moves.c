/* Nodes that move data: finds the target of each element of the input. */
#include "support/reference/dnn_reference.h"

#include <string.h>

static void put(dr_tensor *y, size_t to, const dr_tensor *x, size_t from)
{
    y->v[to] = x->v[from];
    y->e[to] = x->e[from];
}

/* Returns whether an element of x is in a slice, and its position there. */
static bool in_slice(const trp_dnn_node *n, const dr_tensor *y, const int64_t *at, int64_t *to)
{
    for (uint32_t i = 0; i < y->rank; i++) {
        const int64_t step = n->step[i] ? n->step[i] : 1, from = at[i] - n->start[i];
        if (from < 0 || from % step != 0 || from / step >= y->dim[i])
            return false;
        to[i] = from / step;
    }
    return true;
}

static void concatenate(const dr_work *w, dr_tensor *y)
{
    int64_t before = 0;
    for (int k = 0; k < TRP_DNN_PARTS_MAX; k++) {
        const dr_tensor *x = w->n->part[k] ? dr_of(w, w->n->part[k]) : NULL;
        int64_t at[TRP_DNN_RANK_MAX] = {0}, to[TRP_DNN_RANK_MAX];
        for (bool more = x && x->count > 0; more; more = dr_next(x, at)) {
            memcpy(to, at, sizeof to);
            to[w->n->axis] += before;
            put(y, dr_at(y, to), x, dr_at(x, at));
        }
        before += x ? x->dim[w->n->axis] : 0;
    }
}

void dr_move(const dr_work *w)
{
    const trp_dnn_node *n = w->n;
    dr_tensor *y = dr_of(w, n->y);
    if (n->kind == TRP_DNN_CONCATENATE) {
        concatenate(w, y);
        return;
    }
    const dr_tensor *x = dr_of(w, n->x);
    int64_t at[TRP_DNN_RANK_MAX] = {0}, to[TRP_DNN_RANK_MAX] = {0};
    size_t number = 0;
    for (bool more = x->count > 0; more; more = dr_next(x, at), number++) {
        for (uint32_t i = 0; i < y->rank && n->kind == TRP_DNN_TRANSPOSE; i++)
            to[i] = at[n->order[i]];
        if (n->kind == TRP_DNN_RESHAPE)
            put(y, number, x, number);
        else if (n->kind == TRP_DNN_TRANSPOSE || in_slice(n, y, at, to))
            put(y, dr_at(y, to), x, dr_at(x, at));
    }
}
