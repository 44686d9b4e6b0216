/* Attention as a lowered graph has it, and what cuDNN takes of it. */
#ifndef TRP_ACTORS_DNN_LOWER_ATTENTION_LIMITS_H
#define TRP_ACTORS_DNN_LOWER_ATTENTION_LIMITS_H

#include "actors/dnn/graph/graph.h"

/* Ports of a lowered node: numbers, and memory of the plan's. */
enum {
    TRP__DNN_ATTENTION_SCALE = TRP__DNN_ATTENTION_OWN,
    TRP__DNN_ATTENTION_MASKED, /* minus infinity */
    TRP__DNN_ATTENTION_ONE,
    TRP__DNN_ATTENTION_SIZE_Q, /* of a diagonal that ends bottom right: i32 */
    TRP__DNN_ATTENTION_SIZE_KV,
    TRP__DNN_ATTENTION_REACH,  /* of a window: i32 where it is added to lengths, else f32 */
    TRP__DNN_ATTENTION_MEANS,  /* of dy times y along rows: f32 */
    TRP__DNN_ATTENTION_SUM_DQ, /* dq as it is added up: f32 */
    TRP__DNN_ATTENTION_PORTS,
};

/* What the library is known not to do, though it does not always say so: why not, to go on with
 * "cuDNN has no attention". NULL: nothing is known. */
const char *trp__dnn_attention_refusal(const trp__dnn_tensor *tensors, const trp__dnn_node *node);

/* Whether the library takes a tensor at a port as it lies: others are copied. */
bool trp__dnn_fits_attention(const trp__dnn_tensor *t, int port);

static inline bool trp__dnn_is_attention(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_ATTENTION || node->kind == TRP_DNN_ATTENTION_BACKWARD;
}

#endif
