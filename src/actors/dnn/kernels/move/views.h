/* CONCATENATE, SLICE, TRANSPOSE and RESHAPE as copies between views of tensors. */
#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_VIEWS_H
#define TRP_ACTORS_DNN_KERNELS_MOVE_VIEWS_H

#include "actors/dnn/graph/graph.h"

#include <troupe/dnn.h>

enum { TRP__MOVE_VIEWS = TRP_DNN_PARTS_MAX }; /* of a node, at most */

/* A view of both tensors: the same dimensions, other strides. */
typedef struct trp__move_view {
    trp__dnn_tensor x, y;
    int64_t from, to; /* elements from the beginnings of the tensors */
    uint8_t tensor;   /* that x is a view of */
} trp__move_view;

/* Of a move or a POINTWISE node. */
uint8_t trp__move_input(const trp__dnn_node *node);
uint8_t trp__move_output(const trp__dnn_node *node);

/* The views of a node: so many; 0: it is none that copies do. */
int trp__move_views(const trp__dnn_graph *graph, const trp__dnn_node *node,
                    trp__move_view out[TRP__MOVE_VIEWS]);

#endif
