/* Products that come again and again with the same operands, as those of a model's layers do: what
 * cublasLtMatmul enqueues for one is recorded as a CUDA graph, whose launch takes the processor 1.0
 * to 1.7 us instead of 6 to 11 (H200). */
#ifndef TRP_ACTORS_MATMUL_AGAIN_H
#define TRP_ACTORS_MATMUL_AGAIN_H

#include "cache/lru.h"
#include "matrix/plan.h"

/* All that the work of a product depends on. */
typedef struct trp__matmul_again_key {
    trp__matmul problem; /* with scalars */
    const void *at[TRP__MATMUL_OPERANDS];
    const void *workspace;
} trp__matmul_again_key;

_Static_assert(sizeof(trp__matmul_again_key) % 8 == 0, "a key for a trp__lru");

typedef struct trp__matmul_again {
    const trp__cuda *cu;
    trp__cu_stream stream; /* to record on; NULL: nothing can be recorded */
    trp__lru *table;
} trp__matmul_again;

/* A device's context must be current in all of these. */
trp_status trp__matmul_again_open(trp__matmul_again *a, const trp__cuda *cu, trp_error *error);
void trp__matmul_again_close(trp__matmul_again *a);

/* Forgets all, since plans have changed or memory is short. Graphs that are in a stream end. */
void trp__matmul_again_forget(trp__matmul_again *a);

/* The graph of a product; NULL: there is none. Valid until the next call. */
trp__cu_graph_exec trp__matmul_again_find(trp__matmul_again *a, const trp__matmul_again_key *key);

/* Notes that a product was done by a call, and records it once that has happened often enough. What
 * can't be recorded is called on. */
void trp__matmul_again_note(trp__matmul_again *a, const trp__matmul_planner *planner,
                            const trp__matmul_plan *plan, const trp__matmul_again_key *key,
                            size_t workspace_bytes);

#endif
