/* Lowers graphs to cuDNN's operations: replaces missing operations by several existing ones. The
 * result is the same, in the same type, except that a graph run in pieces is rounded more often
 * between them. */
#ifndef TRP_ACTORS_DNN_LOWER_LOWER_H
#define TRP_ACTORS_DNN_LOWER_LOWER_H

#include "actors/dnn/graph/graph.h"

enum {
    TRP__DNN_LOWERED_TENSORS = 252, /* their numbers are bytes */
    TRP__DNN_LOWERED_NODES = 160,
};

typedef enum trp__dnn_lowering {
    TRP__DNN_LOWER_NEEDED, /* only what the library never supports */
    TRP__DNN_LOWER_MORE,   /* also what it supports only next to certain others */
    /* As libraries need it, and products as they support them: of convolutions equal padding on
     * both sides, where the excess of one side becomes part of an image in memory; inputs of one
     * type, f8 as f16; sums of another type than that in f32, rounded by a step behind. Norms and
     * pooling of types that no kernel takes in f32, between conversions. */
    TRP__DNN_LOWER_ALIKE,
    TRP__DNN_LOWER_F32, /* the same; products of several types in f32 throughout */
    /* As libraries need it, and gradients of layer and RMS norms by elements, means of rows and
     * sums over rows: for rows that no kernel holds. */
    TRP__DNN_LOWER_SLOPES,
    TRP__DNN_LOWERINGS,
} trp__dnn_lowering;

/* The tensors of the original graph keep their numbers; new ones follow. */
typedef struct trp__dnn_lowered {
    trp__dnn_graph graph;
    void *bytes; /* memory of the graph */
    trp__dnn_lowering lowering;
} trp__dnn_lowered;

/* Returns TRP_E_MEMORY, or TRP_E_UNSUPPORTED if the graph becomes too large. */
trp_status trp__dnn_lower(const trp__dnn_graph *graph, trp__dnn_lowering lowering,
                          trp__dnn_lowered *out, trp_error *error);

void trp__dnn_lowered_drop(trp__dnn_lowered *lowered);

#endif
