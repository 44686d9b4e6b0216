#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_PLANES_H
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_PLANES_H

#include "actors/dnn/graph/graph.h"

/* Whether it is the gradient of an instance norm whose planes blocks of trp__kernels_batch hold. */
bool trp__batch_holds_planes(const trp__dnn_graph *graph, const trp__dnn_node *node);

#endif
