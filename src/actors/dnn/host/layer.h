/* Layer and RMS normalisation in f32, forward and backward, of contiguous rows: with vector
 * instructions, sums in f64, and rows shared among threads. */
#ifndef TRP_ACTORS_DNN_HOST_LAYER_H
#define TRP_ACTORS_DNN_HOST_LAYER_H

#include "actors/dnn/host/arrays/node.h"

#include <stdbool.h>

/* Computes a node of NORM_... with dense tensors. Returns false, with nothing done, for other
 * nodes. */
bool trp__dnn_host_layer(const trp__dnn_host_node *x);

/* Returns the elements of f32 that it needs in `rest`. */
int64_t trp__dnn_host_layer_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

#endif
