/* Fused attention: the parameter of the kernels of attention.cuh. Host and device share this file.
 *
 * A block of threads owns a tile of rows and walks the tiles of columns that any of them sees, so
 * that no score is ever in device memory. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_ATTENTION_H
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_ATTENTION_H

#include <stdint.h>

enum {
    TRP__ATTENTION_THREADS = 128,
    TRP__ATTENTION_SUMS = 3, /* numbers of a row that the backward pass needs: see `sums` */
};

/* Tensors, in the order of the ports of a node. */
enum {
    TRP__ATTENTION_Q,
    TRP__ATTENTION_K,
    TRP__ATTENTION_V,
    TRP__ATTENTION_Y,
    TRP__ATTENTION_STATS,
    TRP__ATTENTION_BIAS,
    TRP__ATTENTION_SLOPES,
    TRP__ATTENTION_SEQ_Q,
    TRP__ATTENTION_SEQ_KV,
    TRP__ATTENTION_DY,
    TRP__ATTENTION_DQ,
    TRP__ATTENTION_DK,
    TRP__ATTENTION_DV,
    TRP__ATTENTION_DBIAS,
    TRP__ATTENTION_TENSORS,
};

/* The kernels of one depth and type. A backward pass runs all but the first. */
typedef enum trp__attention_pass {
    TRP__ATTENTION_FORWARD,
    TRP__ATTENTION_ROWS,   /* the sums of each row */
    TRP__ATTENTION_TO_DQ,  /* a block for each tile of rows */
    TRP__ATTENTION_TO_DKV, /* a block for each tile of columns */
    TRP__ATTENTION_TO_DBIAS,
    TRP__ATTENTION_FOLD, /* adds up what TO_DBIAS left in the workspace */
    TRP__ATTENTION_PASSES,
} trp__attention_pass;

typedef struct trp__attention_tensor {
    uint64_t at;       /* 0: there is none */
    int64_t stride[4]; /* elements, of batch, head, row, column; 0: repeated */
    uint8_t type;      /* trp_dtype */
    uint8_t vector;    /* 4 elements of a row that follow each other are one access */
    uint8_t chunk;     /* 16 bytes of a row are one access */
    uint8_t reserved[5];
} trp__attention_tensor;

typedef struct trp__attention {
    trp__attention_tensor tensor[TRP__ATTENTION_TENSORS];
    int32_t batches, heads, shared_heads; /* shared: of k and v */
    int32_t rows, columns, depth, width;  /* width: the depth of v */
    int32_t window;                       /* 0: none */
    uint8_t causal, bottom_right, recompute;
    uint8_t dropout;
    uint32_t threshold;          /* a weight is dropped where 24 random bits are below this */
    double scale, factor;        /* factor: of weights that are not dropped */
    uint64_t seed, offset;       /* by value */
    uint64_t seed_at, offset_at; /* in memory; 0: by value */
    uint64_t sums;               /* [batches, heads, rows] of: largest score, 1 / sum, dy y */
    uint64_t partial;            /* partial sums of dbias, in the type of the arithmetic */
    /* TO_DBIAS: the dimensions of the scores that it sums over, and the strides of its results. */
    uint8_t over[4];
    int64_t bias_stride[4];
} trp__attention;

#ifndef __cplusplus
_Static_assert(sizeof(trp__attention) <= 4096, "what a kernel takes");
#endif

/* One row per module: its number, its name, the largest depth, bytes of elements in tiles and of
 * the type of the arithmetic, the type of all of q, k, v and dy (0: any), and the rows that a block
 * owns and walks, in the forward pass and in the others. */
#define TRP__ATTENTION_VARIANTS(X)                                                                 \
    X(F16_64, f16_64, 64, 2, 4, TRP_F16, 128, 64, 64, 64)                                          \
    X(F16_128, f16_128, 128, 2, 4, TRP_F16, 128, 32, 64, 32)                                       \
    X(BF16_64, bf16_64, 64, 2, 4, TRP_BF16, 128, 64, 64, 64)                                       \
    X(BF16_128, bf16_128, 128, 2, 4, TRP_BF16, 128, 32, 64, 32)                                    \
    X(F32_64, f32_64, 64, 4, 4, 0, 128, 64, 64, 64)                                                \
    X(F32_128, f32_128, 128, 4, 4, 0, 64, 32, 64, 32)                                              \
    X(F32_256, f32_256, 256, 4, 4, 0, 32, 32, 32, 32)                                              \
    X(F64_64, f64_64, 64, 8, 8, 0, 64, 32, 32, 32)                                                 \
    X(F64_128, f64_128, 128, 8, 8, 0, 32, 32, 32, 32)                                              \
    X(F64_256, f64_256, 256, 8, 8, 0, 16, 16, 16, 16)

enum {
#define TRP__ATTENTION_NUMBERS(module, name, depth, element, real, type, own, walk, own_back,      \
                               walk_back)                                                          \
    trp__attention_##name##_depth = depth, trp__attention_##name##_own = own,                      \
    trp__attention_##name##_walk = walk, trp__attention_##name##_own_back = own_back,              \
    trp__attention_##name##_walk_back = walk_back,
    TRP__ATTENTION_VARIANTS(TRP__ATTENTION_NUMBERS)
#undef TRP__ATTENTION_NUMBERS
};

/* Bytes of shared memory of a block. element, real: bytes of an element of tiles, and of a number
 * of the arithmetic. */
#define TRP__ATTENTION_SHARED(owned, own, walk, depth, element, real)                              \
    (((owned) * (own) + 2 * (walk)) * ((depth) * (element) + 16) +                                 \
     (own) * ((walk) * (real) + 16) + TRP__ATTENTION_SUMS * (walk) * (real) + (own) * (walk) / 4 + \
     16)

#endif
