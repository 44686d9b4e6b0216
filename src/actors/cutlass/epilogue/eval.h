/* Evaluates an epilogue tree on the host: for the host backend, and as the reference for results of
 * GPUs. Operands are read and written in place in their types.
 *
 * Every value is rounded to the compute type wherever a GPU rounds it. Additions, products,
 * quotients, roots, FMA, minima and maxima follow IEEE 754; other functions are computed in f64 and
 * rounded. Sums of reductions are accumulated in f64 and rounded once, at the end. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_EVAL_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_EVAL_H

#include "actors/cutlass/epilogue/tree.h"

/* The contents of one slot. A scalar without `at` has `value`. */
typedef struct trp__tree_data {
    void *at;
    int64_t ld, stride; /* elements; as in trp__tree_place, and of C and D likewise */
    double value;
} trp__tree_data;

typedef struct trp__tree_eval {
    const trp__tree *tree;
    int64_t m, n, batch;        /* of D, in the tree's orientation */
    const trp__tree_data *slot; /* tree->slots of them */
    double *sums;               /* trp__tree_eval_sums() numbers, owned by the caller */
} trp__tree_eval;

/* A part of one matrix of the batch: rows x columns elements from (row, column) on. The sum of its
 * element (i, j) is at acc[i + j * acc_ld] if acc_order is column-major, else at acc[i * acc_ld +
 * j]. */
typedef struct trp__tree_tile {
    int64_t row, column, rows, columns, batch;
    const void *acc;
    trp_dtype acc_type; /* f32, f64 or i32; rounded to the compute type */
    trp_order acc_order;
    int64_t acc_ld;
} trp__tree_tile;

/* Returns the numbers that a tree's reductions need. */
int64_t trp__tree_eval_sums(const trp__tree_eval *e);

/* Call begin before the first tile, then once per tile of D in any order, then end, which writes
 * the results of reductions. One thread at a time; allocates nothing. D may be C. */
void trp__tree_eval_begin(const trp__tree_eval *e);
void trp__tree_eval_tile(const trp__tree_eval *e, const trp__tree_tile *tile);
void trp__tree_eval_end(const trp__tree_eval *e);

#endif
