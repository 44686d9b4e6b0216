/* One launch of the reference kernel of products (kernels.h), which computes any product slowly and
 * in f64. Proofs compare the algorithms of cuBLASLt with it, and it replaces them if all are
 * rejected. */
#ifndef TRP_MATRIX_REFERENCE_PROBLEM_H
#define TRP_MATRIX_REFERENCE_PROBLEM_H

#include "matrix/product.h"

enum { TRP__PRODUCT_THREADS = 128 /* threads of a block: a power of two */ };

/* The kernel's only parameter. */
typedef struct trp__product_launch {
    trp__matmul g; /* with scalars */
    void *at[TRP__MATMUL_OPERANDS];
    /* The numbers of the elements to compute; NULL: all. Element (i, j) of a matrix, member l of
     * the batch, has the number i + j m + l m n; an element of a vector has i + l m or j + l n. A
     * byte of AUX bits is one element. */
    const int64_t *sample;
    int64_t count; /* elements; a block for each */
    uint32_t what; /* TRP__MATMUL_D, _AUX or _VECTOR */
    uint32_t reserved;
} trp__product_launch;

#endif
