/* Graphs on the host: one node after the other, but for chains of pointwise nodes and reductions
 * (host_chain.h). What a node reads is gathered into dense arrays of what it computes in, f32 or
 * f64 (which holds the sums of i32 exactly), and what it has computed is rounded to its tensor.
 * Intermediate results lie in memory of the run, of their tensor's type. */
#ifndef TRP_ACTORS_DNN_HOST_RUN_H
#define TRP_ACTORS_DNN_HOST_RUN_H

#include "actors/dnn/graph.h"
#include "libs/openblas/openblas.h"

/* What the host computes with. */
typedef struct trp__dnn_host_libraries {
    const trp__openblas *blas;
    struct trp__onednn_engine *onednn; /* NULL: there is none, and own loops do its work */
} trp__dnn_host_libraries;

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
    int chain_most;                   /* nodes that run as one chain, at most: see host_chain.h */
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

/* A node with its tensors as dense arrays, in the order of their dimensions; NULL: not there. */
typedef struct trp__dnn_host_node {
    const trp__dnn_host_libraries *libraries;
    const trp__dnn_node *n;
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS];
    void *at[TRP__DNN_PORTS];
    void *rest; /* trp__dnn_host_rest() elements */
} trp__dnn_host_node;

/* Elements that a node needs beside its tensors. */
int64_t trp__dnn_host_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

void trp__dnn_host_node_f32(const trp__dnn_host_node *x);
void trp__dnn_host_node_f64(const trp__dnn_host_node *x);

/* Elements of a tensor to a dense array of f64 if `wide`, else f32; and back, rounded. */
void trp__dnn_host_load(const trp__dnn_tensor *t, const void *place, bool wide, void *to);
void trp__dnn_host_store(const trp__dnn_tensor *t, void *place, bool wide, const void *from);

/* The same for elements of a type that are `stride` apart; all from one place for a stride of 0. */
void trp__dnn_host_load_line(uint8_t type, const void *from, int64_t stride, bool wide, void *to,
                             int64_t count);
void trp__dnn_host_store_line(uint8_t type, void *to, int64_t stride, bool wide, const void *from,
                              int64_t count);

/* Elements of f64 if `wide`, else f32, as a type holds them, of up to 64 bits. */
void trp__dnn_host_round(uint8_t type, bool wide, void *elements, int64_t count);

/* A number of the graph as its tensor's type holds it. */
void trp__dnn_host_load_value(const trp__dnn_tensor *t, double value, bool wide, void *to);

#endif
