/* Vectors and matrices of a request: the checks that every operation makes of them. Sender. */
#ifndef TRP_MATRIX_OPERANDS_H
#define TRP_MATRIX_OPERANDS_H

#include "wire/actor_class.h"

#include <troupe/types.h>

/* One operand, as a column-major matrix. A vector is a column if its increment is 1 or -1, else a
 * row whose leading dimension is the increment's size. */
typedef struct trp__operand {
    const char *name; /* the sender's: "a", "x" */
    bool fields;      /* its numbers are called "a.ld", "a.stride" and "a.offset", not "lda", ... */
    trp_buffer buffer;
    uint64_t offset; /* bytes */
    int64_t rows, columns;
    int64_t ld, stride; /* elements */
    uint32_t element;   /* bytes */
    uint32_t mode;      /* TRP__READ and so on */
    uint64_t elements;  /* from the first to the last, all of the batch */
    uint64_t one;       /* the same of one matrix */
} trp__operand;

/* "argument: expected ..., got ..." */
trp_status trp__operand_wrong(trp__pack *pack, const char *argument, const char *expected,
                              int64_t got);

/* Fills a leading dimension that was not given and checks one that was. */
trp_status trp__operand_check_ld(trp__pack *pack, trp__operand *x, trp_order order);

/* Makes a vector of n elements of it; 0 stands for the increment 1, which *inc becomes. */
trp_status trp__operand_check_vector(trp__pack *pack, trp__operand *x, int64_t n, int64_t *inc,
                                     bool positive);

/* Counts the elements that an operand spans. rows, columns and batch are at least 1. */
trp_status trp__operand_measure(trp__pack *pack, trp__operand *x, int64_t batch);

/* Whether the matrices of a batch that is written are apart: they follow each other, or lie side by
 * side, the column of one within the gap between two columns of another. */
trp_status trp__operand_check_stride(trp__pack *pack, const trp__operand *x, int64_t batch);

/* Whether `written` and another operand share no element. */
trp_status trp__operand_check_apart(trp__pack *pack, const trp__operand *written,
                                    const trp__operand *other, int64_t batch);

/* Whether there is no gap between the elements of an operand. */
static inline bool trp__operand_dense(const trp__operand *x, int64_t batch)
{
    return x->elements == (uint64_t)x->rows * (uint64_t)x->columns * (uint64_t)batch;
}

/* Whether its elements are aligned, as far as the request says it: where something depends on the
 * offset before the access is added, which checks it too. */
trp_status trp__operand_check_offset(trp__pack *pack, const trp__operand *x);

/* Adds the operand's range to the record, with its mode. */
trp_status trp__operand_access(trp__pack *pack, const trp__operand *x);

/* alpha and beta, or other scalars, of a request: by value, or `count` of them in a buffer. */

/* Whether a scalar fits a type: real types have no imaginary part, i32 no fraction. */
trp_status trp__check_scalar(trp__pack *pack, const char *name, trp_scalar scalar, trp_dtype type);

/* Scalars are either in a buffer or given by value. */
trp_status trp__check_one_source(trp__pack *pack, trp_buffer scalars, const char *name,
                                 trp_scalar scalar);

trp__operand trp__operand_of_scalars(trp_buffer buffer, uint64_t offset, uint32_t element,
                                     uint64_t count);

#endif
