/* Reference kernels for nodes that cuDNN refuses or computes wrong: any types, strides and
 * alignments. They compute in f64 what the host computes. Both sides of a launch include this.
 */
#ifndef TRP_ACTORS_DNN_REFERENCE_NODE_H
#define TRP_ACTORS_DNN_REFERENCE_NODE_H

#include "actors/dnn/reference/training.h"
#include "actors/dnn/graph/graph.h"
#include "actors/dnn/math/pick.h"
#include "actors/dnn/math/rotary.h"

enum {
    TRP__DIRECT_STATISTICS =
        TRP__DNN_PORTS, /* statistics' shape of a norm or of attention, without memory */
    TRP__DIRECT_TENSORS,
    TRP__DIRECT_THREADS = 256, /* threads of a block */
    /* Items other than elements of a tensor that kernels have a block for each of: */
    TRP__DIRECT_ONE = TRP__DIRECT_TENSORS,
    TRP__DIRECT_PARTS, /* parts of all elements, whose sums are added later */
    TRP__DIRECT_SLOTS, /* pieces of memory, one per working thread */
};

/* The one argument of all kernels. */
typedef struct trp__direct {
    trp__dnn_node node;
    trp__dnn_tensor tensor[TRP__DIRECT_TENSORS]; /* tensor of each port */
    void *at[TRP__DIRECT_TENSORS];               /* NULL: no tensor, or a number */
    double value[TRP__DIRECT_TENSORS];           /* rounded to its type */
    bool used[TRP__DIRECT_TENSORS];
    int64_t count; /* elements with one thread or block each */
    /* On the device: the indices of those elements, `samples` of them. NULL: 0 to count - 1. */
    const int64_t *sample;
    int64_t samples;
    void *scratch; /* of training nodes, see trp__train_op; or NULL */
} trp__direct;

_Static_assert(sizeof(trp__direct) <= 4096, "what a kernel takes");

/* Returns the items that a kernel has a thread or a block for each of; 0: it is not launched. */
static inline int64_t trp__direct_count(const trp__direct *d, int port)
{
    int64_t count = 1;
    if (port == TRP__DIRECT_ONE)
        return 1;
    if (port == TRP__DIRECT_PARTS)
        return TRP__TRAIN_PARTS;
    if (port == TRP__DIRECT_SLOTS)
        return TRP__PICK_SLOTS;
    if (port < TRP__DNN_PORTS && !d->used[port])
        return 0;
    for (int i = 0; i < d->tensor[port].rank; i++)
        count *= d->tensor[port].dim[i];
    return count;
}

/* Sets the shape for which training nodes have threads or blocks: x's, with one for each row of
 * CROSS_ENTROPY, line of ARG, TOP_K and SAMPLE, and pair or unrotated element of ROTARY. */
static inline void trp__direct_train_shape(trp__direct *d)
{
    trp__dnn_tensor *s = &d->tensor[TRP__DIRECT_STATISTICS];
    if (!trp__dnn_is_training(d->node.kind))
        return;
    *s = d->tensor[0];
    if (d->node.kind == TRP_DNN_CROSS_ENTROPY || d->node.kind == TRP_DNN_SAMPLE)
        s->dim[s->rank - 1] = 1;
    if (d->node.kind == TRP_DNN_ARG || d->node.kind == TRP_DNN_TOP_K)
        s->dim[trp__train_axis(&d->node)] = 1;
    if (d->node.kind == TRP_DNN_ROTARY || d->node.kind == TRP_DNN_ROTARY_BACKWARD)
        s->dim[s->rank - 1] -=
            trp__rotary_turning(&d->node, &d->tensor[TRP__ROTARY_X],
                                d->used[TRP__ROTARY_COS] ? &d->tensor[TRP__ROTARY_COS] : NULL) /
            2;
}

#endif
