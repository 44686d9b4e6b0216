/* Finds nodes of a graph that are a norm of rows, and chooses its kernel. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_NODE_H
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_NODE_H

#include "actors/dnn/graph/graph.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/kernels/norm/norm.h"

/* A norm, its operands as rows, and its kernel. */
typedef struct trp__norm_node {
    const trp__dnn_node *node;
    const trp__dnn_tensor *tensor[TRP__NORM_OPERANDS]; /* NULL: absent */
    uint8_t number[TRP__NORM_OPERANDS];
    trp__rows rows;
    bool back, wide, each, walks; /* wide: f64; walks: registers do not hold a row */
    bool tiles;                   /* a block copies its rows to shared memory unchanged */
    bool even;                    /* all rows begin and end at multiples of 8 elements */
    bool whole;      /* a block holds a row in registers, and leaves no room for a second block */
    uint32_t shared; /* slices: shared memory of a block, in bytes */
    int runs;        /* runs of 8 elements per thread; 0: the kernel has packs */
    char kernel[32]; /* name of the kernel, after "trp_norm_" */
    trp__norm p;
    int64_t columns, column_stride[2]; /* backward: elements and strides of dscale and dbias */
    int64_t channel_step[2];           /* strides of factor and term */
    trp__dnn_tensor view[4]; /* group norm: x, y, factor and term in the shape of groups */
} trp__norm_node;

/* Describes the norm that begins at node `first`, with at most `most` nodes. Returns the number of
 * its nodes; 0: no norm of rows begins there. */
uint32_t trp__norm_describe(const trp__dnn_graph *g, uint32_t first, uint32_t most,
                            trp__norm_node *m);

/* Finds the rows of a norm: each has the elements that share statistics. `tensor`: `count`
 * operands, x first; NULL: absent. */
void trp__norm_rows(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[], int count,
                    const trp__dnn_tensor *scale, const trp__dnn_tensor *inverse, trp__rows *rows);

/* Chooses a kernel of runs, whose operands may have any types; false: rows are too long. */
bool trp__norm_plan_runs(trp__norm_node *m, bool ragged);

/* Tells whether a node is the backward pass of an instance norm with planes so long that
 * trp__kernels_batch runs it. */
bool trp__batch_holds_planes(const trp__dnn_graph *graph, const trp__dnn_node *node);

#endif
