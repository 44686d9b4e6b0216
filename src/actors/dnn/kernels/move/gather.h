/* GATHER and SCATTER_ADD of slices, embeddings and their gradients: the parameter of their kernels.
 * Host and device share this file.
 *
 * A tensor is `outer` times `rows` lines, of which `index` names `count`; slices are `outer` times
 * `count` lines. SCATTER_ADD runs:
 *
 *     rank     sorts the numbers of indices by row, and by number within a row: each tile of
 *              TRP__GATHER_TILE by itself, by counting the numbers that come before each
 *     merge    merges TRP__GATHER_WAYS lists into one, until there is one
 *     parts    finds where the list begins for each row, and adds up whole parts of the list that
 *              belong to one row, which is a frequent one
 *     rows     adds up the slices of each row, or these sums
 *
 * The order of sums follows from the indices alone, so results are the same each time. */
#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_GATHER_H
#define TRP_ACTORS_DNN_KERNELS_MOVE_GATHER_H

#include "actors/dnn/kernels/map/map.h"

enum {
    TRP__GATHER_THREADS = 256,
    TRP__GATHER_DEEP = 4,   /* units that a thread copies */
    TRP__GATHER_TILE = 256, /* indices that are sorted by counting: a power of two */
    TRP__GATHER_WAYS = 4,   /* lists that are merged at a time */
    TRP__GATHER_PART = 64,  /* indices of one row whose slices are summed beforehand */
    TRP__GATHER_ROWS = 4,   /* rows of a thread */
    TRP__GATHER_RUN = 4,    /* elements that are summed at a time, if they are aligned */
    TRP__GATHER_LONG = 8,   /* the same for types of 16 bits */
};

typedef struct trp__gather_lines {
    uint64_t at;
    int64_t outer, row; /* strides, elements */
    uint8_t type;       /* trp_dtype */
    uint8_t reserved[7];
} trp__gather_lines;

typedef struct trp__gathering {
    trp__gather_lines whole, slices, before; /* before: added to the sums; at 0: none */
    uint64_t index;
    int64_t index_stride;
    int64_t ignore; /* the index that adds nothing, if `ignores` */
    int64_t line;   /* elements of a line */
    uint32_t rows;  /* lines along the dimension that is indexed */
    uint32_t count; /* indices */
    uint32_t outer;
    uint32_t units;                 /* units of the copy */
    trp__map_divisor chunks;        /* divides by the units of a line */
    trp__map_divisor by_count;      /* divides by `count`, or by 1 if that is 0 */
    uint64_t key, number;           /* u32 of each index, sorted; `merge` reads them */
    uint64_t next_key, next_number; /* and writes these */
    uint64_t starts;                /* u32 of each row, and one more */
    uint64_t sums;                  /* sums of parts, in the type of the arithmetic */
    uint32_t width;                 /* indices of each list that is merged */
    uint32_t start_blocks;          /* blocks of `parts` that find where rows begin */
    uint32_t row_blocks;            /* blocks of `rows` for each of `outer` */
    uint32_t parts;
    uint8_t wide_index;     /* i64 */
    uint8_t ignores, packs; /* packs: the copy moves 16 bytes at a time */
    uint8_t in_place;       /* `before` has the address and strides of the result */
} trp__gathering;

#endif
