/* The matmul actor on NVIDIA GPUs: cuBLASLt. */
#include "actors/matmul/graphs.h"
#include "actors/matmul/matmul.h"
#include "actors/matmul/proofs.h"
#include "actors/matmul/ran.h"
#include "actors/matmul/zeros.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "cache/lru.h"
#include "driver/cuda.h"
#include "libs/cublaslt/cublaslt.h"
#include "matrix/reference/launch.h"
#include "matrix/tune.h"
#include "worker/actor.h"
#include "worker/side.h"

#include <troupe/matmul.h>
#include <troupe/worker.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The number of plans that an actor keeps; each has some hundred bytes. */
enum { PLANS = 4096 };

/* The most algorithms that are tried if proofs reject one after another. */
enum { CANDIDATES = 64 };

/* The workspace that every actor allocates at its start: the size that NVIDIA recommends for
 * Hopper, and the limit of algorithms unless the request sets another. */
#define WORKSPACE_FIRST ((size_t)32 << 20)

/* The most workspaces of an actor. A larger workspace is at least twice as large as the previous
 * one, which is kept, since the stream may still use it. */
enum { WORKSPACES = 32 };

/* With fewer requests than this in the stream, the device may be waiting for the next product. The
 * number is an estimate, since one timeline write stands for many requests. */
enum { SHALLOW = 256 };

/* The longest wait for another process that makes the same search; after this time, that process
 * has probably been stopped. */
#define PATIENCE_NS (60 * TRP__SECOND)

typedef struct state {
    trp_instance *instance;
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_context context; /* the primary context, retained; NULL: not yet */
    trp__matmul_planner planner;
    trp__lru *plans;
    trp__matmul_graphs graphs;
    trp__matmul_proofs proofs;
    trp__side *side;
    trp__cu_address workspace[WORKSPACES];
    size_t workspace_bytes; /* size of the last one */
    uint32_t workspaces;

    /* The problem that the side thread plans, and the result. There is one at a time. */
    bool planning;
    trp__store *store; /* results of searches; NULL: there is no store */
    trp__tuning_site site;
    atomic_bool unwanted; /* the wait for the search of another process must end */
    trp__matmul_key key;
    bool ahead;    /* the plan is for a rehearsal, which starts no search */
    bool searched; /* `own` is valid: a result of this actor, which may not be in the store */
    trp__matmul_record own;
    void *at[TRP__MATMUL_OPERANDS];
    uint64_t bytes[TRP__MATMUL_OPERANDS];
    trp__matmul_plan plan;
    trp_status status;
    trp_error error;
} state;

/* Start and end of an actor. */

static void drop_plan(void *context, void *plan)
{
    trp__matmul_plan_drop(context, plan);
}

static void free_workspaces(trp_instance *instance, uint32_t first)
{
    state *s = instance->state;
    for (uint32_t i = first; i < s->workspaces; i++)
        trp_cuda_check(instance, s->cu->cuMemFree_v2(s->workspace[i]), "cuMemFree", NULL);
    s->workspaces = s->workspaces < first ? s->workspaces : first;
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    atomic_store(&s->unwanted, true);
    trp__side_stop(s->side);
    if (s->planning && s->status == TRP_OK)
        trp__matmul_plan_drop(s->planner.lt, &s->plan);
    if (s->context)
        trp__matmul_proofs_close(&s->proofs, instance);
    trp__matmul_graphs_close(&s->graphs);
    trp__lru_destroy(s->plans);
    if (s->planner.handle)
        s->planner.lt->cublasLtDestroy(s->planner.handle);
    free_workspaces(instance, 0);
    if (s->planner.constants)
        trp_cuda_check(instance, s->cu->cuMemFree_v2(s->planner.constants), "cuMemFree", NULL);
    if (s->context)
        s->cu->cuDevicePrimaryCtxRelease_v2(s->device);
    memset(s, 0, sizeof *s);
}

static void enter(void *argument)
{
    state *s = argument;
    s->cu->cuCtxSetCurrent(s->context);
}

static trp_status attribute(trp_instance *instance, trp__cu_attribute which, int *out,
                            trp_error *error)
{
    state *s = instance->state;
    return trp_cuda_check(instance, s->cu->cuDeviceGetAttribute(out, which, s->device),
                          "cuDeviceGetAttribute", error);
}

static bool serves(void *context, const trp__matmul_key *key, const trp__matmul_plan *plan)
{
    state *s = context;
    return trp__matmul_proofs_accept(&s->proofs, key, plan);
}

/* Describes GPU, driver and library, for which the results of measurements are valid. */
static trp_status describe_site(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    char version[32];
    trp__cublaslt_version(s->planner.lt, version, sizeof version);
    const trp_status status = trp__tuning_site_of(&s->site, instance->ordinal, error);
    if (status != TRP_OK)
        return status;
    snprintf(s->site.library, sizeof s->site.library, "cuBLASLt %s", version);
    s->store = trp__store_of_process();
    s->proofs = (trp__matmul_proofs){.cu = s->cu,
                                     .planner = &s->planner,
                                     .proofs = {.verdicts = {.store = s->store, .site = &s->site},
                                                .name = instance->name,
                                                .owner = trp__instance_owner(instance),
                                                .unwanted = &s->unwanted,
                                                .off = trp__instance_proof_off(instance)}};
    s->planner.serves = serves;
    s->planner.context = s;
    return TRP_OK;
}

static trp_status open_device(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    const trp__cuda *cu = s->cu;
    int l2 = 0;
    trp_status status = trp_cuda_check(
        instance, cu->cuDeviceGet(&s->device, (int)instance->ordinal), "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuDevicePrimaryCtxRetain(&s->context, s->device),
                                "cuDevicePrimaryCtxRetain", error);
    if (status == TRP_OK)
        status = attribute(instance, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &s->planner.major,
                           error);
    if (status == TRP_OK)
        status = attribute(instance, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &s->planner.minor,
                           error);
    if (status == TRP_OK)
        status = attribute(instance, TRP__CU_ATTRIBUTE_L2_CACHE_SIZE, &l2, error);
    s->planner.l2_bytes = (uint64_t)l2;
    return status == TRP_OK ? describe_site(instance, error) : status;
}

static trp_status add_workspace(trp_instance *instance, size_t bytes, trp_error *error)
{
    state *s = instance->state;
    if (s->workspaces == WORKSPACES)
        return trp__error_set(error, TRP_E_MEMORY, "a workspace of %zu bytes", bytes);
    trp_status status = trp_cuda_check(
        instance, s->cu->cuMemAlloc_v2(&s->workspace[s->workspaces], bytes), "cuMemAlloc", error);
    if (status != TRP_OK)
        return status;
    s->workspaces++;
    s->workspace_bytes = bytes;
    return TRP_OK;
}

static trp_status place_constants(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    size_t bytes;
    const void *constants = trp__matmul_constants(&bytes);
    trp_status status = trp_cuda_check(instance, s->cu->cuMemAlloc_v2(&s->planner.constants, bytes),
                                       "cuMemAlloc", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance,
                                trp__cuda_upload(s->cu, s->planner.constants, constants, bytes),
                                "cuMemcpyHtoD", error);
    return status;
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    s->instance = instance;
    trp_status status = trp__cublaslt_load(&s->planner.lt, error);
    if (status == TRP_OK)
        status = trp__cuda_load(&s->cu, error);
    if (status != TRP_OK)
        return status;
    status = open_device(instance, error);
    if (status == TRP_OK)
        status =
            trp__cublaslt_check(s->planner.lt, s->planner.lt->cublasLtCreate(&s->planner.handle),
                                "cublasLtCreate", error);
    if (status == TRP_OK)
        status = add_workspace(instance, WORKSPACE_FIRST, error);
    if (status == TRP_OK)
        status = place_constants(instance, error);
    if (status == TRP_OK)
        status = trp__lru_create(sizeof(trp__matmul_key), sizeof(trp__matmul_plan), PLANS,
                                 drop_plan, (void *)(uintptr_t)s->planner.lt, &s->plans, error);
    if (status == TRP_OK)
        status = trp__matmul_graphs_open(&s->graphs, s->cu, error);
    if (status == TRP_OK)
        status = trp__side_start(&s->side, enter, s, error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

/* Keeps the first workspace; larger ones are allocated again when they are needed. */
static void trim(trp_instance *instance)
{
    state *s = instance->state;
    trp__matmul_graphs_forget(&s->graphs);
    if (s->workspaces <= 1 || !instance->services->idle(instance))
        return;
    free_workspaces(instance, 1);
    s->workspace_bytes = WORKSPACE_FIRST;
}

/* Plans. */

static bool is_unwanted(void *argument)
{
    state *s = argument;
    return atomic_load(&s->unwanted);
}

/* Returns whether there is a record of at least the requested level that the library accepts. */
static bool use_record(state *s, const trp__key *key)
{
    trp__matmul_record known = s->own;
    bool found = trp__matmul_record_find(s->store, key, &known) || s->searched;
    return found && known.result.level >= s->key.problem.tune &&
           trp__matmul_use_record(&s->planner, &s->key, &known, &s->plan);
}

/* Searches, or waits for the result if another thread or process makes the same search. Returns
 * false if the result is no longer needed. */
static bool search_once(state *s, const trp__key *key)
{
    const trp__store_wait wait = {
        .deadline_ns = trp__deadline(PATIENCE_NS), .is_cancelled = is_unwanted, .context = s};
    trp__store_claim *claim = NULL;
    trp__matmul_record found;
    trp_error ignored; /* a search without a claim does no harm */
    bool full = s->key.problem.tune == TRP_TUNE_FULL;
    if (s->store &&
        trp__store_claim_begin(s->store, key, &wait, &claim, &ignored) == TRP_E_CANCELLED)
        return false;
    if (!use_record(s, key) &&
        trp__matmul_tune(&s->planner, s->cu, &s->key, s->bytes, full, &s->plan, &found) &&
        !s->proofs.proofs.broken)
        trp__matmul_record_keep(s->store, key, &found);
    trp__store_claim_end(claim);
    return true;
}

/* Takes the algorithm of the plan, or the first of the library's proposals, that proofs accept. */
static bool take_accepted(state *s)
{
    trp__cublaslt_result proposal[CANDIDATES];
    if (trp__matmul_proofs_accept(&s->proofs, &s->key, &s->plan))
        return true;
    const int count =
        trp__matmul_plan_candidates(&s->planner, &s->key, &s->plan, proposal, CANDIDATES);
    for (int i = 0; i < count && !s->proofs.proofs.broken; i++) {
        s->plan.algo = proposal[i].algo;
        s->plan.workspace = proposal[i].workspace_bytes;
        if (trp__matmul_proofs_accept(&s->proofs, &s->key, &s->plan))
            return true;
    }
    return false;
}

/* Proves the algorithm of the plan. If all algorithms are rejected, the plan uses the reference
 * kernel. */
static trp_status prove_plan(state *s, trp_error *error)
{
    trp__proofs *proofs = &s->proofs.proofs;
    proofs->unproven = proofs->cancelled = false;
    const bool accepted = take_accepted(s);
    if (proofs->broken) {
        s->instance->services->cuda_fail(s->instance, trp__proofs_cuda_result(proofs), "a proof",
                                         error);
        return TRP_E_CANCELLED; /* the worker ends */
    }
    if (proofs->cancelled)
        return TRP_E_CANCELLED;
    if (s->proofs.skipped)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "a proof ahead");
    s->plan.own = !accepted;
    s->plan.proven = !accepted || !proofs->unproven;
    if (!accepted && !trp__matmul_proofs_can_run(&s->proofs, &s->key))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "all algorithms that cuBLASLt proposes for this problem are known to "
                              "be wrong, and the reference kernel can't compute it");
    return TRP_OK;
}

/* Chooses the algorithm of a record, or the result of a search; proofs come later. */
static trp_status choose_algorithm(state *s, trp_error *error)
{
    trp__key key;
    trp_status status = TRP_OK;
    trp__matmul_record_key(&s->site, &s->key, &key);
    if (!use_record(s, &key) && s->key.problem.tune != TRP_TUNE_OFF) {
        if (s->ahead)
            status = trp__error_set(error, TRP_E_UNSUPPORTED, "a search ahead");
        else if (!search_once(s, &key))
            status = TRP_E_CANCELLED;
    }
    trp__key_end(&key);
    return status;
}

static void make_plan(void *argument)
{
    state *s = argument;
    s->proofs.ahead = s->ahead;
    s->proofs.skipped = false;
    s->status = trp__matmul_plan_make(&s->planner, &s->key, s->at, &s->plan, &s->error);
    if (s->status != TRP_OK)
        return;
    /* There is no search if nothing is multiplied; or if the result must be deterministic, since a
     * search may choose another order of summation. */
    if (!s->plan.blind && !s->key.deterministic)
        s->status = choose_algorithm(s, &s->error);
    if (s->status == TRP_OK)
        s->status = prove_plan(s, &s->error);
    if (s->status != TRP_OK)
        trp__matmul_plan_drop(s->planner.lt, &s->plan);
}

/* Drops the plans of the same problem with a lower level of search, so that they are made again. */
static void forget_untuned(state *s, const trp__matmul_key *key)
{
    trp__matmul_key other = *key;
    for (other.problem.tune = 0; other.problem.tune < key->problem.tune; other.problem.tune++) {
        void *plan = trp__lru_find(s->plans, &other);
        if (plan) {
            trp__lru_remove(s->plans, plan);
            trp__matmul_graphs_forget(&s->graphs);
        }
    }
}

/* Looks for the result of a search of this actor for the same problem at the same or a higher
 * level. Without a store, only the plans have it. */
static void recall_search(state *s)
{
    trp__matmul_key other = s->key;
    if (other.problem.tune == TRP_TUNE_OFF)
        other.problem.tune++;
    s->searched = false;
    for (; !s->searched && other.problem.tune <= TRP_TUNE_FULL; other.problem.tune++) {
        const trp__matmul_plan *plan = trp__lru_find(s->plans, &other);
        s->searched = plan != NULL;
        if (plan)
            s->own = (trp__matmul_record){.algo = plan->algo,
                                          .workspace = plan->workspace,
                                          .result.level = other.problem.tune};
    }
}

/* Finds a plan, or makes one in the side thread; TRP_AGAIN while it is made. */
static trp_status find_plan(state *s, const trp__matmul_key *key, void *const at[],
                            const uint64_t bytes[], bool ahead, const trp__matmul_plan **out,
                            trp_error *error)
{
    *out = trp__lru_find(s->plans, key);
    if (*out)
        return TRP_OK;
    bool ours = s->planning && s->ahead == ahead && trp__matmul_same_key(key, &s->key);
    if (trp__side_busy(s->side)) {
        if (!ours) /* its request has ended */
            atomic_store(&s->unwanted, true);
        return TRP_AGAIN;
    }
    if (s->planning) {
        s->planning = false;
        if (s->status == TRP_OK) { /* also if the request was cancelled meanwhile */
            forget_untuned(s, &s->key);
            *(trp__matmul_plan *)trp__lru_add(s->plans, &s->key) = s->plan;
            *out = trp__lru_find(s->plans, key);
        }
        if (*out)
            return TRP_OK;
        if (ours && s->status != TRP_E_CANCELLED) {
            *error = s->error;
            return s->status;
        }
    }
    s->key = *key;
    s->ahead = ahead;
    memcpy(s->at, at, sizeof s->at);
    memcpy(s->bytes, bytes, sizeof s->bytes);
    memset(&s->plan, 0, sizeof s->plan);
    recall_search(s);
    s->planning = true;
    atomic_store(&s->unwanted, false);
    trp__side_run(s->side, make_plan, s);
    return TRP_AGAIN;
}

/* Requests. */

static void *workspace_of(const state *s)
{
    return (void *)(uintptr_t)s->workspace[s->workspaces - 1];
}

static void make_graph_key(const state *s, const trp__matmul *g, void *const at[],
                           trp__matmul_graph_key *key)
{
    key->problem = *g;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        key->at[i] = at[i];
    key->workspace = workspace_of(s);
}

/* Places A and B at the beginning of the workspace, and fills them with zeros. */
static trp_status place_zeros(trp_instance *instance, void *at[], size_t zeros, trp_error *error)
{
    at[TRP__MATMUL_A] = at[TRP__MATMUL_B] = workspace_of(instance->state);
    return instance->services->fill(instance, at[TRP__MATMUL_A], 0, 4, zeros / 4, error);
}

/* Calls the library, or launches the reference kernel. */
static trp_status run_plan(trp_instance *instance, const trp__matmul_plan *plan,
                           const trp__matmul *g, void *const at[], size_t zeros, trp_error *error)
{
    state *s = instance->state;
    if (!plan->own)
        return trp__matmul_plan_launch(&s->planner, plan, g, at, (char *)workspace_of(s) + zeros,
                                       s->workspace_bytes - zeros, instance->stream, error);
    const trp_status status =
        trp__product_launch_all(s->cu, s->proofs.reference.kernel, g, at, instance->stream, error);
    return status == TRP_OK
               ? TRP_OK
               : trp_cuda_check(instance, error->code, "a launch of the reference kernel", error);
}

/* The arguments of one request. */
typedef struct work {
    trp__matmul g;
    void *at[TRP__MATMUL_OPERANDS];
    uint64_t bytes[TRP__MATMUL_OPERANDS];
    size_t zeros;        /* bytes of zeros that replace A and B; 0: they are not replaced */
    trp_matmul_ran *ran; /* NULL: not requested */
} work;

static void describe(const state *s, const trp__matmul_plan *plan, trp_matmul_ran *out)
{
    *out = (trp_matmul_ran){.algorithm = "reference",
                            .proven = plan->proven,
                            .workspace_bytes = plan->own ? 0 : plan->workspace};
    if (!plan->own)
        trp__cublaslt_algo_name(s->planner.lt, &plan->algo, out->algorithm, sizeof out->algorithm);
}

/* Calls the library; or launches a recorded graph, if the device might wait for the call. */
static trp_status launch(trp_instance *instance, work *w, trp_error *error)
{
    state *s = instance->state;
    const trp__matmul *g = &w->g;
    const trp__matmul_plan *plan = NULL;
    trp__matmul_graph_key graph_key;
    bool shallow = instance->backlog < SHALLOW && w->zeros == 0 && !w->ran;
    if (shallow) {
        make_graph_key(s, g, w->at, &graph_key);
        trp__cu_graph_exec graph = trp__matmul_graphs_find(&s->graphs, &graph_key);
        if (graph)
            return trp_cuda_check(instance, s->cu->cuGraphLaunch(graph, instance->stream),
                                  "cuGraphLaunch", error);
    }
    trp__matmul_key key = trp__matmul_key_of(g, w->at);
    const bool ahead = trp__instance_rehearses(instance);
    trp_status status = find_plan(s, &key, w->at, w->bytes, ahead, &plan, error);
    const size_t needed = status == TRP_OK ? plan->workspace + w->zeros : 0;
    if (status == TRP_OK && ahead && needed > s->workspace_bytes)
        return TRP_OK; /* a standby does not allocate workspaces in advance */
    if (status == TRP_OK && needed > s->workspace_bytes)
        status = add_workspace(
            instance, needed > 2 * s->workspace_bytes ? needed : 2 * s->workspace_bytes, error);
    if (status == TRP_OK && w->zeros > 0)
        status = place_zeros(instance, w->at, w->zeros, error);
    if (status == TRP_OK)
        status = run_plan(instance, plan, g, w->at, w->zeros, error);
    if (status == TRP_OK && w->ran)
        describe(s, plan, w->ran);
    if (status == TRP_OK && shallow && !plan->own) {
        graph_key.workspace = workspace_of(s); /* a larger one may have been added */
        trp__matmul_graphs_note(&s->graphs, &s->planner, plan, &graph_key, s->workspace_bytes);
    }
    return status;
}

/* Sets the gradient of an A or B without elements to 0, since cuBLASLt has no algorithm for it, and
 * removes it from the product. */
static trp_status clear_gradient(trp_instance *instance, const trp_job *job, trp__matmul *g,
                                 trp_error *error)
{
    const uint64_t width = trp_dtype_bits((trp_dtype)g->vector_type) / 8;
    const int64_t count = g->gradient == TRP_BIAS_GRADIENT_A ? g->m : g->n;
    char *at = job->access[g->access[TRP__MATMUL_VECTOR]].address;
    trp_status status = TRP_OK;
    for (int64_t i = 0; i < g->batch && status == TRP_OK; i++)
        status = instance->services->fill(instance,
                                          at + (uint64_t)i * (uint64_t)g->vector_stride * width, 0,
                                          1, (uint64_t)count * width, error);
    g->gradient = TRP_BIAS_GRADIENT_NONE;
    g->access[TRP__MATMUL_VECTOR] = TRP__MATMUL_NO_ACCESS;
    return status;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    work w;
    trp__matmul *g = &w.g;
    memcpy(g, job->payload, sizeof *g);
    w.ran = trp__matmul_ran_of(job, g);
    if (g->m == 0 || g->n == 0)
        return TRP_OK;
    if (g->batch > INT_MAX)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "a batch of 2^31 or more, which cuBLASLt does not support");
    if (g->k == 0 && (g->gradient == TRP_BIAS_GRADIENT_A || g->gradient == TRP_BIAS_GRADIENT_B)) {
        const trp_status status = clear_gradient(instance, job, g, error);
        if (status != TRP_OK)
            return status;
    }
    w.zeros = trp__matmul_use_zeros(g);
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        const trp_job_access *access =
            g->access[i] != TRP__MATMUL_NO_ACCESS ? &job->access[g->access[i]] : NULL;
        w.at[i] = access ? access->address : NULL;
        w.bytes[i] = access ? access->bytes : 0;
    }
    if (w.zeros > 0) /* the plan depends on their alignment, which is that of any workspace */
        w.at[TRP__MATMUL_A] = w.at[TRP__MATMUL_B] = workspace_of(instance->state);
    return launch(instance, &w, error);
}

const trp_actor_impl trp__matmul_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};
