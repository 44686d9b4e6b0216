/* Losses element by element, with their gradient, of arrays without gaps: the parameter of their
 * kernels. Host and device share this file. */
#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_LOSSES_H
#define TRP_ACTORS_DNN_KERNELS_LOSSES_LOSSES_H

#include <stdint.h>

enum {
    TRP__LOSSES_X,
    TRP__LOSSES_T, /* targets */
    TRP__LOSSES_W, /* weights of elements */
    TRP__LOSSES_B, /* weights of positive targets, of BCE_LOGITS */
    TRP__LOSSES_DY,
    TRP__LOSSES_READ, /* operands that are read; those from here on are written */
    TRP__LOSSES_DX = TRP__LOSSES_READ,
    TRP__LOSSES_ROWS,
    TRP__LOSSES_EACH, /* y, without a reduction */
    TRP__LOSSES_OPERANDS,
};

enum {
    TRP__LOSSES_THREADS = 256,
    TRP__LOSSES_PARTS = 4096, /* blocks, and partial sums, at most */
};

typedef struct trp__losses_operand {
    uint64_t at; /* 0: absent, or the number is `value` */
    double value;
    uint8_t type; /* trp_dtype */
    uint8_t many; /* a number per element; else one for all */
    uint8_t reserved[6];
} trp__losses_operand;

typedef struct trp__losses {
    trp__losses_operand io[TRP__LOSSES_OPERANDS];
    int64_t count, part; /* elements of all, and of a block */
    int32_t parts;
    uint8_t mode; /* trp_dnn_loss */
    uint8_t runs; /* arrays are aligned for accesses of four elements */
    uint8_t type; /* trp_dtype of the sum */
    uint8_t reserved;
    double beta, beta_inverse;
    double divisor, share; /* divisor of the sum; 1 / divisor */
    uint64_t sums, total;  /* partial sums, f64 [parts]; the sum, 0: not wanted */
} trp__losses;

#endif
