/* Nodes by kernels of ours, for what cuDNN refuses or does not do right: any types, strides and
 * places. What they compute is what the host computes, in f64. Both sides of a launch include this.
 */
#ifndef TRP_ACTORS_DNN_DIRECT_H
#define TRP_ACTORS_DNN_DIRECT_H

#include "actors/dnn/graph.h"

enum {
    TRP__DIRECT_STATISTICS =
        TRP__DNN_PORTS, /* the shape of a norm's, or attention's; nothing lies there */
    TRP__DIRECT_TENSORS,
    TRP__DIRECT_THREADS = 256, /* of a block */
};

/* The one argument of all kernels. */
typedef struct trp__direct {
    trp__dnn_node node;
    trp__dnn_tensor tensor[TRP__DIRECT_TENSORS]; /* of each port */
    void *at[TRP__DIRECT_TENSORS];               /* NULL: no tensor, or a number */
    double value[TRP__DIRECT_TENSORS];           /* as its type holds it */
    bool used[TRP__DIRECT_TENSORS];
    int64_t count; /* of elements that threads have one each of, or blocks */
    /* On the device: the numbers of those elements, `samples` of them. NULL: 0 to count - 1. */
    const int64_t *sample;
    int64_t samples;
} trp__direct;

_Static_assert(sizeof(trp__direct) <= 4096, "what a kernel takes");

#endif
