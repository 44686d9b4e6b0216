/* A graph under construction on the sender's side. */
#ifndef TRP_ACTORS_DNN_REQUEST_MAKING_H
#define TRP_ACTORS_DNN_REQUEST_MAKING_H

#include "actors/dnn/graph/graph.h"

enum { TRP__DNN_NO_NUMBER = 0xff };

typedef struct trp__dnn_making {
    const trp_dnn_tensor *given; /* as sent */
    const trp_dnn_node *nodes;   /* as in the request */
    trp_error *error;
    const char *const *names; /* names of the tensors for messages; NULL: "tensors[1]" */
    trp__dnn_head head;
    trp__dnn_tensor tensor[TRP_DNN_TENSORS_MAX];
    trp__dnn_node node[TRP_DNN_NODES_MAX];
    uint8_t number[TRP_DNN_TENSORS_MAX]; /* from a tensor's number in the request to that in the
                                          * graph */
    uint8_t name[TRP_DNN_TENSORS_MAX];   /* from a tensor's number in the graph to that in the
                                          * request */
} trp__dnn_making;

/* Replaces "tensors[2]" and "nodes[0].k (attention)" in an error by the names of tensors, where
 * they have names; other fields stay. */
void trp__dnn_rename(const trp__dnn_making *m);

/* Adds a tensor to the graph when a node first names it; *number is its number. */
trp_status trp__dnn_take_tensor(trp__dnn_making *m, uint32_t name, uint8_t *number);

/* Sets the strides of a packed tensor with the order of dimensions of `like`, or their own order if
 * that is NULL. */
void trp__dnn_pack_strides(trp__dnn_tensor *t, const trp__dnn_tensor *like);

/* Checks that a tensor's elements and offsets are within the limits. */
trp_status trp__dnn_check_span(trp__dnn_making *m, uint8_t number);

/* Adds node `index` to the graph, with the tensors that it names, of which the request has
 * `tensors`. *read has a bit for each tensor that a node reads. */
trp_status trp__dnn_take_node(trp__dnn_making *m, uint32_t index, uint32_t tensors, uint64_t *read);

/* Takes the other fields of data moves; for other kinds, checks that they are unset. Also does the
 * work of trp__dnn_check_shapes() for moves. */
trp_status trp__dnn_take_move(trp__dnn_making *m, uint32_t index);
trp_status trp__dnn_check_move(trp__dnn_making *m, uint32_t index);

/* Checks the shapes and types of node `index`, whose mode, geometry and ports are set. Its inputs
 * are complete; sets types and dimensions of its outputs that are not given (rank 0), and the type
 * of computation. */
trp_status trp__dnn_check_shapes(trp__dnn_making *m, uint32_t index);

#endif
