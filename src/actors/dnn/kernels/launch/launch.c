#include "actors/dnn/kernels/launch/launch.h"

#include "actors/dnn/kernels/common/rows.h"
#include "base/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* 90 of "sm_90a" */
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

/* Beyond 48 KiB, of which what the kernel declares is a part, a launch needs leave: for all that
 * the device has, whatever this plan takes, since the limit is the function's, which plans of other
 * sizes share. */
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

/* A launch of blocks in clusters, whose attribute the caller holds. */
static trp__cu_launch_config launch_of(const trp__kernel_launch *l, uint64_t blocks,
                                       uint32_t threads, uint32_t shared_bytes,
                                       trp__cu_launch_attribute *cluster)
{
    return (trp__cu_launch_config){.gridDimX = (unsigned)blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = shared_bytes,
                                   .hStream = trp__kernel_stream(l),
                                   .attrs = cluster,
                                   .numAttrs = 1};
}

static trp__cu_launch_attribute cluster_of(uint32_t blocks)
{
    return (trp__cu_launch_attribute){.id = TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                      .value.cluster = {blocks, 1, 1}};
}

uint32_t trp__kernel_resident_clusters(const trp__kernel_launch *l, trp__cu_function function,
                                       uint32_t cluster, uint32_t threads, uint32_t shared_bytes)
{
    const trp__cuda *cu = l->modules->cu;
    trp__cu_launch_attribute attribute = cluster_of(cluster);
    const trp__cu_launch_config config = launch_of(l, cluster, threads, shared_bytes, &attribute);
    int count = 0;
    if (cluster > 1 && cu->cuOccupancyMaxActiveClusters &&
        cu->cuOccupancyMaxActiveClusters(&count, function, &config) == 0 && count > 0)
        return (uint32_t)count;
    const uint32_t held = (uint32_t)(l->modules->processors / (int)cluster);
    if (cluster == 1 && cu->cuOccupancyMaxActiveBlocksPerMultiprocessor &&
        cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, (int)threads,
                                                        shared_bytes) == 0 &&
        count > 0)
        return held * (uint32_t)count;
    return held > 0 ? held : 1;
}

trp_status trp__kernel_enqueue_clusters(const trp__kernel_launch *l, trp__cu_function function,
                                        uint64_t blocks, uint32_t cluster, uint32_t threads,
                                        uint32_t shared_bytes, void *parameter, trp_error *error)
{
    void *parameters[] = {parameter};
    trp__cu_launch_attribute attribute = cluster_of(cluster);
    const trp__cu_launch_config config = launch_of(l, blocks, threads, shared_bytes, &attribute);
    if (cluster == 1 || blocks == 0)
        return trp__kernel_enqueue(l, function, blocks, threads, shared_bytes, parameter, error);
    if (blocks > INT_MAX)
        return trp__error_set(error, TRP_E_INTERNAL, "a launch of %llu blocks",
                              (unsigned long long)blocks);
    return trp__kernel_check(l->instance,
                             l->modules->cu->cuLaunchKernelEx(&config, function, parameters, NULL),
                             "cuLaunchKernelEx", error);
}

trp_status trp__kernel_enqueue(const trp__kernel_launch *l, trp__cu_function function,
                               uint64_t blocks, uint32_t threads, uint32_t shared_bytes,
                               void *parameter, trp_error *error)
{
    void *parameters[] = {parameter};
    if (blocks == 0)
        return TRP_OK;
    if (blocks > INT_MAX)
        return trp__error_set(error, TRP_E_INTERNAL, "a launch of %llu blocks",
                              (unsigned long long)blocks);
    return trp__kernel_check(
        l->instance,
        l->modules->cu->cuLaunchKernel(function, (unsigned)blocks, 1, 1, threads, 1, 1,
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
