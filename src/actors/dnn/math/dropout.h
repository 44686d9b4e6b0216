/* Dropout of attention weights: the same on the host and in kernels for GPUs, forward and backward,
 * for any layout. See TRP_DNN_ATTENTION. */
#ifndef TRP_ACTORS_DNN_MATH_DROPOUT_H
#define TRP_ACTORS_DNN_MATH_DROPOUT_H

#include "actors/dnn/graph/graph.h"
#include "base/numbers/philox.h"

typedef struct trp__dropout {
    double probability; /* 0: no dropout and no random numbers */
    double factor;      /* factor of remaining weights */
    uint64_t seed, offset;
} trp__dropout;

static inline trp__dropout trp__dropout_of(const trp__dnn_node *n, uint64_t seed, uint64_t offset)
{
    const trp__dropout d = {n->parameter[1], 1 / (1 - n->parameter[1]), seed, offset};
    return d;
}

static inline bool trp__dropout_keeps(const trp__dropout *d, uint32_t word)
{
    return (double)trp__philox_uniform(word) >= d->probability;
}

/* Returns the factor of a weight, given the index of its score: 0 or `factor`. */
static inline double trp__dropout_at(const trp__dropout *d, uint64_t number)
{
    uint32_t word[TRP__PHILOX_WORDS];
    if (d->probability <= 0)
        return 1;
    trp__philox_block(d->seed, d->offset, number / TRP__PHILOX_WORDS, word);
    return trp__dropout_keeps(d, word[number % TRP__PHILOX_WORDS]) ? d->factor : 0;
}

#endif
