/* Runs graphs on the host: one node after the other, except for chains of pointwise nodes and
 * reductions (chain.h). A node's inputs are gathered into dense arrays of its type of computation,
 * f32 or f64 (which represents sums of i32 exactly), and its result is rounded to its tensor's
 * type. Intermediate results are in the run's memory, in their tensor's type. */
#ifndef TRP_ACTORS_DNN_HOST_RUN_H
#define TRP_ACTORS_DNN_HOST_RUN_H

#include "actors/dnn/host/arrays/node.h"

/* The memory for the runs of one stream, one after the other: fresh pages cost as much as the
 * computation in them. Starts as {0}; released by trp__dnn_host_trim(). */
typedef struct trp__dnn_host_block trp__dnn_host_block;
typedef struct trp__dnn_host_room {
    trp__dnn_host_block *block; /* or NULL; also used by existing runs */
} trp__dnn_host_room;

typedef struct trp__dnn_host_run {
    const trp__dnn_host_libraries *libraries;
    trp__dnn_graph graph; /* a copy, after this struct */
    trp__dnn_host_block *block;
    void *place[TRP_DNN_TENSORS_MAX]; /* address of each tensor except values; virtual ones are in
                                       * the block */
    void *scratch;                    /* for one node at a time, in the block */
    int chain_most;                   /* most nodes of a chain: see chain.h */
} trp__dnn_host_run;

/* Creates a run of a graph. `address` and `bytes` have the address and size of each tensor with a
 * buffer. Runs of one room must run one after the other. Only one thread at a time may use a room,
 * except to run and drop. Returns TRP_E_UNSUPPORTED for graphs that the host cannot run. */
trp_status trp__dnn_host_make(const trp__dnn_host_libraries *libraries, trp__dnn_host_room *room,
                              const trp__dnn_graph *graph, void *const *address,
                              const uint64_t *bytes, trp__dnn_host_run **out, trp_error *error);

/* The same with a limit of nodes per chain, which changes no bit of any result. */
trp_status trp__dnn_host_make_of(const trp__dnn_host_libraries *libraries, trp__dnn_host_room *room,
                                 const trp__dnn_graph *graph, void *const *address,
                                 const uint64_t *bytes, int chain_most, trp__dnn_host_run **out,
                                 trp_error *error);

/* Run and end it, or only end it. */
void trp__dnn_host_run_now(trp__dnn_host_run *run);
void trp__dnn_host_drop(trp__dnn_host_run *run);

/* Releases the memory kept for later runs, up to 256 MiB, when the last run that uses it ends. */
void trp__dnn_host_trim(trp__dnn_host_room *room);

/* Returns the elements that a node needs in addition to its tensors. */
int64_t trp__dnn_host_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

void trp__dnn_host_node_f32(const trp__dnn_host_node *x);
void trp__dnn_host_node_f64(const trp__dnn_host_node *x);

#endif
