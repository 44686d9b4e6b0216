/* Shared by the files of the fake cuBLAS's levels 1 to 3: one struct for the calls of all routines,
 * and views of operands. */
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

/* A routine writes Y, whatever its documentation calls that operand; rot, rotg and swap also write
 * X. */
enum { A, X, Y, OPERANDS };

typedef struct operand {
    const void *at;
    int64_t step; /* leading dimension, or increment */
    long long int stride;
} operand;

/* The type of a scalar or of a result: of elements, or another. */
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

/* A view of op(X), independent of X's layout, order and triangle. */

typedef enum structure { FULL, BAND, TRIANGLE, SYMMETRIC, HERMITIAN } structure;

typedef struct view {
    trp__cublas_type type;
    char *at;              /* address of element (0, 0) of X; NULL: X may not be read */
    int64_t rows, columns; /* size of op(X) */
    int64_t down, right;   /* from one element of X to the next, in elements */
    bool trans, conj;      /* the op */
    structure structure;   /* structure of X */
    bool upper, unit;      /* of X */
    /* X is the band of a triangle, with `below` diagonals beside the main one */
    bool banded;
    bool packed;                /* X is a triangle, column by column, without gaps */
    int64_t below, above, size; /* diagonals of X, and all elements that X spans */
} view;

void fake_view_transpose(view *v, bool conj);
/* Returns whether element (row, column) of X is outside its triangle. */
bool fake_view_outside(const view *v, int64_t row, int64_t column);
/* Returns element (i, j) of op(X). */
fake_number fake_view_get(const view *v, int64_t i, int64_t j);
void fake_view_put(const view *v, int64_t i, int64_t j, fake_number value);
fake_number *fake_numbers(int64_t count); /* the caller frees the array */
/* Returns op(X) as columns without gaps; the caller frees the array. */
fake_number *fake_view_pack(const view *v);

/* The loops of the routines. The views of a job are operands as the formula has them: with op(),
 * and transposed if the side is right. */

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
