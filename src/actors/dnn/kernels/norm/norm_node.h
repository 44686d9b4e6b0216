/* Nodes that are a norm of rows. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_NODE_H
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_NODE_H

#include "actors/dnn/graph/graph.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/kernels/norm/norm.h"

/* A node, seen as rows. */
typedef struct trp__norm_node {
    const trp__dnn_node *node;
    const trp__dnn_tensor *tensor[TRP__NORM_OPERANDS]; /* NULL: there is none */
    uint8_t number[TRP__NORM_OPERANDS];
    trp__rows rows;
    bool back, wide, each, walks;
    bool tiles;      /* rows of a block are copied as they lie */
    bool even;       /* rows begin and end at packs */
    bool whole;      /* a block's registers hold a row, and nothing else then fits the processor */
    uint32_t shared; /* bytes of a block, of slices */
    int runs;        /* of 8 elements, of a thread; 0: the kernel has packs of a type */
    char kernel[32]; /* behind "trp_norm_" */
    trp__norm p;
    int64_t columns, column_stride[2]; /* backward: of dscale and dbias */
    int64_t channel_step[2];           /* of factor and term */
    trp__dnn_tensor view[4]; /* of a group norm: x, y, factor and term, as tensors of groups */
} trp__norm_node;

/* Describes the norm that begins at a node, and returns its nodes; 0: none begins there. */
uint32_t trp__norm_describe(const trp__dnn_graph *g, uint32_t first, uint32_t most,
                            trp__norm_node *m);

/* Finds the rows of a norm that share their statistics. `tensor`: the operands, x first; NULL:
 * there is none. */
void trp__norm_rows(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[], int count,
                    const trp__dnn_tensor *scale, const trp__dnn_tensor *inverse, trp__rows *rows);

/* Chooses a kernel whose threads have runs of elements of any types; false: there is none. */
bool trp__norm_plan_runs(trp__norm_node *m, bool ragged);

/* Tells whether a node is the gradient of an instance norm whose planes blocks of
 * trp__kernels_batch hold. */
bool trp__batch_holds_planes(const trp__dnn_graph *graph, const trp__dnn_node *node);

#endif
