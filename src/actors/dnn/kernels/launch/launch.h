/* The interface of a family of fast kernels, and how a step of a plan looks up and launches a
 * kernel. */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_LAUNCH_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_LAUNCH_H

#include "actors/dnn/kernels/launch/modules.h"
#include "actors/dnn/lower/part.h"
#include "base/text.h"

/* The arguments of a launch. */
typedef struct trp__kernel_launch {
    trp__kernel_modules *modules;
    trp_instance *instance; /* NULL: the caller judges errors, as a proof does */
    trp__cu_stream stream;  /* used without an instance, which has a stream of its own */
    void *const *at;        /* the address of each tensor of the graph that lies in memory */
    const double *number;   /* the value of each other tensor, as its type holds it */
    void *workspace;        /* of the size that make() returned, aligned to 256 bytes */
} trp__kernel_launch;

typedef struct trp__kernel_family {
    const char *name; /* `ran.engine` begins with it */
    /* Returns how many nodes one step can run, from node `first` on and at most `most`; 0: none. No
     * side effects. */
    uint32_t (*takes)(const trp__dnn_graph *graph, uint32_t first, uint32_t most);
    size_t step_bytes;
    /* Plans a step for the nodes of a part; `step` is zeroed. Adds the variant's name to `engine`,
     * and sets *workspace, which is 0 before, to the bytes that a launch needs. */
    trp_status (*make)(const trp__dnn_part *part, const trp__kernel_modules *modules, void *step,
                       trp__text *engine, uint64_t *workspace, trp_error *error);
    /* Enqueues the step on the instance's stream. Enqueues nothing if it fails. */
    trp_status (*launch)(void *step, const trp__kernel_launch *launch, trp_error *error);
    /* Releases what a step owns, even if its make() failed. NULL: steps own nothing. */
    void (*drop)(void *step);
    trp__kernel_module module; /* the module of its kernels */
    bool moves;                /* launches need TRP__MODULE_MOVE, too */
} trp__kernel_family;

/* Defines a family by the functions takes(), make() and launch() and the type `step` of its file.
 * Its steps own nothing. */
#define TRP__KERNEL_FAMILY(symbol, title, number)                                                  \
    const trp__kernel_family trp__kernels_##symbol = {                                             \
        .name = (title),                                                                           \
        .takes = takes,                                                                            \
        .step_bytes = sizeof(step),                                                                \
        .make = make,                                                                              \
        .launch = launch,                                                                          \
        .module = TRP__MODULE_##number,                                                            \
    }

/* Creates a step of a family; `engine` gets the variant's name. TRP_E_MEMORY, and the errors of the
 * family's make(). */
trp_status trp__kernel_make(const trp__kernel_family *family, const trp__dnn_part *part,
                            const trp__kernel_modules *modules, void **step,
                            char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace,
                            trp_error *error);

/* Returns the error of a make() for nodes that takes() has not accepted, a bug of the caller. */
trp_status trp__kernel_unfit(const trp__kernel_family *family, trp_error *error);

void trp__kernel_drop(const trp__kernel_family *family, void *step);

static inline trp__cu_stream trp__kernel_stream(const trp__kernel_launch *l)
{
    return l->instance ? l->instance->stream : l->stream;
}

/* Returns the address of a tensor, or 0 if it is TRP__DNN_NO_PORT or has a value instead. */
static inline uint64_t trp__kernel_address(const trp__kernel_launch *l, uint8_t tensor)
{
    return tensor == TRP__DNN_NO_PORT ? 0 : (uint64_t)(uintptr_t)l->at[tensor];
}

/* Returns the bytes of dynamic and static shared memory together that a block may have. */
uint32_t trp__kernel_shared_most(const trp__kernel_modules *modules);

/* Returns the blocks that a cluster has at most; 1: the device or its driver has no clusters. */
int trp__kernel_cluster_most(const trp__kernel_modules *modules);

/* A kernel of a step. */
typedef struct trp__kernel {
    char name[48];
    uint32_t threads;          /* of a block */
    uint32_t shared;           /* bytes of a block's dynamic shared memory */
    uint32_t cluster;          /* blocks of a cluster; 0 means 1 */
    trp__cu_function function; /* NULL: not looked up yet */
} trp__kernel;

/* Looks up the function of a kernel, once. Makes and loads its module if need be. */
trp_status trp__kernel_find(const trp__kernel_launch *l, trp__kernel_module module, trp__kernel *k,
                            trp_error *error);

/* Blocks of a launch, at most, where a grid is split into several. */
enum { TRP__KERNEL_BLOCKS_MAX = 1 << 30 };

/* Looks up a kernel and enqueues `blocks` blocks of it. `parameter` is a struct, its only
 * parameter. `first` is a field of that struct: a large grid is split into several launches, each
 * of which gets the number of its first block there. NULL: the grid is one launch, of fewer than
 * 2^31 blocks. */
trp_status trp__kernel_run(const trp__kernel_launch *l, trp__kernel_module module, trp__kernel *k,
                           uint64_t blocks, void *parameter, int64_t *first, trp_error *error);

/* Does the same as trp__kernels_function(), for launches with `shared_bytes` of dynamic shared
 * memory. */
trp_status trp__kernel_with_shared(const trp__kernel_launch *l, trp__kernel_module module,
                                   const char *name, uint32_t shared_bytes, trp__cu_function *out,
                                   trp_error *error);

/* Returns how many clusters of a kernel the device runs at a time, at least 1. The function must
 * have been looked up, and k->cluster must not be 0. */
uint32_t trp__kernel_resident_clusters(const trp__kernel_launch *l, const trp__kernel *k);

/* Enqueues a kernel with one parameter, a struct. Does nothing if `blocks` is 0. */
trp_status trp__kernel_enqueue(const trp__kernel_launch *l, trp__cu_function function,
                               uint64_t blocks, uint32_t threads, uint32_t shared_bytes,
                               void *parameter, trp_error *error);

/* Sets bytes to 0. */
trp_status trp__kernel_clear(const trp__kernel_launch *l, void *at, uint64_t bytes,
                             trp_error *error);

extern const trp__kernel_family trp__kernels_map, trp__kernels_reduce, trp__kernels_move,
    trp__kernels_convert, trp__kernels_glu, trp__kernels_random, trp__kernels_softmax,
    trp__kernels_norm, trp__kernels_packed, trp__kernels_batch, trp__kernels_pool,
    trp__kernels_optimizer, trp__kernels_losses, trp__kernels_rotary, trp__kernels_gather,
    trp__kernels_entropy, trp__kernels_select;

#endif
