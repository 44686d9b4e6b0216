#include "actors/cutlass/fallback/worker.h"

#include "actors/cutlass/fallback/cublaslt.h"
#include "actors/cutlass/fallback/cudnn.h"
#include "actors/dnn/dnn.h"
#include "actors/matmul/matmul.h"
#include "base/error.h"
#include "wire/layout.h"
#include "worker/actor.h"
#include "worker/worker.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Whose code it is, and what its requests are there. */
static const struct {
    uint32_t args_bytes;
    uint32_t op;
    size_t problem; /* where its payload lies in this actor's */
    const trp_actor_impl *impl;
    const char *name;
} kinds[TRP__BY_LIBRARIES] = {
    {TRP__RUN_BY_CUBLASLT, TRP_OP_MATMUL, offsetof(trp__by_cublaslt_run, problem),
     &trp__matmul_cuda, "cuBLASLt"},
    {TRP__RUN_BY_CUDNN, TRP_OP_DNN_GRAPH, offsetof(trp__by_cudnn_run, problem), &trp__dnn_cuda,
     "cuDNN"},
};

/* While the other actor's code runs the instance has its state. Returns the other one. */
static void *swap_state(trp_instance *instance, void *state)
{
    void *before = instance->state;
    instance->state = state;
    return before;
}

static trp_status open_library(trp__by_libraries *l, int which, trp_instance *instance,
                               trp_error *error)
{
    void *state = calloc(1, kinds[which].impl->state_bytes);
    if (!state)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for what %s needs",
                              kinds[which].name);
    void *own = swap_state(instance, state);
    trp_status status = kinds[which].impl->init(instance, error);
    swap_state(instance, own);
    if (status == TRP_OK)
        l->state[which] = state;
    else
        free(state);
    return status;
}

static trp_status handle_one(int which, trp_instance *instance, trp_job *job, trp_error *error)
{
    const void *payload = job->payload;
    const uint32_t op = job->op;
    job->payload = (const char *)payload + kinds[which].problem;
    job->op = kinds[which].op;
    trp_status status = kinds[which].impl->handle(instance, job, error);
    job->payload = payload;
    job->op = op;
    return status;
}

static trp_status damaged(trp_error *error)
{
    return trp__error_set(error, TRP_E_INTERNAL, "the products of groups are damaged");
}

/* The products of a request's groups, in its piece of staging memory. */
static trp_status find_products(trp_instance *instance, const trp_job *job, uint32_t count,
                                const char **out, trp_error *error)
{
    const trp__record *record = ((const trp__job *)job)->record;
    const uint64_t bytes = count * (uint64_t)sizeof(trp__by_cublaslt_group);
    void *at = NULL;
    if (record->piece == 0 || record->piece > TRP__SMALL_COUNT || bytes > record->piece_bytes)
        return damaged(error);
    trp_status status =
        trp__worker_host_address(((trp__instance *)instance)->worker, 0,
                                 trp__small_offset(record->piece - 1), bytes, &at, error);
    *out = at;
    return status == TRP_OK && !at ? damaged(error) : status;
}

/* As a request of the matmul actor's. */
static trp_status make_job(const trp_job *job, const trp__by_cublaslt_group *group, trp_job *out,
                           trp_error *error)
{
    *out =
        (trp_job){.op = TRP_OP_MATMUL, .payload = &group->problem, .access_count = group->accesses};
    if (group->accesses > TRP__GEMM_MATRICES)
        return damaged(error);
    for (uint32_t i = 0; i < group->accesses; i++) {
        const trp_job_access *whole =
            group->access[i] < job->access_count ? &job->access[group->access[i]] : NULL;
        if (!whole || group->at[i] > whole->bytes || group->bytes[i] > whole->bytes - group->at[i])
            return damaged(error);
        out->access[i] = *whole;
        out->access[i].address = (char *)whole->address + group->at[i];
        out->access[i].bytes = group->bytes[i];
    }
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        if (group->problem.access[i] != TRP__MATMUL_NO_ACCESS &&
            group->problem.access[i] >= group->accesses)
            return damaged(error);
    }
    return TRP_OK;
}

/* From the one on that was not planned when the last call ended. */
static trp_status handle_groups(int which, trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__by_cublaslt_groups all;
    const char *piece = NULL;
    memcpy(&all, job->payload, sizeof all);
    trp_status status = find_products(instance, job, all.count, &piece, error);
    while (status == TRP_OK && piece && job->progress < all.count) {
        trp__by_cublaslt_group group;
        trp_job one;
        memcpy(&group, piece + job->progress * sizeof group, sizeof group);
        status = make_job(job, &group, &one, error);
        if (status == TRP_OK)
            status = kinds[which].impl->handle(instance, &one, error);
        if (status == TRP_OK)
            job->progress++;
    }
    return status;
}

trp_status trp__by_libraries_handle(trp__by_libraries *l, trp_instance *instance, trp_job *job,
                                    uint32_t args_bytes, trp_error *error)
{
    const bool groups = args_bytes == TRP__RUN_BY_CUBLASLT_GROUPS;
    const uint32_t kind = groups ? TRP__RUN_BY_CUBLASLT : args_bytes;
    int which = 0;
    while (which < TRP__BY_LIBRARIES && kinds[which].args_bytes != kind)
        which++;
    if (which == TRP__BY_LIBRARIES)
        return trp__error_set(error, TRP_E_INTERNAL, "a request for no library, %u", args_bytes);
    trp_status status = l->state[which] ? TRP_OK : open_library(l, which, instance, error);
    if (status != TRP_OK)
        return status;
    void *own = swap_state(instance, l->state[which]);
    status = groups ? handle_groups(which, instance, job, error)
                    : handle_one(which, instance, job, error);
    swap_state(instance, own);
    return status;
}

void trp__by_libraries_trim(trp__by_libraries *l, trp_instance *instance)
{
    for (int i = 0; i < TRP__BY_LIBRARIES; i++) {
        if (!l->state[i])
            continue;
        void *own = swap_state(instance, l->state[i]);
        kinds[i].impl->trim(instance);
        swap_state(instance, own);
    }
}

void trp__by_libraries_stop(trp__by_libraries *l, trp_instance *instance)
{
    for (int i = 0; i < TRP__BY_LIBRARIES; i++) {
        if (!l->state[i])
            continue;
        void *own = swap_state(instance, l->state[i]);
        kinds[i].impl->stop(instance);
        swap_state(instance, own);
        free(l->state[i]);
        l->state[i] = NULL;
    }
}
