/* Batch norm, and instance norm where norm.h does not take it: the parameter of its kernels. Host
 * and device share this file.
 *
 * A group is the elements that share their statistics. It is cut into parts for enough blocks. One
 * kernel leaves two sums of each part; one adds up the parts of each group, and writes statistics
 * and the factors of elements; one writes the elements. Forward the sums are those of x - pivot and
 * of its square, where the pivot is the first element of the group: a mean far larger than
 * deviations does no harm. Groups lie in one of two ways:
 *
 *     rows      runs of elements that follow each other, several of which may be apart. Many groups
 *               that fit are done by one kernel: a cluster of blocks has one group after the other
 *               in shared memory, and reads ahead.
 *     columns   neighbours belong to different groups; the elements of a group are a step apart
 */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_H
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_H

#include "actors/dnn/kernels/map/map.h"
#include "actors/dnn/kernels/common/rows.h"

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
    TRP__BATCH_ACROSS = 32, /* loads of a block that lie next to each other, of columns, at most */
    TRP__BATCH_DEEP = 8,    /* elements of a column that a thread reads before it looks at any */
    TRP__BATCH_TILE = 32 * TRP__BATCH_THREADS, /* the same of rows, of a block */
};

/* Factors of the elements of a group, one of each for every group. The mean has two parts, as it
 * may be far larger than deviations. */
enum {
    TRP__BATCH_F_MEAN,
    TRP__BATCH_F_REST,
    TRP__BATCH_F_INVERSE,
    TRP__BATCH_F_SCALE,
    TRP__BATCH_F_BIAS,  /* backward: the mean of dy */
    TRP__BATCH_F_SLOPE, /* backward: the mean of dy h */
    TRP__BATCH_FACTORS,
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
    trp__map_divisor run;  /* rows: elements that follow each other; below 2^30 */
    int32_t pause;         /* cycles that every other cluster begins later */
    int64_t part, parts;
    int64_t first;    /* block of the launch */
    int64_t last;     /* block of the last pass, which begins with what was read last */
    uint64_t sums;    /* two f64 for each part of each group */
    uint64_t factors; /* f32: TRP__BATCH_FACTORS times `pitch` */
    int64_t pitch;    /* groups, rounded up to a multiple of 4 */
    uint64_t totals;  /* backward: two f64 for each group, of dy h and dy */
    trp__batch_number epsilon, average;
    int32_t across; /* columns: loads that lie next to each other */
    uint8_t back;
    uint8_t given;   /* mean and inv_variance are read, not found */
    uint8_t precise; /* squares may vanish in f32 */
    uint8_t tail[1];
    int32_t room; /* rows of clusters: tiles that a block has room for */
    int32_t last_tail;
} trp__batch;

#endif
