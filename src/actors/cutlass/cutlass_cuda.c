/* The cutlass actor on NVIDIA GPUs: launches the kernel that the sender has chosen, from a module
 * that the actor's companions have compiled. */
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/fallback/worker.h"
#include "actors/cutlass/plan/headers.h"
#include "actors/cutlass/plan/tune.h"
#include "actors/cutlass/proof/proofs.h"
#include "actors/cutlass/run/builder.h"
#include "actors/cutlass/run/launch.h"
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
    trp__cutlass_proofs proofs;
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
    atomic_store(&s->proofs.unwanted, true);
    trp__side_stop(s->loader.side);
    s->loader.side = NULL;
    trp__cutlass_proofs_close(&s->proofs);
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
    trp__cutlass_properties *f = calloc(1, sizeof *f);
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
    s->builder.makes = &((trp__instance *)instance)->makes;
    if (status == TRP_OK)
        status = trp__cutlass_builder_open(&s->builder, instance, s->loader.cu, error);
    if (status == TRP_OK)
        status = trp__cutlass_tuner_open(&s->tuner, &s->loader, error);
    if (status == TRP_OK)
        status = trp__cutlass_proofs_open(&s->proofs, &s->loader, error);
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
        run->subject_bytes != sizeof(trp__cutlass_subject) || run->result_bytes % 8 != 0 ||
        run->result_bytes > record->piece_bytes ||
        run->args_bytes < offsetof(trp_cutlass_args, slot) ||
        run->args_bytes > sizeof(trp_cutlass_args) || run->args_bytes % 8 != 0 ||
        run->addresses > TRP_CUSTOM_ACCESSES_MAX * 2 || run->fills > TRP__RUN_FILLS_MAX ||
        trp__run_bytes(run) > record->piece_bytes - run->result_bytes)
        return damaged(error);
    trp_status status = trp__worker_host_address(
        ((trp__instance *)instance)->worker, 0, trp__small_offset(record->piece - 1),
        run->result_bytes + trp__run_bytes(run), &at, error);
    if (status == TRP_OK && !at)
        return damaged(error);
    *out = (const char *)at + run->result_bytes;
    return status;
}

/* Sets the key to the problem with its operands' addresses in the worker. */
static trp_status set_key(state *s, const trp_job *job, const trp__jit_loaded *m,
                          const trp__cutlass_run *run, const char *piece, trp_error *error)
{
    const trp__cutlass_properties *properties = m->extra;
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
    args->blocks_per_sm = properties->blocks_per_processor;
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
static trp_status find_parameter(state *s, const trp__cutlass_properties *properties,
                                 trp__cutlass_parameter **out, trp_error *error)
{
    trp_cutlass_args *args = &s->key.args;
    for (;;) {
        args->workspace_bytes = s->workspace_bytes;
        args->flags = s->workspaces ? s->workspace[s->workspaces - 1] : 0;
        args->workspace = args->flags ? args->flags + TRP_CUTLASS_FLAGS : 0;
        trp_status status = trp__cutlass_builder_find(&s->builder, properties, &s->key, out, error);
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
    const trp__cutlass_properties *properties; /* of the kernel to launch */
    trp__cutlass_parameter *parameter;
    const char *kernel; /* its name, if a search has found it; else NULL */
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

static trp__cutlass_launcher launcher_of(const running *x)
{
    const state *s = x->instance->state;
    return (trp__cutlass_launcher){s->loader.cu, x->instance, x->instance->stream};
}

/* Finds the table of a grouped product. Rows passed by value are read from staging memory, where
 * the sender has written them. */
static trp_status find_table(const running *x, uint64_t *table, trp_error *error)
{
    const trp__worker *worker = ((trp__instance *)x->instance)->worker;
    if (x->run->table > x->job->access_count)
        return damaged(error);
    *table = x->run->table
                 ? (uintptr_t)x->job->access[x->run->table - 1].address
                 : (uintptr_t)worker->backend->host_address(
                       worker->accel, (void *)(uintptr_t)(x->piece + trp__run_rows_at(x->run)));
    return TRP_OK;
}

static bool has_groups(const running *x)
{
    return x->run->table || x->run->rows_bytes;
}

/* Enqueues all device work of a request after its kernel's parameter is built. */
static trp_status enqueue(const running *x, trp_error *error)
{
    const state *s = x->instance->state;
    const trp__cutlass_launcher launcher = launcher_of(x);
    uint64_t table = 0;
    trp_status status = fill(x, error);
    if (status == TRP_OK)
        status = zero_workspace(x, error);
    if (status == TRP_OK && has_groups(x))
        status = find_table(x, &table, error);
    if (status == TRP_OK && has_groups(x))
        status = trp__cutlass_prepare(&launcher, x->properties, &s->key.args, table, error);
    return status == TRP_OK ? trp__cutlass_launch(&launcher, x->properties, x->parameter, error)
                            : status;
}

/* Proofs. */

static trp__cutlass_subject subject_of(const running *x)
{
    trp__cutlass_subject subject;
    memcpy(&subject, x->piece + trp__run_subject_at(x->run), sizeof subject);
    if (x->kernel)
        trp__copy_string(subject.kernel, sizeof subject.kernel, x->kernel);
    return subject;
}

/* The sender looks for another kernel next time. */
static void note_rejection(const running *x)
{
    const trp__storage *storage = &x->run->storage;
    void *at = NULL;
    trp_error ignored;
    if (trp__worker_host_address(((trp__instance *)x->instance)->worker, storage->segment,
                                 storage->offset, sizeof(trp__storage_head), &at,
                                 &ignored) == TRP_OK &&
        at)
        atomic_fetch_add(&((trp__storage_head *)at)->rejections, 1);
}

/* Whether the kernel of a module, whose parameter is there, may serve. TRP_AGAIN while it is
 * proven. */
static trp_status judge(const running *x, const trp__jit_loaded *m, trp_error *error)
{
    state *s = x->instance->state;
    trp__cutlass_judgement judgement;
    if (x->parameter->judged != TRP__CUTLASS_NOT_JUDGED)
        return TRP_OK;
    const trp__cutlass_subject subject = subject_of(x);
    trp_status status = trp__cutlass_judge(&s->proofs, m, &subject, &s->key,
                                           x->parameter->workspace, &judgement, error);
    if (status != TRP_OK)
        return status;
    x->parameter->judged = judgement;
    if (judgement == TRP__CUTLASS_REJECTED)
        note_rejection(x);
    return TRP_OK;
}

/* All that a request has on the device where its kernel may not serve. */
static trp_status enqueue_reference(const running *x, trp_error *error)
{
    const state *s = x->instance->state;
    const trp__cutlass_subject subject = subject_of(x);
    uint64_t table = 0;
    trp_status status = fill(x, error);
    if (status == TRP_OK && has_groups(x))
        status = find_table(x, &table, error);
    return status == TRP_OK
               ? trp__cutlass_run_reference(&s->proofs, &subject, &s->key.args, table, error)
               : status;
}

/* How the request is computed, for whoever asks. */
static void write_report(const running *x)
{
    const bool own = x->parameter->judged == TRP__CUTLASS_REJECTED;
    trp_cutlass_ran ran = {.proven = x->parameter->judged != TRP__CUTLASS_UNPROVEN,
                           .workspace_bytes = own ? 0 : x->parameter->workspace};
    if (x->run->result_bytes != sizeof ran)
        return;
    trp__copy_string(ran.kernel, sizeof ran.kernel, own ? "reference" : subject_of(x).kernel);
    memcpy((char *)(uintptr_t)x->piece - sizeof ran, &ran, sizeof ran);
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

static trp_status prepare_timed(void *context, trp__jit_loaded *m, const char *kernel,
                                const trp__cutlass_settings *settings, trp_error *error)
{
    running *x = context;
    x->kernel = kernel;
    state *s = x->instance->state;
    x->properties = m->extra;
    trp_status status = set_key(s, x->job, m, x->run, x->piece, error);
    trp__cutlass_set(settings, &s->key.args);
    if (status == TRP_OK)
        status = write_apart(x, s->tuner.head.in_place, error);
    if (status == TRP_OK)
        status = find_parameter(s, x->properties, &x->parameter, error);
    if (status == TRP_OK)
        status = judge(x, m, error);
    return status == TRP_OK && x->parameter->judged == TRP__CUTLASS_REJECTED
               ? trp__error_set(error, TRP_E_UNSUPPORTED, "a kernel that was rejected")
               : status;
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
    x->kernel = s->tuner.record.kernel[0] ? s->tuner.record.kernel : NULL;
    if (status == TRP_OK)
        status = set_key(s, x->job, *m, x->run, x->piece, error);
    trp__cutlass_set(&settings, &s->key.args);
    return status;
}

/* The kernel's parameter, and whether it may serve. */
static trp_status make_ready(running *x, const trp__jit_loaded *m, trp_error *error)
{
    x->properties = m->extra;
    const trp_status status =
        find_parameter(x->instance->state, x->properties, &x->parameter, error);
    return status == TRP_OK ? judge(x, m, error) : status;
}

/* Nothing is timed before it was proven, the request's own kernel first. */
static trp_status run_kernel(running *x, trp__jit_loaded *m, trp_error *error)
{
    state *s = x->instance->state;
    trp_status status = set_key(s, x->job, m, x->run, x->piece, error);
    if (status == TRP_OK && x->run->search_bytes > 0)
        status = make_ready(x, m, error);
    if (status == TRP_OK && x->run->search_bytes > 0)
        status = search(x, &m, error);
    if (status == TRP_OK)
        status = make_ready(x, m, error);
    if (status != TRP_OK)
        return status;
    write_report(x);
    return x->parameter->judged == TRP__CUTLASS_REJECTED ? enqueue_reference(x, error)
                                                         : enqueue(x, error);
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
    trp_status status = trp__jit_loader_find(&s->loader, job, &run.storage, &m, error);
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
