/* Launches the reference kernels (node.h) on a GPU node by node. */
#ifndef TRP_ACTORS_DNN_REFERENCE_LAUNCH_H
#define TRP_ACTORS_DNN_REFERENCE_LAUNCH_H

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/reference/node.h"

/* Tells whether there is a kernel for a node. */
bool trp__direct_takes(const trp__dnn_node *node);

/* Returns the scratch bytes of a node. */
uint64_t trp__direct_workspace(const trp__dnn_graph *graph, const trp__dnn_node *node);

/* Enqueues a node; launch->workspace has trp__direct_workspace() bytes. */
trp_status trp__direct_launch(const trp__dnn_graph *graph, uint32_t node,
                              const trp__kernel_launch *launch, trp_error *error);

/* Some elements of a tensor, by index in the order of its dimensions. */
typedef struct trp__direct_sample {
    const trp__dnn_tensor *tensor;
    const int64_t *number;
    size_t count;
    trp__cu_address room; /* device memory for `count` numbers */
} trp__direct_sample;

/* Enqueues a node for at least the elements of a sample of one output; NULL: all elements. Waits
 * for the stream before it writes `room`. */
trp_status trp__direct_launch_sample(const trp__dnn_graph *graph, uint32_t node,
                                     const trp__kernel_launch *launch,
                                     const trp__direct_sample *sample, trp_error *error);

#endif
