/* Reads a request's epilogue on the host. */
#include "actors/cutlass/host/host.h"

#include "base/error.h"

#include <stdlib.h>

void *trp__job_address(const trp_job *job, uint32_t access)
{
    return access == TRP__GEMM_NO_ACCESS ? NULL : job->access[access].address;
}

const unsigned char *trp__job_rest(const trp_job *job, const void *rest, size_t rest_bytes,
                                   uint32_t bytes, trp_error *error)
{
    if (bytes <= rest_bytes)
        return rest;
    const trp_job_access *piece = &job->access[job->access_count - 1];
    if (piece->bytes >= bytes)
        return piece->address;
    trp__error_set(error, TRP_E_INTERNAL, "a request of %u bytes in a piece of %llu", bytes,
                   (unsigned long long)piece->bytes);
    return NULL;
}

trp_status trp__epilogue_read(trp__epilogue_run *x, const trp_job *job, const void *rest,
                              uint32_t slots, uint32_t tree_bytes, trp_error *error)
{
    const trp__gemm_slot *slot = rest;
    const unsigned char *tree = (const unsigned char *)(slot + slots);
    x->tree.count = 0;
    x->sums = NULL;
    if (tree_bytes > 0 && (!trp__tree_decode(tree, tree_bytes, &x->tree) ||
                           x->tree.slots != slots + TRP__TREE_SLOT_FIRST))
        return trp__error_set(error, TRP_E_INTERNAL, "an epilogue tree that no sender made");
    for (uint32_t i = 0; i < slots; i++) {
        trp__tree_data *data = &x->slot[TRP__TREE_SLOT_FIRST + i];
        data->at = trp__job_address(job, slot[i].access);
        data->stride = slot[i].stride;
        data->ld = data->at ? slot[i].ld : 0;
        data->value = data->at ? 0 : slot[i].value;
    }
    return TRP_OK;
}

trp_status trp__epilogue_make_sums(trp__epilogue_run *x, int64_t m, int64_t n, int64_t batch,
                                   trp_error *error)
{
    const trp__tree_eval eval = {.tree = &x->tree, .m = m, .n = n, .batch = batch, .slot = x->slot};
    int64_t count = x->tree.count ? trp__tree_eval_sums(&eval) : 0;
    if (count == 0)
        return TRP_OK;
    if ((uint64_t)count <= SIZE_MAX / sizeof *x->sums)
        x->sums = malloc((size_t)count * sizeof *x->sums);
    return x->sums ? TRP_OK
                   : trp__error_set(error, TRP_E_MEMORY, "no memory for %lld sums of reductions",
                                    (long long)count);
}
