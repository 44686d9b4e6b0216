/* Which nodes are a chain (chain.h), and where its elements are while it runs. */
#ifndef TRP_ACTORS_DNN_HOST_CHAIN_PLAN_H
#define TRP_ACTORS_DNN_HOST_CHAIN_PLAN_H

#include "actors/dnn/graph/graph.h"

enum {
    TRP__CHAIN_PORTS = 3, /* of x, b and t, or x and dy */
    TRP__CHAIN_ITEMS = 2 * TRP_DNN_TENSORS_MAX,
    TRP__CHAIN_NONE = -1,
};

/* How many elements of a tensor go with a row. */
typedef enum trp__dnn_chain_extent {
    TRP__CHAIN_FULL,   /* one with each of the row */
    TRP__CHAIN_COLUMN, /* one */
    TRP__CHAIN_ONE,    /* the same number with all */
} trp__dnn_chain_extent;

/* Dimensions in the order in which elements are gone through, those that follow each other in
 * memory as one; an element of the chain has the strides of 0 of what is broadcast. */
typedef struct trp__dnn_chain_view {
    int rank; /* at least 1 */
    int64_t dim[TRP__DNN_RANK], stride[TRP__DNN_RANK];
} trp__dnn_chain_view;

/* A tensor as a chain has it. */
typedef struct trp__dnn_chain_item {
    uint8_t tensor;
    trp__dnn_chain_extent extent;
    bool made;     /* by a node of the chain; else it is read from memory */
    bool stored;   /* to memory */
    bool direct;   /* its elements in memory are used as they are */
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
    int rank, order[TRP__DNN_RANK]; /* the full shape's dimensions, slowest first */
    int64_t dim[TRP__DNN_RANK];     /* in that order */
    int split;                      /* dimensions from here on make a row; `rank`: a row is one */
    int64_t rows, width;            /* elements of a row */
    int64_t block;                  /* rows */
    int steps, items, slots;
    trp__dnn_chain_step step[TRP_DNN_NODES_MAX];
    trp__dnn_chain_item item[TRP__CHAIN_ITEMS];
} trp__dnn_chain;

/* The chain of so many nodes from `first` on, which trp__dnn_chain_length() has found. */
void trp__dnn_chain_plan(trp__dnn_chain *c, const trp__dnn_graph *g, int first, int count);

#endif
