/* Softmax and log-softmax of rows, forward and backward: the parameter of their kernels. Host and
 * device share this file.
 *
 *     forward    y = exp(x - most) / sum of exp(x - most), or its logarithm x - most - log(sum)
 *     backward   dx = (dy - sum of dy y) y, or dy - exp(y) sum of dy
 *
 * `most` is the largest element of the row. Rows whose elements lie next to each other stay in
 * registers where they fit, and are read once. Longer rows lie in the shared memory of a cluster of
 * blocks, on devices with enough of it, and only the rest is read again. All others are read twice:
 * still longer rows, few rows, and columns, whose neighbours belong to different rows. A first pass
 * writes the largest element and the sum of each part of a row; all blocks of the second pass
 * compute those of the row from these. */
#ifndef TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_H
#define TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_H

#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__SOFTMAX_THREADS = 512,         /* threads of a block of a part of a row */
    TRP__SOFTMAX_TILE = 4096,           /* elements that such a block reads at a time */
    TRP__SOFTMAX_PACKED_THREADS = 1024, /* the same, for rows of one type */
    TRP__SOFTMAX_PACKED_TILE = 16384,
    TRP__SOFTMAX_COLUMNS = 256, /* columns of a block: 8 for each lane */
    TRP__SOFTMAX_WARPS = 8,     /* warps of such a block, each with every 8th element */
    TRP__SOFTMAX_DEEP = 4,      /* elements of a column that a thread reads at a time */
};

typedef enum trp__softmax_pass {
    TRP__SOFTMAX_SUMS,  /* writes the largest element and the sum of each part */
    TRP__SOFTMAX_APPLY, /* combines those of a row, and writes the results */
    TRP__SOFTMAX_BOTH,  /* rows of one part: both passes */
} trp__softmax_pass;

typedef struct trp__softmax {
    trp__rows_operand io[3]; /* forward x, x and y; backward y, dy and dx */
    trp__rows_space space;   /* dimensions of rows; columns: those outside the innermost */
    int64_t n;               /* elements of a row */
    int64_t columns;         /* columns side by side; 1 for rows */
    int64_t part;            /* elements of a row for each block */
    int64_t parts;           /* parts of a row */
    int64_t first;           /* first block of the launch */
    int64_t last;            /* last block; the second pass goes backwards, for the cache */
    uint64_t sums;           /* f32 or f64 [rows, parts, 2]; columns: [rows, parts, columns, 2] */
    int32_t threads;         /* threads of a row in registers */
    uint8_t log, runs;
    uint8_t pass; /* a trp__softmax_pass */
    uint8_t reserved;
    int32_t room; /* tiles of a part that shared memory holds, in a cluster */
    int32_t tail;
} trp__softmax;

#endif
