/* The largest elements of rows, and classes drawn from them: the parameter of their kernels. Host
 * and device share this file.
 *
 *     arg          a block finds the first largest element of each part of a row
 *     arg_finish   a warp finds the first largest element of all parts of a row
 *     tiles        a block sorts the largest elements of each tile of a row, and those of
 *                  the row if it has one tile or if its blocks are a cluster
 *     merge        a block sorts the largest elements that some tiles have left, until a
 *                  row has one tile
 *     shares       a warp adds up the shares of each part of a row
 *     class        a cluster draws a class of each row, with classes in order of number
 *     draw_ranked  a block draws a class of each row, with classes in order of logit
 *
 * A *mark* is an element in 64 bits: the upper half is a key, which orders as the elements do, the
 * lower half the complement of the element's number. The larger mark comes first, and no two marks
 * of a row are equal. Equal elements therefore need no special case, and the order in which a block
 * finds marks changes nothing. 0 is no element. */
#ifndef TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_H
#define TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_H

#include "actors/dnn/kernels/common/rows.h"

enum {
    TRP__SELECT_X,
    TRP__SELECT_INDEX,
    TRP__SELECT_Y,
    TRP__SELECT_OPERANDS,
};

enum {
    TRP__SELECT_SEED,
    TRP__SELECT_OFFSET,
    TRP__SELECT_TEMPERATURE,
    TRP__SELECT_COUNT,
    TRP__SELECT_LIMIT,
    TRP__SELECT_NUMBERS,
};

enum {
    TRP__SELECT_THREADS = 256, /* threads of a block, at most */
    TRP__SELECT_BOUND = 1024,  /* threads in launch bounds: 64 registers, 4 blocks of 256 */
    TRP__SELECT_EACH = 32,     /* elements of a tile per thread */
    TRP__SELECT_MARKS = 16,    /* marks of a tile per thread */
    TRP__SELECT_LIST = 2048,   /* marks that a block sorts, at most */
    TRP__SELECT_MOST = 1024,   /* elements of a row that are selected, at most */
    TRP__SELECT_NUCLEUS = 256, /* classes that are sorted for a limit without a count */
    TRP__SELECT_PART = 4096,   /* elements of a part of arg, at least */
    TRP__SELECT_SHARES = 1024, /* elements of a part of shares */
    TRP__SELECT_DRAW = 1024,   /* threads of a block of draw_ranked, at most */
};

/* One number, in memory or by value. */
typedef struct trp__select_number {
    uint64_t at; /* 0: by value */
    uint64_t bits;
    double value;
    uint8_t type, used;
    uint8_t reserved[6];
} trp__select_number;

typedef struct trp__select {
    trp__rows_operand io[TRP__SELECT_OPERANDS];
    trp__rows_space space;
    trp__select_number number[TRP__SELECT_NUMBERS];
    int64_t n;         /* elements of a row */
    int64_t part;      /* elements of a part of arg or shares; tiles of a block of class */
    int64_t tile;      /* elements of a tile; its threads may have room for more */
    int64_t parts;     /* of a row: parts of arg, tiles, or blocks of class */
    int64_t shares;    /* of a row: parts of shares */
    int64_t length;    /* merge, draw: marks of a row at `from` */
    int64_t first;     /* the first row of the launch */
    int64_t rows;      /* rows of the launch */
    uint64_t from, to; /* addresses of marks: read, written */
    uint64_t ranked;   /* address of the largest marks of rows, in order; 0: writes results */
    uint64_t sums;     /* u64 [rows, shares]: sums of shares; 0: draw_ranked has none */
    int32_t picked;    /* marks of a row that are wanted */
    uint8_t smallest;
    uint8_t nan_first; /* a NaN comes first, also among the smallest */
    uint8_t runs;      /* rows are read 16 bytes at a time */
    uint8_t used_y;    /* values are results, too */
    uint8_t meets;     /* tiles: the blocks of a row are a cluster, and rank all its marks */
    uint8_t reserved[7];
} trp__select;

#endif
