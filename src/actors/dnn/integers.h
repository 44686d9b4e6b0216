/* Convolutions of i8 that cuDNN can be asked for. */
#ifndef TRP_ACTORS_DNN_INTEGERS_H
#define TRP_ACTORS_DNN_INTEGERS_H

#include "actors/dnn/graph.h"

/* Whether a node is a convolution of i8 whose sums as i32 can only come out right or not at all:
 * they are computed in i32, which holds them in any order, so that nothing is rounded, saturates or
 * is scaled; channels are fastest and come in groups of 16, which is what the library has kernels
 * for. What y is of does not matter here. */
bool trp__dnn_sums_i8(const trp__dnn_tensor tensor[], const trp__dnn_node *node);

#endif
