/* Random epilogue trees, each valid, for tests of all that is done with trees.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_EPILOGUE_DRAW_H
#define TESTS_SUPPORT_PROBLEMS_EPILOGUE_DRAW_H

#include <troupe/cutlass.h>

typedef struct epilogue_tree {
    trp_epilogue_node node[TRP_EPILOGUE_NODES_MAX];
    uint32_t count;
    trp_dtype accumulator, c, d; /* c: also where no node reads it */
    trp_order order;             /* of C and D */
} epilogue_tree;

/* Some of what follows a state of random.h draws. */
typedef struct epilogue_limits {
    uint32_t nodes;  /* at most, nodes[0] included; 0: TRP_EPILOGUE_NODES_MAX */
    bool f32_only;   /* no f64 sums */
    bool one_order;  /* everything is row-major */
    bool no_sinks;   /* nothing is stored but D */
    bool exact_only; /* no function that a GPU may round otherwise than the host */
} epilogue_limits;

/* A valid tree. Each node with memory has a buffer of its own, whose id is the node's number. */
void epilogue_draw(uint64_t *rng, epilogue_limits limits, epilogue_tree *out);

/* The same computation: nodes in another order, operands that commute the other way round. new_of
 * says where each node went; buffers keep their ids. */
void epilogue_shuffle(uint64_t *rng, const epilogue_tree *from, epilogue_tree *out,
                      uint32_t new_of[TRP_EPILOGUE_NODES_MAX]);

/* Another computation, by one change; what was changed, for messages. */
const char *epilogue_change(uint64_t *rng, const epilogue_tree *from, epilogue_tree *out);

/* Whether a node of this kind has an operand in memory (a scalar: may have). */
bool epilogue_has_memory(trp_epilogue_kind kind);
/* Whether it writes it. */
bool epilogue_is_sink(trp_epilogue_kind kind);
/* How many inputs a node has. */
uint32_t epilogue_inputs(const trp_epilogue_node *node);

#endif
