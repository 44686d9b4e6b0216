#include "actors/dnn/kernels/kernels.h"

#include "actors/dnn/kernels/attention/families.h"

const trp__kernel_family *const trp__kernel_families[] = {
    &trp__kernels_glu, /* these before `map`, which takes as many nodes */
    &trp__kernels_random,  &trp__kernels_move,      &trp__kernels_convert, &trp__kernels_map,
    &trp__kernels_softmax, &trp__kernels_norm,      &trp__kernels_batch,   &trp__kernels_pool,
    &trp__kernels_reduce,  &trp__kernels_optimizer, &trp__kernels_losses,  &trp__kernels_rotary,
    &trp__kernels_gather,  &trp__kernels_entropy,   &trp__kernels_select,  NULL,
};

static const trp__kernel_family *const behind_libraries[] = {
    &trp__kernels_packed,
#define ATTENTION(number, name, ...) &trp__kernels_attention_##name,
    TRP__ATTENTION_VARIANTS(ATTENTION)
#undef ATTENTION
        NULL,
};

static const trp__kernel_family *best_of(const trp__kernel_family *const families[],
                                         const trp__dnn_graph *graph, uint32_t first, uint32_t most,
                                         uint32_t *count)
{
    const trp__kernel_family *best = NULL;
    *count = 0;
    for (int i = 0; families[i]; i++) {
        const uint32_t taken = families[i]->takes(graph, first, most);
        if (taken > *count) {
            *count = taken;
            best = families[i];
        }
    }
    return best;
}

const trp__kernel_family *trp__kernels_for(const trp__dnn_graph *graph, uint32_t first,
                                           uint32_t most, uint32_t *count)
{
    return best_of(trp__kernel_families, graph, first, most, count);
}

const trp__kernel_family *trp__kernels_behind(const trp__dnn_graph *graph, uint32_t first,
                                              uint32_t most, uint32_t *count)
{
    return best_of(behind_libraries, graph, first, most, count);
}
