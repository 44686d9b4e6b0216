/* Grouped products of small integers, so that results are exact. */
#ifndef TESTS_GROUPED_PROBLEM_H
#define TESTS_GROUPED_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"

/* Buffers; those after D belong to a tree, and to the table. */
enum {
    GP_A,
    GP_B,
    GP_C,
    GP_D,
    GP_MATRICES,
    GP_ROWS = GP_MATRICES,
    GP_COLUMNS,
    GP_SCALARS,
    GP_TABLE,
    GP_BLOCKS
};
enum {
    GP_NONE,
    GP_SUMS,
    GP_SCALED,
    GP_COLUMN,
    GP_BIASED,
    GP_RELU,
    GP_SCALAR,
    GP_OLD,
    GP_ROOT,
    GP_NODES
};
enum { GP_GROUPS_MOST = 9 };

/* A matrix of all groups in memory; or a vector. */
typedef struct gp_place {
    trp_dtype type;
    bool row_major;
    size_t offset, span; /* in elements */
    size_t ld, stride;   /* of the request */
    block *block;
} gp_place;

typedef struct gp_group {
    size_t m, n, k;
    size_t at[GP_MATRICES], ld[GP_MATRICES]; /* in elements; `at` counts from the matrix's offset */
    size_t row, column;
} gp_group;

typedef struct gp_problem {
    trp_cutlass_grouping grouping;
    bool tight;             /* for bad_input: no gaps, nothing empty, no default offsets */
    size_t groups, m, n, k; /* m, n, k: of the request */
    gp_group group[GP_GROUPS_MOST];
    gp_place matrix[GP_MATRICES];
    bool in_place, tree;
    double alpha, beta;
    gp_place rows, columns, scalars; /* operands of the tree */
    block blocks[GP_BLOCKS];
    unsigned char *wanted; /* the bytes that D must hold, gaps included */
    trp_cutlass_group row[GP_GROUPS_MOST];
    uint64_t table_offset;
    trp_epilogue_node nodes[GP_NODES];
} gp_problem;

/* Draws groups for a type of A; grouping and `tight` are set. Sizes are at most `most`. */
void gp_draw(gp_problem *p, trp_dtype type, size_t most);

/* Draws more than a tile in direction `way`: m, n or k, when m is cut. */
void gp_draw_large(gp_problem *p, unsigned way);

/* Writes the request; the blocks have buffers by then. */
void gp_request(gp_problem *p, trp_cutlass_grouped_gemm_request *out);

#endif
