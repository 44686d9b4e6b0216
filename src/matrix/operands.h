/* Checks of vectors and matrices that all operations share, for the sender. */
#ifndef TRP_MATRIX_OPERANDS_H
#define TRP_MATRIX_OPERANDS_H

#include "wire/actor_class.h"

#include <troupe/types.h>

/* An operand as a column-major matrix. A vector is a column if its increment is 1 or -1, otherwise
 * a row whose leading dimension is the absolute value of the increment. */
typedef struct trp__operand {
    const char *name; /* in the request: "a", "x" */
    bool fields;      /* its numbers are "a.ld", "a.stride" and "a.offset", not "lda", ... */
    trp_buffer buffer;
    uint64_t offset; /* bytes */
    int64_t rows, columns;
    int64_t ld, stride; /* elements */
    uint32_t element;   /* bytes */
    uint32_t mode;      /* TRP__READ and other flags */
    uint64_t elements;  /* from the first to the last of the whole batch */
    uint64_t one;       /* the same for one matrix */
} trp__operand;

/* Sets the error "ARGUMENT: expected EXPECTED, got GOT". */
trp_status trp__operand_wrong(trp__encoder *encoder, const char *argument, const char *expected,
                              int64_t got);

/* Refuses a buffer for an operand that the operation does not have, whose mode is 0. */
trp_status trp__operand_check_absent(trp__encoder *encoder, const trp__operand *x,
                                     const uint32_t *mode, int count);

/* Checks a leading dimension, or sets one that was not given. */
trp_status trp__operand_check_ld(trp__encoder *encoder, trp__operand *x, trp_order order);

/* Describes a vector of n elements. An increment of 0 is set to 1. */
trp_status trp__operand_check_vector(trp__encoder *encoder, trp__operand *x, int64_t n,
                                     int64_t *inc, bool positive);

/* Counts the elements that an operand spans. rows, columns and batch are at least 1. */
trp_status trp__operand_measure(trp__encoder *encoder, trp__operand *x, int64_t batch);

/* Checks that the matrices of a batch that is written do not overlap: they follow each other, or
 * are side by side, with the columns of one in the gaps between the columns of another. */
trp_status trp__operand_check_stride(trp__encoder *encoder, const trp__operand *x, int64_t batch);

/* Measures an operand and, if it is written, checks its stride. Adds TRP__COVER to the mode of one
 * that is written, not read, and has no gaps. */
trp_status trp__operand_check_extent(trp__encoder *encoder, trp__operand *x, int64_t batch);

/* Checks that `written` and another operand share no element. */
trp_status trp__operand_check_apart(trp__encoder *encoder, const trp__operand *written,
                                    const trp__operand *other, int64_t batch);

/* Checks that no operand that is written shares an element with another of the same request. Those
 * whose mode is 0 are left out. */
trp_status trp__operands_check_apart(trp__encoder *encoder, const trp__operand *all, int count,
                                     int64_t batch);

/* Returns whether there is no gap between the elements of an operand. */
static inline bool trp__operand_dense(const trp__operand *x, int64_t batch)
{
    return x->elements == (uint64_t)x->rows * (uint64_t)x->columns * (uint64_t)batch;
}

/* Checks that the offset is a multiple of the element size. trp__operand_access() does so too; this
 * is for callers that need it before. */
trp_status trp__operand_check_offset(trp__encoder *encoder, const trp__operand *x);

/* Adds an access to the operand's range to the record. */
trp_status trp__operand_access(trp__encoder *encoder, const trp__operand *x);

/* Scalars of a request, such as alpha and beta: by value, or `count` of them in a buffer. */

/* Checks that a scalar fits a type: real types have no imaginary part, i32 has no fraction. */
trp_status trp__check_scalar(trp__encoder *encoder, const char *name, trp_scalar scalar,
                             trp_dtype type);

/* Refuses a scalar by value if the scalars are in a buffer. */
trp_status trp__check_one_source(trp__encoder *encoder, trp_buffer scalars, const char *name,
                                 trp_scalar scalar);

trp__operand trp__operand_of_scalars(trp_buffer buffer, uint64_t offset, uint32_t element,
                                     uint64_t count);

#endif
