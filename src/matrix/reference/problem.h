/* One launch of the reference kernel of products (kernels.h), which computes any product slowly and
 * in f64: what proofs of cuBLASLt's algorithms compare with, and what runs where all of them were
 * rejected. */
#ifndef TRP_MATRIX_REFERENCE_PROBLEM_H
#define TRP_MATRIX_REFERENCE_PROBLEM_H

#include "matrix/product.h"

enum { TRP__PRODUCT_THREADS = 128 /* of a block: a power of two */ };

/* The kernel's only parameter. */
typedef struct trp__product_launch {
    trp__matmul g; /* with scalars */
    void *at[TRP__MATMUL_OPERANDS];
    /* The numbers of the elements to compute, NULL: all. An element of a matrix has the number i +
     * j m + l m n, l in the batch, one of a vector i + l m or j + l n; of AUX bits a byte is one
     * element. */
    const int64_t *sample;
    int64_t count; /* elements; a block for each */
    uint32_t what; /* TRP__MATMUL_D, _AUX or _VECTOR */
    uint32_t reserved;
} trp__product_launch;

#endif
