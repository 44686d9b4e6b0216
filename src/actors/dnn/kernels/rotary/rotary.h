/* Rotary position embedding: the parameter of its kernels. Host and device share this file. A
 * thread turns the same pairs of several rows that share their position. It computes the angle
 * while the rows are being loaded. */
#ifndef TRP_ACTORS_DNN_KERNELS_ROTARY_ROTARY_H
#define TRP_ACTORS_DNN_KERNELS_ROTARY_ROTARY_H

#include "actors/dnn/graph/graph.h"
#include "actors/dnn/kernels/map/map.h"
#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__ROTARY_THREADS = 128,
    TRP__ROTARY_DEEP = 4,    /* rows of a thread, at most */
    TRP__ROTARY_POWERS = 32, /* bits of the number of a pair */
};

/* Operands of rows. */
enum {
    TRP__ROTARY_FROM,
    TRP__ROTARY_TO,
    TRP__ROTARY_ENTRY, /* offset in the indices, or distance from `begin` */
    TRP__ROTARY_ALONG, /* a thread's first row, of those that share a position */
    TRP__ROTARY_OPERANDS,
};

typedef struct trp__rotary {
    trp__dnn_node node;
    trp__rows_operand io[TRP__ROTARY_OPERANDS];
    trp__rows_space space;
    int64_t apart[2];        /* stride of rows that share a position, in x and in y */
    int64_t shared;          /* rows that share a position */
    int64_t items;           /* chunks of all groups of rows */
    int64_t first;           /* the first item of the launch */
    trp__map_divisor chunks; /* chunks of a row: first of pairs, then of elements that stay */
    int32_t pair_chunks;
    int32_t half;            /* pairs of a row */
    uint64_t cosines, sines; /* addresses of tables; 0: computed */
    int64_t cosine_stride[2], sine_stride[2];
    int64_t positions;                /* rows of the tables */
    double power[TRP__ROTARY_POWERS]; /* base^(-2 k / r), k = 1, 2, 4, ... */
    uint64_t index;                   /* address of positions; 0: they count from `begin` */
    int64_t begin;                    /* used if begin_at is 0 */
    uint64_t begin_at;                /* address of the first position, i64 */
    uint8_t wide_index, cosine_type, sine_type;
    uint8_t table_runs;  /* one load reads 4 numbers of a row of the tables */
    uint8_t back, pairs; /* turns backwards; pairs are adjacent elements */
    uint8_t reserved[2];
} trp__rotary;

#ifndef __cplusplus
_Static_assert(sizeof(trp__rotary) <= 4096, "what a kernel takes");
#endif

#endif
