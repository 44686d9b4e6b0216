/* Products of matrices of a graph, in f32 or f64, as calls of OpenBLAS that read and write them
 * where they lie, whatever their strides. */
#ifndef TRP_ACTORS_DNN_HOST_PRODUCT_H
#define TRP_ACTORS_DNN_HOST_PRODUCT_H

#include "actors/dnn/host/run.h"

#include <stdbool.h>

/* Computes node number `index`. False, with nothing done: it is no such product. */
bool trp__dnn_host_product(const trp__dnn_host_run *run, int index);

#endif
