/* Operations of chain nodes on arrays: the functions of math/functions.h, in vector instructions
 * where possible. host/chain.c provides the arrays.
 *
 * An array is dense, of f32 or f64 as the chain computes. y may be x. Results that math/functions.c
 * computes in f64 and rounds are rounded here too: all functions except those of vmath.h have the
 * same bits as math/functions.c; those are within 0.9 ulp and pass elements that are not finite to
 * math/functions.c. Results have the same bits on every processor.
 */
#ifndef TRP_ACTORS_DNN_HOST_ARRAYS_OPS_H
#define TRP_ACTORS_DNN_HOST_ARRAYS_OPS_H

#include "actors/dnn/graph/graph.h"

#include <stdbool.h>

/* The arrays of a node: x, b, t and y of POINTWISE; x and dy, in b, and dx, in y, of
 * POINTWISE_BACKWARD. */
typedef struct trp__chain_arrays {
    int64_t count;
    const void *x, *b, *t; /* b: one number if `one_b`; NULL: the node has none */
    void *y;
    bool one_b;
} trp__chain_arrays;

void trp__chain_op_f32(const trp__dnn_node *n, const trp__chain_arrays *a);
void trp__chain_op_f64(const trp__dnn_node *n, const trp__chain_arrays *a);

/* Reduces `count` numbers to one. Sums are accumulated in f64, in 16 parts. */
float trp__chain_reduce_f32(uint8_t mode, const float *x, int64_t count);

/* Rounds elements of f32 to bf16. */
void trp__chain_round_bf16(float *x, int64_t count);

/* Converts i32 to f32, rounded, or to f64. */
void trp__chain_widen_i32(const int32_t *from, bool wide, void *to, int64_t count);

#endif
