/* Attention in a lowered graph, and what cuDNN supports of it. */
#ifndef TRP_ACTORS_DNN_LOWER_ATTENTION_LIMITS_H
#define TRP_ACTORS_DNN_LOWER_ATTENTION_LIMITS_H

#include "actors/dnn/graph/graph.h"

/* Additional ports of a lowered node: numbers and memory of the plan. */
enum {
    TRP__DNN_ATTENTION_SCALE = TRP__DNN_ATTENTION_OWN,
    TRP__DNN_ATTENTION_MASKED, /* minus infinity */
    TRP__DNN_ATTENTION_ONE,
    TRP__DNN_ATTENTION_SIZE_Q, /* i32, for a diagonal that ends bottom right */
    TRP__DNN_ATTENTION_SIZE_KV,
    TRP__DNN_ATTENTION_REACH,  /* width of a window: i32 if it is added to lengths, else f32 */
    TRP__DNN_ATTENTION_MEANS,  /* f32 means of dy times y along rows */
    TRP__DNN_ATTENTION_SUM_DQ, /* f32 accumulator of dq */
    TRP__DNN_ATTENTION_PORTS,
};

/* Returns why the library is known not to support the node, even where it does not report that
 * itself; completes "cuDNN has no attention". NULL: nothing is known. */
const char *trp__dnn_attention_refusal(const trp__dnn_tensor *tensors, const trp__dnn_node *node);

/* Tells whether the library accepts the layout of a tensor at a port; others are copied. */
bool trp__dnn_fits_attention(const trp__dnn_tensor *t, int port);

static inline bool trp__dnn_is_attention(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_ATTENTION || node->kind == TRP_DNN_ATTENTION_BACKWARD;
}

#endif
