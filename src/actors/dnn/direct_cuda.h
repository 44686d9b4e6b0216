/* The reference kernels (direct.h) on a GPU, launched node by node. */
#ifndef TRP_ACTORS_DNN_DIRECT_CUDA_H
#define TRP_ACTORS_DNN_DIRECT_CUDA_H

#include "actors/dnn/direct.h"
#include "actors/dnn/kernels/kernels.h"

/* Whether there is a kernel for a node. */
bool trp__direct_takes(const trp__dnn_node *node);

/* Bytes of scratch memory that a node needs beside its tensors. */
uint64_t trp__direct_workspace(const trp__dnn_graph *graph, const trp__dnn_node *node);

/* Enqueues a node; launch->workspace has trp__direct_workspace() bytes. */
trp_status trp__direct_launch(const trp__dnn_graph *graph, uint32_t node,
                              const trp__kernel_launch *launch, trp_error *error);

#endif
