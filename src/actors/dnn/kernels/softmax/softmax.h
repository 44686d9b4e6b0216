/* Softmax and log-softmax over rows, forward and backward: the parameter of their kernels. Host and
 * device share this file.
 *
 *     forward    y = exp(x - most) / sum of exp(x - most), or its logarithm x - most - log(sum)
 *     backward   dx = (dy - sum of dy y) y, or dy - exp(y) sum of dy
 *
 * Rows whose elements lie next to each other stay in registers where they fit, and are read once.
 * Longer rows lie in the shared memory of a cluster of blocks, on devices with enough of it, and
 * only the rest is read again. Still longer or few rows, and columns, whose neighbours belong to
 * different rows, are read twice: a first pass leaves the largest element and the sum of each part
 * of a row, from which all blocks of the second pass compute those of the row. */
#ifndef TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_H
#define TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_H

#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__SOFTMAX_THREADS = 512,         /* of blocks of parts of rows */
    TRP__SOFTMAX_TILE = 4096,           /* elements that such a block reads at a time */
    TRP__SOFTMAX_PACKED_THREADS = 1024, /* the same of parts of rows of one type */
    TRP__SOFTMAX_PACKED_TILE = 16384,
    TRP__SOFTMAX_COLUMNS = 256, /* of a block of columns: 8 for each lane */
    TRP__SOFTMAX_WARPS = 8,     /* of a block of columns, each with its elements of these */
    TRP__SOFTMAX_DEEP = 4,      /* elements of a column that a thread has at a time */
};

typedef enum trp__softmax_pass {
    TRP__SOFTMAX_SUMS,  /* leaves what parts know */
    TRP__SOFTMAX_APPLY, /* finds what rows know, and writes */
    TRP__SOFTMAX_BOTH,  /* of rows of one part */
} trp__softmax_pass;

typedef struct trp__softmax {
    trp__rows_operand io[3]; /* x, x and y; or y, dy and dx */
    trp__rows_space space;   /* of rows; of columns those dimensions outside the innermost */
    int64_t n;               /* elements of a row */
    int64_t columns;         /* next to each other; 1 for rows */
    int64_t part;            /* elements of a row for each block */
    int64_t parts;
    int64_t first;   /* the first row, or block, of the launch */
    int64_t last;    /* block of all; those that apply go backwards, for the cache */
    uint64_t sums;   /* two numbers for each part of each row */
    int32_t threads; /* of a row in registers */
    uint8_t log, runs;
    uint8_t pass; /* a trp__softmax_pass */
    uint8_t reserved;
    int32_t room; /* tiles of a part in shared memory, where its row is a cluster's */
    int32_t tail;
} trp__softmax;

#endif
