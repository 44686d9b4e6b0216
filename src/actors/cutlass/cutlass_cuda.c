/* The cutlass actor on NVIDIA GPUs: launches the kernel that the sender has chosen, of a module
 * that the actor's companions have compiled. */
#include "actors/cutlass/builder.h"
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/run_wire.h"
#include "actors/jit/loader.h"
#include "base/error.h"
#include "worker/actor.h"
#include "worker/worker.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACES = 24 }; /* each at least twice as large as the one before */
static const uint64_t workspace_first = 4 << 20;

typedef struct state {
    trp__jit_loader loader;
    trp__cutlass_builder builder;
    int processors;
    trp__cu_address workspace[WORKSPACES];
    uint64_t workspace_bytes; /* of the last */
    uint32_t workspaces;
    trp__cutlass_problem_key key; /* of the request in hand */
} state;

/* Life of an actor. */

static void free_workspaces(state *s, uint32_t first)
{
    for (uint32_t i = first; i < s->workspaces; i++)
        trp_cuda_check(s->loader.instance, s->loader.cu->cuMemFree_v2(s->workspace[i]), "cuMemFree",
                       NULL);
    s->workspaces = s->workspaces < first ? s->workspaces : first;
    if (s->workspaces == 0)
        s->workspace_bytes = 0;
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    free_workspaces(s, 0);
    trp__cutlass_builder_close(&s->builder);
    trp__jit_loader_stop(&s->loader);
}

/* Whether a module is what this library's headers say. */
static trp_status check_info(const uint32_t *info, size_t bytes, const trp__jit_kernel *kernel,
                             trp_error *error)
{
    if (bytes != TRP_CUTLASS_INFO_WORDS * sizeof *info ||
        info[TRP_CUTLASS_INFO_ABI] != TRP_CUTLASS_ABI ||
        info[TRP_CUTLASS_INFO_ARGS] != sizeof(trp_cutlass_args))
        return trp__error_set(error, TRP_E_VERSION,
                              "the kernel was compiled with other templates than this library's: "
                              "ABI %u, not %d",
                              info[TRP_CUTLASS_INFO_ABI], TRP_CUTLASS_ABI);
    if (kernel->parameters != 1 || kernel->parameter_bytes[0] != info[TRP_CUTLASS_INFO_PARAMS] ||
        info[TRP_CUTLASS_INFO_PARAMS] > TRP_CUTLASS_PARAMS_MAX)
        return trp__error_set(error, TRP_E_INTERNAL,
                              "the kernel's parameter has %u bytes, and says that it has %u",
                              kernel->parameters == 1 ? kernel->parameter_bytes[0] : 0,
                              info[TRP_CUTLASS_INFO_PARAMS]);
    return TRP_OK;
}

/* What a launch has to know, asked when the module is loaded. */
static trp_status examine(trp__jit_loader *l, trp__jit_loaded *m, trp_error *error)
{
    const trp__cuda *cu = l->cu;
    trp__cu_address at = 0;
    size_t bytes = 0;
    int blocks = 0;
    if (m->count != TRP__CUTLASS_NAMES || !m->kernel[TRP__CUTLASS_KERNEL].function ||
        !m->kernel[TRP__CUTLASS_BUILD].function)
        return trp__error_set(error, TRP_E_INTERNAL, "a module without a kernel and its builder");
    trp__cutlass_facts *f = calloc(1, sizeof *f);
    if (!f)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a module");
    m->extra = f;
    f->kernel = m->kernel[TRP__CUTLASS_KERNEL].function;
    f->builder = m->kernel[TRP__CUTLASS_BUILD].function;
    trp_status status = trp__jit_variable(l->instance, cu, m, m->kernel[TRP__CUTLASS_INFO].name,
                                          &at, &bytes, error);
    if (status == TRP_OK)
        status = trp_cuda_check(
            l->instance,
            cu->cuMemcpyDtoH_v2(f->info, at, bytes < sizeof f->info ? bytes : sizeof f->info),
            "cuMemcpyDtoH", error);
    if (status == TRP_OK)
        status = check_info(f->info, bytes, &m->kernel[TRP__CUTLASS_KERNEL], error);
    if (status == TRP_OK && f->info[TRP_CUTLASS_INFO_SHARED] > 48 << 10)
        status = trp_cuda_check(
            l->instance,
            cu->cuFuncSetAttribute(f->kernel, TRP__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   (int)f->info[TRP_CUTLASS_INFO_SHARED]),
            "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", error);
    if (status == TRP_OK)
        status = trp_cuda_check(l->instance,
                                cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                    &blocks, f->kernel, (int)f->info[TRP_CUTLASS_INFO_THREADS],
                                    f->info[TRP_CUTLASS_INFO_SHARED]),
                                "cuOccupancyMaxActiveBlocksPerMultiprocessor", error);
    f->blocks_per_processor = blocks;
    return status;
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp_status status = trp__jit_loader_start(&s->loader, instance, error);
    if (status != TRP_OK)
        return status;
    s->loader.examine = examine;
    status = trp_cuda_check(
        instance,
        s->loader.cu->cuDeviceGetAttribute(&s->processors, TRP__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                           s->loader.device),
        "cuDeviceGetAttribute", error);
    if (status == TRP_OK)
        status = trp__cutlass_builder_open(&s->builder, instance, s->loader.cu, error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    if (!instance->services->idle(instance))
        return;
    free_workspaces(s, 0);
    trp__jit_loader_trim(&s->loader);
}

/* Requests. */

static trp_status damaged(trp_error *error)
{
    return trp__error_set(error, TRP_E_INTERNAL, "the arguments of a kernel are damaged");
}

/* The request's piece of staging memory, which only senders write. */
static trp_status find_piece(trp_instance *instance, const trp_job *job,
                             const trp__cutlass_run *run, const char **out, trp_error *error)
{
    const trp__record *record = ((const trp__job *)job)->record;
    void *at = NULL;
    if (record->piece == 0 || record->piece > TRP__SMALL_COUNT ||
        run->args_bytes < offsetof(trp_cutlass_args, slot) ||
        run->args_bytes > sizeof(trp_cutlass_args) || run->args_bytes % 8 != 0 ||
        run->addresses > TRP_CUSTOM_ACCESSES_MAX * 2 || run->fills > TRP__RUN_FILLS_MAX ||
        trp__run_bytes(run) > record->piece_bytes)
        return damaged(error);
    trp_status status = trp__worker_host_address(((trp__instance *)instance)->worker, 0,
                                                 trp__small_offset(record->piece - 1),
                                                 trp__run_bytes(run), &at, error);
    *out = at;
    return status == TRP_OK && !at ? damaged(error) : status;
}

/* The problem with the addresses that its operands have here. */
static trp_status set_key(state *s, const trp_job *job, const trp__jit_loaded *m,
                          const trp__cutlass_run *run, const char *piece, trp_error *error)
{
    const trp__cutlass_facts *facts = m->extra;
    trp_cutlass_args *args = &s->key.args;
    memset(&s->key, 0, sizeof s->key);
    s->key.slot = m->slot;
    s->key.generation = m->generation;
    memcpy(args, piece, run->args_bytes);
    for (uint32_t i = 0; i < run->addresses; i++) {
        trp__run_address a;
        uint64_t address;
        memcpy(&a, piece + trp__run_addresses_at(run) + i * sizeof a, sizeof a);
        if (a.at % 8 != 0 || a.at + sizeof address > run->args_bytes ||
            a.access >= job->access_count)
            return damaged(error);
        address = (uintptr_t)job->access[a.access].address;
        memcpy((char *)args + a.at, &address, sizeof address);
    }
    args->sm_count = s->processors;
    args->blocks_per_sm = facts->blocks_per_processor;
    return TRP_OK;
}

static trp_status grow_workspace(state *s, uint64_t bytes, trp_error *error)
{
    uint64_t wanted = 2 * s->workspace_bytes;
    wanted = wanted < workspace_first ? workspace_first : wanted;
    wanted = wanted < bytes ? bytes : wanted;
    if (s->workspaces == WORKSPACES)
        return trp__error_set(error, TRP_E_MEMORY, "a workspace of %llu bytes",
                              (unsigned long long)bytes);
    trp_status status = trp_cuda_check(
        s->loader.instance, s->loader.cu->cuMemAlloc_v2(&s->workspace[s->workspaces], wanted),
        "cuMemAlloc", error);
    if (status != TRP_OK)
        return status;
    s->workspaces++;
    s->workspace_bytes = wanted;
    return TRP_OK;
}

/* The kernel's parameter, once there is one and the workspace that it needs. */
static trp_status find_parameter(state *s, const trp__cutlass_facts *facts,
                                 const trp__cutlass_parameter **out, trp_error *error)
{
    trp_cutlass_args *args = &s->key.args;
    for (;;) {
        args->workspace_bytes = s->workspace_bytes;
        args->workspace = s->workspaces ? s->workspace[s->workspaces - 1] : 0;
        trp_status status = trp__cutlass_builder_find(&s->builder, facts, &s->key, out, error);
        if (status != TRP_OK)
            return status;
        if ((*out)->status == TRP_CUTLASS_BUILT && (*out)->workspace <= s->workspace_bytes)
            return TRP_OK;
        if ((*out)->status == TRP_CUTLASS_BUILT)
            return trp__error_set(error, TRP_E_INTERNAL,
                                  "the kernel was built for a workspace of %llu bytes, which it "
                                  "does not have",
                                  (unsigned long long)(*out)->workspace);
        if ((*out)->status == TRP_CUTLASS_REFUSED)
            return trp__error_set(error, TRP_E_INTERNAL,
                                  "the kernel refuses a problem that it was chosen for");
        if ((*out)->workspace <= s->workspace_bytes)
            return trp__error_set(error, TRP_E_INTERNAL,
                                  "the kernel asks for a workspace of %llu bytes, which it has",
                                  (unsigned long long)(*out)->workspace);
        status = grow_workspace(s, (*out)->workspace, error);
        if (status != TRP_OK)
            return status;
    }
}

static trp_status fill(trp_instance *instance, const trp_job *job, const trp__cutlass_run *run,
                       const char *piece, trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < run->fills && status == TRP_OK; i++) {
        trp__run_fill f;
        memcpy(&f, piece + trp__run_fills_at(run) + i * sizeof f, sizeof f);
        if (f.access >= job->access_count || f.at % 4 != 0 || f.at > job->access[f.access].bytes ||
            f.count > (job->access[f.access].bytes - f.at) / 4)
            return damaged(error);
        status = instance->services->fill(instance, (char *)job->access[f.access].address + f.at,
                                          f.pattern, 4, f.count, error);
    }
    return status;
}

static trp_status launch(trp_instance *instance, const trp__cutlass_facts *facts,
                         const trp__cutlass_parameter *p, trp_error *error)
{
    const state *s = instance->state;
    const uint32_t *info = facts->info, *cluster = info + TRP_CUTLASS_INFO_CLUSTER;
    trp__cu_launch_attribute attribute;
    void *parameters[] = {p->data};
    memset(&attribute, 0, sizeof attribute);
    attribute.id = TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.cluster.x = cluster[0];
    attribute.value.cluster.y = cluster[1];
    attribute.value.cluster.z = cluster[2];
    trp__cu_launch_config config = {.gridDimX = p->grid[0],
                                    .gridDimY = p->grid[1],
                                    .gridDimZ = p->grid[2],
                                    .blockDimX = info[TRP_CUTLASS_INFO_THREADS],
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .sharedMemBytes = info[TRP_CUTLASS_INFO_SHARED],
                                    .hStream = instance->stream,
                                    .attrs = &attribute,
                                    .numAttrs = cluster[0] * cluster[1] * cluster[2] > 1};
    return trp_cuda_check(instance,
                          s->loader.cu->cuLaunchKernelEx(&config, facts->kernel, parameters, NULL),
                          "cuLaunchKernelEx", error);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    trp__cutlass_run run;
    trp__jit_loaded *m = NULL;
    const trp__cutlass_parameter *p = NULL;
    const char *piece = NULL;
    memcpy(&run, job->payload, sizeof run);
    if (run.args_bytes == 0)
        return TRP_OK;
    if (job->access_count == 0)
        return damaged(error);
    trp_status status = trp__jit_loader_find(&s->loader, job, &run.home, &m, error);
    if (status == TRP_OK)
        status = find_piece(instance, job, &run, &piece, error);
    if (status != TRP_OK || !piece)
        return status;
    status = set_key(s, job, m, &run, piece, error);
    if (status == TRP_OK)
        status = find_parameter(s, m->extra, &p, error);
    if (status == TRP_OK)
        status = fill(instance, job, &run, piece, error);
    if (status == TRP_OK && p->zero > 0)
        status = instance->services->fill(
            instance, (void *)(uintptr_t)s->workspace[s->workspaces - 1], 0, 1, p->zero, error);
    return status == TRP_OK ? launch(instance, m->extra, p, error) : status;
}

const trp_actor_impl trp__cutlass_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};
