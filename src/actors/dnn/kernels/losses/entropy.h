/* Cross-entropy of rows of logits, with their gradient: the parameter of its kernels. Host and
 * device share this file.
 *
 *     count    counts the rows that are not ignored, where a mean divides by them
 *     rows     a block for each row: the largest logit and the sum in one pass; then the gradient
 *     total    adds up all losses
 *
 * A row stays in shared memory between the two passes, as far as it fits, and is then read once.
 * The loss of a row with probabilities is found in the first pass, relative to the largest logit so
 * far: no term of it is negative, so that no digits cancel. */
#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_H
#define TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_H

#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__ENTROPY_X,
    TRP__ENTROPY_DX,
    TRP__ENTROPY_T,
    TRP__ENTROPY_INDEX,
    TRP__ENTROPY_DY,
    TRP__ENTROPY_Y,
    TRP__ENTROPY_ROWS,
    TRP__ENTROPY_STATS,
    TRP__ENTROPY_OPERANDS,
};

enum {
    TRP__ENTROPY_THREADS = 1024, /* of a block that goes over all rows */
    TRP__ENTROPY_PAIRED = 512,   /* of each of two blocks of a processor, at most */
    TRP__ENTROPY_DEEP = 4,       /* packs that a thread has on their way */
};

typedef struct trp__entropy {
    trp__rows_operand io[TRP__ENTROPY_OPERANDS];
    trp__rows_space space;
    int64_t classes;
    int64_t first;       /* the first row of the launch */
    int64_t ignore;      /* a label, if `ignores` */
    double smooth, even; /* of labels; and of each class */
    double z;            /* of the squared logarithm of the sum */
    double dy, divisor;  /* where they are not in memory */
    uint64_t losses;     /* f64 of each row */
    uint64_t count;      /* f64: how many rows count; 0: `divisor` is right */
    int32_t cached;      /* runs or packs of each thread that remain in shared memory */
    uint8_t used[TRP__ENTROPY_OPERANDS];
    uint8_t ignores, each; /* each: no sum over rows */
    uint8_t runs;          /* rows are read by 16 bytes */
    uint8_t reserved;
} trp__entropy;

#endif
