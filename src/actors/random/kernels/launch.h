/* Launches of the random actor's kernels. */
#ifndef TRP_ACTORS_RANDOM_KERNELS_LAUNCH_H
#define TRP_ACTORS_RANDOM_KERNELS_LAUNCH_H

#include "actors/random/kernels/problem.h"
#include "compile/own/module.h"

extern const trp__own_program trp__random_program;

typedef enum trp__random_kernel {
#define TRP__RANDOM_KERNEL(name, ...) TRP__RANDOM_##name,
    TRP__RANDOM_KERNELS(TRP__RANDOM_KERNEL, )
#undef TRP__RANDOM_KERNEL
        TRP__RANDOM_KERNEL_COUNT,
} trp__random_kernel;

/* The kernels, loaded. Zero-initialised. */
typedef struct trp__random_kernels {
    trp__own_module module; /* with the advance of a state */
    trp__cu_function fill[TRP__RANDOM_KERNEL_COUNT];
    int processors; /* multiprocessors of the device */
} trp__random_kernels;

/* Loads them; errors as of trp__own_module_load(). With the context current. */
trp_status trp__random_kernels_load(trp__random_kernels *k, const trp__cuda *cu, trp__store *store,
                                    const char *target, trp_error *error);
void trp__random_kernels_unload(trp__random_kernels *k, const trp__cuda *cu,
                                trp_instance *instance);

/* The kernel that a request is for, and its launch but for addresses. */
trp__random_kernel trp__random_launch_of(const trp__random *g, trp__random_launch *out);

/* Enqueue one launch. Return the driver's result. */
trp__cu_result trp__random_launch_fill(const trp__random_kernels *k, const trp__cuda *cu,
                                       trp__random_kernel kernel, const trp__random_launch *launch,
                                       trp__cu_stream stream);
trp__cu_result trp__random_launch_advance(const trp__random_kernels *k, const trp__cuda *cu,
                                          const trp__random_advance_launch *launch,
                                          trp__cu_stream stream);

#endif
