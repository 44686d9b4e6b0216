/* Normalisation over rows that stay in registers: the parameter of its kernels. Host and device
 * share this file.
 *
 *     forward    h = (x - mean) * inv_variance, y = h * scale + bias
 *     backward   dx = inv_variance * (g - mean of g - h * mean of g h), g = dy * scale
 *
 * with the means over the row, and without those of x and of g where nothing is centred. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_H
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_H

#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__NORM_X,
    TRP__NORM_Y, /* backward: dy */
    TRP__NORM_DX,
    TRP__NORM_SCALE,
    TRP__NORM_BIAS,
    TRP__NORM_MEAN,
    TRP__NORM_INVERSE,
    /* of each channel of a row, a group of them: what y is multiplied with, and then added */
    TRP__NORM_FACTOR,
    TRP__NORM_TERM,
    TRP__NORM_OPERANDS,
};

enum {
    TRP__NORM_THREADS = 512,       /* at most, of a row */
    TRP__NORM_THREADS_1 = 256,     /* where each has one run, in f32 */
    TRP__NORM_RESIDENT = 512,      /* of a processor at a time, backward */
    TRP__NORM_RESIDENT_1 = 768,    /* where each has one run, in f32 */
    TRP__NORM_BACK_THREADS = 512,  /* of a block, and at most of a row, backward, in packs, */
    TRP__NORM_BACK_ELEMENTS = 16,  /* of a row that each has, and */
    TRP__NORM_BACK_BYTES = 128,    /* of shared memory, of x and dy in f32, for a row, and */
    TRP__NORM_BACK_AHEAD = 3,      /* times as much for rows ahead, at most */
    TRP__NORM_BACK_GROUPS = 15,    /* rows of such a block that have more than a warp each */
    TRP__NORM_GROUP = 128,         /* of a block of rows that have at most a warp each */
    TRP__NORM_WALK_THREADS = 1024, /* of rows that do not fit registers */
    TRP__NORM_TILE_ELEMENTS = 32,  /* of a short row that a thread has in shared memory */
    TRP__NORM_HELD_THREADS = 512,  /* of a slice that registers hold, at most, of so many */
    TRP__NORM_HELD_PACKS = 8,      /* packs each */
    TRP__NORM_CHANNELS = 1024,     /* at most, of the rows of a block */
    TRP__NORM_SUM_WARPS = 32,
    TRP__NORM_STATIC_BYTES = 2048, /* of shared memory, backward, at most */
};

typedef struct trp__norm {
    trp__rows_operand io[TRP__NORM_OPERANDS]; /* at 0: there is none */
    trp__rows_space space;
    int64_t n;
    int64_t first;  /* row of the launch; forward */
    double epsilon; /* where epsilon_at is 0 */
    uint64_t epsilon_at;
    /* backward, of a scale for each element of a row: the sums of each block, of dy h and behind
     * them of dy; else those of each row */
    uint64_t sums;
    int32_t threads; /* of a row */
    uint8_t epsilon_type;
    uint8_t runs;
    uint8_t centred;
    uint8_t each;      /* elements of a row have a scale each; else each row */
    uint8_t each_runs; /* which are read by runs */
    uint8_t reserved[3];
    float share;            /* 1 / n */
    int32_t channels;       /* of a row; 0: none */
    int32_t spread;         /* elements of a channel */
    uint32_t spread_factor; /* 2^32 / spread, rounded up: up to 2^16 elements are divided by it */
    int32_t bytes;          /* backward, in packs: of shared memory for a thread */
    int32_t blocks;         /* of a cluster that has a row, */
    int32_t slice;          /* elements of each, and */
    int32_t room;           /* tiles that a block has room for */
} trp__norm;

/* Adds up the sums of `count` blocks or rows: those of column k are at
 * sums[i * pitch + k * step] and sums[i * pitch + k * step + second]. */
typedef struct trp__norm_sum {
    uint64_t sums;
    int64_t count, columns;
    int64_t pitch, step, second;
    int64_t out_step[2];
    uint64_t out[2]; /* dscale, dbias; 0: not wanted */
    uint8_t type[2];
    uint8_t reserved[6];
} trp__norm_sum;

#endif
