/* Batch norm, and instance norm where norm.h does not take it: the parameter of their kernels. Host
 * and device share this file.
 *
 * A group is the elements that share statistics. Each is cut into parts, so that there are enough
 * blocks. The first kernel writes two sums of each part; the second adds up the parts of each group
 * and writes its statistics and factors; the third writes the elements. Forward the sums are those
 * of x - pivot and of its square, where the pivot is the first element of the group: a mean far
 * larger than the deviations costs no digits. Groups have one of two layouts:
 *
 *     rows      one run of elements that follow each other, or several runs at a constant stride.
 *               One kernel does groups that fit in shared memory, if they are many: a cluster of
 *               blocks does one after the other, and copies the next meanwhile
 *     columns   elements at a constant stride, whose neighbours belong to other groups
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
    TRP__BATCH_ACROSS = 32,                    /* columns: adjacent loads of a block, at most */
    TRP__BATCH_DEEP = 8,                       /* columns: elements that a thread has in flight */
    TRP__BATCH_TILE = 32 * TRP__BATCH_THREADS, /* rows: elements that a block has in flight */
};

/* Factors of elements: a number of each per group. The mean is MEAN + REST, as a single f32 has no
 * digits for deviations that are far smaller. */
enum {
    TRP__BATCH_F_MEAN,
    TRP__BATCH_F_REST,
    TRP__BATCH_F_INVERSE,
    TRP__BATCH_F_SCALE,
    TRP__BATCH_F_BIAS,  /* backward: the mean of dy */
    TRP__BATCH_F_SLOPE, /* backward: the mean of dy h */
    TRP__BATCH_FACTORS,
};

/* A number, by value or in device memory. */
typedef struct trp__batch_number {
    double value;
    uint64_t at; /* 0: `value` is used */
    uint8_t type;
    uint8_t reserved[7];
} trp__batch_number;

typedef struct trp__batch {
    trp__rows_operand io[TRP__BATCH_OPERANDS]; /* `at` 0: absent */
    int64_t column_step[TRP__BATCH_OPERANDS];  /* stride from a column to the next */
    int64_t again[3];      /* rows: strides from a run to the next, of x, y and dx */
    trp__rows_space space; /* dimensions of groups; columns: those outside the innermost */
    int64_t columns;       /* columns side by side; 1 for rows */
    int64_t n;             /* elements of a group */
    trp__map_divisor run;  /* rows: elements of a run, at most 2^30 */
    int32_t pause;         /* cycles by which every other cluster begins later */
    int64_t part, parts;   /* elements of a part; parts of a group */
    int64_t first;         /* first block of the launch */
    int64_t last;          /* last block of the last pass, which goes backwards for the cache */
    uint64_t sums;         /* f64 [groups, parts, 2] */
    uint64_t factors;      /* f32 [TRP__BATCH_FACTORS, pitch] */
    int64_t pitch;         /* groups, rounded up to a multiple of 4 */
    uint64_t totals;       /* backward: f64 [groups, 2], the sums of dy h and of dy */
    trp__batch_number epsilon, average;
    int32_t across; /* columns: adjacent loads of a block */
    uint8_t back;
    uint8_t given;   /* mean and inv_variance are inputs */
    uint8_t precise; /* sums need f64: squares may underflow in f32 */
    uint8_t tail[1];
    int32_t room; /* rows by clusters: tiles that shared memory holds */
    int32_t last_tail;
} trp__batch;

#endif
