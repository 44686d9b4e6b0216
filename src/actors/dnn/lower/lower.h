/* Graphs in what cuDNN has: what it has no operation for is made of some that it has. The same is
 * computed, in the same type; only where a graph is run in pieces is more rounded in between. */
#ifndef TRP_ACTORS_DNN_LOWER_LOWER_H
#define TRP_ACTORS_DNN_LOWER_LOWER_H

#include "actors/dnn/graph/graph.h"

enum {
    TRP__DNN_LOWERED_TENSORS = 252, /* their numbers are bytes */
    TRP__DNN_LOWERED_NODES = 160,
};

typedef enum trp__dnn_lowering {
    TRP__DNN_LOWER_NEEDED, /* what the library never takes */
    TRP__DNN_LOWER_MORE,   /* also what it takes only next to certain others */
    /* What libraries need, and convolutions as they take them: padded alike on both sides, what is
     * more on one side being part of an image in memory; what is read of one type; sums of another
     * type than that in f32, and rounded behind it. */
    TRP__DNN_LOWER_ALIKE,
    TRP__DNN_LOWER_F32, /* the same; convolutions of several types in f32 throughout */
    /* What libraries need, and gradients of layer and RMS norms by elements, means of rows and sums
     * over rows: of rows that no kernel holds. */
    TRP__DNN_LOWER_SLOPES,
    TRP__DNN_LOWERINGS,
} trp__dnn_lowering;

/* The tensors of the graph that it was made from keep their numbers, new ones come behind them. */
typedef struct trp__dnn_lowered {
    trp__dnn_graph graph;
    void *bytes; /* that it lies in */
    trp__dnn_lowering lowering;
} trp__dnn_lowered;

/* TRP_E_MEMORY; TRP_E_UNSUPPORTED: the graph becomes too large. */
trp_status trp__dnn_lower(const trp__dnn_graph *graph, trp__dnn_lowering lowering,
                          trp__dnn_lowered *out, trp_error *error);

void trp__dnn_lowered_drop(trp__dnn_lowered *lowered);

#endif
