/* The dnn actor on NVIDIA GPUs: cuDNN's backend API. */
#include "actors/dnn/reference/launch.h"
#include "actors/dnn/dnn.h"
#include "actors/dnn/kernels/launch/background.h"
#include "actors/dnn/kernels/map/fused.h"
#include "actors/dnn/plans/record.h"
#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "actors/dnn/rnn/cuda.h"
#include "actors/dnn/plans/tune.h"
#include "actors/dnn/plans/warm.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "cache/lru.h"
#include "driver/cuda.h"
#include "wire/layout.h"
#include "worker/actor.h"
#include "worker/side.h"

#include <troupe/dnn.h>
#include <troupe/worker.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Plans that an actor keeps: each some kilobytes of ours, and kernels of the library's. */
enum { PLANS = 1024 };

/* So long another process may be at the same search: then it is stopped, most likely. */
#define PATIENCE_NS (60 * TRP__SECOND)

/* What plans are found by. Two graphs with the same checksum have one place, in turn. */
typedef struct plan_key {
    uint64_t sum, bytes;
} plan_key;

/* What the side thread works on, or has: only one graph at a time. */
typedef struct making {
    bool begun;
    bool ahead;                   /* of a rehearsal, which reads records and makes none */
    const trp__dnn_plan *refused; /* in the place of this one, which stays until it is replaced */
    plan_key key;
    void *bytes; /* a copy of the graph */
    trp__dnn_graph graph;
    trp__dnn_plan *plan;
    trp_status status;
    trp_error error;
} making;

typedef struct state {
    trp_instance *instance;
    const trp__cuda *cu;
    const trp__cudnn *lib;
    trp__cu_device device;
    trp__cu_context context;  /* the device's primary one, held; NULL: not yet */
    trp__cudnn_handle handle; /* on the actor's stream */
    trp__dnn_planner planner; /* the side thread's; its handle is its own, if it needs one */
    trp__dnn_prover prover;   /* likewise */
    trp__lru *plans;          /* trp__dnn_plan *, by plan_key */
    trp__side *side;
    trp__store *store; /* of plans and kernels; NULL: there is none */
    trp__kernel_modules modules;
    trp__fused fused;          /* its modules are these */
    trp__background reference; /* the compile of the module that proofs compare with */
    trp__dnn_products products;
    trp__dnn_site site;
    uint64_t l2_bytes; /* of the device's cache */
    int capability, processors;
    trp__dnn_scratch scratch;
    atomic_bool unwanted; /* nobody waits for what the side thread does */
    making making;
} state;

/* Life of an actor. */

static void drop_plan(void *context, void *plan)
{
    (void)context;
    trp__dnn_plan_drop(*(trp__dnn_plan **)plan);
}

static void end_making(making *m)
{
    trp__dnn_plan_drop(m->plan);
    free(m->bytes);
    memset(m, 0, sizeof *m);
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    atomic_store(&s->unwanted, true);
    trp__side_stop(s->side);
    end_making(&s->making);
    trp__lru_destroy(s->plans);
    trp__dnn_prover_end(&s->prover, instance);
    trp__dnn_products_close(&s->products);
    if (s->planner.lib)
        trp__cudnn_drop(s->lib, &s->planner.device);
    if (s->planner.handle)
        s->lib->cudnnDestroy(s->planner.handle);
    if (s->handle)
        s->lib->cudnnDestroy(s->handle);
    trp__dnn_scratch_free(instance, s->cu, &s->scratch);
    trp__background_stop(&s->reference);
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

/* What is found by measuring holds for this GPU, driver and library. */
static trp_status describe_site(trp_instance *instance, trp_error *error)
{
    static const trp__cu_attribute wanted[] = {
        TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        TRP__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, TRP__CU_ATTRIBUTE_L2_CACHE_SIZE};
    enum { WANTED = sizeof wanted / sizeof *wanted };
    state *s = instance->state;
    trp__dnn_site *site = &s->site;
    char name[96] = "", version[32];
    int driver = 0, is[WANTED] = {0};
    trp__cudnn_version(s->lib, version, sizeof version);
    trp_status status = trp_cuda_check(
        instance, s->cu->cuDeviceGetName(name, sizeof name, s->device), "cuDeviceGetName", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu->cuDriverGetVersion(&driver), "cuDriverGetVersion",
                                error);
    for (int i = 0; i < WANTED && status == TRP_OK; i++)
        status = trp_cuda_check(instance, s->cu->cuDeviceGetAttribute(&is[i], wanted[i], s->device),
                                "cuDeviceGetAttribute", error);
    if (status != TRP_OK)
        return status;
    snprintf(site->gpu, sizeof site->gpu, "%s, %d multiprocessors", name, is[2]);
    snprintf(site->target, sizeof site->target, "sm_%d%d", is[0], is[1]);
    snprintf(site->driver, sizeof site->driver, "for CUDA %d.%d", driver / 1000,
             driver % 1000 / 10);
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
                                  .verdicts = {.store = s->store, .site = site},
                                  .name = instance->name,
                                  .owner = trp__instance_owner(instance),
                                  .unwanted = &s->unwanted,
                                  .off = trp__instance_proof_off(instance)};
    return TRP_OK;
}

/* Plans are made of the device's properties where the library knows how, of a handle where not:
 * never of the one that the scheduler's thread runs them with. */
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

/* At the start of the actor, of one in a standby too. What is asked for meanwhile waits until the
 * library's engines are there, which it would else have waited for itself. */
static void warm_up(void *argument)
{
    const state *s = argument;
    trp__dnn_planner planner = s->planner;
    planner.prover = NULL; /* nothing of it serves */
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
        trp__dnn_scratch_free(instance, s->cu, &s->scratch);
}

/* Plans. */

static bool is_unwanted(void *argument)
{
    state *s = argument;
    return atomic_load(&s->unwanted);
}

/* Whether there is a record that is good enough, and the library takes it. */
static bool use_record(state *s, const trp__key *key)
{
    making *m = &s->making;
    trp__dnn_plan *plan;
    if (!trp__dnn_record_find(s->store, key, &s->planner, &m->graph, &plan))
        return false;
    if (plan->tune < m->graph.head->tune || (!plan->proven && !s->prover.off)) {
        trp__dnn_plan_drop(plan);
        return false;
    }
    trp__dnn_plan_drop(m->plan);
    m->plan = plan;
    return true;
}

/* One that is not proven for lack of a reference or of memory is made again by the next process. */
static void keep_record(state *s, const trp__key *key)
{
    if (s->making.plan->proven || s->prover.off)
        trp__dnn_record_keep(s->store, key, s->making.plan);
}

static void note_proofs(state *s)
{
    s->making.plan->proven = !s->prover.unproven;
    s->making.plan->postponed = s->prover.postponed;
}

/* Searches, unless another thread or process is at it: then waits for what that finds. False:
 * nobody wants it any more. */
static bool search_once(state *s, const trp__key *key)
{
    const trp__store_wait wait = {
        .deadline_ns = trp__deadline(PATIENCE_NS), .is_cancelled = is_unwanted, .context = s};
    making *m = &s->making;
    trp__store_claim *claim = NULL;
    trp_error ignored; /* a search without a claim does no harm */
    if (s->store &&
        trp__store_claim_begin(s->store, key, &wait, &claim, &ignored) == TRP_E_CANCELLED)
        return false;
    if (!use_record(s, key)) {
        trp__dnn_plan_set_values(m->plan, &m->graph);
        if (!s->planner.handle && s->lib->cudnnCreate(&s->planner.handle) != 0) {
            s->planner.handle = NULL;  /* candidates run with it: the plan stays as it is, */
            m->plan->makeshift = true; /* and the next process searches again */
        }
        trp__dnn_tune(&s->planner, s->cu, s->l2_bytes, m->graph.head->tune == TRP_TUNE_FULL,
                      m->plan);
        note_proofs(s);
        m->plan->tune = m->graph.head->tune;
        keep_record(s, key);
    }
    trp__store_claim_end(claim);
    return true;
}

/* What a library has refused to run is rejected before another plan is made. */
static void reject_refused(state *s)
{
    const trp__dnn_plan *old = s->making.refused;
    const trp__dnn_step *step = old ? &old->step[old->refused_step] : NULL;
    if (!step)
        return;
    const trp__dnn_part part = {&old->lowered.graph, step->first, step->count};
    trp__dnn_proof_reject(&s->prover, &part, step->engine.name, old->refused_reason);
}

static trp_status make_new(state *s)
{
    making *m = &s->making;
    trp__dnn_plan_drop(m->plan);
    m->plan = NULL;
    s->prover.unproven = s->prover.postponed = s->prover.cancelled = false;
    trp_status status = trp__dnn_plan_make(&s->planner, &m->graph, &m->plan, &m->error);
    if (status == TRP_OK && m->plan)
        note_proofs(s);
    return status == TRP_OK && s->prover.cancelled ? TRP_E_CANCELLED : status;
}

/* A proof has broken the context, or left something in it that does not end: tells the worker, so
 * that it ends. Its requests wait for the next one. */
static void give_up(state *s)
{
    enum { LAUNCH_TIMEOUT = 702 };
    trp_error ignored;
    const int code = trp__cuda_sticky(s->prover.error.code) ? s->prover.error.code : LAUNCH_TIMEOUT;
    s->instance->services->cuda_fail(s->instance, code, "a proof", &ignored);
}

/* Where a library has refused to run what it had planned there is nothing to search, and the record
 * is to be another one. Without a search only products of ours are timed. */
static void finish_plan(state *s, const trp__key *key)
{
    making *m = &s->making;
    if (m->graph.head->tune != TRP_TUNE_OFF && !m->refused) {
        if (!search_once(s, key))
            m->status = TRP_E_CANCELLED;
        return;
    }
    if (!m->refused) {
        trp__dnn_tune_own(&s->planner, s->cu, s->l2_bytes, m->plan);
        note_proofs(s);
    }
    m->plan->tune = m->graph.head->tune;
    keep_record(s, key);
}

static void make_plan(void *argument)
{
    state *s = argument;
    making *m = &s->making;
    trp__key key;
    trp__dnn_record_key(&s->site, &m->graph, &key);
    m->status = TRP_OK;
    reject_refused(s);
    const bool known = !m->refused && use_record(s, &key);
    if (!known && m->ahead) {
        m->status = trp__error_set(&m->error, TRP_E_UNSUPPORTED, "a plan without a record");
    } else if (!known) {
        m->status = make_new(s);
        if (m->status == TRP_OK && m->plan)
            finish_plan(s, &key);
    }
    if (s->prover.broken)
        give_up(s);
    trp__key_end(&key);
}

static bool is_made(const state *s, const plan_key *key, const trp__dnn_graph *graph)
{
    const making *m = &s->making;
    return m->begun && m->ahead == trp__instance_rehearses(s->instance) && m->key.sum == key->sum &&
           m->key.bytes == key->bytes && m->graph.head->tune >= graph->head->tune &&
           trp__dnn_same_graph(m->graph.head, graph->head);
}

static trp_status begin_plan(state *s, const plan_key *key, const trp__dnn_graph *graph,
                             uint8_t tune, const trp__dnn_plan *refused, trp_error *error)
{
    making *m = &s->making;
    size_t bytes = trp__dnn_bytes(graph->head);
    end_making(m);
    m->bytes = malloc(bytes);
    if (!m->bytes)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a graph of %zu bytes", bytes);
    memcpy(m->bytes, graph->head, bytes);
    ((trp__dnn_head *)m->bytes)->tune = tune;
    m->graph = trp__dnn_graph_at(m->bytes);
    m->key = *key;
    m->begun = true;
    m->ahead = trp__instance_rehearses(s->instance);
    m->refused = refused;
    atomic_store(&s->unwanted, false);
    trp__side_run(s->side, make_plan, s);
    return TRP_AGAIN;
}

static trp__dnn_plan *keep_plan(state *s, const plan_key *key, trp__dnn_plan *plan)
{
    trp__dnn_plan **old = trp__lru_find(s->plans, key);
    if (old)
        trp__lru_remove(s->plans, old);
    *(trp__dnn_plan **)trp__lru_add(s->plans, key) = plan;
    return plan;
}

/* Takes what the side thread has made; NULL: an error, or it was called off. The reference that
 * proofs lacked is compiled from now on. */
static trp__dnn_plan *take_plan(state *s)
{
    making *m = &s->making;
    trp__dnn_plan *plan = m->status == TRP_OK ? m->plan : NULL;
    if (!plan)
        return NULL;
    m->plan = NULL;
    if (plan->postponed)
        trp__background_begin(&s->reference, &s->modules, TRP__MODULE_DIRECT);
    return keep_plan(s, &m->key, plan);
}

/* Whether a plan serves unproven whose proofs can be made by now. */
static bool can_be_proven(const state *s, const trp__dnn_plan *plan)
{
    return plan->postponed && trp__background_ended(&s->reference) && s->reference.status == TRP_OK;
}

/* TRP_AGAIN while it is made. */
static trp_status find_plan(state *s, const plan_key *key, const trp__dnn_graph *graph,
                            trp__dnn_plan **out, trp_error *error)
{
    making *m = &s->making;
    trp__dnn_plan **known = trp__lru_find(s->plans, key);
    *out = known ? *known : NULL;
    const bool same = *out && trp__dnn_same_graph((*out)->key, graph->head);
    const bool refused = same && (*out)->refused;
    const bool serves = same && !refused && (*out)->tune >= graph->head->tune;
    if (serves && !can_be_proven(s, *out))
        return TRP_OK;
    const bool ours = is_made(s, key, graph);
    if (trp__side_busy(s->side)) {
        if (!ours) /* the request that it was for is gone */
            atomic_store(&s->unwanted, true);
        return TRP_AGAIN;
    }
    if (s->prover.broken) /* this worker is about to end */
        return TRP_AGAIN;
    if (m->begun) {
        const trp_status status = m->status;
        *error = m->error;
        trp__dnn_plan *made = take_plan(s);
        end_making(m);
        if (!ours || status == TRP_E_CANCELLED) /* what is kept may have changed */
            return find_plan(s, key, graph, out, error);
        if (made) {
            made->found = made->found || serves; /* it was there, if not proven */
            *out = made;
        } else if (serves) {
            (*out)->postponed = false; /* it goes on unproven */
        }
        return serves ? TRP_OK : status;
    }
    trp__background_take(&s->reference);
    return begin_plan(s, key, graph, serves ? (*out)->tune : graph->head->tune,
                      refused ? *out : NULL, error);
}

/* Requests. */

/* Zeros for the elements of a tensor, and for nothing between them: one fill for each piece without
 * gaps. The last dimension that has a gap, and all before it, are walked. */
static trp_status write_zeros(trp_instance *instance, const trp__dnn_tensor *t, void *at,
                              trp_error *error)
{
    uint64_t width = trp_dtype_bits((trp_dtype)t->type) / 8, run = 1, pieces = 1;
    bool within[TRP__DNN_RANK] = {0};
    trp_status status = TRP_OK;
    for (bool more = true; more;) { /* what goes on where the run ends, becomes part of it */
        more = false;
        for (int i = 0; i < t->rank; i++) {
            if (!within[i] && (t->dim[i] == 1 || (uint64_t)t->stride[i] == run)) {
                within[i] = more = true;
                run *= (uint64_t)t->dim[i];
            }
        }
    }
    for (int i = 0; i < t->rank; i++)
        pieces *= within[i] ? 1 : (uint64_t)t->dim[i];
    for (uint64_t p = 0; p < pieces && status == TRP_OK; p++) {
        uint64_t rest = p, offset = 0;
        for (int i = t->rank; i-- > 0;) {
            if (within[i])
                continue;
            offset += rest % (uint64_t)t->dim[i] * (uint64_t)t->stride[i];
            rest /= (uint64_t)t->dim[i];
        }
        status = instance->services->fill(instance, (char *)at + offset * width, 0, 1, run * width,
                                          error);
    }
    return status;
}

static trp_status zero_results(trp_instance *instance, const trp__dnn_graph *g,
                               const trp__dnn_node *node, void *const at[], trp_error *error)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__DNN_PORTS && status == TRP_OK; i++) {
        uint8_t t = node->port[i];
        if (t != TRP__DNN_NO_PORT && kind->port[i].written && at[t] &&
            trp__dnn_elements(&g->tensor[t]) > 0)
            status = write_zeros(instance, &g->tensor[t], at[t], error);
    }
    return status;
}

/* Enqueues a piece. */
static trp_status launch_step(trp__dnn_plan *plan, trp__dnn_step *step, trp__cudnn_handle handle,
                              const trp__kernel_launch *kernel, trp_error *error)
{
    const trp__dnn_graph *lowered = &plan->lowered.graph;
    switch (step->way) {
    case TRP__DNN_WAY_ENGINE:
        return trp__dnn_step_launch(plan, step, handle, kernel->at, kernel->workspace, error);
    case TRP__DNN_WAY_PRODUCT:
        return trp__dnn_product_launch(&step->engine, kernel, error);
    case TRP__DNN_WAY_DIRECT:
        return trp__direct_launch(lowered, step->first, kernel, error);
    case TRP__DNN_WAY_KERNEL:
        return step->family->launch(step->kernel, kernel, error);
    default:
        return zero_results(kernel->instance, lowered, &lowered->node[step->first], kernel->at,
                            error);
    }
}

/* Whether a library has refused to run a piece, for which there is another way. One that takes no
 * stream that records has refused nothing. */
static bool is_refused(trp_instance *instance, const trp__dnn_step *step, const trp_error *error)
{
    const state *s = instance->state;
    if ((step->way != TRP__DNN_WAY_ENGINE && step->way != TRP__DNN_WAY_PRODUCT) ||
        trp__instance_rehearses(instance) || !trp__dnn_is_refusal(error))
        return false;
    trp__cu_result result = s->cu->cuStreamQuery(instance->stream);
    return result == TRP__CU_SUCCESS || result == TRP__CU_NOT_READY;
}

/* Whether a request writes what it reads, so that it can't run from the start again. */
static bool is_in_place(const trp_job *job)
{
    for (uint32_t w = 0; w < job->access_count; w++) {
        const trp_job_access *to = &job->access[w];
        if ((to->mode & TRP_ACCESS_READ_WRITE) == TRP_ACCESS_READ_WRITE)
            return true;
        for (uint32_t r = 0; r < job->access_count && (to->mode & TRP_ACCESS_WRITE); r++) {
            const trp_job_access *from = &job->access[r];
            const uintptr_t a = (uintptr_t)to->address, b = (uintptr_t)from->address;
            if ((from->mode & TRP_ACCESS_READ) && a < b + from->bytes && b < a + to->bytes)
                return true;
        }
    }
    return false;
}

/* TRP_AGAIN: a library has refused a piece, so that the plan will be another one, which runs from
 * the start: inputs are as they were. Where a piece has run and inputs may have been overwritten
 * the refusal is the request's error; the next request has another plan. */
static trp_status launch(trp_instance *instance, trp_job *job, trp__dnn_plan *plan,
                         const trp__dnn_graph *graph, void *at[], trp_error *error)
{
    state *s = instance->state;
    const trp__dnn_graph *lowered = &plan->lowered.graph;
    char *scratch = job->access[0].address; /* in a rehearsal nothing is written there */
    trp_status status = TRP_OK;
    if (!trp__instance_rehearses(instance))
        status = trp__dnn_scratch_have(instance, s->cu, &s->scratch,
                                       plan->between + plan->workspace, &scratch, error);
    if (status != TRP_OK)
        return status;
    void *workspace = plan->workspace ? scratch + plan->between : NULL;
    for (uint32_t t = 0; t < lowered->head->tensors && plan->between; t++) {
        if (plan->offset[t] != UINT64_MAX)
            at[t] = scratch + plan->offset[t];
    }
    trp__dnn_plan_set_values(plan, graph);
    const trp__kernel_launch kernel = {.modules = &s->modules,
                                       .instance = instance,
                                       .at = at,
                                       .number = plan->number,
                                       .workspace = workspace};
    for (uint32_t i = 0; i < plan->steps && status == TRP_OK; i++) {
        status = launch_step(plan, &plan->step[i], s->handle, &kernel, error);
        if (status == TRP_OK || !is_refused(instance, &plan->step[i], error))
            continue;
        plan->refused = true;
        plan->refused_step = i;
        trp__copy_string(plan->refused_reason, sizeof plan->refused_reason, error->message);
        if (i == 0 && plan->step[i].way == TRP__DNN_WAY_ENGINE)
            return TRP_AGAIN; /* nothing is in the stream */
        job->progress = 1;
        return is_in_place(job) ? status : TRP_AGAIN;
    }
    return status;
}

/* How much a step says of how a graph was run: products count for more than what stands around
 * them. */
static uint32_t weight_of(const trp__dnn_plan *plan, const trp__dnn_step *step)
{
    uint32_t weight = step->count;
    for (uint32_t i = step->first; i < step->first + step->count; i++) {
        const uint8_t kind = plan->lowered.graph.node[i].kind;
        if (kind <= TRP_DNN_MATMUL || kind == TRP_DNN_ATTENTION ||
            kind == TRP_DNN_ATTENTION_BACKWARD)
            weight += TRP__DNN_LOWERED_NODES;
    }
    return weight;
}

static void describe(const trp__dnn_plan *plan, trp_dnn_ran *ran)
{
    uint32_t heaviest = 0;
    *ran = (trp_dnn_ran){.parts = plan->steps ? plan->steps : 1,
                         .found = plan->found,
                         .proven = plan->proven,
                         .tuned = plan->tune != TRP_TUNE_OFF,
                         .workspace_bytes = plan->workspace};
    for (uint32_t i = 1; i < plan->steps; i++) {
        if (weight_of(plan, &plan->step[i]) > weight_of(plan, &plan->step[heaviest]))
            heaviest = i;
    }
    if (plan->steps)
        trp__copy_string(ran->engine, sizeof ran->engine, plan->step[heaviest].engine.name);
}

/* The piece of staging memory that a request has, as its last access: the job has it at its address
 * for the device, `seen` at the one for here. */
static trp_status find_piece(trp_instance *instance, const trp_job *job, trp_job *seen,
                             trp_error *error)
{
    const trp__record *record = ((const trp__job *)job)->record; /* a copy has none */
    *seen = *job;
    if (trp__instance_rehearses(instance)) /* a copy, already at an address for here */
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
        return TRP_OK; /* another request has the piece */
    status = find_plan(s, &key, &graph, &plan, error);
    if (status != TRP_OK || !plan)
        return status;
    status = launch(instance, job, plan, &graph, at, error);
    if (status == TRP_OK) {
        if (!ahead)
            describe(plan, ran);
        plan->found = true; /* by those that come */
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
