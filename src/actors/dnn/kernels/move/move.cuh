/* Copies of elements from one place in memory to another, see move.h. "rows": both sides go along
 * the same dimension; "tiles": a block reads a square along one dimension and writes it along the
 * other, so that both accesses are coalesced. */
#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_MOVE_CUH
#define TRP_ACTORS_DNN_KERNELS_MOVE_MOVE_CUH

#include "actors/dnn/kernels/common/element.cuh"
#include "actors/dnn/kernels/move/move.h"

/* Finds the offsets of unit i. If there are several dimensions, i must be below 2^31. */
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
    TRP__EACH(k, TRP__MOVE_EACH) {
        const uint64_t i = block + (uint64_t)k * TRP__MOVE_THREADS + threadIdx.x;
        int64_t from;
        if (i < m.count) {
            trp__move_offsets(m, i, from, to[k]);
            unit[k] = trp__at<U>(m.x, from);
        }
    }
    TRP__EACH(k, TRP__MOVE_EACH) {
        if (block + (uint64_t)k * TRP__MOVE_THREADS + threadIdx.x < m.count)
            trp__to<U>(m.y, to[k]) = unit[k];
    }
}

/* Finds the tile of a block: `from` and `to`, its offsets in x and y along all dimensions but the
 * two that are exchanged, and `first` and `second`, its first indices along these two. */
TRP__DEVICE void trp__move_tile(const trp__move &m, int side, int64_t &from, int64_t &to,
                                int64_t &first, int64_t &second)
{
    const uint32_t rest = (uint32_t)(blockIdx.x / m.tiles[0]);
    uint32_t others = rest / m.tiles[1];
    from = to = 0;
    for (int k = 1; k < m.rank; k++) {
        if (k == m.across)
            continue;
        const uint32_t next = others / m.dim[k].by, at = others - next * m.dim[k].by;
        from += (int64_t)at * m.from[k];
        to += (int64_t)at * m.to[k];
        others = next;
    }
    first = (int64_t)(blockIdx.x % m.tiles[0]) * side;
    second = (int64_t)(rest % m.tiles[1]) * side;
}

template <typename U> TRP__DEVICE void trp__move_tiles(const trp__move &m)
{
    enum { SIDE = TRP__MOVE_TILE, ROWS = TRP__MOVE_THREADS / TRP__MOVE_TILE };
    TRP__DYNAMIC(U, tile); /* SIDE rows of SIDE + 1 */
    const int column = (int)threadIdx.x % SIDE, row = (int)threadIdx.x / SIDE;
    int64_t from, to, first, second;
    trp__move_tile(m, SIDE, from, to, first, second);
    TRP__EACH(k, SIDE / ROWS) {
        const int64_t a = first + row + k * ROWS, b = second + column;
        if (a < m.size[0] && b < m.size[1])
            tile[(row + k * ROWS) * (SIDE + 1) + column] =
                trp__at<U>(m.x, from + a * m.from[0] + b * m.from[m.across]);
    }
    __syncthreads();
    TRP__EACH(k, SIDE / ROWS) {
        const int64_t a = first + column, b = second + row + k * ROWS;
        if (a < m.size[0] && b < m.size[1])
            trp__to<U>(m.y, to + a * m.to[0] + b * m.to[m.across]) =
                tile[column * (SIDE + 1) + row + k * ROWS];
    }
}

/* --- Large tiles of 2 and 4 bytes --- */

/* Reads 16 bytes along a row, by accesses of `piece` bytes if that is 8 or 16, else unit by unit.
 * The row has `left` more units of U; what is beyond them becomes 0. */
template <typename U>
TRP__DEVICE void trp__move_read(uint64_t at, int piece, int64_t left, uint32_t word[4])
{
    enum { UNITS = 16 / sizeof(U) };
    if (piece == 16 && left >= UNITS) {
        const trp__pack16 p = trp__at<trp__pack16>(at, 0);
        TRP__EACH(i, 4)
            word[i] = p.word[i];
        return;
    }
    TRP__EACH(i, 4)
        word[i] = 0;
    if (piece >= 8) {
        TRP__EACH(i, 2) {
            if (left >= (i + 1) * UNITS / 2) {
                const uint64_t both = trp__at<uint64_t>(at, i);
                word[2 * i] = (uint32_t)both;
                word[2 * i + 1] = (uint32_t)(both >> 32);
            }
        }
        return;
    }
    TRP__EACH(i, UNITS) {
        if (i < left)
            word[i * 4 / UNITS] |= (uint32_t)trp__at<U>(at, i) << (i * 128 / UNITS % 32);
    }
}

template <typename U>
TRP__DEVICE void trp__move_write(uint64_t at, int piece, int64_t left, const uint32_t word[4])
{
    enum { UNITS = 16 / sizeof(U) };
    if (piece == 16 && left >= UNITS) {
        trp__store16(at, word);
    } else if (piece >= 8) {
        TRP__EACH(i, 2) {
            if (left >= (i + 1) * UNITS / 2)
                trp__to<uint64_t>(at, i) = word[2 * i] | (uint64_t)word[2 * i + 1] << 32;
        }
    } else {
        TRP__EACH(i, UNITS) {
            if (i < left)
                trp__to<U>(at, i) = (U)(word[i * 4 / UNITS] >> (i * 128 / UNITS % 32));
        }
    }
}

/* Transposes a tile of 64 x 64 units. Shared memory has the words of y; two units of 2 bytes, from
 * two rows of x, make a word. The groups of 4 words of a row are permuted from row to row, so that
 * neither side has bank conflicts. */
template <typename U> TRP__DEVICE void trp__move_turn(const trp__move &m)
{
    enum {
        SIDE = TRP__MOVE_TURN,
        ROWS = 4 / sizeof(U),           /* of x that make a word */
        UNITS = 16 / sizeof(U),         /* of 16 bytes */
        WORDS = SIDE / ROWS,            /* of a row of the tile */
        LANES = 8,                      /* neighbouring threads along a row */
        LINES = TRP__MOVE_THREADS / LANES,
    };
    __shared__ trp__pack16 tile[SIDE][WORDS / 4];
    const int lane = (int)threadIdx.x % LANES, line = (int)threadIdx.x / LANES;
    int64_t from, to, first, second;
    trp__move_tile(m, SIDE, from, to, first, second);
    TRP__UNROLL
    for (int g = lane; g < SIDE / UNITS; g += LANES) {
        TRP__UNROLL
        for (int w = line; w < WORDS; w += LINES) {
            uint32_t row[ROWS][4];
            const int64_t b = second + g * UNITS;
            TRP__EACH(r, ROWS) {
                const int64_t a = first + w * ROWS + r;
                trp__move_read<U>(m.x + (uint64_t)(from + a * m.from[0] + b) * sizeof(U),
                                  m.piece[0], a < m.size[0] ? m.size[1] - b : 0, row[r]);
            }
            TRP__EACH(i, UNITS) {
                const int at = w ^ (g % LANES * 4);
                uint32_t *const place = &tile[g * UNITS + i][at / 4].word[at % 4];
                if constexpr (ROWS == 1)
                    *place = row[0][i];
                else
                    *place = i % 2 ? row[0][i / 2] >> 16 | (row[1][i / 2] & 0xffff0000u)
                                   : (row[0][i / 2] & 0xffffu) | row[1][i / 2] << 16;
            }
        }
    }
    __syncthreads();
    TRP__UNROLL
    for (int k = lane; k < WORDS / 4; k += LANES) {
        TRP__UNROLL
        for (int n = line; n < SIDE; n += LINES) {
            const trp__pack16 p = tile[n][k ^ (n / UNITS % LANES)];
            const int64_t a = first + k * UNITS, b = second + n;
            if (b < m.size[1])
                trp__move_write<U>(m.y + (uint64_t)(to + b * m.to[m.across] + a) * sizeof(U),
                                   m.piece[1], m.size[0] - a, p.word);
        }
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

TRP__ENTRY(trp_move_turn2, trp__move, (TRP__MOVE_THREADS), trp__move_turn<uint16_t>)
TRP__ENTRY(trp_move_turn4, trp__move, (TRP__MOVE_THREADS), trp__move_turn<uint32_t>)

#endif
