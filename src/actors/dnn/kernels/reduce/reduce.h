/* Reductions of a tensor over some of its dimensions: the parameter of a launch of reduce.cuh. Host
 * and device share this file.
 *
 * The dimensions that stay are one space ("kept"), the others another one ("reduced"). Threads of a
 * block lie along both, `lanes` of them along the reduced one. Sums are made in f64, so that
 * neither millions of terms nor large ones lose digits; sums of f64 keep very large and very small
 * terms apart. Where there are few results, each is made in `splits` pieces, whose partial results
 * a second kernel combines in a fixed order; the blocks of a cluster combine those of long columns
 * before. */
#ifndef TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_H
#define TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_H

#include "actors/dnn/kernels/map/map.h"

enum {
    TRP__REDUCE_THREADS = 256,
    TRP__REDUCE_WIDTH = 8,     /* elements of a load, in f32 */
    TRP__REDUCE_WIDTH_F64 = 4, /* in f64 */
    TRP__REDUCE_PARTS = 3,     /* numbers of a partial result */
    TRP__REDUCE_CLUSTER = 8,   /* blocks that share their partial results, at most */
    TRP__REDUCE_SHARED = TRP__REDUCE_THREADS * TRP__REDUCE_PARTS * 8, /* bytes of a block */
    TRP__REDUCE_SHARED_COLUMNS = TRP__REDUCE_THREADS * TRP__REDUCE_WIDTH * 8,
};

/* How elements are combined. */
typedef enum trp__reduce_kind {
    TRP__REDUCE_SUMS,     /* SUM, MEAN, NORM1 */
    TRP__REDUCE_SQUARES,  /* NORM2, and sums of squares */
    TRP__REDUCE_PRODUCTS, /* PRODUCT */
    TRP__REDUCE_EXTREMES, /* LEAST, MOST, AMAX */
} trp__reduce_kind;

typedef struct trp__reduce_space {
    uint8_t rank, reserved[7];
    trp__map_divisor dim[TRP__MAP_DIMS];
    int64_t x[TRP__MAP_DIMS], y[TRP__MAP_DIMS]; /* strides, elements */
} trp__reduce_space;

typedef struct trp__reduce {
    uint64_t x, y, partial; /* addresses; `partial`: f64, splits x kept, if `wide` three times */
    uint64_t shared;        /* f64 of each block: what it has for the others of its cluster */
    uint8_t type, y_type;
    uint8_t kind;         /* trp__reduce_kind */
    uint8_t absolute;     /* magnitudes are reduced */
    uint8_t negative;     /* the negatives, of which the largest is the negative of the least */
    uint8_t divide;       /* the result is a mean */
    uint8_t root;         /* or a root */
    uint8_t vector;       /* loads of 16 bytes are aligned */
    uint8_t narrow;       /* elements of 16 bits */
    uint8_t wide;         /* partial results have three numbers */
    int64_t length, kept; /* elements of each result; results */
    int64_t split;        /* elements of each piece */
    uint32_t splits, lanes, finish_lanes, cluster;
    uint32_t reserved;
    trp__reduce_space keep, over;
} trp__reduce;

#ifndef __cplusplus
_Static_assert(sizeof(trp__reduce) <= 4096, "what a kernel takes");
#endif

#endif
