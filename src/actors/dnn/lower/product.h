/* Which pieces of a graph are products of matrices that cuBLASLt knows: products, convolutions with
 * filters of one tap, and what its epilogues do behind them. Needs no library. */
#ifndef TRP_ACTORS_DNN_LOWER_PRODUCT_H
#define TRP_ACTORS_DNN_LOWER_PRODUCT_H

#include "actors/dnn/lower/lower.h"
#include "matrix/product.h"

#include <stdbool.h>

enum {
    TRP__DNN_PRODUCT_NODES = 3, /* at most: a sum, a bias, an activation */
    TRP__DNN_PRODUCT_TIMES = 64,
};

/* A piece as a problem of the matmul actor's, in column-major order. Its operands are numbered as
 * there. Batches that have no common stride are products of their own, one after the other. */
typedef struct trp__dnn_product {
    uint32_t count; /* of nodes */
    trp__matmul problem;
    uint8_t tensor[TRP__MATMUL_OPERANDS];    /* their numbers; TRP__DNN_NO_PORT: none */
    uint8_t alignment[TRP__MATMUL_OPERANDS]; /* of their places, as a power of two up to 256 */
    uint64_t workspace; /* bytes for a kernel of ours; the problem's: for cuBLASLt */
    int64_t times;      /* so many products */
    int loops;          /* over these batches, the last one fastest */
    int64_t loop[TRP__DNN_RANK];
    int64_t step[TRP__MATMUL_MATRICES][TRP__DNN_RANK]; /* elements */
} trp__dnn_product;

/* Whether exactly the nodes `first` to `first` + `count` - 1 are one; none of their tensors may be
 * empty. */
bool trp__dnn_product_of(const trp__dnn_graph *g, uint32_t first, uint32_t count,
                         trp__dnn_product *out);

/* The longest that begins at `first`; and whether it is run so where the same nodes could be
 * cuDNN's: what cuDNN is not asked for, and epilogues, which it takes longer for. */
bool trp__dnn_longest_product(const trp__dnn_graph *g, uint32_t first, trp__dnn_product *out);
bool trp__dnn_prefers_product(const trp__dnn_graph *g, uint32_t first,
                              const trp__dnn_product *product);

/* Where the operands of one of `times` products are, in bytes from the beginnings of their tensors.
 */
void trp__dnn_product_offsets(const trp__dnn_product *p, int64_t index,
                              uint64_t out[TRP__MATMUL_MATRICES]);

#endif
