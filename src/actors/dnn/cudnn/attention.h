/* Attention as cuDNN's operations: its engines know the whole of it by the graph that it is made
 * of, products, scale, masks, softmax and all. */
#ifndef TRP_ACTORS_DNN_CUDNN_ATTENTION_H
#define TRP_ACTORS_DNN_CUDNN_ATTENTION_H

#include "actors/dnn/lower/attention_limits.h"
#include "libs/cudnn/cudnn.h"

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

void trp__dnn_composed_drop(const trp__cudnn *lib, trp__dnn_composed *composed);

#endif
