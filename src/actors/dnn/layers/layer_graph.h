/* What the layers of <troupe/layers.h> are made with: a graph that grows node by node, and what
 * their fields have in common. */
#ifndef TRP_ACTORS_DNN_LAYERS_LAYER_GRAPH_H
#define TRP_ACTORS_DNN_LAYERS_LAYER_GRAPH_H

#include <troupe/layers.h>

enum { TRP__LAYER_TENSORS = 24, TRP__LAYER_NODES = 12 };

/* Which tensors a call must have, and must not have. */
typedef struct trp__layer_tensor {
    const char *name;
    const trp_dnn_tensor *tensor;
    /* ANY: a tensor or a number, which is checked with the graph. */
    enum { TRP__LAYER_NEEDED, TRP__LAYER_OPTIONAL, TRP__LAYER_NONE, TRP__LAYER_ANY } what;
} trp__layer_tensor;

typedef struct trp__layer_graph {
    trp__layer_tensor field[TRP__LAYER_TENSORS]; /* of the call, by which errors name them */
    uint32_t fields;
    trp_dnn_tensor tensor[TRP__LAYER_TENSORS];
    const char *name[TRP__LAYER_TENSORS]; /* NULL: the call has no such tensor */
    uint32_t tensors;
    trp_dnn_node node[TRP__LAYER_NODES];
    uint32_t nodes;
    uint32_t *last; /* the field of the last node for what it writes: the last tensor, virtual */
} trp__layer_graph;

static inline bool trp__layer_is_given(const trp_dnn_tensor *t)
{
    return t->buffer.id != 0;
}

/* The field of the call that a tensor is, or is a copy of: one that lies in the same place. NULL:
 * none. */
const char *trp__layer_name(const trp__layer_graph *g, const trp_dnn_tensor *t);

/* 0 for a tensor that is not given. It has the name of its field. */
uint32_t trp__layer_add(trp__layer_graph *g, const trp_dnn_tensor *t);

/* A virtual tensor of the dimensions of another one, but 1 along an axis. */
uint32_t trp__layer_add_reduced(trp__layer_graph *g, const trp_dnn_tensor *like, uint32_t axis);

void trp__layer_set_dims(trp_dnn_tensor *t, const trp_dnn_tensor *like);

trp_dnn_node *trp__layer_add_node(trp__layer_graph *g, trp_dnn_kind kind);

/* What the last node writes to `field`: a virtual tensor whose shape follows, unless finish() puts
 * another one there. */
uint32_t trp__layer_writes(trp__layer_graph *g, uint32_t *field);

/* The last node writes to a tensor that is given. */
void trp__layer_finish(trp__layer_graph *g, const trp_dnn_tensor *t);

/* mode(x, b) */
uint32_t trp__layer_pointwise(trp__layer_graph *g, trp_dnn_pointwise mode, uint32_t x, uint32_t b);

/* `mode` of x along an axis; its dimensions are those of `like`. */
uint32_t trp__layer_reduce(trp__layer_graph *g, trp_dnn_reduce mode, uint32_t x,
                           const trp_dnn_tensor *like, uint32_t axis);

/* x itself without an activation. */
uint32_t trp__layer_activate(trp__layer_graph *g, const trp_layer_activation *a, uint32_t x);

/* x times a scalar, unless that is 1. */
uint32_t trp__layer_scaled(trp__layer_graph *g, trp_scalar scalar, uint32_t x);

trp_status trp__layer_send(trp_actor *dnn, const trp__layer_graph *g, const trp_request *header,
                           const trp_dnn_options *options, trp_completion *completion);

/* Refuses scalars that have a value but are not `given`. */
typedef struct trp__layer_scalar {
    const char *name;
    const trp_scalar *value;
} trp__layer_scalar;

trp_status trp__layer_check_scalars(const trp__layer_scalar *all, size_t count);

trp_status trp__layer_check_activation(const trp_layer_activation *a, bool allowed);

/* Checks the tensors of a call, and keeps their names. */
trp_status trp__layer_check_tensors(trp__layer_graph *g, const trp__layer_tensor *all,
                                    size_t count);

#endif
