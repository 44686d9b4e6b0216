/* Products on the host: whole ones for the matmul actor, and their sums for actors that do
 * something else with these. */
#ifndef TRP_MATRIX_PRODUCT_HOST_H
#define TRP_MATRIX_PRODUCT_HOST_H

#include "libs/openblas/openblas.h"
#include "matrix/product.h"

#include <stdbool.h>
#include <stddef.h>

/* Products are computed in tiles of so many lines and columns. */
enum { TRP__HOST_TILE = 512 };

/* What one step needs: A, B and their product as tiles. */
#define TRP__HOST_SCRATCH_BYTES (3 * (size_t)TRP__HOST_TILE * TRP__HOST_TILE * sizeof(double))

/* What an actor of products has on the host. The memory is allocated at its start, so that no
 * request can fail for want of it. */
typedef struct trp__host_room {
    const trp__openblas *blas;
    void *scratch; /* for the stream's thread */
    void *ring;    /* a place for each call that may be in the stream */
    size_t ring_bytes;
    uint32_t next; /* in the ring */
    bool team;     /* it is a user of base/os/team.h */
} trp__host_room;

/* `place`: bytes of one in the ring. On an error there is nothing to close. */
trp_status trp__host_room_open(trp__host_room *room, size_t place, trp_error *error);
void trp__host_room_close(trp__host_room *room);
/* The scratch memory stays, its pages go: they come back, zeroed, with the next product. The stream
 * must be idle. */
void trp__host_room_trim(trp__host_room *room);

/* One product. Used by one thread at a time. */
typedef struct trp__host_product {
    const trp__openblas *blas;
    void *scratch; /* TRP__HOST_SCRATCH_BYTES */
    trp__matmul g;
    void *at[TRP__MATMUL_OPERANDS]; /* NULL: not there */
    /* Factors in A's type for `group` elements of k of each column of B, those of one group
     * together, and what is added: each result is rounded to A's type. 0: there are none. */
    int64_t group;
    const void *group_scale, *group_zero; /* zero: may be NULL */
    int64_t scale_stride[2]; /* factors of A and B, or B's groups, between those of a batch */
    double alpha, beta;      /* of one that is not complex; with the scales of A and B */
    float largest_d, largest_aux;
} trp__host_product;

/* All of a product: reads its scalars first, writes the largest magnitudes last. On the stream's
 * thread. */
void trp__host_product_run(trp__host_product *x);

/* op(A) op(B) of a part of D: rows x columns elements, at most a tile, from (row, column) on, of
 * number `batch`. Column-major with a leading dimension of TRP__HOST_TILE; f64 if A is f64 or i8,
 * else f32. Of the product its types, sizes and places of A and B count, and alpha, which must not
 * be 0. Valid until the next call; nothing of A may be complex. */
const void *trp__host_product_sums(const trp__host_product *x, int64_t batch, int64_t row,
                                   int64_t column, int64_t rows, int64_t columns);

/* Widens `count` elements from number `first` on of a real type, to f64 if `wide`, else to f32,
 * which the type must fit into. */
void trp__host_widen(uint8_t type, const void *from, int64_t first, int64_t count, bool wide,
                     void *to);

#endif
