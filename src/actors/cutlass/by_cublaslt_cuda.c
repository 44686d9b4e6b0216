#include "actors/cutlass/by_cublaslt.h"

#include "actors/matmul/matmul.h"
#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>

/* While the matmul actor's code runs the instance has its state. Returns the other one. */
static void *swap_state(trp_instance *instance, void *state)
{
    void *before = instance->state;
    instance->state = state;
    return before;
}

static trp_status open_library(trp__by_cublaslt *l, trp_instance *instance, trp_error *error)
{
    void *state = calloc(1, trp__matmul_cuda.state_bytes);
    if (!state)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for what cuBLASLt needs");
    void *own = swap_state(instance, state);
    trp_status status = trp__matmul_cuda.init(instance, error);
    swap_state(instance, own);
    if (status == TRP_OK)
        l->state = state;
    else
        free(state);
    return status;
}

trp_status trp__by_cublaslt_handle(trp__by_cublaslt *l, trp_instance *instance, trp_job *job,
                                   trp_error *error)
{
    const void *payload = job->payload;
    trp_status status = l->state ? TRP_OK : open_library(l, instance, error);
    if (status != TRP_OK)
        return status;
    void *own = swap_state(instance, l->state);
    job->payload = (const char *)payload + offsetof(trp__by_cublaslt_run, problem);
    status = trp__matmul_cuda.handle(instance, job, error);
    job->payload = payload;
    swap_state(instance, own);
    return status;
}

void trp__by_cublaslt_trim(trp__by_cublaslt *l, trp_instance *instance)
{
    if (!l->state)
        return;
    void *own = swap_state(instance, l->state);
    trp__matmul_cuda.trim(instance);
    swap_state(instance, own);
}

void trp__by_cublaslt_stop(trp__by_cublaslt *l, trp_instance *instance)
{
    if (!l->state)
        return;
    void *own = swap_state(instance, l->state);
    trp__matmul_cuda.stop(instance);
    swap_state(instance, own);
    free(l->state);
    l->state = NULL;
}
