/* Layer and RMS normalisation in f32, forward and backward, of rows that follow each other: in
 * vector instructions, with sums in f64, rows shared among threads. */
#ifndef TRP_ACTORS_DNN_HOST_LAYER_H
#define TRP_ACTORS_DNN_HOST_LAYER_H

#include "actors/dnn/host/arrays/node.h"

#include <stdbool.h>

/* Computes a node of NORM_... whose tensors lie dense. False, with nothing done: it is none of
 * these. */
bool trp__dnn_host_layer(const trp__dnn_host_node *x);

/* Elements of f32 that it needs in `rest`. */
int64_t trp__dnn_host_layer_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

#endif
