/* Products with random epilogue trees, the same on two devices. SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_SUPPORT_PROBLEMS_TREE_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_TREE_PROBLEM_H

#include "support/problems/epilogue_draw.h"
#include "support/harness.h"

/* Operands: those of nodes, then these. */
enum { TREE_A = TRP_EPILOGUE_NODES_MAX, TREE_B, TREE_C, TREE_D, TREE_OPERANDS };

typedef struct tree_problem {
    epilogue_tree tree;
    trp_cutlass_gemm_request r;
    size_t bytes[TREE_OPERANDS];
    trp_dtype type[TREE_OPERANDS];
    bool written[TREE_OPERANDS];
    unsigned char *data[TREE_OPERANDS]; /* contents of operands before */
} tree_problem;

/* A device: a buffer for each operand, and the status of the request. */
typedef struct tree_side {
    trp_device *device;
    trp_actor *cutlass;
    trp_buffer buffer[TREE_OPERANDS];
    trp_completion done;
    trp_status status;
} tree_side;

/* Limits: sizes up to 48, operands of small integers, `k` at least 1; aligned: sizes and lines are
 * multiples of 16 elements. */
typedef struct tree_options {
    epilogue_limits limits;
    bool aligned, half_only; /* sums of bf16 */
} tree_options;

void tree_draw(uint64_t *rng, const tree_options *options, tree_problem *out);

/* Creates the buffers and sends the request, with the kernel of that name or NULL; the status is in
 * side->status. */
void tree_place(tree_side *side, const tree_problem *p);
void tree_send(tree_side *side, tree_problem *p, const char *kernel);
/* Waits, if it was sent. */
void tree_await(tree_side *side);

/* Returns the contents of an operand; the caller frees them. */
unsigned char *tree_read(const tree_side *side, const tree_problem *p, int which);

void tree_free_side(tree_side *side, const tree_problem *p);
void tree_free(tree_problem *p);

#endif
