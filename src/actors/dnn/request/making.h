/* A graph in the making, on the sender's side. */
#ifndef TRP_ACTORS_DNN_REQUEST_MAKING_H
#define TRP_ACTORS_DNN_REQUEST_MAKING_H

#include "actors/dnn/graph/graph.h"

enum { TRP__DNN_NO_NUMBER = 0xff };

typedef struct trp__dnn_making {
    const trp_dnn_tensor *given; /* as sent */
    const trp_dnn_node *nodes;   /* likewise */
    trp_error *error;
    const char *const *names; /* of the tensors, for messages; NULL: "tensors[1]" */
    trp__dnn_head head;
    trp__dnn_tensor tensor[TRP_DNN_TENSORS_MAX];
    trp__dnn_node node[TRP_DNN_NODES_MAX];
    uint8_t number[TRP_DNN_TENSORS_MAX]; /* of the tensors as sent: in the graph */
    uint8_t name[TRP_DNN_TENSORS_MAX];   /* and back */
} trp__dnn_making;

/* In an error of a request whose tensors have names: puts those in the place of "tensors[2]" and of
 * "nodes[0].k (attention)", where that is a tensor with a name, and else leaves the field alone. */
void trp__dnn_rename(const trp__dnn_making *m);

/* Takes a tensor into the graph when a node names it first; *number is its number. */
trp_status trp__dnn_take_tensor(trp__dnn_making *m, uint32_t name, uint8_t *number);

/* The strides of a packed tensor whose dimensions lie in the order of those of `like`, or in their
 * own if that is NULL. */
void trp__dnn_pack_strides(trp__dnn_tensor *t, const trp__dnn_tensor *like);

/* Whether a tensor has so few elements, so close together, that their offsets can be counted. */
trp_status trp__dnn_check_span(trp__dnn_making *m, uint8_t number);

/* Takes node `index` into the graph, with the tensors that it names, of which the request has so
 * many. *read: of each number a bit, whether a node reads it. */
trp_status trp__dnn_take_node(trp__dnn_making *m, uint32_t index, uint32_t tensors, uint64_t *read);

/* Takes what moves of data have beside tensors; for other kinds, sees that there is nothing. And
 * what trp__dnn_check_shapes() does for them. */
trp_status trp__dnn_take_move(trp__dnn_making *m, uint32_t index);
trp_status trp__dnn_check_move(trp__dnn_making *m, uint32_t index);

/* Checks the shapes and types of node `index`, whose mode, geometry and ports are filled in. The
 * tensors that it reads are complete; fills in the type and the dimensions of those it writes,
 * where they are not given (rank 0), and what it computes in. */
trp_status trp__dnn_check_shapes(trp__dnn_making *m, uint32_t index);

#endif
