/* Determines the nodes of a chain (chain.h), and the places of its elements while it runs. */
#ifndef TRP_ACTORS_DNN_HOST_CHAIN_PLAN_H
#define TRP_ACTORS_DNN_HOST_CHAIN_PLAN_H

#include "actors/dnn/graph/graph.h"

enum {
    TRP__CHAIN_PORTS = 3, /* x, b and t, or x and dy */
    TRP__CHAIN_ITEMS = 2 * TRP_DNN_TENSORS_MAX,
    TRP__CHAIN_NONE = -1,
};

/* The number of a tensor's elements per row. */
typedef enum trp__dnn_chain_extent {
    TRP__CHAIN_FULL,   /* one per element of the row */
    TRP__CHAIN_COLUMN, /* one per row */
    TRP__CHAIN_ONE,    /* one number for all rows */
} trp__dnn_chain_extent;

/* Dimensions in the order of processing, with contiguous ones merged; broadcast dimensions have
 * stride 0. */
typedef struct trp__dnn_chain_view {
    int rank; /* at least 1 */
    int64_t dim[TRP__DNN_RANK], stride[TRP__DNN_RANK];
} trp__dnn_chain_view;

/* A tensor of a chain. */
typedef struct trp__dnn_chain_item {
    uint8_t tensor;
    trp__dnn_chain_extent extent;
    bool made;     /* computed by a node of the chain; else read from memory */
    bool stored;   /* written to memory */
    bool direct;   /* its elements are used in memory without a copy */
    bool constant; /* the same for all blocks */
    int last;      /* the last step that reads it */
    int slot;      /* of the scratch memory; TRP__CHAIN_NONE */
    trp__dnn_chain_view view;
} trp__dnn_chain_item;

typedef struct trp__dnn_chain_step {
    const trp__dnn_node *n;
    int from[TRP__CHAIN_PORTS]; /* items; TRP__CHAIN_NONE */
    int to;
} trp__dnn_chain_step;

typedef struct trp__dnn_chain {
    const trp__dnn_graph *g;
    int first, count;
    bool wide;
    int rank, order[TRP__DNN_RANK]; /* dimensions of the full shape, slowest first */
    int64_t dim[TRP__DNN_RANK];     /* in that order */
    int split;                      /* dimensions from here on form a row; `rank`: a row is one
                                     * element */
    int64_t rows, width;            /* elements of a row */
    int64_t block;                  /* rows */
    int steps, items, slots;
    trp__dnn_chain_step step[TRP_DNN_NODES_MAX];
    trp__dnn_chain_item item[TRP__CHAIN_ITEMS];
} trp__dnn_chain;

/* Plans the chain of `count` nodes from `first` on that trp__dnn_chain_length() */
void trp__dnn_chain_plan(trp__dnn_chain *c, const trp__dnn_graph *g, int first, int count);

#endif
