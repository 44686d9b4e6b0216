/* One node of a graph as an operation of cuDNN's. */
#ifndef TRP_ACTORS_DNN_CUDNN_OPERATIONS_H
#define TRP_ACTORS_DNN_CUDNN_OPERATIONS_H

#include "actors/dnn/graph/graph.h"
#include "libs/cudnn/cudnn.h"

/* tensor[] has the descriptors of the graph's tensors. The library's own error; nothing is made
 * then. */
trp_status trp__dnn_operation(const trp__cudnn *lib, const trp__dnn_node *node, bool deterministic,
                              const trp__cudnn_descriptor tensor[], trp__cudnn_descriptor *out,
                              trp_error *error);

#endif
