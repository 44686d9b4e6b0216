/* troupe cutlass: one product of npy files with an epilogue of one's own. */
#ifndef TRP_CLI_CUTLASS_H
#define TRP_CLI_CUTLASS_H

#include "epilogue.h"
#include "operand.h"

enum {
    CUTLASS_A,
    CUTLASS_B,
    CUTLASS_D,
    CUTLASS_NAMED, /* the first that the epilogue names; C is one of them */
    CUTLASS_OPERANDS = CUTLASS_NAMED + TRP_EPILOGUE_NODES_MAX
};

typedef struct cutlass {
    run_choice choice;
    trp_dtype type, type_b, type_d; /* TRP_DTYPE_NONE: not given */
    bool tf32, quiet;
    epilogue tree;
    option_texts with; /* "NAME=FILE", "NAME=NUMBER" */

    operand operand[CUTLASS_OPERANDS];
    char name[CUTLASS_OPERANDS][EPILOGUE_NAME_MAX + 8]; /* "--with bias", for messages */
    uint32_t count;                                     /* of operands */
    uint32_t of_node[TRP_EPILOGUE_NODES_MAX];           /* the operand of a node; 0: none */
    uint64_t m, n, k;
    struct run run;
} cutlass;

/* Reads the headers of the inputs and settles which operand is what, types, shapes and orders. */
bool cutlass_plan(cutlass *job);

/* Opens the device, reads, multiplies and writes. */
bool cutlass_run(cutlass *job);

/* Gives everything back, in any state. */
void cutlass_close(cutlass *job);

/* The subcommand `kernels`; returns the exit status. */
int cutlass_kernels(int argc, char **argv);

#endif
