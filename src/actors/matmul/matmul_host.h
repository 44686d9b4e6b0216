/* Products on the host: what the matmul actor shares with others that do something else with the
 * sums. */
#ifndef TRP_ACTORS_MATMUL_HOST_H
#define TRP_ACTORS_MATMUL_HOST_H

#include "actors/blas/openblas.h"
#include "actors/matmul/matmul_wire.h"

#include <stddef.h>

/* Products are computed in tiles of so many lines and columns. */
enum { TRP__HOST_TILE = 512 };

/* What one step needs: A, B and their product as tiles. */
#define TRP__HOST_SCRATCH_BYTES (3 * (size_t)TRP__HOST_TILE * TRP__HOST_TILE * sizeof(double))

/* One product. Used by one thread at a time. */
typedef struct trp__host_product {
    const trp__openblas *blas;
    void *scratch; /* TRP__HOST_SCRATCH_BYTES */
    trp__matmul g;
    void *at[TRP__MATMUL_OPERANDS]; /* NULL: not there */
    double alpha, beta;             /* of one that is not complex; with the scales of A and B */
    float largest_d, largest_aux;
} trp__host_product;

/* op(A) op(B) of a part of D: rows x columns elements, at most a tile, from (row, column) on, of
 * number `batch`. Column-major with a leading dimension of TRP__HOST_TILE; f64 if A is f64 or i8,
 * else f32. Of the product its types, sizes and places of A and B count, and alpha, which must not
 * be 0. Valid until the next call; nothing of A may be complex. */
const void *trp__host_product_sums(const trp__host_product *x, int64_t batch, int64_t row,
                                   int64_t column, int64_t rows, int64_t columns);

#endif
