/* Rotation angles of pairs, for the host and for kernels on GPUs. */
#ifndef TRP_ACTORS_DNN_MATH_ROTARY_H
#define TRP_ACTORS_DNN_MATH_ROTARY_H

#include "actors/dnn/graph/train.h"

#include <math.h>

/* Returns the angle of pair `pair` of `turning` elements at a position, without tables. */
static inline double trp__rotary_angle(const trp__dnn_node *n, int64_t turning, int64_t position,
                                       int64_t pair)
{
    return (double)position * pow(n->parameter[0], -2.0 * (double)pair / (double)turning);
}

/* Returns the number of rotated elements, twice the width of `table`, the cosines, if that is not
 * NULL. */
static inline int64_t trp__rotary_turning(const trp__dnn_node *n, const trp__dnn_tensor *x,
                                          const trp__dnn_tensor *table)
{
    return table                 ? 2 * table->dim[1]
           : n->parameter[1] > 0 ? (int64_t)n->parameter[1]
                                 : x->dim[x->rank - 1] / 2 * 2;
}

/* Return the positions of a pair's elements along the last dimension. */
static inline int64_t trp__rotary_first(const trp__dnn_node *n, int64_t pair)
{
    return n->mode == TRP_DNN_ROTARY_PAIRS ? 2 * pair : pair;
}

static inline int64_t trp__rotary_second(const trp__dnn_node *n, int64_t turning, int64_t pair)
{
    return n->mode == TRP_DNN_ROTARY_PAIRS ? 2 * pair + 1 : pair + turning / 2;
}

#endif
