/* The kinds of train.h as a table: what there is to know of each, but for its kernels. */
#ifndef TRP_ACTORS_DNN_GRAPH_TRAIN_OP_H
#define TRP_ACTORS_DNN_GRAPH_TRAIN_OP_H

#include "actors/dnn/graph/train.h"

struct trp__dnn_checked;
struct trp__dnn_host_run;
struct trp__dnn_making;
struct trp__train_node;

typedef struct trp__train_op {
    trp__dnn_kind kind;
    /* The defaults of parameters; returns how many a mode has. NULL: none. */
    uint32_t (*parameters)(uint32_t mode, double value[TRP_DNN_PARAMETERS]);
    /* Checks the types and dimensions of all tensors, fills in those that follow, and what the node
     * computes in. */
    trp_status (*check)(const struct trp__dnn_checked *c);
    /* Memory that the host needs beside the tensors; NULL: none. */
    size_t (*host_bytes)(const trp__dnn_node *n, const trp__dnn_tensor *const t[]);
    void (*run_f32)(const struct trp__train_node *x);
    void (*run_f64)(const struct trp__train_node *x);
    /* What a kernel's scratch memory must hold; NULL: nothing. */
    uint64_t (*device_bytes)(const trp__dnn_node *n, const trp__dnn_tensor *const t[]);
} trp__train_op;

extern const trp__train_op trp__train_gather, trp__train_scatter, trp__train_cross_entropy,
    trp__train_loss, trp__train_rotary, trp__train_rotary_backward, trp__train_arg,
    trp__train_top_k, trp__train_sample, trp__train_optimizer;

/* Of a kind that trp__dnn_is_training(). */
const trp__train_op *trp__train_op_of(uint32_t kind);

/* The sender's side. */

/* Sets the defaults of a node's parameters; returns how many there are. */
uint32_t trp__train_parameters(trp__dnn_node *n);
bool trp__train_has_axis(uint32_t kind);
/* Takes what such nodes have beside tensors, modes and parameters; for other kinds, sees that there
 * is nothing. */
trp_status trp__train_take(struct trp__dnn_making *m, uint32_t index);

/* The host's side. */

/* Runs a node; and bytes of scratch memory for it. */
void trp__train_run(const struct trp__dnn_host_run *run, const trp__dnn_node *n);
size_t trp__train_bytes(const trp__dnn_graph *g, const trp__dnn_node *n);

/* Indices that can be looked at before a graph runs, as tables of PAGED_LOAD: whether a node has
 * some; and whether they are right, else TRP_E_ARGUMENT names the first that is not. */
bool trp__train_has_indices(const trp__dnn_graph *g, const trp__dnn_node *n);
trp_status trp__train_look(const struct trp__dnn_host_run *run, int node, trp_error *error);

#endif
