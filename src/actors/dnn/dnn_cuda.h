/* The dnn actor on NVIDIA GPUs: its state, and how it finds the plan of a request and runs it. */
#ifndef TRP_ACTORS_DNN_DNN_CUDA_H
#define TRP_ACTORS_DNN_DNN_CUDA_H

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "actors/dnn/kernels/map/fused.h"
#include "actors/dnn/plans/plan.h"
#include "driver/scratch.h"
#include "cache/lru.h"
#include "worker/side.h"

#include <troupe/worker.h>

#include <stdatomic.h>

/* The key of plans. Graphs with the same checksum replace each other. */
typedef struct trp__dnn_plan_key {
    uint64_t sum, bytes;
} trp__dnn_plan_key;

/* The current work of the side thread, or its result: one graph at a time. */
typedef struct trp__dnn_cuda_making {
    bool begun;
    bool ahead;                   /* for a rehearsal, which reads records and writes none */
    const trp__dnn_plan *refused; /* plan to replace; it stays until then */
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
    trp__cu_context context;  /* retained primary context; NULL: not yet */
    trp__cudnn_handle handle; /* on the actor's stream */
    trp__dnn_planner planner; /* of the side thread, with a separate handle if needed */
    trp__dnn_prover prover;   /* of the side thread */
    trp__lru *plans;          /* trp__dnn_plan *, by its key */
    trp__side *side;
    trp__store *store; /* plans and kernels; NULL: none */
    trp__kernel_modules modules;
    trp__fused fused; /* its modules are those of `modules` */
    trp__dnn_products products;
    trp__tuning_site site;
    uint64_t l2_bytes; /* of the device's cache */
    int capability, processors;
    trp__scratch scratch;
    atomic_bool unwanted; /* nobody waits for the side thread's result */
    trp__dnn_cuda_making making;
} trp__dnn_cuda_state;

void trp__dnn_cuda_end_making(trp__dnn_cuda_making *m);

/* Finds the plan of a graph in memory or has the side thread create it. Returns TRP_AGAIN
 * meanwhile. */
trp_status trp__dnn_cuda_find_plan(trp__dnn_cuda_state *s, const trp__dnn_plan_key *key,
                                   const trp__dnn_graph *graph, trp__dnn_plan **out,
                                   trp_error *error);

/* Enqueues the steps of a plan. Returns TRP_AGAIN if a library has refused a piece and the request
 * restarts with another plan on unchanged inputs. If a piece has run and may have overwritten
 * inputs, the refusal is the request's error, and the next request gets another plan.
 */
trp_status trp__dnn_cuda_launch(trp_instance *instance, trp_job *job, trp__dnn_plan *plan,
                                const trp__dnn_graph *graph, void *at[], trp_error *error);

/* Describes how a graph ran by its heaviest step. */
void trp__dnn_cuda_describe(const trp__dnn_plan *plan, trp_dnn_ran *ran);

#endif
