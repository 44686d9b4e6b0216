/* Builds graphs for the layers of <troupe/layers.h> node by node, and checks the fields that layers
 * share. */
#ifndef TRP_ACTORS_DNN_LAYERS_LAYER_GRAPH_H
#define TRP_ACTORS_DNN_LAYERS_LAYER_GRAPH_H

#include <troupe/layers.h>

enum { TRP__LAYER_TENSORS = 24, TRP__LAYER_NODES = 12 };

/* Whether a call must have a tensor or must not. */
typedef struct trp__layer_tensor {
    const char *name;
    const trp_dnn_tensor *tensor;
    /* ANY: a tensor or a number, which is checked with the graph. */
    enum { TRP__LAYER_NEEDED, TRP__LAYER_OPTIONAL, TRP__LAYER_NONE, TRP__LAYER_ANY } what;
} trp__layer_tensor;

typedef struct trp__layer_graph {
    trp__layer_tensor field[TRP__LAYER_TENSORS]; /* fields of the call, for error messages */
    uint32_t fields;
    trp_dnn_tensor tensor[TRP__LAYER_TENSORS];
    const char *name[TRP__LAYER_TENSORS]; /* NULL: not a tensor of the call */
    uint32_t tensors;
    trp_dnn_node node[TRP__LAYER_NODES];
    uint32_t nodes;
    uint32_t *last; /* the last node's field of its output, the last tensor, which is virtual */
} trp__layer_graph;

static inline bool trp__layer_is_given(const trp_dnn_tensor *t)
{
    return t->buffer.id != 0;
}

/* Returns the name of the field of the call that a tensor is or is a copy of, or NULL. A copy has
 * the same place. */
const char *trp__layer_name(const trp__layer_graph *g, const trp_dnn_tensor *t);

/* Adds a tensor under the name of its field. Returns 0 if it is not given. */
uint32_t trp__layer_add(trp__layer_graph *g, const trp_dnn_tensor *t);

void trp__layer_set_dims(trp_dnn_tensor *t, const trp_dnn_tensor *like);

trp_dnn_node *trp__layer_add_node(trp__layer_graph *g, trp_dnn_kind kind);

/* Adds the output `field` of the last node as a virtual tensor whose shape is derived, unless
 * finish() replaces it. */
uint32_t trp__layer_writes(trp__layer_graph *g, uint32_t *field);

/* Makes the last node write to a given tensor. */
void trp__layer_finish(trp__layer_graph *g, const trp_dnn_tensor *t);

/* Adds mode(x, b). */
uint32_t trp__layer_pointwise(trp__layer_graph *g, trp_dnn_pointwise mode, uint32_t x, uint32_t b);

/* Adds the reduction `mode` of x along an axis, with the dimensions of `like`. */
uint32_t trp__layer_reduce(trp__layer_graph *g, trp_dnn_reduce mode, uint32_t x,
                           const trp_dnn_tensor *like, uint32_t axis);

/* Adds an activation of x, if there is one. */
uint32_t trp__layer_activate(trp__layer_graph *g, const trp_layer_activation *a, uint32_t x);

/* Adds x times a scalar, unless that is 1. */
uint32_t trp__layer_scaled(trp__layer_graph *g, trp_scalar scalar, uint32_t x);

trp_status trp__layer_send(trp_actor *dnn, const trp__layer_graph *g, const trp_request *header,
                           const trp_dnn_options *options, trp_completion *completion);

/* A scalar of a call; one with a value that is not `given` is refused. */
typedef struct trp__layer_scalar {
    const char *name;
    const trp_scalar *value;
} trp__layer_scalar;

trp_status trp__layer_check_scalars(const trp__layer_scalar *all, size_t count);

trp_status trp__layer_check_activation(const trp_layer_activation *a, bool allowed);

/* Checks the tensors of a call and stores their names. */
trp_status trp__layer_check_tensors(trp__layer_graph *g, const trp__layer_tensor *all,
                                    size_t count);

#endif
