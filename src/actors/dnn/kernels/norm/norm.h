/* Layer, RMS, instance and group norm of rows: the parameter of their kernels. Host and device
 * share this file.
 *
 *     forward    h = (x - mean) * inv_variance, y = h * scale + bias
 *     backward   dx = inv_variance * (g - mean of g - h * mean of g h), g = dy * scale
 *
 * inv_variance is 1 / sqrt(variance + epsilon). Means are taken over the elements of a row. RMS
 * norm leaves out the means of x and of g. */
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
    /* group norm, a number per channel: y = (h * scale + bias) * factor + term */
    TRP__NORM_FACTOR,
    TRP__NORM_TERM,
    TRP__NORM_OPERANDS,
};

enum {
    TRP__NORM_THREADS = 512,      /* threads of a row, at most */
    TRP__NORM_THREADS_1 = 256,    /* the same, backward in f32, of one run per thread */
    TRP__NORM_RESIDENT = 512,     /* resident threads of a multiprocessor; backward, in runs */
    TRP__NORM_RESIDENT_1 = 768,   /* the same in f32, of one run per thread */
    TRP__NORM_BACK_THREADS = 512, /* threads of a block, and of a row at most; backward, in packs */
    TRP__NORM_BACK_ELEMENTS = 16, /* elements of a row per thread; backward, in packs */
    TRP__NORM_BACK_BYTES = 128,   /* bytes per thread of a row in shared memory: x and dy in f32 */
    TRP__NORM_BACK_AHEAD = 3,     /* such rows in flight, at most, in the ring of a thread */
    TRP__NORM_BACK_GROUPS = 15,   /* rows of a block, if of several warps: a named barrier each */
    TRP__NORM_GROUP = 128,        /* threads of a block whose rows have at most a warp each */
    TRP__NORM_WALK_THREADS = 1024, /* threads of a row that registers do not hold */
    TRP__NORM_TILE_ELEMENTS = 32,  /* elements of a short row per thread, in shared memory */
    TRP__NORM_HELD_THREADS = 512,  /* threads of a slice that registers hold, at most */
    TRP__NORM_HELD_PACKS = 8,      /* packs of 16 bytes per such thread */
    TRP__NORM_CHANNELS = 1024,     /* channels of the rows of a block, at most */
    TRP__NORM_SUM_WARPS = 32,      /* warps of a block of trp__norm_add() */
    TRP__NORM_STATIC_BYTES = 2048, /* static shared memory of a backward kernel, at most */
};

typedef struct trp__norm {
    trp__rows_operand io[TRP__NORM_OPERANDS]; /* `at` 0: absent */
    trp__rows_space space;
    int64_t n;      /* elements of a row */
    int64_t first;  /* forward: the first block of the launch */
    double epsilon; /* used where epsilon_at is 0 */
    uint64_t epsilon_at;
    /* Backward: partial sums, f32 or f64. With `each`: [blocks, 2, n], first of dy h and then of
     * dy. Else [rows, 2], both of a row. */
    uint64_t sums;
    int32_t threads; /* threads of a row */
    uint8_t epsilon_type;
    uint8_t runs;
    uint8_t centred;
    uint8_t each;      /* scale and bias have a number per element of a row; else one per row */
    uint8_t each_runs; /* scale and bias are aligned for runs */
    uint8_t reserved[3];
    float share;      /* 1 / n */
    int32_t channels; /* channels of a row; 0: neither factor nor term */
    int32_t spread;   /* elements of a channel */
    /* 2^32 / spread, rounded up: k * spread_factor >> 32 is k / spread where k < 2^32 / spread. */
    uint32_t spread_factor;
    int32_t bytes;  /* backward, in packs: shared memory per thread */
    int32_t blocks; /* blocks of the cluster that shares a row; 0: no cluster */
    int32_t slice;  /* elements of a block's slice of the row */
    int32_t room;   /* tiles of a slice that shared memory holds */
} trp__norm;

/* Parameter of trp__norm_add(), which adds up `count` partial sums of each column: those of column
 * k are sums[i * pitch + k * step] for out[0], and sums[i * pitch + k * step + second] for out[1].
 */
typedef struct trp__norm_sum {
    uint64_t sums;
    int64_t count, columns;
    int64_t pitch, step, second;
    int64_t out_step[2];
    uint64_t out[2]; /* addresses of dscale and dbias; 0: not wanted */
    uint8_t type[2];
    uint8_t reserved[6];
} trp__norm_sum;

#endif
