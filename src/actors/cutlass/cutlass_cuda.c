/* The cutlass actor on NVIDIA GPUs: launches the kernel that the sender has chosen, from a module
 * that the actor's companions have compiled. */
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/fallback/worker.h"
#include "actors/cutlass/plan/headers.h"
#include "actors/cutlass/plan/tune.h"
#include "actors/cutlass/run/builder.h"
#include "actors/cutlass/run/tune.h"
#include "actors/cutlass/wire/run.h"
#include "base/error.h"
#include "compile/ahead.h"
#include "compile/loader.h"
#include "worker/actor.h"
#include "worker/side.h"
#include "worker/worker.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACES = 24 }; /* each at least twice as large as the previous */
static const uint64_t workspace_first = 4 << 20;

typedef struct state {
    trp__jit_loader loader;
    trp__cutlass_builder builder;
    trp__cutlass_tuner tuner;
    trp__by_libraries libraries;
    int processors;
    trp__cu_address workspace[WORKSPACES];
    uint64_t workspace_bytes; /* size of the last workspace */
    uint32_t workspaces;
    trp__side *reader;            /* or NULL */
    trp__cutlass_problem_key key; /* of the current request */
    trp__cu_address apart;        /* replaces D while a request with C in D's place is timed; */
} state;

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
    trp__side_stop(s->reader);
    trp__by_libraries_stop(&s->libraries, instance);
    free_workspaces(s, 0);
    trp__cutlass_builder_close(&s->builder);
    trp__cutlass_tuner_close(&s->tuner);
    trp__jit_loader_stop(&s->loader);
}

/* Checks that a module matches this library's headers. */
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

/* Queries the properties needed for launches when the module is loaded. */
static trp_status examine(trp__jit_loader *l, trp__jit_loaded *m, trp_error *error)
{
    const trp__cuda *cu = l->cu;
    trp__cu_address at = 0;
    size_t bytes = 0;
    int blocks = 0;
    if (m->count < TRP__CUTLASS_NAMES || m->count > TRP__CUTLASS_NAMES_MOST ||
        !m->kernel[TRP__CUTLASS_KERNEL].function || !m->kernel[TRP__CUTLASS_BUILD].function)
        return trp__error_set(error, TRP_E_INTERNAL, "a module without a kernel and its builder");
    trp__cutlass_facts *f = calloc(1, sizeof *f);
    if (!f)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a module");
    m->extra = f;
    f->kernel = m->kernel[TRP__CUTLASS_KERNEL].function;
    f->builder = m->kernel[TRP__CUTLASS_BUILD].function;
    if (m->count > TRP__CUTLASS_PREPARE)
        f->prepare = m->kernel[TRP__CUTLASS_PREPARE].function;
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

/* A kernel's cache key covers the hundreds of headers that it includes, which are read while the
 * application creates its buffers. Macros assemble the names of libcu++'s headers, so scanning
 * includes does not find them: all headers that such a name may match are read. */
static void read_headers(void *ignored)
{
#define STANDARD(name) "#include_next <cuda/std/" name ">\n#include_next <cccl/cuda/std/" name ">\n"
    static const char text[] =
        "#include \"gemm_sm90.cuh\"\n#include \"gemm_sm80.cuh\"\n"
        "#include <cuda_fp4.h>\n#include <cuda_fp6.h>\n" STANDARD("cassert") STANDARD("complex")
            STANDARD("cstddef") STANDARD("cstdint") STANDARD("limits") STANDARD("tuple")
                STANDARD("type_traits") STANDARD("utility");
#undef STANDARD
    trp__jit_program p = {.source = {"ahead.cu", text}};
    trp_error error; /* ignored: the sender has reported what is missing */
    (void)ignored;
    if (trp__cutlass_folders(&p.includes, &p.include_count, &error) == TRP_OK)
        trp__jit_headers_ahead(&p);
}

/* Starts reading once per process. */
static void begin_reading(state *s)
{
    static atomic_bool begun;
    trp_error ignored;
    if (!atomic_exchange(&begun, true) &&
        trp__side_start(&s->reader, NULL, NULL, &ignored) == TRP_OK)
        trp__side_run(s->reader, read_headers, NULL);
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
    if (status == TRP_OK)
        status = trp__cutlass_tuner_open(&s->tuner, &s->loader, error);
    if (status == TRP_OK)
        begin_reading(s);
    else
        stop(instance);
    return status;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    trp__by_libraries_trim(&s->libraries, instance);
    if (!instance->services->idle(instance))
        return;
    free_workspaces(s, 0);
    trp__jit_loader_trim(&s->loader);
}

static trp_status damaged(trp_error *error)
{
    return trp__error_set(error, TRP_E_INTERNAL, "the arguments of a kernel are damaged");
}

/* Finds the request's piece of staging memory, which only senders write. */
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

/* Sets the key to the problem with its operands' addresses in the worker. */
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
        uint64_t value;
        memcpy(&a, piece + trp__run_addresses_at(run) + i * sizeof a, sizeof a);
        const uint32_t access = a.access & ~(uint32_t)TRP__RUN_BYTES;
        if (a.at % 8 != 0 || a.at + sizeof value > run->args_bytes || access >= job->access_count)
            return damaged(error);
        value = a.access & TRP__RUN_BYTES ? job->access[access].bytes
                                          : (uintptr_t)job->access[access].address;
        memcpy((char *)args + a.at, &value, sizeof value);
        trp__refit_add(&s->key.addresses, a.at / 8);
    }
    args->sm_count = s->processors;
    args->blocks_per_sm = facts->blocks_per_processor;
    return TRP_OK;
}

/* Grows the workspace, which starts with the flags; kernels leave them zero. */
static trp_status grow_workspace(state *s, uint64_t bytes, trp_error *error)
{
    trp_instance *instance = s->loader.instance;
    uint64_t wanted = 2 * s->workspace_bytes;
    wanted = wanted < workspace_first ? workspace_first : wanted;
    wanted = wanted < bytes ? bytes : wanted;
    if (s->workspaces == WORKSPACES)
        return trp__error_set(error, TRP_E_MEMORY, "a workspace of %llu bytes",
                              (unsigned long long)bytes);
    trp__cu_address *at = &s->workspace[s->workspaces];
    trp_status status = trp_cuda_check(
        instance, s->loader.cu->cuMemAlloc_v2(at, TRP_CUTLASS_FLAGS + wanted), "cuMemAlloc", error);
    if (status != TRP_OK)
        return status;
    status =
        instance->services->fill(instance, (void *)(uintptr_t)*at, 0, 1, TRP_CUTLASS_FLAGS, error);
    if (status != TRP_OK) {
        s->loader.cu->cuMemFree_v2(*at);
        return status;
    }
    s->workspaces++;
    s->workspace_bytes = wanted;
    return TRP_OK;
}

/* Finds the kernel's parameter, building it and enlarging the workspace if needed. */
static trp_status find_parameter(state *s, const trp__cutlass_facts *facts,
                                 const trp__cutlass_parameter **out, trp_error *error)
{
    trp_cutlass_args *args = &s->key.args;
    for (;;) {
        args->workspace_bytes = s->workspace_bytes;
        args->flags = s->workspaces ? s->workspace[s->workspaces - 1] : 0;
        args->workspace = args->flags ? args->flags + TRP_CUTLASS_FLAGS : 0;
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

/* A request in progress. */
typedef struct running {
    trp_instance *instance;
    trp_job *job;
    const trp__cutlass_run *run;
    const char *piece;
    const trp__cutlass_facts *facts; /* of the kernel to launch */
    const trp__cutlass_parameter *parameter;
} running;

static trp_status fill(const running *x, trp_error *error)
{
    const trp_job *job = x->job;
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < x->run->fills && status == TRP_OK; i++) {
        trp__run_fill f;
        memcpy(&f, x->piece + trp__run_fills_at(x->run) + i * sizeof f, sizeof f);
        if (f.access >= job->access_count || f.at % 4 != 0 || f.at > job->access[f.access].bytes ||
            f.count > (job->access[f.access].bytes - f.at) / 4)
            return damaged(error);
        status =
            x->instance->services->fill(x->instance, (char *)job->access[f.access].address + f.at,
                                        f.pattern, 4, f.count, error);
    }
    return status;
}

static trp_status zero_workspace(const running *x, trp_error *error)
{
    const state *s = x->instance->state;
    const trp__cutlass_parameter *p = x->parameter;
    if (p->zero_bytes == 0)
        return TRP_OK;
    return x->instance->services->fill(x->instance,
                                       (void *)(uintptr_t)(s->key.args.workspace + p->zero_at), 0,
                                       1, p->zero_bytes, error);
}

static trp_status launch(const running *x, trp_error *error)
{
    const state *s = x->instance->state;
    const trp__cutlass_parameter *p = x->parameter;
    const uint32_t *info = x->facts->info, *cluster = info + TRP_CUTLASS_INFO_CLUSTER;
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
                                    .hStream = x->instance->stream,
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
    return trp_cuda_check(
        x->instance, s->loader.cu->cuLaunchKernelEx(&config, x->facts->kernel, parameters, NULL),
        "cuLaunchKernelEx", error);
}

/* Builds in the workspace the arrays that a grouped kernel reads, from what the device holds at
 * that point of the stream; all work in the stream shares the workspace. Rows passed by value are
 * read from staging memory, where the sender has written them. */
static trp_status prepare(const running *x, trp_error *error)
{
    state *s = x->instance->state;
    const trp__cutlass_facts *facts = x->facts;
    const uint32_t threads = facts->info[TRP_CUTLASS_INFO_PREPARE];
    const uint32_t most = facts->info[TRP_CUTLASS_INFO_PREPARE + 1];
    const trp__worker *worker = ((trp__instance *)x->instance)->worker;
    uint32_t blocks, groups = (uint32_t)s->key.args.l;
    uint64_t table;
    if (!facts->prepare || threads == 0 || most == 0 || s->key.args.l < 1 ||
        x->run->table > x->job->access_count)
        return damaged(error);
    if (x->run->table)
        table = (uintptr_t)x->job->access[x->run->table - 1].address;
    else
        table = (uintptr_t)worker->backend->host_address(
            worker->accel, (void *)(uintptr_t)(x->piece + trp__run_rows_at(x->run)));
    void *parameters[] = {&s->key.args, &table};
    blocks = (groups - 1) / threads + 1;
    return trp_cuda_check(
        x->instance,
        s->loader.cu->cuLaunchKernel(facts->prepare, blocks < most ? blocks : most, 1, 1, threads,
                                     1, 1, 0, x->instance->stream, parameters, NULL),
        "cuLaunchKernel", error);
}

/* Enqueues all device work of a request after its kernel's parameter is built. */
static trp_status enqueue(const running *x, trp_error *error)
{
    trp_status status = fill(x, error);
    if (status == TRP_OK)
        status = zero_workspace(x, error);
    if (status == TRP_OK && (x->run->table || x->run->rows_bytes))
        status = prepare(x, error);
    return status == TRP_OK ? launch(x, error) : status;
}

/* Directs the output of timed kernels to separate memory if C is read from D's place. */
static trp_status write_apart(const running *x, uint32_t in_place, trp_error *error)
{
    state *s = x->instance->state;
    if (in_place == 0)
        return TRP_OK;
    if (in_place > x->job->access_count)
        return damaged(error);
    if (!s->apart) {
        trp_status status = trp_cuda_check(
            x->instance,
            s->loader.cu->cuMemAllocAsync(&s->apart, x->job->access[in_place - 1].bytes + 256,
                                          x->instance->stream),
            "cuMemAllocAsync", error);
        if (status != TRP_OK)
            return status;
    }
    s->key.args.d = (s->apart + 255) / 256 * 256 + s->key.args.d % 256;
    return TRP_OK;
}

static void end_apart(trp_instance *instance)
{
    state *s = instance->state;
    if (s->apart)
        trp_cuda_check(instance, s->loader.cu->cuMemFreeAsync(s->apart, instance->stream),
                       "cuMemFreeAsync", NULL);
    s->apart = 0;
}

static trp_status prepare_timed(void *context, trp__jit_loaded *m,
                                const trp__cutlass_settings *settings, trp_error *error)
{
    running *x = context;
    state *s = x->instance->state;
    x->facts = m->extra;
    trp_status status = set_key(s, x->job, m, x->run, x->piece, error);
    trp__cutlass_set(settings, &s->key.args);
    if (status == TRP_OK)
        status = write_apart(x, s->tuner.head.in_place, error);
    return status == TRP_OK ? find_parameter(s, x->facts, &x->parameter, error) : status;
}

static trp_status enqueue_timed(void *context, trp_error *error)
{
    return enqueue(context, error);
}

/* Replaces *m and the settings of the current problem by those that the search has found. */
static trp_status search(running *x, trp__jit_loaded **m, trp_error *error)
{
    state *s = x->instance->state;
    const trp__tune_ways ways = {x, prepare_timed, enqueue_timed};
    const trp_cutlass_args *args = &s->key.args;
    trp__cutlass_settings settings = {args->swizzle, args->raster, args->splits, args->stream_k,
                                      args->reduction};
    trp_status status = trp__cutlass_tune(&s->tuner, ((trp__job *)x->job)->record->ticket,
                                          x->piece + trp__run_search_at(x->run),
                                          x->run->search_bytes, &ways, m, &settings, error);
    if (status == TRP_AGAIN) {
        x->job->progress = 2; /* D is written, so the request cannot be repeated */
        return status;
    }
    end_apart(x->instance);
    if (status == TRP_OK)
        status = set_key(s, x->job, *m, x->run, x->piece, error);
    trp__cutlass_set(&settings, &s->key.args);
    return status;
}

static trp_status run_kernel(running *x, trp__jit_loaded *m, trp_error *error)
{
    state *s = x->instance->state;
    trp_status status = set_key(s, x->job, m, x->run, x->piece, error);
    if (status == TRP_OK && x->run->search_bytes > 0)
        status = search(x, &m, error);
    if (status != TRP_OK)
        return status;
    x->facts = m->extra;
    status = find_parameter(s, x->facts, &x->parameter, error);
    return status == TRP_OK ? enqueue(x, error) : status;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    trp__cutlass_run run;
    trp__jit_loaded *m = NULL;
    const char *piece = NULL;
    bool load_only = job->op == TRP__OP_CUTLASS_LOAD;
    memcpy(&run, job->payload, sizeof run);
    if (run.args_bytes == 0 && !load_only)
        return TRP_OK;
    if (run.args_bytes >= TRP__RUN_BY_LIBRARY)
        return trp__by_libraries_handle(&s->libraries, instance, job, run.args_bytes, error);
    if (job->access_count == 0)
        return damaged(error);
    trp_status status = trp__jit_loader_find(&s->loader, job, &run.home, &m, error);
    if (status == TRP_OK && !load_only)
        status = find_piece(instance, job, &run, &piece, error);
    if (status != TRP_OK || !piece)
        return status;
    running x = {.instance = instance, .job = job, .run = &run, .piece = piece};
    return run_kernel(&x, m, error);
}

const trp_actor_impl trp__cutlass_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};
