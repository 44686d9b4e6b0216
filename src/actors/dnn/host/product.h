/* Computes products of matrices of a graph, in f32 or f64, by OpenBLAS on the tensors in place,
 * with any strides that it supports. */
#ifndef TRP_ACTORS_DNN_HOST_PRODUCT_H
#define TRP_ACTORS_DNN_HOST_PRODUCT_H

#include "actors/dnn/host/run.h"

#include <stdbool.h>

/* Computes node `index`. Returns false, with nothing done, for other nodes. */
bool trp__dnn_host_product(const trp__dnn_host_run *run, int index);

#endif
