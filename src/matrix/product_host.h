/* Products on the host: whole products for the matmul actor, and sums for actors with other
 * epilogues. */
#ifndef TRP_MATRIX_PRODUCT_HOST_H
#define TRP_MATRIX_PRODUCT_HOST_H

#include "libs/openblas/openblas.h"
#include "matrix/product.h"

#include <stdbool.h>
#include <stddef.h>

/* The lines and columns of a tile. */
enum { TRP__HOST_TILE = 512 };

/* Memory of one step: tiles of A, B and their product. */
#define TRP__HOST_SCRATCH_BYTES (3 * (size_t)TRP__HOST_TILE * TRP__HOST_TILE * sizeof(double))

/* Memory of an actor that computes products on the host. It is allocated when the actor starts, so
 * that no request can fail for lack of it. */
typedef struct trp__host_room {
    const trp__openblas *blas;
    void *scratch; /* for the thread of the stream */
    void *ring;    /* an element for each call that may be in the stream */
    size_t ring_bytes;
    uint32_t next; /* index in the ring */
    bool team;     /* trp__team_open() was called */
} trp__host_room;

/* `place`: bytes of an element of the ring. After an error, there is nothing to close. */
trp_status trp__host_room_open(trp__host_room *room, size_t place, trp_error *error);
void trp__host_room_close(trp__host_room *room);
/* Releases the pages of the scratch memory; the next product gets zeroed pages. The stream must be
 * idle. */
void trp__host_room_trim(trp__host_room *room);

/* A product. Only one thread may use it at a time. */
typedef struct trp__host_product {
    const trp__openblas *blas;
    void *scratch; /* TRP__HOST_SCRATCH_BYTES */
    trp__matmul g;
    void *at[TRP__MATMUL_OPERANDS]; /* NULL: not there */
    /* Groups of `group` elements along k in each column of B have a factor and a zero point, of the
     * type of A: an element is multiplied, rounded to the type of A, added to, and rounded again.
     * The factors of one group are contiguous. 0: there are no groups. */
    int64_t group;
    const void *group_scale, *group_zero; /* group_zero may be NULL */
    int64_t scale_stride[2]; /* batch strides of the factors of A and of B or its groups */
    double alpha, beta;      /* of a real product, with the tensor scales of A and B */
    float largest_d, largest_aux;
} trp__host_product;

/* Computes a whole product on the thread of the stream. */
void trp__host_product_run(trp__host_product *x);

/* Computes op(A) op(B) for a part of D: rows x columns elements, at most a tile, from (row, column)
 * on, of member `batch`. The result is column-major with the leading dimension TRP__HOST_TILE, of
 * f64 if A is f64 or i8, otherwise of f32; it is valid until the next call. Uses the types, sizes
 * and addresses of A and B, and requires that alpha is not 0 and that A is not complex. */
const void *trp__host_product_sums(const trp__host_product *x, int64_t batch, int64_t row,
                                   int64_t column, int64_t rows, int64_t columns);

/* Widens `count` elements of a real type from number `first` on: to f64 if `wide`, otherwise to
 * f32, which must represent them exactly. */
void trp__host_widen(uint8_t type, const void *from, int64_t first, int64_t count, bool wide,
                     void *to);

#endif
