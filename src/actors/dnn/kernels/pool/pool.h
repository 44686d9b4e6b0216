/* Pooling: the parameter of its kernels. Host and device share this file.
 *
 * Forward, a thread computes one output, or the outputs of 8 channels that follow each other. A
 * large window is shared by a warp. Planes that lie one behind the other go through shared memory
 * (pool_planes.cuh). Backward, a thread computes inputs, of 8 channels or of a strip of 8 that
 * follow each other in a row, and visits the windows that cover them. If no place of a maximum is
 * given, a forward pass finds it first. */
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

/* Outputs of planes that a thread has, one below the other, of windows of so many rows. */
#define TRP__POOL_DEEP(window) ((window) < 9 ? 4 : 8)

/* Elements, in their order of memory: batch, channel, and three spatial dimensions, of which the
 * first may be missing. */
typedef struct trp__pool_operand {
    uint64_t at; /* 0: there is none */
    int64_t batch, channel, spatial[TRP__POOL_DIMS];
    uint8_t type; /* trp_dtype */
    uint8_t reserved[7];
} trp__pool_operand;

typedef struct trp__pool {
    trp__pool_operand x, y;  /* backward: dx, dy */
    trp__pool_operand index; /* the place in the window of the maximum: i8 or i32 */
    int32_t in[TRP__POOL_DIMS], out[TRP__POOL_DIMS], window[TRP__POOL_DIMS];
    int32_t pad[TRP__POOL_DIMS], stride[TRP__POOL_DIMS];
    int32_t end[TRP__POOL_DIMS]; /* of the input with the padding behind it, which means count */
    trp__map_divisor by_stride[TRP__POOL_DIMS];
    uint32_t count;           /* threads or warps of the launch, with something to do */
    trp__map_divisor size[4]; /* the sizes that number them, the innermost first */
    int64_t batch;            /* the first of the launch */
    uint8_t mode;             /* trp_dnn_resample */
    uint8_t channels_last;    /* channels are the innermost of `size`; else behind the spatial */
    uint8_t strip_runs;       /* strips of the input are written by 16 bytes */
    uint8_t reserved[5];
    /* Planes of x, which lie one behind the other as those of y and of the index do: blocks have
     * `group` of them, or bands of so many rows of the output of one. */
    int64_t planes;
    uint32_t group, bands, rows;
} trp__pool;

#endif
