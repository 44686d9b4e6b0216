/* Pooling: the parameter of its kernels. Host and device share this file.
 *
 * Forward, a thread computes one output, or the outputs of 4 or 8 neighbouring channels. A warp
 * shares a large window. Planes that lie one after the other go through shared memory
 * (pool_planes.cuh). Backward, a thread computes inputs: one, those of 4 or 8 channels, or a strip
 * of 8 neighbours in a row. It visits the windows that cover them. If no places of maxima are
 * given, a forward pass finds them first. */
#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_H
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_H

#include "actors/dnn/kernels/map/map.h"

#include <stdint.h>

enum {
    TRP__POOL_DIMS = 3,
    TRP__POOL_THREADS = 256,
    TRP__POOL_RUN = 8,           /* channels of a thread, or inputs of a strip */
    TRP__POOL_LARGE = 64,        /* elements of a window that a warp shares */
    TRP__POOL_SHARED = 32 << 10, /* bytes of planes that a block has in shared memory, at most */
    TRP__POOL_MARGIN = 64,       /* bytes before and behind these: they are read, but no result
                                  * depends on them */
};

/* Outputs, one below the other, of a thread of the kernels of planes, for windows of `window` rows.
 */
#define TRP__POOL_DEEP(window) ((window) < 9 ? 4 : 8)

/* An operand: its address, and its strides in elements along batch, channel and three spatial
 * dimensions, the first of which may be missing. */
typedef struct trp__pool_operand {
    uint64_t at; /* 0: there is none */
    int64_t batch, channel, spatial[TRP__POOL_DIMS];
    uint8_t type; /* trp_dtype */
    uint8_t reserved[7];
} trp__pool_operand;

typedef struct trp__pool {
    trp__pool_operand x, y;  /* backward: dx, dy */
    trp__pool_operand index; /* places of maxima in their windows: i8 or i32 */
    int32_t in[TRP__POOL_DIMS], out[TRP__POOL_DIMS], window[TRP__POOL_DIMS];
    int32_t pad[TRP__POOL_DIMS], stride[TRP__POOL_DIMS];
    int32_t end[TRP__POOL_DIMS]; /* end of the input and its padding, as AVERAGE_PADDED counts it */
    trp__map_divisor by_stride[TRP__POOL_DIMS];
    uint32_t count;           /* threads or warps of the launch that have work */
    trp__map_divisor size[4]; /* the dimensions that number them, the innermost first */
    int64_t batch;            /* the first batch of the launch */
    uint8_t mode;             /* trp_dnn_resample */
    uint8_t channels_last;    /* channels are the innermost of `size`; else they come last */
    uint8_t strip_runs;       /* strips of the input are written 16 bytes at a time */
    uint8_t reserved[5];
    /* Kernels of planes. The planes of each operand lie one after the other. A block has `group` of
     * them, or one of `bands` bands of a plane, each of `rows` rows of output. */
    int64_t planes;
    uint32_t group, bands, rows;
} trp__pool;

#endif
