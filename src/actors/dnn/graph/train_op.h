/* The properties of the kinds of train.h, except for their kernels. */
#ifndef TRP_ACTORS_DNN_GRAPH_TRAIN_OP_H
#define TRP_ACTORS_DNN_GRAPH_TRAIN_OP_H

#include "actors/dnn/graph/train.h"

struct trp__dnn_checked;
struct trp__dnn_host_run;
struct trp__dnn_making;
struct trp__train_node;

typedef struct trp__train_op {
    trp__dnn_kind kind;
    /* Sets the defaults of parameters; returns the number for a mode. NULL: none. */
    uint32_t (*parameters)(uint32_t mode, double value[TRP_DNN_PARAMETERS]);
    /* Checks the types and dimensions of all tensors, and sets derived ones and the type of
     * computation. */
    trp_status (*check)(const struct trp__dnn_checked *c);
    /* Returns the host's scratch bytes; NULL: none. */
    size_t (*host_bytes)(const trp__dnn_node *n, const trp__dnn_tensor *const t[]);
    void (*run_f32)(const struct trp__train_node *x);
    void (*run_f64)(const struct trp__train_node *x);
    /* Returns the bytes of a kernel's scratch memory; NULL: none. */
    uint64_t (*device_bytes)(const trp__dnn_node *n, const trp__dnn_tensor *const t[]);
} trp__train_op;

extern const trp__train_op trp__train_gather, trp__train_scatter, trp__train_cross_entropy,
    trp__train_loss, trp__train_rotary, trp__train_rotary_backward, trp__train_arg,
    trp__train_top_k, trp__train_sample, trp__train_optimizer;

/* Returns the properties of a kind with trp__dnn_is_training(). */
const trp__train_op *trp__train_op_of(uint32_t kind);

/* The sender's side. */

/* Sets the defaults of a node's parameters and returns their number. */
uint32_t trp__train_parameters(trp__dnn_node *n);
bool trp__train_has_axis(uint32_t kind);
/* Takes the other fields of such nodes; for other kinds, checks that they are unset. */
trp_status trp__train_take(struct trp__dnn_making *m, uint32_t index);

/* The host's side. */

/* Run a node, and return the bytes of its scratch memory. */
void trp__train_run(const struct trp__dnn_host_run *run, const trp__dnn_node *n);
size_t trp__train_bytes(const trp__dnn_graph *g, const trp__dnn_node *n);

/* Indices that can be checked before a graph runs, like tables of PAGED_LOAD: return whether a node
 * has any, and check them; TRP_E_ARGUMENT names the first wrong one. */
bool trp__train_has_indices(const trp__dnn_graph *g, const trp__dnn_node *n);
trp_status trp__train_look(const struct trp__dnn_host_run *run, int node, trp_error *error);

#endif
