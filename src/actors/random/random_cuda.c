/* Random numbers on NVIDIA GPUs, by kernels of Troupe's own. */
#include "actors/random/kernels/launch.h"
#include "actors/random/random.h"
#include "tuning/record.h"
#include "worker/actor.h"

#include <string.h>

typedef struct state {
    const trp__cuda *cu;
    trp__random_kernels kernels;
} state;

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->cu)
        trp__random_kernels_unload(&s->kernels, s->cu, instance);
    memset(s, 0, sizeof *s);
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp__cu_device device;
    trp__tuning_site site;
    trp_status status = trp__cuda_load(&s->cu, error);
    if (status != TRP_OK)
        return status;
    status = trp_cuda_check(instance, s->cu->cuDeviceGet(&device, (int)instance->ordinal),
                            "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance,
                                s->cu->cuDeviceGetAttribute(&s->kernels.processors,
                                                            TRP__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                                            device),
                                "cuDeviceGetAttribute", error);
    if (status == TRP_OK)
        status = trp__tuning_site_of(&site, instance->ordinal, error);
    if (status == TRP_OK)
        status = trp__random_kernels_load(&s->kernels, s->cu, trp__store_of_process(), site.target,
                                          error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

static trp_status handle_advance(trp_instance *instance, trp_job *job, trp_error *error)
{
    const state *s = instance->state;
    trp__random_advance payload;
    memcpy(&payload, job->payload, sizeof payload);
    const trp__random_advance_launch launch = {
        .from = (uint64_t)(uintptr_t)job->access[0].address,
        .to = (uint64_t)(uintptr_t)job->access[job->access_count - 1].address,
        .words = payload.words};
    return trp_cuda_check(instance,
                          trp__random_launch_advance(&s->kernels, s->cu, &launch, instance->stream),
                          "cuLaunchKernel", error);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    const state *s = instance->state;
    trp__random g;
    trp__random_launch launch;
    if (job->op == TRP_OP_RANDOM_ADVANCE)
        return handle_advance(instance, job, error);
    memcpy(&g, job->payload, sizeof g);
    if (g.access_y == TRP__RANDOM_NO_ACCESS)
        return TRP_OK;
    const trp__random_kernel kernel = trp__random_launch_of(&g, &launch);
    launch.y = (uint64_t)(uintptr_t)job->access[g.access_y].address + (uint64_t)g.y_first;
    if (g.access_state != TRP__RANDOM_NO_ACCESS)
        launch.state = (uint64_t)(uintptr_t)job->access[g.access_state].address;
    return trp_cuda_check(
        instance, trp__random_launch_fill(&s->kernels, s->cu, kernel, &launch, instance->stream),
        "cuLaunchKernel", error);
}

const trp_actor_impl trp__random_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .stop = stop,
};
