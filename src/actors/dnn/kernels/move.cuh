/* Copies of elements from one place to another in memory, see move.h. "rows": both sides go along
 * the same dimension; "tiles": a block reads a square along the one and writes it along the other,
 * so that both accesses are coalesced. */
#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_CUH
#define TRP_ACTORS_DNN_KERNELS_MOVE_CUH

#include "actors/dnn/kernels/element.cuh"
#include "actors/dnn/kernels/move.h"

/* Offsets of unit i, which is below 2^31 unless there is one dimension. */
TRP__DEVICE void trp__move_offsets(const trp__move &m, uint64_t i, int64_t &from, int64_t &to)
{
    from = to = 0;
    for (int k = 0; k < m.rank - 1; k++) {
        const uint32_t n = (uint32_t)i;
        const uint32_t next =
            (uint32_t)(((uint64_t)n * m.dim[k].factor >> 32) + n) >> m.dim[k].shift;
        from += (int64_t)(n - next * m.dim[k].by) * m.from[k];
        to += (int64_t)(n - next * m.dim[k].by) * m.to[k];
        i = next;
    }
    from += (int64_t)i * m.from[m.rank - 1];
    to += (int64_t)i * m.to[m.rank - 1];
}

template <typename U> TRP__DEVICE void trp__move_rows(const trp__move &m)
{
    const uint64_t block = (uint64_t)blockIdx.x * (TRP__MOVE_THREADS * TRP__MOVE_EACH);
    U unit[TRP__MOVE_EACH];
    int64_t to[TRP__MOVE_EACH];
    TRP__UNROLL
    for (int k = 0; k < TRP__MOVE_EACH; k++) {
        const uint64_t i = block + (uint64_t)k * TRP__MOVE_THREADS + threadIdx.x;
        int64_t from;
        if (i < m.count) {
            trp__move_offsets(m, i, from, to[k]);
            unit[k] = trp__at<U>(m.x, from);
        }
    }
    TRP__UNROLL
    for (int k = 0; k < TRP__MOVE_EACH; k++) {
        if (block + (uint64_t)k * TRP__MOVE_THREADS + threadIdx.x < m.count)
            trp__to<U>(m.y, to[k]) = unit[k];
    }
}

template <typename U> TRP__DEVICE void trp__move_tiles(const trp__move &m)
{
    enum { SIDE = TRP__MOVE_TILE, ROWS = TRP__MOVE_THREADS / TRP__MOVE_TILE };
    TRP__DYNAMIC(U, tile); /* SIDE rows of SIDE + 1 */
    const int column = (int)threadIdx.x % SIDE, row = (int)threadIdx.x / SIDE;
    const uint32_t along = (uint32_t)(blockIdx.x % m.tiles[0]);
    const uint32_t rest = (uint32_t)(blockIdx.x / m.tiles[0]);
    const uint32_t cross = rest % m.tiles[1];
    uint32_t others = rest / m.tiles[1];
    int64_t from = 0, to = 0;
    for (int k = 1; k < m.rank; k++) { /* the dimensions that are not turned around */
        if (k == m.across)
            continue;
        const uint32_t next = others / m.dim[k].by, at = others - next * m.dim[k].by;
        from += (int64_t)at * m.from[k];
        to += (int64_t)at * m.to[k];
        others = next;
    }
    const int64_t first = (int64_t)along * SIDE, second = (int64_t)cross * SIDE;
    TRP__UNROLL
    for (int k = 0; k < SIDE / ROWS; k++) {
        const int64_t a = first + row + k * ROWS, b = second + column;
        if (a < m.size[0] && b < m.size[1])
            tile[(row + k * ROWS) * (SIDE + 1) + column] =
                trp__at<U>(m.x, from + a * m.from[0] + b * m.from[m.across]);
    }
    __syncthreads();
    TRP__UNROLL
    for (int k = 0; k < SIDE / ROWS; k++) {
        const int64_t a = first + column, b = second + row + k * ROWS;
        if (a < m.size[0] && b < m.size[1])
            trp__to<U>(m.y, to + a * m.to[0] + b * m.to[m.across]) =
                tile[column * (SIDE + 1) + row + k * ROWS];
    }
}

#define TRP__MOVE_BY_UNIT(function)                                                                \
    if (m.unit == 16)                                                                              \
        function<trp__pack16>(m);                                                                  \
    else if (m.unit == 8)                                                                          \
        function<uint64_t>(m);                                                                     \
    else if (m.unit == 4)                                                                          \
        function<uint32_t>(m);                                                                     \
    else if (m.unit == 2)                                                                          \
        function<uint16_t>(m);                                                                     \
    else                                                                                           \
        function<uint8_t>(m)

TRP__GLOBAL(TRP__MOVE_THREADS) trp_move_rows(const TRP__CONSTANT trp__move m)
{
    TRP__MOVE_BY_UNIT(trp__move_rows);
}

TRP__GLOBAL(TRP__MOVE_THREADS) trp_move_tiles(const TRP__CONSTANT trp__move m)
{
    TRP__MOVE_BY_UNIT(trp__move_tiles);
}

#endif
