/* A step of an optimizer over all weights: the parameter of its kernels. Host and device share this
 * file.
 *
 *     norm      adds up the squares of each part, where the norm of all gradients is needed
 *     prepare   computes the numbers of the step, where one lies in memory or follows from the norm
 *     step      updates all elements: each array is read and written once
 *
 * Ranges of weights (segments) are looked up in a table: once for a thread, and again where a range
 * ends among its elements. */
#ifndef TRP_ACTORS_DNN_KERNELS_OPTIMIZER_OPTIMIZER_H
#define TRP_ACTORS_DNN_KERNELS_OPTIMIZER_OPTIMIZER_H

#include "actors/dnn/math/optimizer.h"

enum {
    TRP__OPTIMIZER_THREADS = 256,
    TRP__OPTIMIZER_RUN = 4,  /* elements that follow each other */
    TRP__OPTIMIZER_RUNS = 2, /* runs of a thread */
    TRP__OPTIMIZER_BLOCK =
        TRP__OPTIMIZER_THREADS * TRP__OPTIMIZER_RUN * TRP__OPTIMIZER_RUNS, /* elements */
};

/* Arrays of all elements. */
enum {
    TRP__OPTIMIZER_W,
    TRP__OPTIMIZER_DW,
    TRP__OPTIMIZER_MOMENT, /* two */
    TRP__OPTIMIZER_NEW_W = 4,
    TRP__OPTIMIZER_NEW_MOMENT, /* two */
    TRP__OPTIMIZER_NARROW = 7,
    TRP__OPTIMIZER_ARRAYS,
};

/* Numbers of a step, by value or in memory. */
enum {
    TRP__OPTIMIZER_RATE,
    TRP__OPTIMIZER_DECAY,
    TRP__OPTIMIZER_COUNT,
    TRP__OPTIMIZER_SCALE,
    TRP__OPTIMIZER_LIMIT,
    TRP__OPTIMIZER_FOUND,
    TRP__OPTIMIZER_NUMBERS,
};

typedef struct trp__optimizer_place {
    uint64_t at;  /* 0: not in memory */
    double value; /* used if `at` is 0; for COUNT the bits of an i64 */
    uint8_t type; /* trp_dtype */
    uint8_t used;
    uint8_t reserved[6];
} trp__optimizer_place;

/* Arguments of the step kernel. */
typedef struct trp__optimizer_step {
    trp__opt_step step;
    int32_t skip;
    int32_t reserved;
} trp__optimizer_step;

typedef struct trp__optimizer {
    trp__dnn_node node;
    trp__optimizer_place array[TRP__OPTIMIZER_ARRAYS];
    trp__optimizer_place number[TRP__OPTIMIZER_NUMBERS];
    trp__optimizer_place norm, skipped; /* outputs, where `used` is set */
    trp__optimizer_step step;           /* used if `prepared` is 0 */
    uint64_t segments;                  /* f64 [segment_count, TRP__SEGMENT_COLUMNS] */
    int64_t segment_count;              /* -1: all elements are one range */
    int64_t count;                      /* elements */
    int64_t first;                      /* the first element of the launch */
    int64_t part;                       /* elements of each part of the norm */
    uint64_t sums;                      /* f64 [parts, TRP__OPT_SUMS] */
    uint64_t prepared; /* f64, in the order of TRP__PREPARED_RATE and so on; 0: `step` counts */
    int32_t parts;     /* 0: no norm */
    uint8_t runs;      /* arrays are aligned for accesses of runs */
    uint8_t reserved[3];
} trp__optimizer;

#ifndef __cplusplus
_Static_assert(sizeof(trp__optimizer) <= 4096, "what a kernel takes");
#endif

#endif
