/* Plans: how a graph runs, as a whole or in pieces. */
#ifndef TRP_ACTORS_DNN_PLANS_PLAN_H
#define TRP_ACTORS_DNN_PLANS_PLAN_H

#include "actors/dnn/engines/engines.h"
#include "actors/dnn/kernels/kernels.h"
#include "actors/dnn/lower/lower.h"

/* How a piece runs. */
typedef enum trp__dnn_way {
    TRP__DNN_WAY_ENGINE,  /* by an engine of cuDNN */
    TRP__DNN_WAY_DIRECT,  /* one node, by a reference kernel: reference/node.h */
    TRP__DNN_WAY_ZEROS,   /* one node with an empty sum: writes zeros */
    TRP__DNN_WAY_PRODUCT, /* by cuBLASLt: engines/product_cublaslt.h */
    TRP__DNN_WAY_KERNEL,  /* by an own fast kernel: kernels/kernels.h */
    TRP__DNN_WAYS,
} trp__dnn_way;

/* One piece. */
typedef struct trp__dnn_step {
    uint32_t first, count; /* of nodes */
    trp__dnn_way way;
    trp__dnn_engine engine;
    float default_us, best_us; /* times of a search; else 0 */
    uint32_t candidates;       /* number of timed engines */

    const trp__kernel_family *family; /* of WAY_KERNEL */
    void *kernel;                     /* data of that family */

    uint32_t tensors; /* tensors whose addresses the library gets */
    uint8_t tensor[TRP__DNN_LOWERED_TENSORS];
    /* The addresses of the last launch, to detect equal ones. */
    trp__cudnn_descriptor pack;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
} trp__dnn_step;

typedef struct trp__dnn_plan {
    const trp__cudnn *lib;
    trp__dnn_lowered lowered; /* the graph whose nodes form the steps */
    void *key;                /* the graph's first trp__dnn_key_bytes() bytes, without the tuning */
    size_t key_bytes;
    uint8_t tune;   /* trp_tune of the search for it, or for the plan that its record is from */
    bool found;     /* found in the kernel cache, or known from an earlier request */
    bool makeshift; /* cuBLASLt was wanted but missing: not stored in the kernel cache */
    bool proven;    /* every piece is proven or an own kernel */
    bool refused;   /* a library has refused to run a piece that it had planned: */
    uint32_t refused_step;
    char refused_reason[200];
    uint32_t steps;
    trp__dnn_step *step;
    uint64_t workspace;                               /* largest workspace of an engine in bytes */
    uint64_t between;                                 /* bytes of tensors between pieces */
    uint64_t offset[TRP__DNN_LOWERED_TENSORS];        /* offsets of those tensors; else
                                                       * UINT64_MAX */
    double given[TRP_DNN_TENSORS_MAX];                /* values */
    unsigned char value[TRP__DNN_LOWERED_TENSORS][8]; /* in the library's format */
    double number[TRP__DNN_LOWERED_TENSORS];          /* for own kernels */
} trp__dnn_plan;

/* Creates an empty plan for a graph at a lowering; the caller adds its steps. Returns TRP_E_MEMORY,
 * and the errors of trp__dnn_lower(). */
trp_status trp__dnn_plan_begin(const trp__cudnn *lib, const trp__dnn_graph *graph,
                               trp__dnn_lowering lowering, trp__dnn_plan **out, trp_error *error);
/* Assigns addresses after all steps are added. */
void trp__dnn_plan_end(trp__dnn_plan *plan);

/* Ensures that a reference kernel can run a node. Returns TRP_E_UNSUPPORTED if there is none, or no
 * compiler for it. */
trp_status trp__dnn_have_direct(const trp__dnn_planner *planner, const trp__dnn_node *node,
                                trp_error *error);

/* Creates a step of WAY_KERNEL of nodes that a family supports. */
trp_status trp__dnn_have_kernel(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                                trp__dnn_step *step, trp_error *error);

/* Creates a plan with the first suitable engines. Returns TRP_E_UNSUPPORTED with the library's
 * reason and the kind of the node that it refuses by itself. */
trp_status trp__dnn_plan_make(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                              trp__dnn_plan **out, trp_error *error);

/* Frees a plan; NULL is ignored. */
void trp__dnn_plan_drop(trp__dnn_plan *plan);

/* Tells whether two graphs, each contiguous from its head on, share a plan: they are equal except
 * for the tuning. */
bool trp__dnn_same_graph(const trp__dnn_head *a, const trp__dnn_head *b);

/* Sets the values of a request. */
void trp__dnn_plan_set_values(trp__dnn_plan *plan, const trp__dnn_graph *graph);

/* Tells whether the error of a launch is the library's refusal to run its plan, including failed
 * launches of its kernels, so that another way may succeed; false if the context is broken. */
bool trp__dnn_is_refusal(const trp_error *error);

/* Enqueues a step with an engine on the handle's stream. at[] has the address of each tensor of the
 * lowered graph in memory. One thread at a time. */
trp_status trp__dnn_step_launch(trp__dnn_plan *plan, trp__dnn_step *step, trp__cudnn_handle handle,
                                void *const at[], void *workspace, trp_error *error);

#endif
