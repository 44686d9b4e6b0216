/* Products of f32 matrices on tensor cores: the parameter of their kernels. Host and device share
 * this file.
 *
 *     split       splits each number of B into two parts of tf32, in the order of tensor cores
 *     multiply    computes tiles of D, and parts of the sums of tiles that blocks share; flags
 *                 tiles whose numbers are too large or too small
 *     finish      adds up the parts of each shared tile, always in the same order; computes
 *                 flagged tiles by multiply-adds
 *
 * In D = A B here, D is m x n, A is m x k and B is k x n. */
#ifndef TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_H
#define TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_H

#include <stdint.h>

enum {
    TRP__MULTIPLY_ROWS = 256, /* of a tile */
    TRP__MULTIPLY_COLUMNS = 128,
    TRP__MULTIPLY_DEPTH = 32,  /* columns of A and rows of B that a step multiplies */
    TRP__MULTIPLY_STAGES = 3,  /* steps whose operands are in shared memory */
    TRP__MULTIPLY_RESULTS = 4, /* packs of 16 bytes that a thread puts to shared memory at a time */
    TRP__MULTIPLY_BAND = 8,    /* tiles below each other that are computed at about the same time */
    TRP__MULTIPLY_BLOCKS = 2,  /* products of 64 rows each, of a warp group */
    TRP__MULTIPLY_FEW = 24,    /* registers of a thread that copies operands */
    TRP__MULTIPLY_MANY = 240,  /* and of one that multiplies */
    TRP__MULTIPLY_SPLIT_THREADS = 128,
    TRP__MULTIPLY_FINISH_THREADS = TRP__MULTIPLY_ROWS / 64 / TRP__MULTIPLY_BLOCKS * 128,
    TRP__MULTIPLY_THREADS = 128 + TRP__MULTIPLY_FINISH_THREADS,
    TRP__MULTIPLY_WARPS = TRP__MULTIPLY_FINISH_THREADS / 32, /* warps that have sums */
    /* Blocks of `finish` for a shared tile: each adds up two rows of 4 sums a thread. */
    TRP__MULTIPLY_GATHER_BLOCKS = TRP__MULTIPLY_BLOCKS * TRP__MULTIPLY_COLUMNS / 16,
    TRP__MULTIPLY_SQUARE = 64, /* side of the part of a flagged tile that a block computes */
    TRP__MULTIPLY_TILE_BYTES = 4 * TRP__MULTIPLY_ROWS * TRP__MULTIPLY_COLUMNS,
    TRP__MULTIPLY_SPLIT_BYTES = 8 * TRP__MULTIPLY_COLUMNS * TRP__MULTIPLY_DEPTH, /* B of a step */
    /* Bytes of shared memory: 1024 to align it, the tiles, results, and barriers. */
    TRP__MULTIPLY_SHARED = 1024 +
                           4 * TRP__MULTIPLY_DEPTH * TRP__MULTIPLY_STAGES *
                               (TRP__MULTIPLY_ROWS + 2 * TRP__MULTIPLY_COLUMNS) +
                           16 * TRP__MULTIPLY_RESULTS * TRP__MULTIPLY_FINISH_THREADS + 128,
};

/* The activation, applied to sums with their bias. */
enum {
    TRP__MULTIPLY_PLAIN,
    TRP__MULTIPLY_RELU,
    TRP__MULTIPLY_GELU_TANH,
};

typedef struct trp__multiply {
    uint64_t a, b, d;
    uint64_t bias; /* one number for each column of D, or for each row if `turned`; 0: none */
    /* Workspace: B split; a word of each step of it, not 0 if its numbers are too small; parts of
     * shared tiles; a word of each warp of each whole tile and of each part, not 0 if it is
     * flagged; a word that is not 0 if any of these words is not. */
    uint64_t split, small, parts, flags, any;
    int64_t lda, ldb, ldd;                /* elements between lines */
    int64_t stride_a, stride_b, stride_d; /* between products of a batch */
    int64_t m, n, k;
    int32_t batch;
    int32_t rows, columns; /* tiles of one product, down and across */
    int32_t steps;         /* of a tile */
    int32_t whole;         /* tiles that one block multiplies alone */
    int32_t shared;        /* the tiles after these, which blocks share by equal numbers of steps */
    int32_t blocks;        /* of `multiply` */
    uint8_t packed_a, packed_b;           /* lines are rows of A, columns of B */
    uint8_t vector_a, vector_b, vector_d; /* may be read or written 16 bytes at a time */
    uint8_t turned;                       /* D's lines are its columns */
    uint8_t activation;
    uint8_t reserved[5];
} trp__multiply;

/* Returns the first step of a block, counted over all shared tiles. */
static inline int64_t trp__multiply_begin(const trp__multiply *p, int32_t block)
{
    return (int64_t)p->shared * p->steps * block / p->blocks;
}

/* Returns the first block that does steps of a shared tile. The next ones do too, if they begin
 * before the end of the tile. */
static inline int32_t trp__multiply_first_block(const trp__multiply *p, int32_t share)
{
    const int64_t first = (int64_t)share * p->steps;
    int32_t block = (int32_t)(first * p->blocks / ((int64_t)p->shared * p->steps));
    while (trp__multiply_begin(p, block + 1) <= first)
        block++;
    return block;
}

#endif
