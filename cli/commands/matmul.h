/* troupe matmul: one product of npy files. */
#ifndef TRP_CLI_COMMANDS_MATMUL_H
#define TRP_CLI_COMMANDS_MATMUL_H

#include "data/operand.h"

enum {
    MATMUL_A,
    MATMUL_B,
    MATMUL_C,
    MATMUL_BIAS,
    MATMUL_SCALE_A,
    MATMUL_SCALE_B,
    MATMUL_SCALE_D,
    MATMUL_AUX, /* read or written, depending on the activation */
    MATMUL_D,
    MATMUL_GRADIENT,
    MATMUL_AMAX,
    MATMUL_OPERANDS
};

typedef struct matmul {
    run_choice choice;
    int compute; /* a trp_compute */
    bool fast_accumulation, amax, check, quiet;
    trp_dtype type, type_b, type_d; /* TRP_DTYPE_NONE: not given */
    trp_transpose trans_a, trans_b;
    trp_scalar alpha, beta; /* defaults: 1, and 0 without a C */
    trp_activation activation;
    trp_bias_gradient gradient_of;
    int64_t workspace; /* bytes; 0: the actor's default */
    trp_tune tune;
    operand operand[MATMUL_OPERANDS];

    /* Set by matmul_plan(). */
    bool plain; /* served by the blas actor: only A, B and D, f32 or f64 */
    uint64_t m, n, k;

    struct run run;
} matmul;

/* Reads the headers of the inputs and determines types, shapes and orders of all operands. Rejects
 * what can't work before a worker is started. */
bool matmul_plan(matmul *job);

/* Opens the device, reads, multiplies, checks and writes. */
bool matmul_run(matmul *job);

/* Releases everything, in any state. */
void matmul_close(matmul *job);

#endif
