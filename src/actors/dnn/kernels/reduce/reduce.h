/* Reductions of a tensor over some of its dimensions: the parameter of a launch of reduce.cuh. Host
 * and device share this file.
 *
 * The dimensions that stay form one space (`keep`), whose elements are the results; the reduced
 * ones form another (`over`). The threads of a block lie along both, `lanes` of them along the
 * reduced one. Sums are accumulated in f64, so that neither millions of terms nor large ones lose
 * digits; only groups of a few 16-bit elements are first added up in f32. Sums of f64 and i32 scale
 * terms that could leave the range of f64, and add them up apart from the others. Where results are
 * few, each is computed in `splits` pieces, whose partial results a second kernel combines in a
 * fixed order. Before that, the blocks of a cluster combine those of long columns. */
#ifndef TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_H
#define TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_H

#include "actors/dnn/kernels/map/map.h"

enum {
    TRP__REDUCE_THREADS = 256,
    TRP__REDUCE_WIDTH = 8,     /* elements that a thread loads at a time, as f32 */
    TRP__REDUCE_WIDTH_F64 = 4, /* the same, as f64 */
    TRP__REDUCE_PARTS = 3,     /* numbers of a partial result, at most */
    TRP__REDUCE_CLUSTER = 8,   /* blocks that combine their partial results, at most */
    TRP__REDUCE_SHARED = TRP__REDUCE_THREADS * TRP__REDUCE_PARTS * 8, /* bytes of a block */
    TRP__REDUCE_SHARED_COLUMNS = TRP__REDUCE_THREADS * TRP__REDUCE_WIDTH * 8,
};

/* The ways to combine elements. */
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
    uint64_t x, y, partial; /* addresses; `partial`: f64 [splits, kept], three such if `wide` */
    uint64_t shared;        /* f64 [blocks, columns of a block]: what a cluster combines */
    uint8_t type, y_type;
    uint8_t kind;         /* trp__reduce_kind */
    uint8_t absolute;     /* magnitudes are reduced */
    uint8_t negative;     /* negatives are reduced: their largest is the negative of the least */
    uint8_t divide;       /* the result is a mean */
    uint8_t root;         /* the result is a square root */
    uint8_t vector;       /* loads of 16 bytes are aligned */
    uint8_t narrow;       /* elements have 16 bits */
    uint8_t wide;         /* partial results have three numbers */
    int64_t length, kept; /* elements per result; results */
    int64_t split;        /* elements per piece */
    uint32_t splits, lanes, finish_lanes, cluster; /* finish_lanes: lanes of the second kernel */
    uint32_t reserved;
    trp__reduce_space keep, over;
} trp__reduce;

#ifndef __cplusplus
_Static_assert(sizeof(trp__reduce) <= 4096, "what a kernel takes");
#endif

#endif
