/* A random problem of gemm or of the blas operations of levels 1 to 3: layouts and contents of its
 * operands, its request, and checks of its outputs. Memory that an operation may not read holds
 * NaN, and memory that it may not write must stay the same. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_BLAS_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_BLAS_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"
#include "support/reference/blas_reference.h"

/* ---- the operations ---- */

/* How an operation accesses an operand. BY_BETA: reads it unless beta is 0, and writes it. */
enum { UNUSED, IN, OUT, INOUT, BY_BETA };
/* Numbers of rows or columns. SIDED: m with TRP_LEFT, n with TRP_RIGHT. */
enum { ONE, THREE, M, N, K, SIDED };
/* The transpose that exchanges the two. */
enum { PLAIN, BY_TRANS, BY_TRANS_B };

typedef struct rule {
    uint8_t use, rows, columns, flip, shape;
    bool vector;
} rule;

#define VECTOR(use, rows)                                                                          \
    {                                                                                              \
        use, rows, ONE, PLAIN, REF_GENERAL, true                                                   \
    }
#define FLIPPED_VECTOR(use, rows, flipped)                                                         \
    {                                                                                              \
        use, rows, flipped, BY_TRANS, REF_GENERAL, true                                            \
    }
#define MATRIX(use, rows, columns)                                                                 \
    {                                                                                              \
        use, rows, columns, PLAIN, REF_GENERAL, false                                              \
    }
#define FLIPPED_MATRIX(use, rows, columns, how)                                                    \
    {                                                                                              \
        use, rows, columns, how, REF_GENERAL, false                                                \
    }
#define SHAPED(use, rows, columns, shape)                                                          \
    {                                                                                              \
        use, rows, columns, PLAIN, shape, false                                                    \
    }
#define NOTHING                                                                                    \
    {                                                                                              \
        UNUSED, ONE, ONE, PLAIN, REF_GENERAL, false                                                \
    }

enum {
    /* Options and scalars of an operation. */
    ORDER = 1 << 0,
    SIDE = 1 << 1,
    UPLO = 1 << 2,
    TRANS = 1 << 3,
    TRANS_B = 1 << 4,
    DIAG = 1 << 5,
    ALPHA = 1 << 6,
    BETA = 1 << 7,
    ROTATION = 1 << 8, /* c and s */
    REAL_ALPHA = 1 << 9,
    REAL_BETA = 1 << 10,
    /* Restrictions and permissions. */
    COMPLEX_ONLY = 1 << 11,
    POSITIVE = 1 << 12, /* of increments */
    NOT_T = 1 << 13,
    NOT_COMPLEX_C = 1 << 14,
    BATCHES = 1 << 15,
    SOLVES = 1 << 16,
    IN_PLACE = 1 << 17, /* C may be B */
    BANDED = 1 << 18,   /* A: kl diagonals of a triangle */
    PACKED = 1 << 19,   /* A: a triangle without gaps */
    REAL_ONLY = 1 << 20,
    MODIFIED = 1 << 21, /* the five numbers of a modified rotation */
    HALF = 1 << 22      /* also f16 and bf16; alpha is f32 */
};

/* Kinds of results. */
enum { NO_RESULT, ELEMENT, REAL, INDEX, PAIR, FIVE };

typedef struct operation {
    const char *name;
    uint32_t op;
    int level;
    trp_status (*send_0)(trp_actor *, const trp_gemm_request *, trp_completion *);
    trp_status (*send_1)(trp_actor *, const trp_blas1_request *, trp_completion *);
    trp_status (*send_2)(trp_actor *, const trp_blas2_request *, trp_completion *);
    trp_status (*send_3)(trp_actor *, const trp_blas3_request *, trp_completion *);
    unsigned options;
    rule rules[3]; /* for A; x or B; y or C */
    int result;
} operation;

/* A request of any level. */
typedef union blas_request {
    trp_gemm_request gemm;
    trp_blas1_request one;
    trp_blas2_request two;
    trp_blas3_request three;
} blas_request;

/* ---- a problem ---- */

enum { SCALARS = REF_RESULT + 1, PLACES };

typedef struct operand {
    int use;
    ref_operand view;      /* the first member of a batch */
    int64_t ld;            /* as in the request: leading dimension or increment; 0: the smallest */
    int64_t extent;        /* elements from the first to the last of a member of the batch */
    int64_t stride, batch; /* in elements */
    int64_t start;         /* elements before it in its buffer */
    size_t align;          /* in bytes */
    int block;
} operand;

typedef struct problem {
    const operation *op;
    trp_dtype type;
    trp_dtype type_c;           /* gemm: type of C, if it is another one */
    trp_compute compute;        /* gemm */
    bool extremes;              /* i8: only -128 and 127 */
    int64_t step;               /* factor of leading dimensions and strides; 0: none */
    const struct problem *like; /* gemm of a list: takes the leading dimensions of this item */
    bool row_major, gaps, one_block, on_device, in_place, same_place, interleaved;
    trp_side side;
    trp_uplo uplo;
    trp_transpose trans, trans_b;
    trp_diag diag;
    int64_t m, n, k, kl, ku, batch;
    trp_scalar alpha, beta, c, s;
    double modified[5];
    operand operands[PLACES];
    block blocks[PLACES];
} problem;

/* ---- numbers and questions ---- */

size_t blas_below(size_t bound);
double blas_uniform(void); /* from -1 to 1 */
bool blas_has(const problem *p, unsigned option);
bool blas_is_half(trp_dtype type);
/* Returns whether gemm computes only integers that the types hold. */
bool blas_is_exact(const problem *p);
/* Returns the type of alpha and beta, c and s. */
trp_dtype blas_scalar_type(const problem *p);
ref_complex blas_value_of(const problem *p, trp_scalar x, double standard);
ref_complex blas_alpha_of(const problem *p);
ref_complex blas_beta_of(const problem *p);
bool blas_reads(const problem *p, ref_place place);
bool blas_writes(const problem *p, ref_place place);
/* Reports a wrong result, which ends the problems of its operation, and fails the test after all
 * operations; returns false. */
bool blas_wrong(const problem *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- from the options to buffers and back ---- */

/* The options of a problem whose operation and type are set, numbered below blas_options(). False:
 * they do not go with the type. */
unsigned blas_options(const operation *op);
bool blas_set_options(problem *p, unsigned number);
/* Draws sizes and scalars, and blocks with contents. */
void blas_draw(problem *p);
/* Draws at least two rows and columns of everything, no operand left out, each alone in a buffer of
 * exactly its bytes. */
void blas_draw_tight(problem *p);
/* Draws `count` gemms with the options of the first, which has the scalars of all; with its sizes,
 * or each with its own. */
void blas_draw_list(problem *p, int count, bool own_sizes, bool tight);
/* Returns whether the problem can run again: it reads nothing that it writes. */
bool blas_runs_again(const problem *p);
void blas_lay_out(problem *p, ref_place place);
/* Lays out the result, and the scalars as a number of real numbers. */
void blas_lay_out_rest(problem *p);
void blas_place_all(problem *p);
/* Returns a member of a batch, before or after. */
ref_operand blas_view_of(const problem *p, ref_place place, int64_t number, bool after);
void blas_fill_all(problem *p);
/* Writes the request; the blocks have buffers by then. */
void blas_make_request(const problem *p, blas_request *out);
trp_status blas_send_problem(trp_actor *blas, const problem *p, trp_completion *done);
/* Checks the outputs. Raises *worst to the largest error as a share of its bound. Marks bytes that
 * may have changed as writable. */
bool blas_check_outputs(problem *p, double *worst);

#endif
