/* Random valid epilogue trees, for all tests of trees. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_EPILOGUE_DRAW_H
#define TESTS_SUPPORT_PROBLEMS_EPILOGUE_DRAW_H

#include <troupe/cutlass.h>

typedef struct epilogue_tree {
    trp_epilogue_node node[TRP_EPILOGUE_NODES_MAX];
    uint32_t count;
    trp_dtype accumulator, c, d; /* c: also set if no node reads C */
    trp_order order;             /* of C and D */
} epilogue_tree;

/* Limits of a tree, which otherwise follows from a state of random.h. */
typedef struct epilogue_limits {
    uint32_t nodes;  /* at most, nodes[0] included; 0: TRP_EPILOGUE_NODES_MAX */
    bool f32_only;   /* no f64 sums */
    bool one_order;  /* everything is row-major */
    bool no_sinks;   /* stores only D */
    bool exact_only; /* only functions that a GPU rounds as the host does */
} epilogue_limits;

/* Draws a valid tree. Each node in memory has its own buffer, whose id is the node's number. */
void epilogue_draw(uint64_t *rng, epilogue_limits limits, epilogue_tree *out);

/* Writes the same computation with nodes in another order, and operands that commute exchanged.
 * new_of has the new number of each node; buffers keep their ids. */
void epilogue_shuffle(uint64_t *rng, const epilogue_tree *from, epilogue_tree *out,
                      uint32_t new_of[TRP_EPILOGUE_NODES_MAX]);

/* Changes the computation in one point; returns a text for messages. */
const char *epilogue_change(uint64_t *rng, const epilogue_tree *from, epilogue_tree *out);

/* Returns whether a node of this kind has an operand in memory (a scalar may have one). */
bool epilogue_has_memory(trp_epilogue_kind kind);
/* Returns whether it writes the operand. */
bool epilogue_is_sink(trp_epilogue_kind kind);
/* Returns the number of inputs of a node. */
uint32_t epilogue_inputs(const trp_epilogue_node *node);

#endif
