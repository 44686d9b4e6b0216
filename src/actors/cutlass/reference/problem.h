/* One launch of the reference kernel (kernels.h), which computes any request of the actor slowly
 * and in f64: what proofs of kernels compare with, and what runs where a kernel was rejected. Read
 * by NVRTC, too, with TRP_CUTLASS_PLAIN. */
#ifndef TRP_ACTORS_CUTLASS_REFERENCE_PROBLEM_H
#define TRP_ACTORS_CUTLASS_REFERENCE_PROBLEM_H

#include "actors/cutlass/templates/groups.h"

enum {
    TRP__REFERENCE_NODES = 64,
    TRP__REFERENCE_D = 0xff,   /* as `what`: D, */
    TRP__REFERENCE_ALL = 0xfe, /* or D and all that the tree writes; reductions begin with what is
                                * there */
};

/* A node of the tree, as in epilogue/tree.h; `word`: of its operand, in the arguments' slots. */
typedef struct trp__reference_node {
    uint8_t op, type, detail, word;
    uint8_t input[3];
    uint8_t slot;
} trp__reference_node;

/* The kernel's only parameter. */
typedef struct trp__cutlass_reference {
    trp_cutlass_args args;
    const void *table; /* of grouped products: what the grouping says, on the device */
    /* The numbers of the elements to compute, NULL: all. Element (i, j) of member l of the batch
     * has the number (l m + i) n + j; of groups that are cut along m or n there is one member.
     */
    const int64_t *sample;
    int64_t count; /* elements; a block for each */
    uint8_t grouped, convolves;
    uint8_t a, b, c, d, accumulator; /* as in trp__cutlass_problem */
    uint8_t a_row, b_row, scale_a, scale_b, zeros;
    uint8_t conv;        /* trp_conv_operation */
    uint8_t wide;        /* the tree computes in f64, not in f32 */
    uint8_t nodes, root; /* nodes 0: alpha * sums + beta * C in i32 */
    uint8_t what;        /* a node that stores, or TRP__REFERENCE_D or _ALL */
    trp__reference_node node[TRP__REFERENCE_NODES];
} trp__cutlass_reference;

#endif
