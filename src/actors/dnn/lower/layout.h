/* Layouts of tensors. cuDNN accepts any strides but computes wrong results for gaps and for
 * unexpected orders of dimensions, so it only gets regular tensors. */
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

/* Returns the first matching layout of a tensor, ignoring dimensions of 1. */
trp__dnn_layout_kind trp__dnn_layout(const trp__dnn_tensor *t);

/* Returns all matching layouts as bits: 1 << layout. */
uint32_t trp__dnn_layouts(const trp__dnn_tensor *t);

static inline bool trp__dnn_is_packed(const trp__dnn_tensor *t)
{
    return trp__dnn_layout(t) == TRP__DNN_ROWS;
}

bool trp__dnn_same_dims(const trp__dnn_tensor *a, const trp__dnn_tensor *b);

/* Sets the strides of a tensor to those of a layout. */
void trp__dnn_lay_out(trp__dnn_tensor *t, trp__dnn_layout_kind layout);

/* Makes a tensor packed with the dimensions of another one: a view of the same elements. */
void trp__dnn_view_as(trp__dnn_tensor *t, const trp__dnn_tensor *like);

/* Tells whether cuDNN may get a tensor for a node: it has a known layout and an aligned address.
 * Numbers always qualify. */
bool trp__dnn_is_regular(const trp__dnn_tensor *t, const trp__dnn_node *node);

#endif
