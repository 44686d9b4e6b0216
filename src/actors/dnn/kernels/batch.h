/* Batch norm, and instance norm where norm.h does not have it: the parameter of its kernels. Host
 * and device share this file.
 *
 * A group is what shares its statistics. Its elements are cut in parts, for enough blocks: each
 * leaves what it knows of a part, one kernel joins the parts of each group and writes statistics,
 * and one writes the elements. Groups lie in one of two ways:
 *
 *     rows      runs of elements that follow each other, and the same again in other places
 *     columns   neighbours belong to different groups; the elements of one are a step apart */
#ifndef TRP_ACTORS_DNN_KERNELS_BATCH_H
#define TRP_ACTORS_DNN_KERNELS_BATCH_H

#include "actors/dnn/kernels/map.h"
#include "actors/dnn/kernels/rows.h"

enum {
    TRP__BATCH_X,
    TRP__BATCH_Y, /* backward: dy */
    TRP__BATCH_DX,
    TRP__BATCH_SCALE,
    TRP__BATCH_BIAS,
    TRP__BATCH_MEAN,
    TRP__BATCH_INVERSE,
    TRP__BATCH_RUNNING_MEAN,
    TRP__BATCH_RUNNING_VARIANCE,
    TRP__BATCH_NEW_MEAN,
    TRP__BATCH_NEW_VARIANCE,
    TRP__BATCH_OPERANDS,
};

enum {
    TRP__BATCH_THREADS = 256,
    TRP__BATCH_WARPS = TRP__BATCH_THREADS / 32,
    TRP__BATCH_COLUMNS = 256, /* of a block: 8 for each lane */
    TRP__BATCH_DEEP = 4,      /* runs that a thread reads before it looks at any */
    TRP__BATCH_TILE = TRP__BATCH_THREADS * TRP__ROWS_RUN,
    TRP__BATCH_FACTORS = 4, /* numbers of a group that elements need */
};

/* A number by value or in memory. */
typedef struct trp__batch_number {
    double value;
    uint64_t at; /* 0: the value */
    uint8_t type;
    uint8_t reserved[7];
} trp__batch_number;

typedef struct trp__batch {
    trp__rows_operand io[TRP__BATCH_OPERANDS]; /* at 0: there is none */
    int64_t column_step[TRP__BATCH_OPERANDS];  /* from a column to the next one */
    int64_t again[3];                          /* rows: from a run to the next, of x, y and dx */
    trp__rows_space space; /* of groups; of columns those outside the innermost */
    int64_t columns;       /* 1 for rows */
    int64_t n;             /* elements of a group */
    int64_t run;           /* rows: elements that follow each other */
    trp__map_divisor by;   /* run, where all of a group are fewer than 2^31; else 0 */
    int32_t reserved;
    int64_t part, parts;
    int64_t first;    /* block of the launch */
    uint64_t sums;    /* two f64 for each part of each group */
    uint64_t factors; /* four f32 for each group */
    uint64_t totals;  /* backward: two f64 for each group, of dy h and dy */
    trp__batch_number epsilon, average;
    uint8_t runs; /* read by 16 bytes */
    uint8_t back;
    uint8_t given;   /* mean and inv_variance are read, not found */
    uint8_t precise; /* squares may vanish in f32 */
    uint8_t tail[4];
} trp__batch;

#endif
