#include "actors/dnn/lower/layout.h"

#include <troupe/dnn.h>

#include <string.h>

enum {
    ALIGNMENT = 16,         /* alignment of addresses that engines are made for */
    CHANNELS_LAST_RANK = 5, /* most dimensions known in that order */
};

/* Sets the dimensions of a layout from the fastest on. Returns false if a tensor of that rank
 * cannot have it. */
static bool layout_order(const trp__dnn_tensor *t, trp__dnn_layout_kind layout,
                         uint8_t order[TRP__DNN_RANK])
{
    uint8_t rank = t->rank;
    for (uint8_t i = 0; i < rank; i++)
        order[i] = (uint8_t)(rank - 1 - i);
    if (layout == TRP__DNN_CHANNELS_LAST) {
        if (rank < 3 || rank > CHANNELS_LAST_RANK)
            return false;
        order[0] = 1;
        for (uint8_t i = 1; i < rank - 1; i++)
            order[i] = (uint8_t)(rank - i);
        order[rank - 1] = 0;
    } else if (layout == TRP__DNN_COLUMNS) {
        if (rank < 2)
            return false;
        order[0] = (uint8_t)(rank - 2);
        order[1] = (uint8_t)(rank - 1);
    }
    return true;
}

static bool lies_so(const trp__dnn_tensor *t, trp__dnn_layout_kind layout)
{
    uint8_t order[TRP__DNN_RANK];
    int64_t next = 1;
    if (!layout_order(t, layout, order))
        return false;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[order[i]] != 1 && t->stride[order[i]] != next)
            return false;
        next *= t->dim[order[i]];
    }
    return true;
}

trp__dnn_layout_kind trp__dnn_layout(const trp__dnn_tensor *t)
{
    for (int i = TRP__DNN_ROWS; i < TRP__DNN_LAYOUTS; i++) {
        if (lies_so(t, (trp__dnn_layout_kind)i))
            return (trp__dnn_layout_kind)i;
    }
    return TRP__DNN_NO_LAYOUT;
}

uint32_t trp__dnn_layouts(const trp__dnn_tensor *t)
{
    uint32_t layouts = 0;
    for (int i = TRP__DNN_ROWS; i < TRP__DNN_LAYOUTS; i++)
        layouts |= lies_so(t, (trp__dnn_layout_kind)i) ? 1u << i : 0;
    return layouts;
}

bool trp__dnn_same_dims(const trp__dnn_tensor *a, const trp__dnn_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

void trp__dnn_lay_out(trp__dnn_tensor *t, trp__dnn_layout_kind layout)
{
    uint8_t order[TRP__DNN_RANK];
    int64_t next = 1;
    if (!layout_order(t, layout, order))
        (void)layout_order(t, TRP__DNN_ROWS, order);
    for (int i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        next *= t->dim[order[i]];
    }
}

void trp__dnn_view_as(trp__dnn_tensor *t, const trp__dnn_tensor *like)
{
    t->rank = like->rank;
    memcpy(t->dim, like->dim, sizeof t->dim);
    memset(t->stride, 0, sizeof t->stride);
    trp__dnn_lay_out(t, TRP__DNN_ROWS);
}

bool trp__dnn_is_regular(const trp__dnn_tensor *t, const trp__dnn_node *node)
{
    if (t->role == TRP__DNN_VALUE)
        return true;
    if (t->role == TRP__DNN_BUFFER && t->alignment < ALIGNMENT)
        return false;
    return lies_so(t, TRP__DNN_ROWS) ||
           lies_so(t, node->kind == TRP_DNN_MATMUL ? TRP__DNN_COLUMNS : TRP__DNN_CHANNELS_LAST);
}
