/* A random problem of gemm or of the blas operations of levels 1 to 3: where its operands lie, what
 * is in them, how it is sent, and whether its outputs are right. Whatever an operation may not look
 * at is NaN, and whatever it may not write must be the same afterwards. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_BLAS_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_BLAS_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"
#include "support/reference/blas_reference.h"

/* ---- the operations ---- */

/* What an operation does with an operand. BY_BETA: reads it unless beta is 0, and writes it. */
enum { UNUSED, IN, OUT, INOUT, BY_BETA };
/* The number of rows or columns. SIDED: m with TRP_LEFT, n with TRP_RIGHT. */
enum { ONE, THREE, M, N, K, SIDED };
/* Which transpose exchanges the two. */
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
    /* Which options and scalars there are. */
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
    /* What is allowed. */
    COMPLEX_ONLY = 1 << 11,
    POSITIVE = 1 << 12, /* increments */
    NOT_T = 1 << 13,
    NOT_COMPLEX_C = 1 << 14,
    BATCHES = 1 << 15,
    SOLVES = 1 << 16,
    IN_PLACE = 1 << 17, /* C may be B */
    BANDED = 1 << 18,   /* A: kl diagonals of a triangle */
    PACKED = 1 << 19,   /* A: a triangle without gaps */
    REAL_ONLY = 1 << 20,
    MODIFIED = 1 << 21, /* the five numbers of a modified rotation */
    HALF = 1 << 22      /* f16 and bf16 too; alpha is f32 */
};

/* Of the result. */
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
    rule rules[3]; /* A, x or B, y or C */
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
    ref_operand view;      /* of the first of a batch */
    int64_t ld;            /* as asked for: leading dimension or increment, 0 for the smallest */
    int64_t extent;        /* elements from the first to the last of one of the batch */
    int64_t stride, batch; /* elements */
    int64_t start;         /* elements before it in its buffer */
    size_t align;          /* bytes */
    int block;
} operand;

typedef struct problem {
    const operation *op;
    trp_dtype type;
    trp_dtype type_c;           /* gemm: of C, if it is another one */
    trp_compute compute;        /* gemm */
    bool extremes;              /* of i8: -128 and 127 alone */
    int64_t step;               /* what leading dimensions and strides are multiples of, if not 0 */
    const struct problem *like; /* gemm of a list: has the leading dimensions of this one */
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
/* Of gemm: whether all that is computed are integers that the types hold. */
bool blas_is_exact(const problem *p);
/* Of alpha and beta, c and s. */
trp_dtype blas_scalar_type(const problem *p);
ref_complex blas_value_of(const problem *p, trp_scalar x, double standard);
ref_complex blas_alpha_of(const problem *p);
ref_complex blas_beta_of(const problem *p);
bool blas_reads(const problem *p, ref_place place);
bool blas_writes(const problem *p, ref_place place);
/* A wrong result ends the problems of its operation, and the test when all are through: false. */
bool blas_wrong(const problem *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- from the options to buffers and back ---- */

/* The options of a problem that has its operation and type: those with a number below
 * blas_options(). False if they do not go with the type. */
unsigned blas_options(const operation *op);
bool blas_set_options(problem *p, unsigned number);
/* Sizes and scalars at random, and blocks with their contents. */
void blas_draw(problem *p);
/* The same, with at least two rows and columns of everything, no operand left out, and each alone
 * in a buffer of exactly its bytes. */
void blas_draw_tight(problem *p);
/* `count` gemms with the options of the first, whose scalars are all's; with its sizes, or each
 * with its own. */
void blas_draw_list(problem *p, int count, bool own_sizes, bool tight);
/* Whether it reads nothing from where it writes. */
bool blas_runs_again(const problem *p);
void blas_lay_out(problem *p, ref_place place);
/* The result, and the scalars as so many real numbers. */
void blas_lay_out_rest(problem *p);
void blas_place_all(problem *p);
/* One of a batch; before or after. */
ref_operand blas_view_of(const problem *p, ref_place place, int64_t number, bool after);
void blas_fill_all(problem *p);
/* Once the blocks have buffers. */
void blas_make_request(const problem *p, blas_request *out);
trp_status blas_send_problem(trp_actor *blas, const problem *p, trp_completion *done);
/* *worst is raised to the largest error, as a share of its bound. Bytes that may have changed are
 * marked as writable. */
bool blas_check_outputs(problem *p, double *worst);

#endif
