#include "actors/cutlass/by_library.h"

#include "actors/cutlass/by_cublaslt.h"
#include "actors/cutlass/by_cudnn.h"
#include "actors/dnn/dnn.h"
#include "actors/matmul/matmul.h"
#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>

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

trp_status trp__by_libraries_handle(trp__by_libraries *l, trp_instance *instance, trp_job *job,
                                    uint32_t args_bytes, trp_error *error)
{
    const void *payload = job->payload;
    const uint32_t op = job->op;
    int which = 0;
    while (which < TRP__BY_LIBRARIES && kinds[which].args_bytes != args_bytes)
        which++;
    if (which == TRP__BY_LIBRARIES)
        return trp__error_set(error, TRP_E_INTERNAL, "a request for no library, %u", args_bytes);
    trp_status status = l->state[which] ? TRP_OK : open_library(l, which, instance, error);
    if (status != TRP_OK)
        return status;
    void *own = swap_state(instance, l->state[which]);
    job->payload = (const char *)payload + kinds[which].problem;
    job->op = kinds[which].op;
    status = kinds[which].impl->handle(instance, job, error);
    job->payload = payload;
    job->op = op;
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
