/* The matmul actor on NVIDIA GPUs: cuBLASLt. */
#include "actors/matmul/cublaslt.h"
#include "actors/matmul/matmul.h"
#include "actors/matmul/plan.h"
#include "base/error.h"
#include "cache/lru.h"
#include "driver/cuda.h"
#include "worker/side.h"

#include <troupe/matmul.h>
#include <troupe/worker.h>

#include <limits.h>
#include <string.h>

/* Plans that an actor keeps, of some hundred bytes each. */
enum { PLANS = 4096 };

/* Workspace that every actor has from the start: what NVIDIA recommends for Hopper, and the most
 * that an algorithm is allowed unless a request says otherwise. */
#define WORKSPACE_FIRST ((size_t)32 << 20)

/* Larger ones are at least twice as large as the one before, and that is kept, since the stream may
 * still need it. */
enum { WORKSPACES = 32 };

typedef struct state {
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_context context; /* the device's primary one, held; NULL: not yet */
    trp__matmul_planner planner;
    trp__lru *plans;
    trp__side *side;
    trp__cu_address workspace[WORKSPACES];
    size_t workspace_bytes; /* of the last */
    uint32_t workspaces;

    /* What the side thread works on, or has: only one problem at a time. */
    bool planning;
    trp__matmul_key key;
    void *at[TRP__MATMUL_OPERANDS];
    trp__matmul_plan plan;
    trp_status status;
    trp_error error;
} state;

trp_status trp__matmul_cuda_report(char *version, size_t version_size, const char **path,
                                   trp_error *error)
{
    const trp__cublaslt *lt;
    trp_status status = trp__cublaslt_load(&lt, error);
    if (status != TRP_OK)
        return status;
    trp__cublaslt_version(lt, version, version_size);
    *path = trp__cublaslt_path();
    return TRP_OK;
}

/* Life of an actor. */

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
    trp__side_stop(s->side);
    if (s->planning && s->status == TRP_OK)
        trp__matmul_plan_drop(s->planner.lt, &s->plan);
    trp__lru_destroy(s->plans);
    if (s->planner.handle)
        s->planner.lt->cublasLtDestroy(s->planner.handle);
    free_workspaces(instance, 0);
    if (s->context)
        s->cu->cuDevicePrimaryCtxRelease_v2(s->device);
    memset(s, 0, sizeof *s);
}

static void enter(void *argument)
{
    state *s = argument;
    s->cu->cuCtxSetCurrent(s->context);
}

static trp_status open_device(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    const trp__cuda *cu = s->cu;
    trp_status status = trp_cuda_check(
        instance, cu->cuDeviceGet(&s->device, (int)instance->ordinal), "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuDevicePrimaryCtxRetain(&s->context, s->device),
                                "cuDevicePrimaryCtxRetain", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance,
                                cu->cuDeviceGetAttribute(&s->planner.major,
                                                         TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                                         s->device),
                                "cuDeviceGetAttribute", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance,
                                cu->cuDeviceGetAttribute(&s->planner.minor,
                                                         TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                                         s->device),
                                "cuDeviceGetAttribute", error);
    return status;
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

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
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
        status = trp__lru_create(sizeof(trp__matmul_key), sizeof(trp__matmul_plan), PLANS,
                                 drop_plan, (void *)(uintptr_t)s->planner.lt, &s->plans, error);
    if (status == TRP_OK)
        status = trp__side_start(&s->side, enter, s, error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

/* The first workspace stays; larger ones are made again when they are needed. */
static void trim(trp_instance *instance)
{
    state *s = instance->state;
    if (s->workspaces <= 1 || !instance->services->idle(instance))
        return;
    free_workspaces(instance, 1);
    s->workspace_bytes = WORKSPACE_FIRST;
}

/* Plans. */

static void make_plan(void *argument)
{
    state *s = argument;
    s->status = trp__matmul_plan_make(&s->planner, &s->key, s->at, &s->plan, &s->error);
}

/* TRP_AGAIN while it is made. */
static trp_status find_plan(state *s, const trp__matmul_key *key, void *const at[],
                            const trp__matmul_plan **out, trp_error *error)
{
    *out = trp__lru_find(s->plans, key);
    if (*out)
        return TRP_OK;
    if (trp__side_busy(s->side))
        return TRP_AGAIN;
    if (s->planning) {
        s->planning = false;
        bool ours = memcmp(key, &s->key, sizeof *key) == 0;
        if (s->status == TRP_OK) { /* also one that was cancelled meanwhile */
            trp__matmul_plan *plan = trp__lru_add(s->plans, &s->key);
            *plan = s->plan;
            *out = ours ? plan : NULL;
        }
        if (ours) {
            if (s->status != TRP_OK)
                *error = s->error;
            return s->status;
        }
    }
    s->key = *key;
    memcpy(s->at, at, sizeof s->at);
    memset(&s->plan, 0, sizeof s->plan);
    s->planning = true;
    trp__side_run(s->side, make_plan, s);
    return TRP_AGAIN;
}

/* Requests. */

/* Scalars travel as f64; the library wants them in the compute type. */
typedef union scalar {
    double f64[2];
    float f32[2];
    int32_t i32;
} scalar;

static scalar scalar_of(uint8_t type, const double value[2])
{
    if (type == TRP_F64 || type == TRP_C128)
        return (scalar){.f64 = {value[0], value[1]}};
    if (type == TRP_I32)
        return (scalar){.i32 = (int32_t)value[0]};
    return (scalar){.f32 = {(float)value[0], (float)value[1]}};
}

static trp_status launch(trp_instance *instance, const trp__matmul_plan *plan, const trp__matmul *g,
                         void *const at[], trp_error *error)
{
    state *s = instance->state;
    const trp__cublaslt *lt = s->planner.lt;
    scalar alpha = scalar_of(g->scalar_type, g->alpha), beta = scalar_of(g->scalar_type, g->beta);
    const void *alpha_at = &alpha, *beta_at = &beta;
    if (at[TRP__MATMUL_SCALARS]) {
        alpha_at = at[TRP__MATMUL_SCALARS];
        beta_at = (const char *)alpha_at + trp_dtype_bits((trp_dtype)g->scalar_type) / 8;
    }
    /* A C that is not there is not read, for beta is 0; but the library wants one. */
    const void *c = at[TRP__MATMUL_C] ? at[TRP__MATMUL_C] : at[TRP__MATMUL_D];
    return trp__cublaslt_check(
        lt,
        lt->cublasLtMatmul(s->planner.handle, plan->desc, alpha_at, at[TRP__MATMUL_A],
                           plan->layout[TRP__MATMUL_A], at[TRP__MATMUL_B],
                           plan->layout[TRP__MATMUL_B], beta_at, c, plan->layout[TRP__MATMUL_C],
                           at[TRP__MATMUL_D], plan->layout[TRP__MATMUL_D], &plan->algo,
                           (void *)(uintptr_t)s->workspace[s->workspaces - 1], s->workspace_bytes,
                           instance->stream),
        "cublasLtMatmul", error);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    const trp__matmul_plan *plan = NULL;
    void *at[TRP__MATMUL_OPERANDS];
    trp__matmul g;
    memcpy(&g, job->payload, sizeof g);
    if (g.m == 0 || g.n == 0)
        return TRP_OK;
    if (g.batch > INT_MAX)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "a batch of 2^31 or more, which cuBLASLt can't take");
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        at[i] = g.access[i] != TRP__MATMUL_NO_ACCESS ? job->access[g.access[i]].address : NULL;
    trp__matmul_key key = trp__matmul_key_of(&g, at);
    trp_status status = find_plan(s, &key, at, &plan, error);
    if (status == TRP_OK && plan->workspace > s->workspace_bytes)
        status = add_workspace(instance,
                               plan->workspace > 2 * s->workspace_bytes ? plan->workspace
                                                                        : 2 * s->workspace_bytes,
                               error);
    if (status == TRP_OK)
        status = trp__matmul_plan_place(s->planner.lt, plan, &g, at, error);
    return status == TRP_OK ? launch(instance, plan, &g, at, error) : status;
}

const trp_actor_impl trp__matmul_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};
