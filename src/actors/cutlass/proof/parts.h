/* Shared by the files of proofs. */
#ifndef TRP_ACTORS_CUTLASS_PROOF_PARTS_H
#define TRP_ACTORS_CUTLASS_PROOF_PARTS_H

#include "actors/cutlass/proof/proof.h"
#include "actors/cutlass/reference/problem.h"

enum {
    TRP__PROVING_OPERANDS = 2 * TRP__TREE_SLOTS_MAX + 16,
    TRP__PROVING_NO_ADDRESS = 0xffff,
};

/* A proof in the making. */
typedef struct trp__cutlass_proving {
    const trp__cutlass_trial *trial;
    trp__cutlass_builder *builder;
    trp__cu_function reference;
    trp_cutlass_args args; /* sizes as they are proven, numbers, no addresses */
    trp__tree tree;        /* count 0: none */
    bool in_place;         /* C is copied to D before each run */

    trp__proof_operand operand[TRP__PROVING_OPERANDS];
    uint32_t operands;
    uint16_t at[TRP__PROVING_OPERANDS];  /* where in the arguments its address belongs */
    uint8_t what[TRP__PROVING_OPERANDS]; /* of an output: the node, or TRP__REFERENCE_D */
    uint32_t c, d, first_numbers, table; /* operands; UINT32_MAX: there is none */

    void *rows; /* of a grouped product, what `table` is to hold; malloc'ed */
    size_t rows_bytes;
} trp__cutlass_proving;

/* --- operands.c --- */

/* Adds the operands of the arguments and the tree, with room for the reference's own. */
void trp__proving_add_operands(trp__cutlass_proving *x);

/* How many a request has of matrix `which`: of groups cut along a dimension one. */
int64_t trp__proving_members(const trp__cutlass_proving *x, int which);

/* --- sizes.c --- */

/* Lays out all operands, with groups of several sizes, some empty; of a problem that is made
 * smaller where it takes too much memory or time, with sizes that end in the same parts of tiles.
 * False: no memory. */
bool trp__proving_lay_out(trp__cutlass_proving *x);

/* --- tree.c --- */

/* Properties of a tree's results for exact sums. */
typedef struct trp__proving_tree {
    bool exact;    /* the same bits */
    bool foretold; /* nothing jumps, or is divided by, that is only nearly known */
    bool tame;     /* and of sums that are nearly known something as near: sums of fractions do */
    bool reads;    /* it reads more than sums and numbers by value */
} trp__proving_tree;

trp__proving_tree trp__proving_look_at_tree(const trp__tree *tree);

/* Numbers by value that make a difference and are finite. */
void trp__proving_set_numbers(const trp__tree *tree, trp_cutlass_args *args);

#endif
