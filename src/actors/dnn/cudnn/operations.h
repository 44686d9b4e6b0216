/* Creates cuDNN's operation for one node of a graph. */
#ifndef TRP_ACTORS_DNN_CUDNN_OPERATIONS_H
#define TRP_ACTORS_DNN_CUDNN_OPERATIONS_H

#include "actors/dnn/graph/graph.h"
#include "libs/cudnn/cudnn.h"

/* tensor[] has the descriptors of the graph's tensors. Returns the library's own error and then
 * creates nothing. */
trp_status trp__dnn_operation(const trp__cudnn *lib, const trp__dnn_node *node, bool deterministic,
                              const trp__cudnn_descriptor tensor[], trp__cudnn_descriptor *out,
                              trp_error *error);

#endif
