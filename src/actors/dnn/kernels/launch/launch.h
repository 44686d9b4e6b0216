/* What a family of fast kernels is, and how a step of a plan launches it: what all families share.
 */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_LAUNCH_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_LAUNCH_H

#include "actors/dnn/kernels/launch/modules.h"
#include "actors/dnn/lower/part.h"

/* What a step needs to be launched. */
typedef struct trp__kernel_launch {
    trp__kernel_modules *modules;
    trp_instance *instance; /* NULL: errors are the caller's to judge, as in a proof */
    trp__cu_stream stream;  /* without an instance, whose stream it is else */
    void *const *at;        /* the address of each tensor of the graph that lies in memory */
    const double *number;   /* the value of each other one, as its type holds it */
    void *workspace;        /* as many bytes as make() asked for, aligned to 256 */
} trp__kernel_launch;

typedef struct trp__kernel_family {
    const char *name; /* what `ran.engine` begins with */
    /* How many nodes from `first` on one step can do, at most `most`; 0: none. No side effects. */
    uint32_t (*takes)(const trp__dnn_graph *graph, uint32_t first, uint32_t most);
    /* Makes the step for that many nodes: *out is the family's own memory. `engine` gets the
     * variant's name, `workspace` the bytes that a launch needs. */
    trp_status (*make)(const trp__dnn_part *part, const trp__kernel_modules *modules, void **out,
                       char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace, trp_error *error);
    /* Enqueues it on the instance's stream. Nothing was enqueued where it fails. */
    trp_status (*launch)(void *step, const trp__kernel_launch *launch, trp_error *error);
    /* Drops a step; NULL: free() does. */
    void (*drop)(void *step);
    /* The module whose image launches need. */
    trp__kernel_module module;
    bool moves; /* that of the kernels that move, too */
} trp__kernel_family;

static inline trp__cu_stream trp__kernel_stream(const trp__kernel_launch *l)
{
    return l->instance ? l->instance->stream : l->stream;
}

/* Dynamic and static shared memory that a block may have on the device, at most. */
uint32_t trp__kernel_shared_most(const trp__kernel_modules *modules);

/* Blocks of a cluster, at most: 1 where the device or its driver has none. */
int trp__kernel_cluster_most(const trp__kernel_modules *modules);

/* trp__kernels_function(), of a kernel that is launched with so much dynamic shared memory. */
trp_status trp__kernel_with_shared(const trp__kernel_launch *l, trp__kernel_module module,
                                   const char *name, uint32_t shared_bytes, trp__cu_function *out,
                                   trp_error *error);

/* Clusters of so many blocks each that the device has at a time, at least 1. */
uint32_t trp__kernel_resident_clusters(const trp__kernel_launch *l, trp__cu_function function,
                                       uint32_t cluster, uint32_t threads, uint32_t shared_bytes);

/* cuLaunchKernel with one parameter, a struct. */
trp_status trp__kernel_enqueue(const trp__kernel_launch *l, trp__cu_function function,
                               uint64_t blocks, uint32_t threads, uint32_t shared_bytes,
                               void *parameter, trp_error *error);

/* The same of blocks in clusters of so many. */
trp_status trp__kernel_enqueue_clusters(const trp__kernel_launch *l, trp__cu_function function,
                                        uint64_t blocks, uint32_t cluster, uint32_t threads,
                                        uint32_t shared_bytes, void *parameter, trp_error *error);

/* Sets bytes to 0. */
trp_status trp__kernel_clear(const trp__kernel_launch *l, void *at, uint64_t bytes,
                             trp_error *error);

extern const trp__kernel_family trp__kernels_map, trp__kernels_reduce, trp__kernels_move;
extern const trp__kernel_family trp__kernels_convert;
extern const trp__kernel_family trp__kernels_glu, trp__kernels_random; /* of kernels/map/ready.c */
extern const trp__kernel_family trp__kernels_softmax, trp__kernels_norm;
extern const trp__kernel_family trp__kernels_packed; /* norms */
extern const trp__kernel_family trp__kernels_batch, trp__kernels_pool;
extern const trp__kernel_family trp__kernels_optimizer;
extern const trp__kernel_family trp__kernels_losses;
extern const trp__kernel_family trp__kernels_rotary;
extern const trp__kernel_family trp__kernels_gather;
extern const trp__kernel_family trp__kernels_entropy;
extern const trp__kernel_family trp__kernels_select;
#endif
