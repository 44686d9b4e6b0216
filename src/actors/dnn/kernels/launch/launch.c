#include "actors/dnn/kernels/launch/launch.h"

#include "actors/dnn/kernels/common/rows.h"
#include "base/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

trp_status trp__kernel_make(const trp__kernel_family *family, const trp__dnn_part *part,
                            const trp__kernel_modules *modules, void **step,
                            char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace, trp_error *error)
{
    trp__text name = {.out = engine, .size = TRP_DNN_ENGINE_SIZE};
    void *made = calloc(1, family->step_bytes);
    *workspace = 0;
    if (!made)
        return trp__error_set(error, TRP_E_MEMORY, "%s: no memory for a step of %zu bytes",
                              family->name, family->step_bytes);
    trp_status status = family->make(part, modules, made, &name, workspace, error);
    if (status == TRP_OK)
        *step = made;
    else
        trp__kernel_drop(family, made);
    return status;
}

trp_status trp__kernel_unfit(const trp__kernel_family *family, trp_error *error)
{
    return trp__error_set(error, TRP_E_INTERNAL, "%s: a step of nodes that no kernel takes",
                          family->name);
}

void trp__kernel_drop(const trp__kernel_family *family, void *step)
{
    if (step && family->drop)
        family->drop(step);
    free(step);
}

/* Returns 90 for "sm_90a". */
static int capability_of(const trp__kernel_modules *modules)
{
    return atoi(modules->target + strcspn(modules->target, "0123456789"));
}

int trp__kernel_cluster_most(const trp__kernel_modules *modules)
{
    return capability_of(modules) >= 90 && (!modules->cu || modules->cu->cuLaunchKernelEx)
               ? TRP__CLUSTER_MOST
               : 1;
}

uint32_t trp__kernel_shared_most(const trp__kernel_modules *modules)
{
    static const struct {
        int capability;
        uint32_t kib;
    } rows[] = {{120, 99}, {90, 227}, {89, 99}, {87, 163}, {86, 99}, {80, 163}, {0, 48}};
    const int capability = capability_of(modules);
    int i = 0;
    while (rows[i].capability > capability)
        i++;
    return rows[i].kib << 10;
}

/* Raises the limit of a function's dynamic shared memory, as a launch needs whose dynamic and
 * static memory together exceed 48 KiB. The new limit is all that the device has, since plans of
 * other sizes share the function and its limit. */
static trp_status allow_shared(const trp__kernel_launch *l, trp__cu_function function,
                               uint32_t shared_bytes, trp_error *error)
{
    const trp__cuda *cu = l->modules->cu;
    int own = 0;
    trp_status status = trp__kernel_check(
        l->instance,
        cu->cuFuncGetAttribute(&own, TRP__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
        "cuFuncGetAttribute(SHARED_SIZE_BYTES)", error);
    if (status != TRP_OK || shared_bytes + (uint32_t)own <= 48 << 10)
        return status;
    return trp__kernel_check(
        l->instance,
        cu->cuFuncSetAttribute(function, TRP__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               (int)trp__kernel_shared_most(l->modules) - own),
        "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", error);
}

trp_status trp__kernel_with_shared(const trp__kernel_launch *l, trp__kernel_module module,
                                   const char *name, uint32_t shared_bytes, trp__cu_function *out,
                                   trp_error *error)
{
    trp__cu_function function = NULL;
    trp_status status =
        trp__kernels_function(l->modules, l->instance, module, name, &function, error);
    if (status == TRP_OK && shared_bytes > 0)
        status = allow_shared(l, function, shared_bytes, error);
    if (status == TRP_OK)
        *out = function;
    return status;
}

trp_status trp__kernel_find(const trp__kernel_launch *l, trp__kernel_module module, trp__kernel *k,
                            trp_error *error)
{
    return k->function
               ? TRP_OK
               : trp__kernel_with_shared(l, module, k->name, k->shared, &k->function, error);
}

/* Returns the configuration of a launch of `blocks` blocks in clusters. It points to `attribute`,
 * which the caller owns. */
static trp__cu_launch_config launch_of(const trp__kernel_launch *l, const trp__kernel *k,
                                       uint64_t blocks, trp__cu_launch_attribute *attribute)
{
    *attribute = (trp__cu_launch_attribute){.id = TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                            .value.cluster = {k->cluster, 1, 1}};
    return (trp__cu_launch_config){.gridDimX = (unsigned)blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = k->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = k->shared,
                                   .hStream = trp__kernel_stream(l),
                                   .attrs = attribute,
                                   .numAttrs = 1};
}

uint32_t trp__kernel_resident_clusters(const trp__kernel_launch *l, const trp__kernel *k)
{
    const trp__cuda *cu = l->modules->cu;
    trp__cu_launch_attribute attribute;
    const trp__cu_launch_config config = launch_of(l, k, k->cluster, &attribute);
    int count = 0;
    if (k->cluster > 1 && cu->cuOccupancyMaxActiveClusters &&
        cu->cuOccupancyMaxActiveClusters(&count, k->function, &config) == 0 && count > 0)
        return (uint32_t)count;
    const uint32_t held = (uint32_t)(l->modules->processors / (int)k->cluster);
    if (k->cluster == 1 && cu->cuOccupancyMaxActiveBlocksPerMultiprocessor &&
        cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, k->function, (int)k->threads,
                                                        k->shared) == 0 &&
        count > 0)
        return held * (uint32_t)count;
    return held > 0 ? held : 1;
}

static trp_status check_blocks(uint64_t blocks, trp_error *error)
{
    return blocks <= INT_MAX ? TRP_OK
                             : trp__error_set(error, TRP_E_INTERNAL, "a launch of %llu blocks",
                                              (unsigned long long)blocks);
}

static trp_status enqueue_clusters(const trp__kernel_launch *l, const trp__kernel *k,
                                   uint64_t blocks, void *parameter, trp_error *error)
{
    void *parameters[] = {parameter};
    trp__cu_launch_attribute attribute;
    const trp__cu_launch_config config = launch_of(l, k, blocks, &attribute);
    trp_status status = check_blocks(blocks, error);
    return status != TRP_OK ? status
                            : trp__kernel_check(l->instance,
                                                l->modules->cu->cuLaunchKernelEx(
                                                    &config, k->function, parameters, NULL),
                                                "cuLaunchKernelEx", error);
}

trp_status trp__kernel_run(const trp__kernel_launch *l, trp__kernel_module module, trp__kernel *k,
                           uint64_t blocks, void *parameter, int64_t *first, trp_error *error)
{
    const uint64_t most = first ? TRP__KERNEL_BLOCKS_MAX : blocks;
    trp_status status = trp__kernel_find(l, module, k, error);
    for (uint64_t at = 0; at < blocks && status == TRP_OK; at += most) {
        const uint64_t here = blocks - at < most ? blocks - at : most;
        if (first)
            *first = (int64_t)at;
        status = k->cluster > 1 ? enqueue_clusters(l, k, here, parameter, error)
                                : trp__kernel_enqueue(l, k->function, here, k->threads, k->shared,
                                                      parameter, error);
    }
    return status;
}

trp_status trp__kernel_enqueue(const trp__kernel_launch *l, trp__cu_function function,
                               uint64_t blocks, uint32_t threads, uint32_t shared_bytes,
                               void *parameter, trp_error *error)
{
    void *parameters[] = {parameter};
    trp_status status = check_blocks(blocks, error);
    return blocks == 0 || status != TRP_OK
               ? status
               : trp__kernel_check(l->instance,
                                   l->modules->cu->cuLaunchKernel(
                                       function, (unsigned)blocks, 1, 1, threads, 1, 1,
                                       shared_bytes, trp__kernel_stream(l), parameters, NULL),
                                   "cuLaunchKernel", error);
}

trp_status trp__kernel_clear(const trp__kernel_launch *l, void *at, uint64_t bytes,
                             trp_error *error)
{
    const trp__cu_result result = l->modules->cu->cuMemsetD8Async(
        (trp__cu_address)(uintptr_t)at, 0, (size_t)bytes, trp__kernel_stream(l));
    return trp__kernel_check(l->instance, result, "cuMemsetD8Async", error);
}
