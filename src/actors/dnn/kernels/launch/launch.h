/* A family of fast kernels, and how a step of a plan launches one: what all families share. */
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
    /* Returns how many nodes from `first` on one step can do, at most `most`; 0: none. No side
     * effects. */
    uint32_t (*takes)(const trp__dnn_graph *graph, uint32_t first, uint32_t most);
    size_t step_bytes;
    /* Plans a zeroed step for that many nodes: adds the variant's name to `engine`, and sets the
     * bytes of workspace of a launch, which are 0 before. */
    trp_status (*make)(const trp__dnn_part *part, const trp__kernel_modules *modules, void *step,
                       trp__text *engine, uint64_t *workspace, trp_error *error);
    /* Enqueues the step on the instance's stream. Enqueues nothing if it fails. */
    trp_status (*launch)(void *step, const trp__kernel_launch *launch, trp_error *error);
    /* Releases what a step owns, also one whose make() failed; NULL: nothing. */
    void (*drop)(void *step);
    trp__kernel_module module; /* the module of its kernels */
    bool moves;                /* launches need TRP__MODULE_MOVE, too */
} trp__kernel_family;

/* Defines a family of the usual form: with the functions and the type `step` of its file. */
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

/* The error of a make() whose nodes takes() has not accepted: a bug of the caller. */
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

/* Dynamic and static shared memory that a block may have on the device, at most. */
uint32_t trp__kernel_shared_most(const trp__kernel_modules *modules);

/* Blocks of a cluster, at most: 1 where the device or its driver has no clusters. */
int trp__kernel_cluster_most(const trp__kernel_modules *modules);

/* A kernel of a step. */
typedef struct trp__kernel {
    char name[48];
    uint32_t threads;          /* of a block */
    uint32_t shared;           /* bytes of a block's dynamic shared memory */
    uint32_t cluster;          /* blocks of a cluster; 0 is 1 */
    trp__cu_function function; /* NULL: not looked up yet */
} trp__kernel;

/* Looks up the function, of a module that is made and loaded if need be. */
trp_status trp__kernel_find(const trp__kernel_launch *l, trp__kernel_module module, trp__kernel *k,
                            trp_error *error);

/* Looks up a kernel and enqueues so many blocks of it with one parameter, a struct. `first`, a
 * field of the parameter: a large grid becomes several launches, each of which gets the number of
 * its first block there; NULL: always one launch. */
trp_status trp__kernel_run(const trp__kernel_launch *l, trp__kernel_module module, trp__kernel *k,
                           uint64_t blocks, void *parameter, int64_t *first, trp_error *error);

/* trp__kernels_function(), of a kernel that is launched with so much dynamic shared memory. */
trp_status trp__kernel_with_shared(const trp__kernel_launch *l, trp__kernel_module module,
                                   const char *name, uint32_t shared_bytes, trp__cu_function *out,
                                   trp_error *error);

/* Returns how many clusters of a kernel the device has at a time, at least 1. */
uint32_t trp__kernel_resident_clusters(const trp__kernel_launch *l, const trp__kernel *k);

/* cuLaunchKernel with one parameter, a struct. */
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
