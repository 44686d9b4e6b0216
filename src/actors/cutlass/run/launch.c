#include "actors/cutlass/run/launch.h"

#include "base/error.h"

#include <string.h>

trp_status trp__cutlass_prepare(const trp__cutlass_launcher *l,
                                const trp__cutlass_properties *properties,
                                const trp_cutlass_args *args, uint64_t table, trp_error *error)
{
    const uint32_t threads = properties->info[TRP_CUTLASS_INFO_PREPARE];
    const uint32_t most = properties->info[TRP_CUTLASS_INFO_PREPARE + 1];
    trp_cutlass_args copy = *args;
    void *parameters[] = {&copy, &table};
    if (!properties->prepare || threads == 0 || most == 0 || args->l < 1)
        return trp__error_set(error, TRP_E_INTERNAL, "a kernel of groups that prepares none");
    const uint32_t blocks = ((uint32_t)args->l - 1) / threads + 1;
    return trp_cuda_check(l->instance,
                          l->cu->cuLaunchKernel(properties->prepare, blocks < most ? blocks : most,
                                                1, 1, threads, 1, 1, 0, l->stream, parameters,
                                                NULL),
                          "cuLaunchKernel", error);
}

trp_status trp__cutlass_launch(const trp__cutlass_launcher *l,
                               const trp__cutlass_properties *properties,
                               const trp__cutlass_parameter *p, trp_error *error)
{
    const uint32_t *info = properties->info, *cluster = info + TRP_CUTLASS_INFO_CLUSTER;
    trp__cu_launch_attribute attribute[2];
    void *parameters[] = {p->data};
    memset(attribute, 0, sizeof attribute);
    trp__cu_launch_config config = {.gridDimX = p->grid[0],
                                    .gridDimY = p->grid[1],
                                    .gridDimZ = p->grid[2],
                                    .blockDimX = info[TRP_CUTLASS_INFO_THREADS],
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .sharedMemBytes = info[TRP_CUTLASS_INFO_SHARED],
                                    .hStream = l->stream,
                                    .attrs = attribute};
    if (cluster[0] * cluster[1] * cluster[2] > 1) {
        trp__cu_launch_attribute *one = &attribute[config.numAttrs++];
        one->id = TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        one->value.cluster.x = cluster[0];
        one->value.cluster.y = cluster[1];
        one->value.cluster.z = cluster[2];
    }
    if (info[TRP_CUTLASS_INFO_OVERLAPS]) {
        trp__cu_launch_attribute *one = &attribute[config.numAttrs++];
        one->id = TRP__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        one->value.programmatic = 1;
    }
    return trp_cuda_check(l->instance,
                          l->cu->cuLaunchKernelEx(&config, properties->kernel, parameters, NULL),
                          "cuLaunchKernelEx", error);
}
