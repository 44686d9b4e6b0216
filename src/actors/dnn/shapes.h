/* What the dimensions and types of a node's tensors must be to each other, on the sender's side. */
#ifndef TRP_ACTORS_DNN_SHAPES_H
#define TRP_ACTORS_DNN_SHAPES_H

#include "actors/dnn/graph.h"

/* A graph in the making. */
typedef struct trp__dnn_making {
    const trp_dnn_tensor *given; /* as sent */
    const trp_dnn_node *nodes;   /* likewise */
    trp_error *error;
    trp__dnn_head head;
    trp__dnn_tensor tensor[TRP_DNN_TENSORS_MAX];
    trp__dnn_node node[TRP_DNN_NODES_MAX];
    uint8_t number[TRP_DNN_TENSORS_MAX]; /* of the tensors as sent: in the graph */
    uint8_t name[TRP_DNN_TENSORS_MAX];   /* and back */
} trp__dnn_making;

/* Checks node `index`, whose mode, geometry and ports are filled in. The tensors that it reads are
 * complete; fills in the type and the dimensions of those it writes, where they are not given (rank
 * 0), and what it computes in. */
trp_status trp__dnn_check_shapes(trp__dnn_making *m, uint32_t index);

#endif
