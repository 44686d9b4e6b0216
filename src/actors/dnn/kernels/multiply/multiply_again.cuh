/* Computes the flagged tiles of multiply.cuh by multiply-adds. */
#ifndef TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_AGAIN_CUH
#define TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_AGAIN_CUH

#include "actors/dnn/kernels/multiply/multiply_results.cuh"

TRP__DEVICE uint32_t trp__multiply_any(const trp__multiply &p, int64_t item)
{
    const uint64_t words = trp__multiply_flags(p, item);
    uint32_t any = 0;
    TRP__EACH(i, TRP__MULTIPLY_WARPS)
        any |= trp__at<uint32_t>(words, i);
    return any;
}

/* Tells whether `multiply` has flagged a tile, or a part of it, for its sums or numbers of A. */
TRP__DEVICE bool trp__multiply_is_flagged(const trp__multiply &p, int32_t tile)
{
    if (tile < p.whole)
        return trp__multiply_any(p, tile) != 0;
    const int32_t share = tile - p.whole;
    const int64_t end = (int64_t)(share + 1) * p.steps;
    uint32_t any = 0;
    for (int32_t block = trp__multiply_first_block(&p, share);
         block < p.blocks && trp__multiply_begin(&p, block) < end; block++)
        any |= trp__multiply_any(p, (int64_t)tile + block);
    return any != 0;
}

/* Squares of flagged tiles: a thread has 4 x 4 sums. */
struct trp__multiply_square {
    static constexpr int SIZE = TRP__MULTIPLY_SQUARE, DEPTH = 16;
    static constexpr int THREADS = TRP__MULTIPLY_FINISH_THREADS, SIDE = SIZE / 4;
    static_assert(SIDE * SIDE == THREADS, "a thread's sums");
    /* From one depth, a column of A or a row of B, to the next: a multiple of 4 that spreads over
     * the banks. */
    static constexpr int PITCH = SIZE + 4;

    /* Copies lines of a matrix, packed or not, to shared memory; numbers outside of it become 0. */
    static TRP__DEVICE void copy(float *to, uint64_t from, bool packed, int64_t ld, int64_t line0,
                                 int64_t lines, int64_t depth0, int64_t depths)
    {
        TRP__EACH(i, SIZE * DEPTH / THREADS) {
            const int at = i * THREADS + (int)threadIdx.x;
            const int l = packed ? at / DEPTH : at % SIZE, d = packed ? at % DEPTH : at / SIZE;
            const int64_t line = line0 + l, depth = depth0 + d;
            to[d * PITCH + l] =
                line < lines && depth < depths
                    ? trp__at<float>(from, packed ? line * ld + depth : depth * ld + line)
                    : 0;
        }
    }

    static TRP__DEVICE void run(const trp__multiply &p, int64_t batch, int64_t row, int64_t column,
                                float *shared)
    {
        float *const a = shared, *const b = shared + DEPTH * PITCH;
        const int i = (int)threadIdx.x / SIDE * 4, j = (int)threadIdx.x % SIDE * 4;
        float sum[4][4] = {};
        for (int64_t depth = 0; depth < p.k; depth += DEPTH) {
            __syncthreads();
            copy(a, p.a + 4 * (uint64_t)(batch * p.stride_a), p.packed_a, p.lda, row, p.m, depth,
                 p.k);
            copy(b, p.b + 4 * (uint64_t)(batch * p.stride_b), p.packed_b, p.ldb, column, p.n, depth,
                 p.k);
            __syncthreads();
            TRP__ROLLED
            for (int d = 0; d < DEPTH; d++) {
                TRP__EACH(k, 16)
                    sum[k / 4][k % 4] = fmaf(a[d * PITCH + i + k / 4], b[d * PITCH + j + k % 4],
                                             sum[k / 4][k % 4]);
            }
        }
        TRP__EACH(half, 2) {
            const int64_t first = row + i + 2 * half;
            trp__multiply_sums s;
            TRP__EACH(k, 8)
                s.sum[k / 4][k % 4] = sum[2 * half + k / 4][k % 4];
            trp__multiply_store(p, trp__multiply_at(p, batch, first, column + j), first, column + j,
                                s);
        }
    }

    /* Tells whether any word is set of a thread's share of p.small from `first` on. */
    static TRP__DEVICE bool has_small(const trp__multiply &p, int64_t first, int64_t count)
    {
        uint32_t any = 0;
        for (int64_t i = (int64_t)threadIdx.x; i < count; i += THREADS)
            any |= trp__at<uint32_t>(p.small, first + i);
        return any != 0;
    }

    /* Tells whether a tile is computed here. All threads of a block call this, as it has a barrier.
     */
    static TRP__DEVICE bool takes(const trp__multiply &p, int32_t tile)
    {
        const trp__multiply_place at = trp__multiply_place_of(p, tile);
        const int64_t of_b = at.batch * p.columns + at.column / TRP__MULTIPLY_COLUMNS;
        return __syncthreads_or(trp__multiply_is_flagged(p, tile) ||
                                has_small(p, of_b * p.steps, p.steps)) != 0;
    }

    static TRP__DEVICE void run_all(const trp__multiply &p, float *shared)
    {
        constexpr int ACROSS = TRP__MULTIPLY_COLUMNS / SIZE;
        constexpr int SQUARES = TRP__MULTIPLY_ROWS / SIZE * ACROSS;
        const int64_t squares = (int64_t)(p.whole + p.shared) * SQUARES;
        for (int64_t item = blockIdx.x; item < squares; item += gridDim.x) {
            const int32_t tile = (int32_t)(item / SQUARES);
            const int square = (int)(item % SQUARES);
            const trp__multiply_place at = trp__multiply_place_of(p, tile);
            const int64_t row = at.row + square / ACROSS * SIZE;
            const int64_t column = at.column + square % ACROSS * SIZE;
            if (takes(p, tile) && row < p.m && column < p.n)
                run(p, at.batch, row, column, shared);
        }
    }
};

#endif
