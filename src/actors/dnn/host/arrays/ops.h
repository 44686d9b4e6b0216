/* What the nodes of a chain do with arrays: the elements of math/functions.h, in vector
 * instructions where there are some. Host_chain.c has the arrays.
 *
 * An array is dense, of f32 or f64, whichever a chain computes in. y may be x. Where
 * math/functions.c has the result in f64 and it is rounded, so it is here: all but the functions of
 * vmath.h have the same bits as math/functions.c; those are within 0.9 ulp, and elements that are
 * not finite are given to math/functions.c itself. Results have the same bits on every processor.
 */
#ifndef TRP_ACTORS_DNN_HOST_ARRAYS_OPS_H
#define TRP_ACTORS_DNN_HOST_ARRAYS_OPS_H

#include "actors/dnn/graph/graph.h"

#include <stdbool.h>

/* What a node reads and writes: x, b, t and y of POINTWISE; x and dy, in b, and dx, in y, of
 * POINTWISE_BACKWARD. */
typedef struct trp__chain_arrays {
    int64_t count;
    const void *x, *b, *t; /* b: one number if `one_b`; NULL: the node has none */
    void *y;
    bool one_b;
} trp__chain_arrays;

void trp__chain_op_f32(const trp__dnn_node *n, const trp__chain_arrays *a);
void trp__chain_op_f64(const trp__dnn_node *n, const trp__chain_arrays *a);

/* A reduction of `count` numbers to one. Sums are taken in f64, in 16 parts. */
float trp__chain_reduce_f32(uint8_t mode, const float *x, int64_t count);

/* Elements of f32 as bf16 holds them. */
void trp__chain_round_bf16(float *x, int64_t count);

/* i32 to f32, rounded, and to f64. */
void trp__chain_widen_i32(const int32_t *from, bool wide, void *to, int64_t count);

#endif
