/* CUDA graphs of products that are repeated with the same operands, such as those of the layers of
 * a model. The work that cublasLtMatmul enqueues is recorded as a graph, whose launch takes the
 * processor 1.0 to 1.7 us instead of 6 to 11 us (H200). */
#ifndef TRP_ACTORS_MATMUL_GRAPHS_H
#define TRP_ACTORS_MATMUL_GRAPHS_H

#include "cache/lru.h"
#include "matrix/plan.h"

/* Everything that the work of a product depends on. */
typedef struct trp__matmul_graph_key {
    trp__matmul problem; /* with scalars */
    const void *at[TRP__MATMUL_OPERANDS];
    const void *workspace;
} trp__matmul_graph_key;

_Static_assert(sizeof(trp__matmul_graph_key) % 8 == 0, "a key for a trp__lru");

typedef struct trp__matmul_graphs {
    const trp__cuda *cu;
    trp__cu_stream stream; /* for recording; NULL: nothing can be recorded */
    trp__lru *table;
} trp__matmul_graphs;

/* In all of these functions, the context of the device must be current. */
trp_status trp__matmul_graphs_open(trp__matmul_graphs *a, const trp__cuda *cu, trp_error *error);
void trp__matmul_graphs_close(trp__matmul_graphs *a);

/* Drops all graphs, since plans have changed or memory is short. Graphs that are in a stream still
 * run to their end. */
void trp__matmul_graphs_forget(trp__matmul_graphs *a);

/* Finds the graph of a product; NULL: there is none. It is valid until the next call. */
trp__cu_graph_exec trp__matmul_graphs_find(trp__matmul_graphs *a, const trp__matmul_graph_key *key);

/* Counts a call of a product, and records the product after several calls. A product that can't be
 * recorded continues to be called. */
void trp__matmul_graphs_note(trp__matmul_graphs *a, const trp__matmul_planner *planner,
                             const trp__matmul_plan *plan, const trp__matmul_graph_key *key,
                             size_t workspace_bytes);

#endif
