/* Graphs on the host: one node after the other, but for chains of pointwise nodes and reductions
 * (chain.h). What a node reads is gathered into dense arrays of what it computes in, f32 or
 * f64 (which holds the sums of i32 exactly), and what it has computed is rounded to its tensor.
 * Intermediate results lie in memory of the run, of their tensor's type. */
#ifndef TRP_ACTORS_DNN_HOST_RUN_H
#define TRP_ACTORS_DNN_HOST_RUN_H

#include "actors/dnn/host/arrays/node.h"

/* Memory in which the runs of one stream compute, one after the other: fresh pages cost as much as
 * what is computed in them. Begins as {0}; ends by trp__dnn_host_trim(). */
typedef struct trp__dnn_host_block trp__dnn_host_block;
typedef struct trp__dnn_host_room {
    trp__dnn_host_block *block; /* NULL: none; used by runs that were made, too */
} trp__dnn_host_room;

typedef struct trp__dnn_host_run {
    const trp__dnn_host_libraries *libraries;
    trp__dnn_graph graph; /* a copy, behind this */
    trp__dnn_host_block *block;
    void *place[TRP_DNN_TENSORS_MAX]; /* of each tensor but values; of virtual ones in the block */
    void *scratch;                    /* for one node at a time, in the block */
    int chain_most;                   /* nodes that run as one chain, at most: see chain.h */
} trp__dnn_host_run;

/* Makes a run of a graph of which `address` and `bytes` have the place of each tensor with a buffer
 * and how much of it there is. Runs of one room must run one after the other. By one thread at a
 * time for a room, but for runs and drops. TRP_E_UNSUPPORTED: what the host can't do. */
trp_status trp__dnn_host_make(const trp__dnn_host_libraries *libraries, trp__dnn_host_room *room,
                              const trp__dnn_graph *graph, void *const *address,
                              const uint64_t *bytes, trp__dnn_host_run **out, trp_error *error);

/* The same with at most so many nodes in a chain, which changes no bit of any result. */
trp_status trp__dnn_host_make_of(const trp__dnn_host_libraries *libraries, trp__dnn_host_room *room,
                                 const trp__dnn_graph *graph, void *const *address,
                                 const uint64_t *bytes, int chain_most, trp__dnn_host_run **out,
                                 trp_error *error);

/* Computes it, and ends it; ends it. */
void trp__dnn_host_run_now(trp__dnn_host_run *run);
void trp__dnn_host_drop(trp__dnn_host_run *run);

/* Gives back what is kept for later runs, up to 256 MiB, when the last run that uses it ends. */
void trp__dnn_host_trim(trp__dnn_host_room *room);

/* Elements that a node needs beside its tensors. */
int64_t trp__dnn_host_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

void trp__dnn_host_node_f32(const trp__dnn_host_node *x);
void trp__dnn_host_node_f64(const trp__dnn_host_node *x);

#endif
