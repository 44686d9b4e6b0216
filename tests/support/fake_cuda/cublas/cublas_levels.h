/* What the files of the fake cuBLAS's levels 1 to 3 share: one call for all of the routines, and
 * views of its operands. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUBLAS_CUBLAS_LEVELS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUBLAS_CUBLAS_LEVELS_H

#include "support/fake_cuda/cublas/cublas.h"

#include "libs/cublas/cublas_levels.h"

typedef enum operation {
#define CUBLAS_ALL(op, family, s, d, c, z) op,
#define CUBLAS_REAL(op, family, s, d)      op,
#define CUBLAS_COMPLEX(op, family, c, z)   op,
#include "libs/blas/routines.def"
} operation;

/* Y is what a routine writes, whatever its documentation calls it; rot, rotg and swap write X too.
 */
enum { A, X, Y, OPERANDS };

typedef struct operand {
    const void *at;
    int64_t step; /* leading dimension, or increment */
    long long int stride;
} operand;

/* What a scalar or a result is, besides an element. */
typedef enum kind { NONE, ELEMENT, REAL, FLOAT, INTEGER } kind;

typedef struct scalar {
    fake_scalar number;
    kind kind;
} scalar;

typedef struct output {
    void *at;
    kind kind;
} output;

typedef struct call {
    operation op;
    trp__cublas_type type;
    trp__cublas_side side;
    trp__cublas_fill fill;
    trp__cublas_diag diag;
    trp__cublas_operation trans, trans_b;
    int64_t m, n, k, ku, batch; /* vectors: 1 x n */
    operand operand[OPERANDS];
    scalar alpha, beta; /* rot: c and s */
    output result[2];
} call;

_Static_assert(sizeof(call) <= FAKE_ARGUMENT_BYTES, "a call fits into an operation");

/* Views: op(X) of an operand X, whatever its place, order, triangle. */

typedef enum structure { FULL, BAND, TRIANGLE, SYMMETRIC, HERMITIAN } structure;

typedef struct view {
    trp__cublas_type type;
    char *at;                   /* element (0, 0) of X; NULL: not to be looked at */
    int64_t rows, columns;      /* of op(X) */
    int64_t down, right;        /* elements between those of X */
    bool trans, conj;           /* of op */
    structure structure;        /* of X */
    bool upper, unit;           /* of X */
    bool banded;                /* X is the band of a triangle, `below` diagonals beside one */
    bool packed;                /* X is a triangle, column by column */
    int64_t below, above, size; /* diagonals of X; all elements that X takes up */
} view;

void fake_view_transpose(view *v, bool conj);
/* Whether an element of X lies outside of its triangle. */
bool fake_view_outside(const view *v, int64_t row, int64_t column);
/* Element (i, j) of op(X). */
fake_number fake_view_get(const view *v, int64_t i, int64_t j);
void fake_view_put(const view *v, int64_t i, int64_t j, fake_number value);
fake_number *fake_numbers(int64_t count); /* to be freed */
/* op(X) as columns without gaps; to be freed. */
fake_number *fake_view_pack(const view *v);

/* What each routine does. A job's views are the operands as they enter a formula: with op(), and
 * with those of the right side all transposed. */

typedef struct job {
    const call *call;
    fake_number alpha, beta;
    view v[OPERANDS];
} job;

void fake_blas_add(const job *j);
void fake_blas_swap(const job *j);
void fake_blas_rotate(const job *j);
void fake_blas_make_rotation(const job *j);
void fake_blas_dot(const job *j);
void fake_blas_norm(const job *j);
void fake_blas_find(const job *j);
void fake_blas_multiply(const job *j);
void fake_blas_multiply_twice(const job *j);
void fake_blas_rotate_modified(const job *j);
void fake_blas_make_modified(const job *j);
void fake_blas_solve(const job *j);
void fake_blas_scale_rows(const job *j);

trp__cublas_status fake_blas_launch(trp__cublas_handle handle, const call *given);

#endif
