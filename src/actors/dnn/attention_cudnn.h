/* Attention as cuDNN's operations: its engines know the whole of it by the graph that it is made
 * of, products, scale, masks, softmax and all. */
#ifndef TRP_ACTORS_DNN_ATTENTION_CUDNN_H
#define TRP_ACTORS_DNN_ATTENTION_CUDNN_H

#include "actors/dnn/graph.h"
#include "libs/cudnn/cudnn.h"

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

enum { TRP__DNN_COMPOSED_MOST = 96 };

/* Operations, and all that they are made of. */
typedef struct trp__dnn_composed {
    uint32_t operations, parts;
    trp__cudnn_descriptor operation[TRP__DNN_COMPOSED_MOST], part[TRP__DNN_COMPOSED_MOST];
} trp__dnn_composed;

/* TRP_E_UNSUPPORTED: what the library can't do, and the library's own errors. The caller drops what
 * there is in any case. */
trp_status trp__dnn_compose_attention(const trp__cudnn *lib, const trp__dnn_graph *graph,
                                      const trp__dnn_node *node, trp__dnn_composed *out,
                                      trp_error *error);

/* What the library is known not to do, though it does not always say so: why not, to go on with
 * "cuDNN has no attention". NULL: nothing is known. */
const char *trp__dnn_attention_refusal(const trp__dnn_tensor *tensors, const trp__dnn_node *node);

/* Whether the library takes a tensor at a port as it lies: others are copied. */
bool trp__dnn_fits_attention(const trp__dnn_tensor *t, int port);

void trp__dnn_composed_drop(const trp__cudnn *lib, trp__dnn_composed *composed);

static inline bool trp__dnn_is_attention(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_ATTENTION || node->kind == TRP_DNN_ATTENTION_BACKWARD;
}

#endif
