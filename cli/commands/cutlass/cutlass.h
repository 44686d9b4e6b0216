/* troupe cutlass: products of npy files with an epilogue of one's own. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_CUTLASS_H
#define TRP_CLI_COMMANDS_CUTLASS_CUTLASS_H

#include "epilogue.h"
#include "data/operand.h"
#include "ui/spell.h"

enum {
    CUTLASS_A,
    CUTLASS_B,
    CUTLASS_D,
    CUTLASS_NAMED, /* first operand named by the epilogue, C included */
    CUTLASS_OPERANDS = CUTLASS_NAMED + TRP_EPILOGUE_NODES_MAX
};

typedef struct cutlass cutlass;

/* The parts of a subcommand that differ. */
typedef struct cutlass_kind {
    const char *name, *doing; /* "product", "multiplying" */
    bool row_major;           /* A and B must be row-major */
    /* Determines D's shape for the epilogue (m x n) and in its file, and everything else that
     * follows from A, B and the options. */
    bool (*settle)(cutlass *job);
    /* Sends the request; matrices, epilogue and compute are those of `r`. */
    trp_status (*send)(cutlass *job, const trp_cutlass_gemm_request *r, trp_completion *done);
} cutlass_kind;

struct cutlass {
    const cutlass_kind *kind;
    run_choice choice;
    trp_dtype type, type_b, type_d; /* TRP_DTYPE_NONE: not given */
    bool tf32, quiet, check;
    const char *kernel; /* NULL: the best */
    int tune;           /* trp_tune; -1: not given */
    epilogue tree;
    option_texts with; /* "NAME=FILE", "NAME=NUMBER" */

    operand operand[CUTLASS_OPERANDS];
    char name[CUTLASS_OPERANDS][EPILOGUE_NAME_MAX + 8]; /* "--with bias", for messages */
    uint32_t count;                                     /* number of operands */
    uint32_t of_node[TRP_EPILOGUE_NODES_MAX];           /* the operand of a node; 0: none */
    uint64_t m, n, k;
    uint64_t d_rows, d_cols; /* of D's file */
    uint64_t flop;
    struct run run;

    /* grouped */
    const char *sizes;
    int along; /* 0, 1, 2: m, n, k */
    uint64_t groups;
    int32_t *ends;
    trp_buffer table;

    /* conv */
    const char *input, *filter, *pad, *pad_after, *stride, *dilation;
    int operation;
    int64_t conv_groups;
    bool flip;
    trp_cutlass_conv_request conv; /* sizes only */
};

extern const cutlass_kind cutlass_gemm, cutlass_grouped, cutlass_conv;

/* Kernel choice of a request on the job's device. */
typedef struct cutlass_choice {
    const char *kernel;
    trp_tune tune;
} cutlass_choice;

cutlass_choice cutlass_choice_of(const cutlass *job);

/* Reports the kernel chosen for a request that was sent with this status; returns the status. */
trp_status cutlass_sent(const cutlass *job, const trp_cutlass_chosen *chosen, trp_status status);

/* Returns for how many groups a vector of the epilogue may have a row each; 0: one vector for
 * all. */
uint64_t cutlass_copies(const cutlass *job, bool per_row, bool per_column);

/* Reads the options of `troupe cutlass grouped` and `conv`. */
bool cutlass_read_sizes(cutlass *job);
bool cutlass_read_conv(cutlass *job);

/* Reads the headers of the inputs and determines operands, types, shapes and orders. */
bool cutlass_plan(cutlass *job);

/* Opens the device, reads, multiplies and writes. */
bool cutlass_run(cutlass *job);

/* Sends the request with the placed operands, and waits for its end. */
bool cutlass_multiply(cutlass *job);

/* Implements --check on downloaded results: computes them again on the host. False: they are wrong
 * or could not be checked; reported. can_check(): whether the device can be checked. */
bool cutlass_can_check(const cutlass *job);
bool cutlass_check(cutlass *job);

/* Releases everything, in any state. */
void cutlass_close(cutlass *job);

/* The subcommands `kernels` and `pack`; they return the exit status. */
int cutlass_kernels(int argc, char **argv);

/* Looks a kernel up in the catalogue; ", did you mean ...?" */
bool cutlass_kernel_known(const char *name);
spell_text cutlass_kernel_hint(const char *name);
int cutlass_pack(int argc, char **argv);

#endif
