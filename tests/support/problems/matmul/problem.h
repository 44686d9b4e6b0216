/* Products of the matmul actor for tests: a description, from which operands are laid out with gaps
 * and filled at random, the request is made, and results are compared with the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_MATMUL_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_MATMUL_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"
#include "support/reference/matmul_reference.h"

/* Types that go together. vector NONE: no epilogue; scalar: type of alpha and beta. */
typedef struct mm_types {
    trp_dtype a, b, c, d, vector, scalar;
} mm_types;

extern const mm_types mm_rows[];
extern const size_t mm_row_count;

typedef enum mm_c {
    MM_C_ABSENT,
    MM_C_APART,
    MM_C_IN_PLACE,
} mm_c;

enum { MM_UNSCALED = -1 };

typedef struct mm_problem {
    const mm_types *types;
    int64_t m, n, k, batch;
    trp_transpose trans_a, trans_b;
    trp_order order_a, order_b, order_d;
    mm_c c;
    trp_scalar alpha, beta;
    bool scalars; /* alpha and beta come from a buffer */
    bool alphas;  /* alpha is a vector */
    trp_compute compute;
    bool fast, deterministic;
    int32_t sm_count;
    trp_activation activation;
    bool bias, aux;
    bool aux_as_vector; /* D is fp8: aux has the type of vectors */
    trp_bias_gradient gradient;
    int scale_a, scale_b; /* trp_scale_mode or MM_UNSCALED */
    bool scale_d, scale_aux, amax_d, amax_aux;
    bool out_scale; /* D's blocks have factors, which are outputs */
    bool huge_aux;  /* inputs of derivatives are up to 10^30 */
    bool gaps;
    bool fit; /* sizes, strides and offsets suit GPUs; for fp8 and smaller types, transposes, too */
    bool one_pool;  /* all operands share a buffer, */
    bool two_pools; /* or inputs share one and outputs another; else each has its own */
    bool share_a, share_b, share_c, share_bias, share_alphas; /* stride 0 */
    bool tight;        /* operands end where their buffers end */
    bool side_by_side; /* the members of D's batch are within one leading dimension */
} mm_problem;

static inline trp_scale_mode mm_out_mode(const mm_problem *p)
{
    return p->types->d == TRP_F4E2M1 ? TRP_SCALE_BLOCK_16 : TRP_SCALE_BLOCK_32;
}

/* Draws all choices except the types; sizes are below the limits. */
mm_problem mm_draw(const mm_types *types, size_t size_limit, size_t k_limit);
/* Sets one of MM_WAYS combinations: of layouts, of epilogues and of scales, extreme sizes, and
 * random ones. False: it does not go with the types. */
enum { MM_WAYS = 192 + 192 + 49 + 8 + 12 + 3 * 4 + 6 + 16 + 20 };
bool mm_draw_way(const mm_types *types, unsigned way, mm_problem *out);
/* Draws operands of at least two elements in each direction, alone in buffers of exactly their
 * bytes. */
mm_problem mm_draw_tight(const mm_types *types);

/* Drops options that the rest of the problem does not allow. */
void mm_settle(mm_problem *p);
/* Writes all properties of a problem, for messages. */
void mm_describe(const mm_problem *p, char *out, size_t size);

/* ---- running them ---- */

enum { MM_POOLS = 16 };

/* A problem in memory: its operands in a block each, in two, or in one. */
typedef struct mm_work mm_work;

/* Settles a problem first. */
mm_work *mm_make(mm_problem problem);
block *mm_blocks(mm_work *w); /* MM_POOLS */
/* Writes the request; the blocks have buffers by then. Leaves random fields to their defaults. */
void mm_make_request(const mm_work *w, trp_matmul_request *out);
/* Ends the program if a result is wrong. Raises *worst to the largest error as a share of its
 * bound. Bytes that may have changed were marked before. */
void mm_check(mm_work *w, double *worst);
/* Returns whether the problem can run again: it reads nothing that it writes. */
bool mm_runs_again(const mm_work *w);
void mm_free(mm_work *w); /* except the contents of its blocks */

#endif
