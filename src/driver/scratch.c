#include "driver/scratch.h"

#include "base/error.h"

/* The least allocation. A larger one is at least twice the previous one, which is kept since the
 * stream may still need it. */
#define FIRST ((size_t)16 << 20)

trp_status trp__scratch_have(trp_instance *instance, const trp__cuda *cu, trp__scratch *s,
                             uint64_t bytes, char **out, trp_error *error)
{
    size_t wanted = 2 * s->bytes > FIRST ? 2 * s->bytes : FIRST;
    if (bytes > s->bytes) {
        if (bytes > wanted)
            wanted = (size_t)bytes;
        if (s->count == TRP__SCRATCHES)
            return trp__error_set(error, TRP_E_MEMORY, "a workspace of %zu bytes", wanted);
        trp_status status = trp_cuda_check(instance, cu->cuMemAlloc_v2(&s->at[s->count], wanted),
                                           "cuMemAlloc", error);
        if (status != TRP_OK)
            return status;
        s->count++;
        s->bytes = wanted;
    }
    *out = s->count ? (char *)(uintptr_t)s->at[s->count - 1] : NULL;
    return TRP_OK;
}

void trp__scratch_free(trp_instance *instance, const trp__cuda *cu, trp__scratch *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        trp_cuda_check(instance, cu->cuMemFree_v2(s->at[i]), "cuMemFree", NULL);
    *s = (trp__scratch){0};
}
