/* The dnn actor on NVIDIA GPUs: start and end, and the path of a request from its record to its
 * plan. */
#include "actors/dnn/dnn_cuda.h"

#include "actors/dnn/dnn.h"
#include "actors/dnn/plans/warm.h"
#include "actors/dnn/rnn/cuda.h"
#include "base/checksum.h"
#include "base/error.h"
#include "driver/cuda.h"
#include "wire/layout.h"
#include "worker/actor.h"

#include <troupe/dnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Plans cached by an actor: each takes some kilobytes and kernels of the library. */
enum { PLANS = 1024 };

typedef trp__dnn_plan_key plan_key;
typedef trp__dnn_cuda_state state;

static void drop_plan(void *context, void *plan)
{
    (void)context;
    trp__dnn_plan_drop(*(trp__dnn_plan **)plan);
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    atomic_store(&s->unwanted, true);
    trp__side_stop(s->side);
    trp__dnn_cuda_end_making(&s->making);
    trp__lru_destroy(s->plans);
    trp__dnn_prover_end(&s->prover, instance);
    trp__dnn_products_close(&s->products);
    if (s->planner.lib)
        trp__cudnn_drop(s->lib, &s->planner.device);
    if (s->planner.handle)
        s->lib->cudnnDestroy(s->planner.handle);
    if (s->handle)
        s->lib->cudnnDestroy(s->handle);
    trp__scratch_free(instance, s->cu, &s->scratch);
    trp__fused_stop(&s->fused, instance);
    if (s->cu)
        trp__kernels_end(&s->modules, instance);
    if (s->cu && s->context)
        s->cu->cuDevicePrimaryCtxRelease_v2(s->device);
    memset(s, 0, sizeof *s);
}

static void enter(void *argument)
{
    state *s = argument;
    s->cu->cuCtxSetCurrent(s->context);
}

/* Describes the GPU, driver and library that measurements are valid for. */
static trp_status describe_site(trp_instance *instance, trp_error *error)
{
    static const trp__cu_attribute wanted[] = {
        TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        TRP__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, TRP__CU_ATTRIBUTE_L2_CACHE_SIZE};
    enum { WANTED = sizeof wanted / sizeof *wanted };
    state *s = instance->state;
    trp__tuning_site *site = &s->site;
    char version[32];
    int is[WANTED] = {0};
    trp__cudnn_version(s->lib, version, sizeof version);
    trp_status status = trp__tuning_site_of(site, instance->ordinal, error);
    for (int i = 0; i < WANTED && status == TRP_OK; i++)
        status = trp_cuda_check(instance, s->cu->cuDeviceGetAttribute(&is[i], wanted[i], s->device),
                                "cuDeviceGetAttribute", error);
    if (status != TRP_OK)
        return status;
    snprintf(site->library, sizeof site->library, "cuDNN %s", version);
    s->l2_bytes = (uint64_t)is[3];
    s->capability = 10 * is[0] + is[1];
    s->processors = is[2];
    s->store = trp__store_of_process();
    s->modules = (trp__kernel_modules){
        .cu = s->cu, .store = s->store, .target = site->target, .processors = s->processors};
    s->planner.modules = &s->modules;
    s->planner.products = &s->products;
    s->planner.prover = &s->prover;
    s->prover = (trp__dnn_prover){.cu = s->cu,
                                  .lib = s->lib,
                                  .proofs = {.verdicts = {.store = s->store, .site = site},
                                             .name = instance->name,
                                             .owner = trp__instance_owner(instance),
                                             .unwanted = &s->unwanted,
                                             .off = trp__instance_proof_off(instance)}};
    return TRP_OK;
}

/* Creates plans from the device's properties if the library can, else with a separate handle: never
 * with the one that the scheduler's thread runs them with. */
static trp_status open_library(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    const trp__cudnn *lib = s->lib;
    trp_status status = trp__cudnn_check(lib, lib->cudnnCreate(&s->handle), "cudnnCreate", error);
    if (status == TRP_OK)
        status = trp__cudnn_check(lib, lib->cudnnSetStream(s->handle, instance->stream),
                                  "cudnnSetStream", error);
    if (status != TRP_OK)
        return status;
    s->planner.lib = lib;
    s->planner.device = trp__cudnn_properties(lib, s->handle);
    return s->planner.device
               ? TRP_OK
               : trp__cudnn_check(lib, lib->cudnnCreate(&s->planner.handle), "cudnnCreate", error);
}

/* Runs at the start of the actor, also in a standby worker. Requests meanwhile wait for the
 * library's engines, which they would otherwise set up themselves. */
static void warm_up(void *argument)
{
    const state *s = argument;
    trp__dnn_planner planner = s->planner;
    planner.prover = NULL; /* its plans run no request */
    (void)trp__dnn_warm_up(&planner, &s->site, s->store, &s->unwanted);
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    s->instance = instance;
    trp_status status = trp__cudnn_load(&s->lib, error);
    if (status == TRP_OK)
        status = trp__cuda_load(&s->cu, error);
    if (status != TRP_OK)
        return status;
    status = trp_cuda_check(instance, s->cu->cuDeviceGet(&s->device, (int)instance->ordinal),
                            "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu->cuDevicePrimaryCtxRetain(&s->context, s->device),
                                "cuDevicePrimaryCtxRetain", error);
    if (status == TRP_OK)
        status = describe_site(instance, error);
    if (status == TRP_OK)
        status = open_library(instance, error);
    if (status == TRP_OK)
        status = trp__lru_create(sizeof(plan_key), sizeof(trp__dnn_plan *), PLANS, drop_plan, NULL,
                                 &s->plans, error);
    if (status == TRP_OK)
        status = trp__side_start(&s->side, enter, s, error);
    if (status == TRP_OK)
        status = trp__fused_start(&s->fused, &s->modules, error);
    s->modules.fused = &s->fused;
    if (status == TRP_OK)
        trp__side_run(s->side, warm_up, s);
    else
        stop(instance);
    return status;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    if (instance->services->idle(instance))
        trp__scratch_free(instance, s->cu, &s->scratch);
}

/* Finds the request's piece of staging memory, its last access: the job has the device's address,
 * `seen` gets the host's. */
static trp_status find_piece(trp_instance *instance, const trp_job *job, trp_job *seen,
                             trp_error *error)
{
    const trp__record *record = ((const trp__job *)job)->record; /* a copy has no record */
    *seen = *job;
    if (trp__instance_rehearses(instance)) /* a copy, already at a host address */
        return TRP_OK;
    if (record->piece == 0 || record->piece > TRP__SMALL_COUNT || job->access_count == 0)
        return trp__error_set(error, TRP_E_INTERNAL, "a request without its staging memory");
    return trp__worker_host_address(((trp__instance *)instance)->worker, 0,
                                    trp__small_offset(record->piece - 1), record->piece_bytes,
                                    &seen->access[job->access_count - 1].address, error);
}

static trp_status handle_rnn(trp_instance *instance, const trp_job *job, trp_error *error)
{
    state *s = instance->state;
    trp_job seen = *job;
    trp__rnn n;
    trp_status status = TRP_OK;
    memcpy(&n, job->payload, sizeof n);
    if (n.lengths || job->op == TRP_OP_RNN_RESERVE)
        status = find_piece(instance, job, &seen, error);
    if (status != TRP_OK)
        return status;
    const trp__rnn_site site = {.instance = instance,
                                .cu = s->cu,
                                .lib = s->lib,
                                .handle = s->handle,
                                .scratch = &s->scratch,
                                .capability = s->capability,
                                .processors = s->processors};
    return trp__rnn_cuda_handle(&site, &seen, error);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    void *at[TRP__DNN_LOWERED_TENSORS] = {0};
    trp__dnn_plan *plan;
    trp__dnn_graph graph;
    trp_dnn_ran *ran = NULL;
    trp__dnn g;
    if (job->op != TRP_OP_DNN_GRAPH)
        return handle_rnn(instance, job, error);
    memcpy(&g, job->payload, sizeof g);
    if (g.bytes == 0)
        return TRP_OK;
    trp_job seen;
    trp_status status = find_piece(instance, job, &seen, error);
    if (status == TRP_OK)
        status = trp__dnn_job_graph(&seen, &graph, &ran, error);
    if (status != TRP_OK || !ran)
        return status;
    trp__dnn_job_places(job, &graph, at, NULL);
    plan_key key = {.sum = g.sum, .bytes = trp__dnn_key_bytes(graph.head)};
    const bool ahead = trp__instance_rehearses(instance);
    if (ahead && trp__checksum(graph.head, key.bytes) != g.sum)
        return TRP_OK; /* another request owns the piece */
    status = trp__dnn_cuda_find_plan(s, &key, &graph, &plan, error);
    if (status != TRP_OK || !plan)
        return status;
    status = trp__dnn_cuda_launch(instance, job, plan, &graph, at, error);
    if (status == TRP_OK) {
        if (!ahead)
            trp__dnn_cuda_describe(plan, ran);
        plan->found = true; /* for later requests */
        trp__fused_work(&s->fused);
    }
    return status;
}

const trp_actor_impl trp__dnn_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};
