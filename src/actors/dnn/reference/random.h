/* RANDOM's kernel, a part of kernels.h. */
#include "actors/dnn/math/random.h"

/* Returns a seed or an offset, or 0 without one. */
static uint64_t word_at(const trp__direct *d, int port)
{
    uint64_t word = 0;
    if (d->used[port])
        memcpy(&word, d->at[port] ? d->at[port] : (const void *)&d->value[port], sizeof word);
    return word;
}

TRP__KERNEL void trp_direct_random(const trp__direct d)
{
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_RANDOM_Y];
    const uint64_t seed = word_at(&d, TRP__DNN_RANDOM_SEED);
    const uint64_t before = word_at(&d, TRP__DNN_RANDOM_OFFSET);
    const int each = trp__dnn_random_each(&d.node);
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        uint32_t word[TRP__PHILOX_WORDS];
        position(y, i, at);
        trp__philox_block(seed, before, (uint64_t)(i / each), word);
        store(&d, TRP__DNN_RANDOM_Y, offset(y, y->rank, at),
              trp__dnn_random_value(&d.node, word, (int)(i % each)));
    }
}
