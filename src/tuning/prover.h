/* The prover runs a plan of a library on the device that it is to serve on, and compares its
 * results with a reference. It knows no library: the caller describes the operands and provides two
 * functions, one that enqueues the plan and one that enqueues the reference.
 *
 * All memory is the prover's own: each operand lies between guards, and outputs are poisoned before
 * each run. The plan runs twice on each set of numbers. The reference computes only a sample of
 * each output: corners, edges, borders of tiles and random places. */
#ifndef TRP_TUNING_PROVER_H
#define TRP_TUNING_PROVER_H

#include "driver/cuda.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    TRP__PROOF_RANK = 8,
    TRP__PROOF_SAMPLE = 4096, /* compared elements of each tensor, all if it has fewer */
    TRP__PROOF_REASON = 200,
};

typedef enum trp__proof_role {
    TRP__PROOF_INPUT,
    TRP__PROOF_OUTPUT,
    TRP__PROOF_SCRATCH, /* intermediate of the reference; the plan does not use it */
} trp__proof_role;

typedef struct trp__proof_operand {
    const char *name; /* for the reason */
    trp__proof_role role;
    uint8_t type;       /* trp_dtype; f64 to f8e8m0, i8, i32, i64, u8, bool */
    uint8_t rank;       /* 0 to TRP__PROOF_RANK */
    uint32_t alignment; /* bytes past a multiple of 256, to align no better than requests do */
    int64_t dim[TRP__PROOF_RANK], stride[TRP__PROOF_RANK]; /* elements; strides not negative */
    double low, high;   /* range of ordinary numbers of an input; equal: a constant */
    bool ordinary_only; /* an input with a meaning, such as lengths or variances */
    /* Input: ordinary numbers are nonzero integers, so that sums of products do not depend on their
     * order. Output: all passes but the saturating one allow
     * |got - expected| <= whole_relative (|expected| + s) + absolute. */
    bool whole;
    double whole_relative;
    double leaving, wide, tight; /* of an input: factors in those passes; 0: 1 */
    /* For an output: the type that the reference writes, which distinguishes numbers that its own
     * rounds to one; TRP_DTYPE_NONE: its own. */
    uint8_t exact;
    /* For an output: |got - expected| <= relative |expected| + of_scale s + absolute, where s is
     * the larger of `typical` and the root mean square of the expected numbers, since a few numbers
     * may all be small differences of large ones. The first three 0: equality. */
    double relative, of_scale, absolute, typical;
    /* Output: instead of of_scale s, uses how far the reference moves when its intermediate numbers
     * are off by as much as allowed. */
    bool shifted;
} trp__proof_operand;

/* Kinds of numbers, as a set of bits; each is a pass of its own. */
enum {
    TRP__PROOF_ORDINARY = 1, /* uniform from low to high */
    TRP__PROOF_SATURATING =
        2,                  /* ordinary times 2^-8 to 2^6: activations saturate, sums stay finite */
    TRP__PROOF_EXTREME = 4, /* one number in four is one of `special` */
    TRP__PROOF_LEAVING = 8, /* ordinary times `leaving`: sums leave the type of the result, but not
                             * the one that they are added up in */
    TRP__PROOF_WIDE = 16,   /* ordinary times `wide`: deviations whose reciprocals are denormal */
    TRP__PROOF_TIGHT = 32,  /* ordinary times `tight`: deviations whose reciprocals are huge */
};

/* Special numbers, as a set of bits. Signed zeros, ones and +-100 are always included. */
enum {
    TRP__PROOF_LARGEST = 1,  /* finite numbers */
    TRP__PROOF_SMALLEST = 2, /* normal numbers */
    TRP__PROOF_DENORMAL = 4,
    TRP__PROOF_INFINITE = 8,
    TRP__PROOF_NAN = 16,
};

/* Addresses for one run. */
typedef struct trp__proof_place {
    void *const *at; /* the address of each operand */
    void *workspace; /* NULL: 0 bytes */
    trp__cu_stream stream;
    uint32_t pass;
    /* Runs of the reference with `shifted` outputs: 0; then 1 and -1, the direction in which it
     * moves the intermediate numbers that these outputs follow from. */
    int shift;
} trp__proof_place;

/* Sampled elements of an output: row-major indices (the last dimension varies fastest). */
typedef struct trp__proof_sample {
    uint32_t operand;
    const int64_t *number;
    size_t count;
} trp__proof_sample;

typedef struct trp__proof {
    const trp__cuda *cu;
    const trp__proof_operand *operand;
    uint32_t operands;
    uint64_t workspace; /* bytes */
    uint32_t passes, special;
    int64_t limit_ns; /* limit of a pass; 0: 60 seconds */
    /* Enqueues the plan. An error is a refusal, unless the context is broken. */
    trp_status (*run)(void *context, const trp__proof_place *place, trp_error *error);
    /* Enqueues the reference, which sets at least the sampled elements of each output. `samples`
     * has one entry for each output, in the order of operands. With a shift it sets the outputs
     * that are `shifted`. */
    trp_status (*reference)(void *context, const trp__proof_place *place,
                            const trp__proof_sample samples[], uint32_t count, trp_error *error);
    void *context;
} trp__proof;

typedef enum trp__proof_result {
    TRP__PROOF_GOOD,
    TRP__PROOF_WRONG,      /* other numbers, or a write outside of its outputs */
    TRP__PROOF_REFUSED,    /* the library refused to run it */
    TRP__PROOF_BROKE,      /* the context is broken, or the plan did not end: the worker must end */
    TRP__PROOF_IMPOSSIBLE, /* no memory or no reference: nothing was found out */
    TRP__PROOF_RESULTS,
} trp__proof_result;

/* Phases of a proof, for timing. */
typedef enum trp__proof_phase {
    TRP__PROOF_OPEN,           /* choosing samples, memory, a stream */
    TRP__PROOF_INPUTS,         /* making and copying numbers */
    TRP__PROOF_SEND_REFERENCE, /* enqueueing it */
    TRP__PROOF_SEND_PLAN,      /* enqueueing the plan; a library may load kernels first */
    TRP__PROOF_WAIT,           /* for the device */
    TRP__PROOF_COMPARE,
    TRP__PROOF_CLOSE,
    TRP__PROOF_PHASES,
} trp__proof_phase;

typedef struct trp__proof_verdict {
    trp__proof_result result;
    uint32_t compared; /* compared elements of one run */
    int64_t phase_ns[TRP__PROOF_PHASES];
    trp_error error;                /* of REFUSED, BROKE and IMPOSSIBLE */
    char reason[TRP__PROOF_REASON]; /* empty if GOOD */
} trp__proof_verdict;

/* Proves a plan on a stream of its own. The device's context must be current; any thread. Takes
 * some milliseconds. */
void trp__prove(const trp__proof *proof, trp__proof_verdict *out);

#endif
