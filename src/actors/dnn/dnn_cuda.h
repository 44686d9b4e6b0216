/* The dnn actor on NVIDIA GPUs: what an actor has, and how it comes to the plan of a request and
 * runs it. */
#ifndef TRP_ACTORS_DNN_DNN_CUDA_H
#define TRP_ACTORS_DNN_DNN_CUDA_H

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "actors/dnn/kernels/map/fused.h"
#include "actors/dnn/plans/plan.h"
#include "actors/dnn/plans/scratch.h"
#include "cache/lru.h"
#include "worker/side.h"

#include <troupe/worker.h>

#include <stdatomic.h>

/* What plans are found by. Two graphs with the same checksum have one place, in turn. */
typedef struct trp__dnn_plan_key {
    uint64_t sum, bytes;
} trp__dnn_plan_key;

/* What the side thread works on, or has: only one graph at a time. */
typedef struct trp__dnn_cuda_making {
    bool begun;
    bool ahead;                   /* of a rehearsal, which reads records and makes none */
    const trp__dnn_plan *refused; /* in the place of this one, which stays until it is replaced */
    trp__dnn_plan_key key;
    void *bytes; /* a copy of the graph */
    trp__dnn_graph graph;
    trp__dnn_plan *plan;
    trp_status status;
    trp_error error;
} trp__dnn_cuda_making;

typedef struct trp__dnn_cuda_state {
    trp_instance *instance;
    const trp__cuda *cu;
    const trp__cudnn *lib;
    trp__cu_device device;
    trp__cu_context context;  /* the device's primary one, held; NULL: not yet */
    trp__cudnn_handle handle; /* on the actor's stream */
    trp__dnn_planner planner; /* the side thread's; its handle is its own, if it needs one */
    trp__dnn_prover prover;   /* likewise */
    trp__lru *plans;          /* trp__dnn_plan *, by its key */
    trp__side *side;
    trp__store *store; /* of plans and kernels; NULL: there is none */
    trp__kernel_modules modules;
    trp__fused fused; /* its modules are these */
    trp__dnn_products products;
    trp__tuning_site site;
    uint64_t l2_bytes; /* of the device's cache */
    int capability, processors;
    trp__dnn_scratch scratch;
    atomic_bool unwanted; /* nobody waits for what the side thread does */
    trp__dnn_cuda_making making;
} trp__dnn_cuda_state;

void trp__dnn_cuda_end_making(trp__dnn_cuda_making *m);

/* The plan of a graph, from memory or made in the side thread. TRP_AGAIN while it is made. */
trp_status trp__dnn_cuda_find_plan(trp__dnn_cuda_state *s, const trp__dnn_plan_key *key,
                                   const trp__dnn_graph *graph, trp__dnn_plan **out,
                                   trp_error *error);

/* Enqueues the steps of a plan. TRP_AGAIN: a library has refused a piece, so that the plan will be
 * another one, which runs from the start: inputs are as they were. Where a piece has run and inputs
 * may have been overwritten the refusal is the request's error; the next request has another plan.
 */
trp_status trp__dnn_cuda_launch(trp_instance *instance, trp_job *job, trp__dnn_plan *plan,
                                const trp__dnn_graph *graph, void *at[], trp_error *error);

/* How a graph was run, by its heaviest step. */
void trp__dnn_cuda_describe(const trp__dnn_plan *plan, trp_dnn_ran *ran);

#endif
