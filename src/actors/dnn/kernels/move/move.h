/* Copies between tensors of one type: the parameter of the kernels of move.cuh. Host and device
 * share this file. Elements move as units of 1 to 16 bytes, unchanged to the bit. */
#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_MOVE_H
#define TRP_ACTORS_DNN_KERNELS_MOVE_MOVE_H

#include "actors/dnn/kernels/map/map.h"

enum {
    TRP__MOVE_THREADS = 256,
    TRP__MOVE_EACH = 4,  /* units of a thread */
    TRP__MOVE_TILE = 32, /* units along a side of a tile that a block transposes */
    TRP__MOVE_TURN = 64, /* the same for units of 2 and 4 bytes */
};

typedef struct trp__move {
    uint64_t x, y; /* addresses */
    uint8_t unit;  /* bytes: 1, 2, 4, 8 or 16 */
    uint8_t rank;
    uint8_t across;   /* tiles: the dimension along which x is contiguous; y is along the first */
    uint8_t piece[2]; /* turn: bytes of an access along rows of x, of y */
    uint8_t reserved[3];
    uint64_t count;                      /* units, or tiles */
    uint32_t tiles[2];                   /* along the first dimension, and along `across` */
    trp__map_divisor dim[TRP__MAP_DIMS]; /* sizes in units, the one that is fastest in y first */
    int64_t size[2];                     /* of the first dimension and of `across` */
    int64_t from[TRP__MAP_DIMS], to[TRP__MAP_DIMS]; /* strides in units */
} trp__move;

#ifndef __cplusplus
_Static_assert(sizeof(trp__move) <= 4096, "what a kernel takes");
#endif

#endif
