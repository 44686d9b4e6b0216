/* Products of the matmul actor as tests make them: a description, from which the operands are laid
 * out with gaps and filled at random, the request is made, and results are checked against the
 * reference.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_MATMUL_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_MATMUL_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"
#include "support/reference/matmul_reference.h"

/* What goes together; vector NONE: no epilogue, scalar: what alpha and beta are of. */
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
    bool aux_as_vector; /* where D is fp8: aux has the type of the vectors */
    trp_bias_gradient gradient;
    int scale_a, scale_b; /* trp_scale_mode or MM_UNSCALED */
    bool scale_d, scale_aux, amax_d, amax_aux;
    bool out_scale; /* D's blocks have factors, which are written */
    bool huge_aux;  /* what a derivative reads is of up to 10^30 */
    bool gaps;
    bool fit; /* sizes, strides and places as GPUs like them; of fp8 and so on transposes too */
    bool one_pool;  /* all operands in one buffer, */
    bool two_pools; /* or the inputs in one and the outputs in another; else each in its own */
    bool share_a, share_b, share_c, share_bias, share_alphas; /* stride 0 */
    bool tight;        /* operands end where their buffers do */
    bool side_by_side; /* the members of D's batch, within one leading dimension */
} mm_problem;

static inline trp_scale_mode mm_out_mode(const mm_problem *p)
{
    return p->types->d == TRP_F4E2M1 ? TRP_SCALE_BLOCK_16 : TRP_SCALE_BLOCK_32;
}

/* Every choice drawn at random but the types; sizes are below the limits given. */
mm_problem mm_draw(const mm_types *types, size_t size_limit, size_t k_limit);
/* One of MM_WAYS: combinations of layouts, of epilogues and of scales, sizes at their ends, and
 * anything. False: it does not go with the types. */
enum { MM_WAYS = 192 + 192 + 49 + 8 + 12 + 3 * 4 + 6 + 16 + 20 };
bool mm_draw_way(const mm_types *types, unsigned way, mm_problem *out);
/* All operands at least two elements wide and alone in buffers of exactly their bytes. */
mm_problem mm_draw_tight(const mm_types *types);

/* Gives up what the rest of the problem does not allow. */
void mm_settle(mm_problem *p);
/* All that makes up a problem, for messages. */
void mm_describe(const mm_problem *p, char *out, size_t size);

/* ---- running them ---- */

enum { MM_POOLS = 16 };

/* A problem in memory: its operands in one block each, in two or in one. */
typedef struct mm_work mm_work;

/* Settles a problem first. */
mm_work *mm_make(mm_problem problem);
block *mm_blocks(mm_work *w); /* MM_POOLS */
/* Once the blocks have buffers; leaves to its default now this, now that. */
void mm_make_request(const mm_work *w, trp_matmul_request *out);
/* Ends the program if a result is wrong; *worst is raised to the largest error, as a share of its
 * bound. Which bytes may have changed was marked before. */
void mm_check(mm_work *w, double *worst);
/* Whether it reads nothing from where it writes. */
bool mm_runs_again(const mm_work *w);
void mm_free(mm_work *w); /* but for what its blocks have */

#endif
