/* Products of the matmul actor as tests make them: a description, from which the operands are laid
 * out with gaps and filled at random, the request is sent, and every byte that comes back is
 * checked: results against the reference, all others for being unchanged.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_MATMUL_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_MATMUL_PROBLEM_H

#include "support/harness.h"
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
    trp_compute compute;
    bool fast, deterministic;
    int32_t sm_count;
    trp_activation activation;
    bool bias, aux;
    bool aux_as_vector; /* where D is fp8: aux has the type of the vectors */
    trp_bias_gradient gradient;
    int scale_a, scale_b; /* trp_scale_mode or MM_UNSCALED */
    bool scale_d, scale_aux, amax_d, amax_aux;
    bool huge_aux; /* what a derivative reads is of up to 10^30 */
    bool gaps;
    bool fit; /* sizes, strides and places as GPUs like them; of fp8 and so on transposes too */
    bool one_pool;  /* all operands in one buffer, */
    bool two_pools; /* or the inputs in one and the outputs in another; else each in its own */
    bool share_a, share_b, share_c, share_bias; /* stride 0 */
    bool side_by_side; /* the members of D's batch, within one leading dimension */
} mm_problem;

/* Every choice drawn at random but the types; sizes are below the limits given. */
mm_problem mm_draw(const mm_types *types, size_t size_limit, size_t k_limit);
/* A random layout alone: gaps, pools, shared matrices. */
void mm_draw_layout(mm_problem *p);
trp_scalar mm_draw_scalar(bool beta);

/* Gives up what the rest of the problem does not allow. */
void mm_settle(mm_problem *p);
/* All that makes up a problem, for messages. */
void mm_describe(const mm_problem *p, char *out, size_t size);

/* ---- running them ---- */

enum { MM_POOLS = 16, MM_LINES = 600 };

/* How problems of one kind have gone. */
typedef struct mm_line {
    char kind[112];
    int ran, refused;
    double worst; /* the largest error, as a part of its bound */
} mm_line;

typedef struct mm_bench {
    h_world world;
    trp_actor *actor;
    trp_buffer pool[MM_POOLS];
    uint64_t capacity[MM_POOLS];
    mm_line line[MM_LINES];
    int lines;
} mm_bench;

/* Opens a device and an actor on it; skips the case if the backend has no such actor. */
void mm_open(mm_bench *bench);
/* Prints how it went; on the cuda backend, or if TROUPE_TEST_TABLE is set, of each kind of problem.
 */
void mm_close(mm_bench *bench);

/* Settles a problem, sends it and checks what comes. Only on GPUs may it be refused. */
void mm_run(mm_bench *bench, mm_problem problem);

#endif
