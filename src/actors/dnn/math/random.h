/* The numbers of RANDOM, for the host and for kernels: both use this text and get equal numbers.
 * Products and sums that a compiler could fuse are written as fused. */
#ifndef TRP_ACTORS_DNN_MATH_RANDOM_H
#define TRP_ACTORS_DNN_MATH_RANDOM_H

#include "actors/dnn/graph/graph.h"
#include "base/numbers/normal.h"
#include "base/numbers/philox.h"

#include <math.h>

/* Returns the elements drawn from the words of one block. */
static inline int trp__dnn_random_each(const trp__dnn_node *n)
{
    return n->compute == TRP_F64 ? TRP__PHILOX_WORDS / 2 : TRP__PHILOX_WORDS;
}

/* Returns the fraction of element k of a block, from 0 to below 1. */
static inline double trp__dnn_random_fraction(const trp__dnn_node *n, const uint32_t *word, int k)
{
    if (n->compute != TRP_F64)
        return (double)trp__philox_uniform(word[k]);
    const uint64_t both = (uint64_t)word[2 * k] << 32 | word[2 * k + 1];
    return (double)(both >> 11) * 0x1p-53;
}

/* Returns a normal number in f64 by the C library's functions. */
static inline double trp__dnn_random_normal(const trp__dnn_node *n, const uint32_t *word, int k)
{
    const int even = k - k % 2;
    if (n->compute != TRP_F64) {
        float two[2];
        trp__normal_two(trp__normal_of(n->parameter[0], n->parameter[1]), word[even],
                        word[even + 1], two);
        return (double)two[k % 2];
    }
    const double far = sqrt(-2 * log(1 - trp__dnn_random_fraction(n, word, even)));
    const double turn = 6.283185307179586477 * trp__dnn_random_fraction(n, word, even + 1);
    return fma(n->parameter[1], far * (k == even ? cos(turn) : sin(turn)), n->parameter[0]);
}

/* Returns element k of a block, in f32 if the node computes in f32. */
static inline double trp__dnn_random_value(const trp__dnn_node *n, const uint32_t *word, int k)
{
    const double *p = n->parameter;
    if (n->mode == TRP_DNN_BERNOULLI)
        return trp__dnn_random_fraction(n, word, k) < p[0];
    if (n->mode == TRP_DNN_NORMAL)
        return trp__dnn_random_normal(n, word, k);
    double value = fma(p[1] - p[0], trp__dnn_random_fraction(n, word, k), p[0]);
    if (n->compute != TRP_F64)
        value = (double)(float)value;
    return value > p[2] ? p[2] : value;
}

#endif
