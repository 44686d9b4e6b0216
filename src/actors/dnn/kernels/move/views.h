/* CONCATENATE, SLICE, TRANSPOSE and RESHAPE as copies between views of tensors. */
#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_VIEWS_H
#define TRP_ACTORS_DNN_KERNELS_MOVE_VIEWS_H

#include "actors/dnn/graph/graph.h"

#include <troupe/dnn.h>

enum { TRP__MOVE_VIEWS = TRP_DNN_PARTS_MAX }; /* views of a node, at most */

/* Views of both tensors, of the same dimensions and other strides. */
typedef struct trp__move_view {
    trp__dnn_tensor x, y;
    int64_t from, to; /* offsets from the beginnings of the tensors, in elements */
    uint8_t tensor;   /* the tensor that x is a view of */
} trp__move_view;

/* Return the input and the output of a move or a POINTWISE node. */
uint8_t trp__move_input(const trp__dnn_node *node);
uint8_t trp__move_output(const trp__dnn_node *node);

static inline bool trp__move_has_margins(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_CONCATENATE && node->mode == TRP__DNN_MARGINS;
}

/* Returns the bytes of y to clear before the part is copied: all of y if it has margins, else 0. */
uint64_t trp__move_cleared(const trp__dnn_graph *graph, const trp__dnn_node *node);

/* Finds the views of a node and returns how many there are; 0: copies cannot do the node. */
int trp__move_views(const trp__dnn_graph *graph, const trp__dnn_node *node,
                    trp__move_view out[TRP__MOVE_VIEWS]);

/* A graph of one node, which writes tensor 1 from tensor 0. */
typedef struct trp__move_graph {
    trp__dnn_graph graph;
    trp__dnn_head head;
    trp__dnn_tensor tensor[2];
    trp__dnn_node node;
    double value[2];
} trp__move_graph;

/* Makes the graph of a node of kind `kind`, which has x in port `from` and y in port `to`. Both
 * tensors lie in memory, with the alignment of their buffer, or with 16 bytes if they have none. */
void trp__move_graph_make(trp__move_graph *out, const trp__dnn_head *like, const trp__dnn_tensor *x,
                          const trp__dnn_tensor *y, trp_dnn_kind kind, int from, int to);

#endif
