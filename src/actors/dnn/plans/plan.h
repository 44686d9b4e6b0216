/* How cuDNN runs a graph: as one, or in pieces. */
#ifndef TRP_ACTORS_DNN_PLANS_PLAN_H
#define TRP_ACTORS_DNN_PLANS_PLAN_H

#include "actors/dnn/engines/engines.h"
#include "actors/dnn/kernels/kernels.h"
#include "actors/dnn/lower/lower.h"

/* How a piece is run. */
typedef enum trp__dnn_way {
    TRP__DNN_WAY_ENGINE,  /* by an engine of cuDNN's */
    TRP__DNN_WAY_DIRECT,  /* one node, by a kernel of ours: reference/node.h */
    TRP__DNN_WAY_ZEROS,   /* one node that sums over nothing: zeros for what it writes */
    TRP__DNN_WAY_PRODUCT, /* by cuBLASLt: engines/product_cublaslt.h */
    TRP__DNN_WAY_KERNEL,  /* by a fast kernel of ours: kernels/kernels.h */
    TRP__DNN_WAYS,
} trp__dnn_way;

/* One piece. */
typedef struct trp__dnn_step {
    uint32_t first, count; /* of nodes */
    trp__dnn_way way;
    trp__dnn_engine engine;
    float default_us, best_us; /* of a search; else 0 */
    uint32_t candidates;       /* that were timed */

    const trp__kernel_family *family; /* of WAY_KERNEL */
    void *kernel;                     /* that family's own */

    uint32_t tensors; /* that the library gets an address of */
    uint8_t tensor[TRP__DNN_LOWERED_TENSORS];
    /* The addresses of the last launch, which the next one may have again. */
    trp__cudnn_descriptor pack;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
} trp__dnn_step;

typedef struct trp__dnn_plan {
    const trp__cudnn *lib;
    trp__dnn_lowered lowered; /* the graph that steps are nodes of */
    void *key;                /* of the graph: its first trp__dnn_key_bytes(), without the tuning */
    size_t key_bytes;
    uint8_t tune; /* trp_tune: the search that was made for it, or for one that it is a record of */
    bool found;   /* in the kernel cache, or it was there for an earlier request */
    bool makeshift; /* cuBLASLt was wanted, and was not there: not for the kernel cache */
    bool proven;    /* every piece was, or is a kernel of ours */
    bool refused;   /* a library has refused to run a piece of it, which it had planned: */
    uint32_t refused_step;
    char refused_reason[200];
    uint32_t steps;
    trp__dnn_step *step;
    uint64_t workspace;                               /* bytes: the most that an engine needs */
    uint64_t between;                                 /* bytes of what lies between pieces */
    uint64_t offset[TRP__DNN_LOWERED_TENSORS];        /* of those tensors there; else UINT64_MAX */
    double given[TRP_DNN_TENSORS_MAX];                /* values */
    unsigned char value[TRP__DNN_LOWERED_TENSORS][8]; /* as the library gets them */
    double number[TRP__DNN_LOWERED_TENSORS];          /* the same, for kernels of ours */
} trp__dnn_plan;

/* An empty plan for a graph, lowered so far; its steps are added by the one who makes it.
 * TRP_E_MEMORY, and the errors of trp__dnn_lower(). */
trp_status trp__dnn_plan_begin(const trp__cudnn *lib, const trp__dnn_graph *graph,
                               trp__dnn_lowering lowering, trp__dnn_plan **out, trp_error *error);
/* Says where everything is, when all steps are there. */
void trp__dnn_plan_end(trp__dnn_plan *plan);

/* Sees to it that a kernel of ours can run a node. TRP_E_UNSUPPORTED: there is none, or no compiler
 * for it. */
trp_status trp__dnn_have_direct(const trp__dnn_planner *planner, const trp__dnn_node *node,
                                trp_error *error);

/* Makes a step of WAY_KERNEL of nodes that a family takes. */
trp_status trp__dnn_have_kernel(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                                trp__dnn_step *step, trp_error *error);

/* Makes a plan, with the first engines that do. TRP_E_UNSUPPORTED has the library's reason and the
 * kind of the node that it refuses by itself. */
trp_status trp__dnn_plan_make(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                              trp__dnn_plan **out, trp_error *error);

/* NULL is ignored. */
void trp__dnn_plan_drop(trp__dnn_plan *plan);

/* Whether two graphs, which lie in one piece from their heads on, share a plan: all but the tuning
 * is the same. */
bool trp__dnn_same_graph(const trp__dnn_head *a, const trp__dnn_head *b);

/* Takes the values of a request. */
void trp__dnn_plan_set_values(trp__dnn_plan *plan, const trp__dnn_graph *graph);

/* Whether the error of a launch is the library's refusal to run what it has planned, launches of
 * its kernels that failed included, so that another way may do; unless the context is broken. */
bool trp__dnn_is_refusal(const trp_error *error);

/* Enqueues a step that has an engine on the handle's stream. at[]: the address of each tensor of
 * the lowered graph that lies in memory. One thread at a time. */
trp_status trp__dnn_step_launch(trp__dnn_plan *plan, trp__dnn_step *step, trp__cudnn_handle handle,
                                void *const at[], void *workspace, trp_error *error);

#endif
