/* How tensors lie. cuDNN takes any strides, and computes something else where there are gaps, or
 * where dimensions lie in an order that it does not expect: only what is regular is given to it. */
#ifndef TRP_ACTORS_DNN_LOWER_LAYOUT_H
#define TRP_ACTORS_DNN_LOWER_LAYOUT_H

#include "actors/dnn/graph/graph.h"

typedef enum trp__dnn_layout_kind {
    TRP__DNN_NO_LAYOUT,
    TRP__DNN_ROWS,          /* packed, the last dimension fastest */
    TRP__DNN_CHANNELS_LAST, /* packed, dimension 1 fastest, then the last */
    TRP__DNN_COLUMNS,       /* packed, the last but one fastest: matrices */
    TRP__DNN_LAYOUTS,
} trp__dnn_layout_kind;

/* The first of the layouts that a tensor has; dimensions of 1 lie anywhere. */
trp__dnn_layout_kind trp__dnn_layout(const trp__dnn_tensor *t);

/* The dimensions of a layout, from the fastest. False: a tensor of that rank does not have it. */
bool trp__dnn_layout_order(const trp__dnn_tensor *t, trp__dnn_layout_kind layout,
                           uint8_t order[TRP__DNN_RANK]);

/* All of them, a bit each: 1 << layout. */
uint32_t trp__dnn_layouts(const trp__dnn_tensor *t);

static inline bool trp__dnn_is_packed(const trp__dnn_tensor *t)
{
    return trp__dnn_layout(t) == TRP__DNN_ROWS;
}

/* Sets the strides of a tensor. */
void trp__dnn_lay_out(trp__dnn_tensor *t, trp__dnn_layout_kind layout);

/* Makes a tensor packed, with the dimensions of another one: the same elements, seen otherwise. */
void trp__dnn_view_as(trp__dnn_tensor *t, const trp__dnn_tensor *like);

/* Whether a tensor lies so that cuDNN may get it for a node: in a layout, at a place that is
 * aligned. Numbers always do. */
bool trp__dnn_is_regular(const trp__dnn_tensor *t, const trp__dnn_node *node);

#endif
