/* Recognises pieces of a graph that are matrix products for cuBLASLt: products, convolutions with
 * one-tap filters, and following epilogues. Needs no library. */
#ifndef TRP_ACTORS_DNN_LOWER_PRODUCT_H
#define TRP_ACTORS_DNN_LOWER_PRODUCT_H

#include "actors/dnn/lower/lower.h"
#include "matrix/product.h"

#include <stdbool.h>

enum {
    TRP__DNN_PRODUCT_NODES = 3, /* most nodes of a product: a sum, a bias, an activation */
    TRP__DNN_PRODUCT_TIMES = 64,
};

/* A piece as a problem of the matmul actor, in column-major order with the same operand numbers.
 * Batches without a common stride are separate products, run one after the other. */
typedef struct trp__dnn_product {
    uint32_t count; /* nodes */
    trp__matmul problem;
    uint8_t tensor[TRP__MATMUL_OPERANDS];    /* their numbers; TRP__DNN_NO_PORT: none */
    uint8_t alignment[TRP__MATMUL_OPERANDS]; /* of their addresses, a power of two up to 256 */
    uint64_t workspace; /* bytes for an own kernel; cuBLASLt's is in the problem */
    int64_t times;      /* number of products */
    int loops;          /* loops over these batches, the last one fastest */
    int64_t loop[TRP__DNN_RANK];
    int64_t step[TRP__MATMUL_MATRICES][TRP__DNN_RANK]; /* elements */
} trp__dnn_product;

/* Tells whether exactly the nodes `first` to `first` + `count` - 1 are a product; none of their
 * tensors may be empty. */
bool trp__dnn_product_of(const trp__dnn_graph *g, uint32_t first, uint32_t count,
                         trp__dnn_product *out);

/* Finds the longest product that begins at `first`, and tells whether it is preferred to cuDNN: for
 * nodes that cuDNN must not get, and for epilogues, with which cuDNN is slower. */
bool trp__dnn_longest_product(const trp__dnn_graph *g, uint32_t first, trp__dnn_product *out);
bool trp__dnn_prefers_product(const trp__dnn_graph *g, uint32_t first,
                              const trp__dnn_product *product);

/* Computes the byte offsets of the operands of product `index` of `times` from the beginnings of
 * their tensors.
 */
void trp__dnn_product_offsets(const trp__dnn_product *p, int64_t index,
                              uint64_t out[TRP__MATMUL_MATRICES]);

#endif
