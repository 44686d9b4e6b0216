#include "actors/blas/batch/addresses.h"

#include "base/error.h"

trp_status trp__blas_batch_do(trp_instance *instance, trp_job *job, trp__blas_addresses *addresses,
                              const trp__blas_batch *batch, trp_error *error)
{
    const uint32_t most = TRP__BLAS_LISTED / 2;
    if (!addresses->list)
        return trp__error_set(error, TRP_E_MEMORY,
                              "there was no host memory for the addresses of a batch");
    while ((int64_t)job->progress < batch->count) {
        int64_t first = (int64_t)job->progress;
        uint32_t count = batch->count - first < most ? (uint32_t)(batch->count - first) : most;
        if (TRP__BLAS_LISTED - addresses->used < batch->arrays * count) {
            if (!instance->services->idle(instance))
                return TRP_AGAIN;
            addresses->used = 0;
        }
        void **list[2] = {NULL, NULL};
        for (uint32_t i = 0; i < batch->arrays; i++, addresses->used += count) {
            list[i] = addresses->list + addresses->used;
            for (uint32_t k = 0; k < count; k++)
                list[i][k] = batch->first[i] + (first + k) * batch->stride[i];
        }
        trp_status status = batch->call(batch->context, list, first, count, error);
        if (status != TRP_OK)
            return status;
        job->progress += count;
    }
    return TRP_OK;
}
