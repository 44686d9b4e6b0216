/* Cross-entropy of rows of logits, with their gradient: the parameter of its kernels. Host and
 * device share this file.
 *
 *     count    counts the rows that are not ignored, where a mean divides by them
 *     rows     a block for each row: the largest logit and the sum in one pass; then the gradient
 *     total    adds up all losses
 *
 * A row stays in shared memory between the two passes, as far as it fits, and is then read once.
 * The first pass also finds the loss of a row with probabilities, relative to the largest logit so
 * far: no term of it is negative, so that no digits cancel. */
#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_H
#define TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_H

#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__ENTROPY_X, /* logits, [rows, classes] */
    TRP__ENTROPY_DX,
    TRP__ENTROPY_T,     /* probabilities, [rows, classes] */
    TRP__ENTROPY_INDEX, /* labels, [rows] */
    TRP__ENTROPY_DY,
    TRP__ENTROPY_Y,     /* the loss: one number, or [rows] */
    TRP__ENTROPY_ROWS,  /* losses, [rows] */
    TRP__ENTROPY_STATS, /* log(sum of exp(x)), [rows] */
    TRP__ENTROPY_OPERANDS,
};

enum {
    TRP__ENTROPY_THREADS = 1024, /* threads of a block that goes over all rows */
    TRP__ENTROPY_PAIRED = 512,   /* threads of a block, at most, where a multiprocessor has two */
    TRP__ENTROPY_DEEP = 4,       /* packs that a thread has in flight */
};

typedef struct trp__entropy {
    trp__rows_operand io[TRP__ENTROPY_OPERANDS];
    trp__rows_space space;
    int64_t classes;
    int64_t first;       /* the first row of the launch */
    int64_t ignore;      /* the label of ignored rows, if `ignores` */
    double smooth, even; /* label smoothing; smooth / classes */
    double z;            /* weight of the square of log(sum of exp(x)) in the loss */
    double dy, divisor;  /* used where they are not in memory */
    uint64_t losses;     /* f64 [rows] */
    uint64_t count;      /* f64, the rows that are not ignored; 0: `divisor` is used */
    int32_t cached;      /* runs or packs of each thread that stay in shared memory */
    uint8_t used[TRP__ENTROPY_OPERANDS];
    uint8_t ignores, each; /* each: y has a loss per row */
    uint8_t runs;          /* rows are read by 16 bytes */
    uint8_t reserved;
} trp__entropy;

#endif
