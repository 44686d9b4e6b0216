/* The operands of multiply.cuh: tiles of A in shared memory, and how B is split ahead. */
#ifndef TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_PARTS_CUH
#define TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_PARTS_CUH

#include "actors/dnn/kernels/common/element.cuh"
#include "actors/dnn/kernels/multiply/multiply.h"
#include "actors/dnn/kernels/multiply/multiply_core.cuh"

/* Numbers below 2^-112, but for 0, are too small: their bits without the sign, doubled and less 1,
 * are below this. */
#define TRP__MULTIPLY_SMALL ((15u << 24) - 1)

/* --- A --- */

/* A tile of A in shared memory, LINES rows by DEPTH. PACKED: the numbers of a row are neighbours,
 * else those of a column. Chunks of 16 bytes are permuted, so that a warp reads different banks at
 * once. */
template <int LINES, bool PACKED, int THREADS> struct trp__multiply_tile {
    static constexpr int DEPTH = TRP__MULTIPLY_DEPTH;
    static constexpr int OWN = LINES * DEPTH / 4 / THREADS; /* chunks that a thread copies */
    /* From one of these chunks to the next, in lines (PACKED) or in depth. */
    static constexpr int APART = PACKED ? THREADS * 4 / DEPTH : THREADS * 4 / LINES;

    static TRP__DEVICE int place(int line, int depth)
    {
        return PACKED ? line * DEPTH + ((depth / 4 ^ (line / 2 & 7)) * 4 + depth % 4)
                      : depth * LINES + ((line / 4 ^ (depth & 3) << 1) * 4 + line % 4);
    }

    /* Line and depth of a thread's first chunk. */
    static TRP__DEVICE int own_line(void)
    {
        return PACKED ? (int)threadIdx.x / (DEPTH / 4) : (int)threadIdx.x % (LINES / 4) * 4;
    }
    static TRP__DEVICE int own_depth(void)
    {
        return PACKED ? (int)threadIdx.x % (DEPTH / 4) * 4 : (int)threadIdx.x / (LINES / 4);
    }
    static TRP__DEVICE int own_place(int i)
    {
        return PACKED ? place(own_line() + i * APART, own_depth())
                      : place(own_line(), own_depth() + i * APART);
    }

    /* Begins to copy the part from `line0` and `depth0` on; numbers outside of A become 0. */
    static TRP__DEVICE void copy(float *tile, uint64_t from, int64_t ld, int64_t line0,
                                 int64_t lines, int64_t depth0, int64_t depths, bool vector)
    {
        const int64_t line = line0 + own_line(), depth = depth0 + own_depth();
        const int64_t beside = PACKED ? depths - depth : lines - line;
        const int64_t below = PACKED ? lines - line : depths - depth;
        const int across = beside < 0 ? 0 : beside > 4 ? 4 : (int)beside;
        const int along = below > OWN * APART ? OWN * APART : (int)below;
        const int64_t pitch = 4 * APART * ld;
        uint64_t at = from + 4 * (uint64_t)(PACKED ? line * ld + depth : depth * ld + line);
        if (vector) {
            TRP__UNROLL
            for (int i = 0; i < OWN; i++, at += (uint64_t)pitch)
                trp__async_copy_some<16>(tile + own_place(i), at,
                                         i * APART < along ? 4 * across : 0);
            return;
        }
        TRP__ROLLED
        for (int i = 0; i < OWN; i++, at += (uint64_t)pitch) {
            float *to = tile + own_place(i);
            TRP__EACH(k, 4)
                trp__async_copy_some<4>(to + k, at + 4 * k,
                                        i * APART < along && k < across ? 4 : 0);
        }
    }

    /* Reads 16 lines from `first` on, at 8 depths, in the form of trp__begin_product(). */
    static TRP__DEVICE void read(const float *tile, int first, int depth, uint32_t out[4])
    {
        const int lane = (int)(threadIdx.x % 32);
        if constexpr (PACKED) {
            const int line = first + 2 * (lane % 8) + lane / 8 % 2;
            /* Tiles are aligned, so this is tile + place(line, depth + lane / 16 * 4). */
            const uintptr_t at = (uintptr_t)(tile + place(line, lane / 16 * 4));
            trp__load_quads((const float *)(at ^ sizeof(float) * (uintptr_t)depth), out);
        } else {
            TRP__EACH(k, 2) {
                const trp__pair p = *(const trp__pair *)(
                    tile + place(first + lane / 4 * 2, depth + 4 * k + lane % 4));
                out[2 * k] = trp__f32_bits(p.number[0]);
                out[2 * k + 1] = trp__f32_bits(p.number[1]);
            }
        }
    }
};

/* --- B --- */

/* Returns the address of a step's part of the split B: rows of 128 bytes, one a column of B, of all
 * big parts, then of all small parts. Chunks of 16 bytes are permuted as trp__describe_rows() says.
 * */
TRP__DEVICE uint64_t trp__multiply_split_at(const trp__multiply &p, int64_t batch, int64_t column,
                                            int64_t step)
{
    const int64_t tile = batch * p.columns + column / TRP__MULTIPLY_COLUMNS;
    return p.split + TRP__MULTIPLY_SPLIT_BYTES * (uint64_t)(tile * p.steps + step);
}

TRP__DEVICE uint32_t &trp__multiply_small_at(const trp__multiply &p, int64_t batch, int64_t column,
                                             int64_t step)
{
    const int64_t tile = batch * p.columns + column / TRP__MULTIPLY_COLUMNS;
    return trp__to<uint32_t>(p.small, tile * p.steps + step);
}

/* Returns the row at which a column of the tile is stored. The 4 columns of D of a thread are
 * neighbours, followed by those of the next thread. */
TRP__DEVICE int trp__multiply_row(int n)
{
    return (n & ~31) | n / 16 % 2 * 16 | n / 2 % 2 * 8 | n / 4 % 4 * 2 | n % 2;
}

/* A block splits the part of B for one step. A thread has 8 chunks of it, in 2 halves of 4: in a
 * packed B their columns are 4 apart, else their depths follow each other. */
template <bool PACKED> struct trp__multiply_splitter {
    static constexpr int COLUMNS = TRP__MULTIPLY_COLUMNS, DEPTH = TRP__MULTIPLY_DEPTH;
    typedef trp__pack16 chunks[4];

    static TRP__DEVICE int column(int half)
    {
        const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        return warp * 32 + (PACKED ? half * 16 + lane / 8 : (lane % 2 * 4 + lane / 8) * 4);
    }
    static TRP__DEVICE int depth(int half)
    {
        const int lane = (int)threadIdx.x % 32;
        return PACKED ? lane % 8 * 4 : half * 16 + lane / 2 % 4 * 4;
    }

    /* Loads chunks; numbers outside of B are 0. */
    static TRP__DEVICE void load(const trp__multiply &p, uint64_t from, int64_t column0,
                                 int64_t depth0, int half, chunks v)
    {
        TRP__EACH(i, 4) {
            const int64_t c = column0 + column(half) + (PACKED ? 4 * i : 0);
            const int64_t d = depth0 + depth(half) + (PACKED ? 0 : i);
            const int64_t beside = PACKED ? p.k - d : p.n - c;
            const int64_t at = PACKED ? c * p.ldb + d : d * p.ldb + c;
            const bool inside = c < p.n && d < p.k;
            if (p.vector_b && inside && beside >= 4) {
                v[i] = trp__at<trp__pack16>(from + 4 * (uint64_t)at, 0);
                continue;
            }
            TRP__EACH(k, 4)
                v[i].word[k] = inside && k < beside ? trp__at<uint32_t>(from, at + k) : 0;
        }
    }

    /* Returns the lesser of `least` and the bits of these numbers, in the form of
     * TRP__MULTIPLY_SMALL. */
    static TRP__DEVICE uint32_t split(uint64_t to, int half, const chunks v, uint32_t least)
    {
        const int chunk = depth(half) / 4;
        TRP__EACH(i, 4) {
            const int row = trp__multiply_row(column(half) + (PACKED ? 4 * i : i));
            const uint64_t at = to + 4 * (uint64_t)(row * DEPTH + (chunk ^ row % 8) * 4);
            uint32_t big[4], small[4];
            TRP__EACH(k, 4) {
                const float number = trp__f32_from_bits(PACKED ? v[i].word[k] : v[k].word[i]);
                least = trp__least_of(number, least);
                trp__split_number(number, &big[k], &small[k]);
            }
            trp__store16(at, big);
            trp__store16(at + 4 * COLUMNS * DEPTH, small);
        }
        return least;
    }

    static TRP__DEVICE void run(const trp__multiply &p)
    {
        const int64_t step = (int64_t)blockIdx.x % p.steps, tile = (int64_t)blockIdx.x / p.steps;
        const int64_t batch = tile / p.columns, column0 = tile % p.columns * COLUMNS;
        const uint64_t from = p.b + 4 * (uint64_t)(batch * p.stride_b);
        const uint64_t to = trp__multiply_split_at(p, batch, column0, step);
        uint32_t least = UINT32_MAX;
        chunks v[2];
        TRP__EACH(half, 2)
            load(p, from, column0, step * DEPTH, half, v[half]);
        TRP__EACH(half, 2)
            least = split(to, half, v[half], least);
        const int small = __syncthreads_or(least < TRP__MULTIPLY_SMALL);
        if (threadIdx.x == 0)
            trp__multiply_small_at(p, batch, column0, step) = small != 0;
        if (threadIdx.x == 0 && blockIdx.x == 0)
            trp__to<uint32_t>(p.any, 0) = 0;
    }
};

#endif
