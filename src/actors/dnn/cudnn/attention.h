/* Builds attention from cuDNN's operations: its engines recognise the whole by this graph of
 * products, scale, masks and softmax. */
#ifndef TRP_ACTORS_DNN_CUDNN_ATTENTION_H
#define TRP_ACTORS_DNN_CUDNN_ATTENTION_H

#include "actors/dnn/lower/attention_limits.h"
#include "libs/cudnn/cudnn.h"

enum { TRP__DNN_COMPOSED_MOST = 96 };

/* Operations and their descriptors. */
typedef struct trp__dnn_composed {
    uint32_t operations, parts;
    trp__cudnn_descriptor operation[TRP__DNN_COMPOSED_MOST], part[TRP__DNN_COMPOSED_MOST];
} trp__dnn_composed;

/* Returns TRP_E_UNSUPPORTED for what the library cannot do, and the library's own errors. The
 * caller drops the descriptors in any case. */
trp_status trp__dnn_compose_attention(const trp__cudnn *lib, const trp__dnn_graph *graph,
                                      const trp__dnn_node *node, trp__dnn_composed *out,
                                      trp_error *error);

void trp__dnn_composed_drop(const trp__cudnn *lib, trp__dnn_composed *composed);

#endif
