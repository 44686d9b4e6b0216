/* The order of tiles in groups of lines. Read by NVRTC and by the C compiler.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_ACTORS_CUTLASS_TILES_H
#define TRP_ACTORS_CUTLASS_TILES_H

#ifdef __CUDACC__
#define TRP_TILES_FUNCTION __device__ inline
#else
#include <stdint.h>
#define TRP_TILES_FUNCTION static inline
#endif

typedef struct trp_tile_place {
    uint32_t line, at;
} trp_tile_place;

/* Returns the place of a tile in `lines` lines of `length` tiles. The tile has number line * length
 * + at in line order; the order used completes a group of 1 << shift lines before the next, and
 * within a group all tiles at position 0 first. The last group has the remaining lines. */
TRP_TILES_FUNCTION trp_tile_place trp_tile_in_groups(uint32_t lines, uint32_t length,
                                                     uint32_t shift, uint32_t line, uint32_t at)
{
    const uint32_t first = line >> shift << shift, left = lines - first;
    const uint32_t width = left < (1u << shift) ? left : 1u << shift;
    const uint32_t number = (line - first) * length + at;
    const trp_tile_place place = {first + number % width, number / width};
    return place;
}

#endif
