/* Products of f32 matrices on tensor cores, to f32's accuracy. Each number is split into a big
 * part, rounded to tf32, and a small part, of which tf32 holds all but the last bit. Three of the
 * four products of two such pairs are summed; the fourth is below f32's last bit. Tensor cores
 * truncate their sums, so they only sum 32 columns of A; the rest is added by f32 additions (Ootomo
 * and Yokota, 2022).
 *
 * A kernel of its own splits B: one bulk copy a step brings its parts to shared memory. A is split
 * in registers, where tensor cores read it.
 *
 * A block flags its tile if not all sums are finite, or if it has read numbers so small that tf32
 * does not hold their small part. The last kernel computes flagged tiles by multiply-adds, so that
 * infinities, NaN, the largest numbers and denormal ones give the results of a loop of
 * multiply-adds. */
#ifndef TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_CUH
#define TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_CUH

#include "actors/dnn/kernels/multiply/multiply.h"
#include "actors/dnn/kernels/multiply/multiply_again.cuh"
#include "actors/dnn/kernels/multiply/multiply_core.cuh"
#include "actors/dnn/kernels/multiply/multiply_parts.cuh"
#include "actors/dnn/kernels/multiply/multiply_results.cuh"

/* A block's first warp group copies operands to shared memory. The other two multiply 128 rows by
 * all columns each: a warp has 32 rows, 16 of each of two products. */
template <bool PACKED_A> struct trp__multiplier {
    static constexpr int ROWS = TRP__MULTIPLY_ROWS, COLUMNS = TRP__MULTIPLY_COLUMNS;
    static constexpr int DEPTH = TRP__MULTIPLY_DEPTH, STAGES = TRP__MULTIPLY_STAGES;
    static constexpr int GROUP = 128;                   /* threads of a warp group */
    static constexpr int BLOCKS = TRP__MULTIPLY_BLOCKS; /* products of 64 rows, of a warp group */
    static constexpr int CONSUMERS = TRP__MULTIPLY_FINISH_THREADS;
    static constexpr int QUADS = COLUMNS / 16; /* groups of 4 columns in a row of a thread's sums */
    static constexpr int A_TILE = ROWS * DEPTH, B_TILE = COLUMNS * DEPTH; /* numbers */
    static constexpr int RESULTS = TRP__MULTIPLY_RESULTS; /* packs of 16 bytes, of a thread */
    static_assert(ROWS == CONSUMERS * BLOCKS / 2 && RESULTS == 4, "what threads have");
    typedef trp__multiply_tile<ROWS, PACKED_A, GROUP> tile_a;
    typedef trp__multiply_place place;
    /* A thread's sums: in each product rows 2 (lane / 4) and the next one, and in each 8 columns
     * the columns lane % 4 * 2 and the next one. */
    typedef float sums[BLOCKS][COLUMNS / 8][2][2];

    /* Shared memory, which begins at a multiple of 1024. */
    struct room {
        unsigned char *at;

        /* B of all stages, in each the big parts and then the small ones; then A of all stages. */
        TRP__DEVICE float *b(uint32_t slot) const
        {
            return (float *)at + slot * (2 * B_TILE);
        }
        TRP__DEVICE float *a(uint32_t slot) const
        {
            return b(STAGES) + slot * A_TILE;
        }
        /* Room for TRP__MULTIPLY_RESULTS packs of each thread. */
        TRP__DEVICE trp__pack16 *results(void) const
        {
            return (trp__pack16 *)a(STAGES);
        }
        /* Two barriers a stage. full: its operands have arrived; free: it may be written again. */
        TRP__DEVICE uint64_t *full(uint32_t slot) const
        {
            return (uint64_t *)(results() + RESULTS * CONSUMERS) + slot;
        }
        TRP__DEVICE uint64_t *free(uint32_t slot) const
        {
            return full(STAGES) + slot;
        }
    };

    static TRP__DEVICE room make_room(unsigned char *shared)
    {
        return {shared + (1024 - trp__shared_address(shared) % 1024) % 1024};
    }

    /* Copies the operands of steps `first` to `end` - 1 of a tile. `stage` counts the steps of the
     * block. */
    static TRP__DEVICE void bring(const trp__multiply &p, const place &at, int first, int end,
                                  const room &r, uint32_t *stage)
    {
        TRP__ROLLED
        for (int step = first; step < end; step++, ++*stage) {
            const uint32_t slot = *stage % STAGES;
            trp__barrier_wait(r.free(slot), *stage / STAGES % 2 ^ 1);
            if (threadIdx.x == 0)
                trp__copy_bulk(r.b(slot), trp__multiply_split_at(p, at.batch, at.column, step),
                               TRP__MULTIPLY_SPLIT_BYTES, r.full(slot));
            tile_a::copy(r.a(slot), p.a + 4 * (uint64_t)(at.batch * p.stride_a), p.lda, at.row, p.m,
                         (int64_t)step * DEPTH, p.k, p.vector_a);
            trp__barrier_arrive_copied(r.full(slot));
        }
        uint32_t small = 0;
        for (int step = first + (int)threadIdx.x; step < end; step += GROUP)
            small |= trp__multiply_small_at(p, at.batch, at.column, step);
        if (small != 0)
            trp__to<uint32_t>(p.any, 0) = 1;
    }

    static TRP__DEVICE int consumer(void)
    {
        return (int)threadIdx.x - GROUP;
    }
    /* Returns the first of the 16 rows of the tile that a thread's warp has in one of its products.
     */
    static TRP__DEVICE int warp_row(int thread, int block)
    {
        return thread / 32 * 16 * BLOCKS + 16 * block;
    }

    /* Computes one product of a warp group by tensor cores. Small terms come first, so that fewer
     * sums are truncated at the last bit of a large one. Returns the least bits of A. */
    static TRP__DEVICE uint32_t multiply_step(const float *tile, uint64_t rows, int block,
                                              float (&sum)[COLUMNS / 8][2][2],
                                              float (&c)[COLUMNS / 2], uint32_t least)
    {
        const uint64_t rest = trp__rows_at(rows, B_TILE); /* of B, without its big parts */
        uint32_t big[DEPTH / 8][4], small[DEPTH / 8][4];
        TRP__EACH(k, DEPTH / 8) {
            uint32_t a[4];
            tile_a::read(tile, warp_row(consumer(), block), 8 * k, a);
            TRP__EACH(i, 4) {
                least = trp__least_of(trp__f32_from_bits(a[i]), least);
                trp__split_number(trp__f32_from_bits(a[i]), &big[k][i], &small[k][i]);
            }
        }
        trp__fence_products();
        TRP__EACH(k, DEPTH / 8) {
            trp__begin_product(small[k], trp__rows_at(rows, 8 * k), k > 0, c);
            trp__begin_product(big[k], trp__rows_at(rest, 8 * k), true, c);
        }
        TRP__EACH(k, DEPTH / 8)
            trp__begin_product(big[k], trp__rows_at(rows, 8 * k), true, c);
        trp__end_products(c);
        TRP__EACH(i, COLUMNS / 2)
            sum[i / 4][i / 2 % 2][i % 2] += c[i];
        return least;
    }

    /* Sums over `steps` steps. Returns whether numbers of A are too small for tensor cores, or the
     * sums are not finite. */
    static TRP__DEVICE bool multiply(int steps, const room &r, uint32_t *stage, sums sum)
    {
        uint32_t least = UINT32_MAX;
        float zero = 0;
        /* All products use these registers in turn: new ones for each would take more. */
        float c[COLUMNS / 2] = {};
        TRP__EACH(i, BLOCKS * COLUMNS / 2)
            sum[i / (COLUMNS / 2)][i / 4 % (COLUMNS / 8)][i / 2 % 2][i % 2] = 0;
        TRP__ROLLED
        for (; steps > 0; steps--, ++*stage) {
            const uint32_t slot = *stage % STAGES;
            const uint64_t rows = trp__describe_rows(r.b(slot));
            trp__barrier_wait(r.full(slot), *stage / STAGES % 2);
            TRP__EACH(block, BLOCKS)
                least = multiply_step(r.a(slot), rows, block, sum[block], c, least);
            trp__barrier_arrive(r.free(slot));
        }
        TRP__EACH(i, BLOCKS * COLUMNS / 2)
            zero = fmaf(sum[i / (COLUMNS / 2)][i / 4 % (COLUMNS / 8)][i / 2 % 2][i % 2], 0.0f,
                        zero);
        return least < TRP__MULTIPLY_SMALL || zero != 0 || zero != zero;
    }

    /* --- Results --- */

    /* A thread's part of a tile: its first row and column, and their address. */
    struct corner {
        int64_t row, column;
        uint64_t to;
    };

    static TRP__DEVICE corner corner_of(const trp__multiply &p, const place &at, int thread)
    {
        const int lane = thread % 32;
        const int64_t row = at.row + warp_row(thread, 0) + lane / 4 * 2;
        const int64_t column = at.column + lane % 4 * 4;
        return {row, column, trp__multiply_at(p, at.batch, row, column)};
    }

    static TRP__DEVICE void store(const trp__multiply &p, const corner &c, int block, int quad,
                                  const trp__pack16 v[2])
    {
        trp__multiply_sums s;
        TRP__EACH(i, 8)
            s.sum[i / 4][i % 4] = trp__f32_from_bits(v[i / 4].word[i % 4]);
        trp__multiply_store(p,
                            c.to + (uint64_t)(16 * block) * trp__multiply_down(p) +
                                (uint64_t)(16 * quad) * trp__multiply_across(p),
                            c.row + 16 * block, c.column + 16 * quad, s);
    }

    /* Returns the index of 4 sums of a thread among the parts, in packs of 16 bytes. */
    static TRP__DEVICE int64_t part_place(int64_t part, int thread, int block, int quad, int row)
    {
        return (((part * BLOCKS + block) * QUADS + quad) * 2 + row) * CONSUMERS + thread;
    }

    /* Writes the sums of a thread by way of shared memory. Each thread reads back its own sums, in
     * a loop, so that little code stores them. */
    static TRP__DEVICE void put(const trp__multiply &p, const place &at, int64_t part,
                                const sums sum, const room &r)
    {
        const int thread = consumer();
        const corner c = corner_of(p, at, thread);
        TRP__UNROLL
        for (int n = 0; n < BLOCKS * QUADS; n += RESULTS / 2) {
            const int block = n / QUADS;
            TRP__EACH(i, RESULTS) {
                const int quad = n % QUADS + i / 2;
                trp__pack16 v;
                TRP__EACH(k, 4)
                    v.word[k] = trp__f32_bits(
                        sum[block][quad / 2 * 4 + quad % 2 * 2 + k / 2][i % 2][k % 2]);
                r.results()[i * CONSUMERS + thread] = v;
            }
            TRP__ROLLED
            for (int i = 0; i < RESULTS / 2; i++) {
                const int quad = n % QUADS + i;
                const trp__pack16 v[2] = {r.results()[2 * i * CONSUMERS + thread],
                                          r.results()[(2 * i + 1) * CONSUMERS + thread]};
                if (part < 0) {
                    store(p, c, block, quad, v);
                    continue;
                }
                TRP__EACH(row, 2)
                    trp__store16(
                        p.parts + 16 * (uint64_t)part_place(part, thread, block, quad, row),
                        v[row].word);
            }
        }
    }

    /* --- Work of a block --- */

    /* Steps of a tile: all of them, or some whose sums are a part in the workspace. */
    struct work {
        int32_t tile;
        int first, end; /* 0, 0: nothing is left */
        int64_t part;   /* -1: all steps */
    };

    static TRP__DEVICE work work_of(const trp__multiply &p, int item)
    {
        const int32_t block = (int32_t)blockIdx.x;
        const int whole = block < p.whole ? (p.whole - 1 - block) / p.blocks + 1 : 0;
        if (item < whole)
            return {block + item * p.blocks, 0, p.steps, -1};
        /* A new part begins with each block and with each tile. */
        const int64_t begin = trp__multiply_begin(&p, block);
        const int64_t end = trp__multiply_begin(&p, block + 1);
        const int32_t share = (int32_t)(begin / p.steps) + (item - whole);
        const int64_t first = (int64_t)share * p.steps;
        if (first >= end || begin == end)
            return {0, 0, 0, -1};
        return {p.whole + share, begin > first ? (int)(begin - first) : 0,
                end - first < p.steps ? (int)(end - first) : p.steps, (int64_t)block + share};
    }

    static TRP__DEVICE void bring_all(const trp__multiply &p, const room &r)
    {
        uint32_t stage = 0;
        TRP__ROLLED
        for (int item = 0;; item++) {
            const work w = work_of(p, item);
            if (w.end == 0)
                return;
            bring(p, trp__multiply_place_of(p, w.tile), w.first, w.end, r, &stage);
        }
    }

    static TRP__DEVICE void multiply_all(const trp__multiply &p, const room &r)
    {
        uint32_t stage = 0;
        TRP__ROLLED
        for (int item = 0;; item++) {
            const work w = work_of(p, item);
            if (w.end == 0)
                return;
            sums sum;
            const bool mine = multiply(w.end - w.first, r, &stage, sum);
            const int extreme = __any_sync(0xffffffffu, mine);
            const work done = work_of(p, item); /* computed again, to save registers */
            if (threadIdx.x % 32 == 0)
                trp__to<uint32_t>(trp__multiply_flags(p, done.part < 0 ? done.tile
                                                                       : p.whole + done.part),
                                  consumer() / 32) = extreme != 0;
            if (extreme)
                trp__to<uint32_t>(p.any, 0) = 1;
            put(p, trp__multiply_place_of(p, done.tile), done.part, sum, r);
        }
    }

    static TRP__DEVICE void run(const trp__multiply &p)
    {
        TRP__DYNAMIC(unsigned char, shared);
        const room r = make_room(shared);
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                trp__barrier_begin(r.full(i), GROUP + 1); /* the bulk copy arrives, too */
                trp__barrier_begin(r.free(i), CONSUMERS);
            }
            trp__show_products();
        }
        __syncthreads();
        if (threadIdx.x < GROUP) {
            trp__shrink<TRP__MULTIPLY_FEW>();
            bring_all(p, r);
        } else {
            trp__grow<TRP__MULTIPLY_MANY>();
            multiply_all(p, r);
        }
    }

    /* Adds up the parts of a shared tile: each block adds two rows of 4 sums per thread. */
    static TRP__DEVICE void gather(const trp__multiply &p, int32_t share)
    {
        const int sub = (int)blockIdx.x % TRP__MULTIPLY_GATHER_BLOCKS, thread = (int)threadIdx.x;
        const int64_t end = (int64_t)(share + 1) * p.steps;
        const int32_t begin = trp__multiply_first_block(&p, share);
        trp__pack16 sum[2];
        for (int32_t block = begin; block < p.blocks && trp__multiply_begin(&p, block) < end;
             block++) {
            TRP__EACH(row, 2) {
                const trp__pack16 v = trp__at<trp__pack16>(
                    p.parts,
                    part_place((int64_t)block + share, thread, sub / QUADS, sub % QUADS, row));
                TRP__EACH(k, 4)
                    sum[row].word[k] = block == begin
                                           ? v.word[k]
                                           : trp__f32_bits(trp__f32_from_bits(sum[row].word[k]) +
                                                           trp__f32_from_bits(v.word[k]));
            }
        }
        store(p, corner_of(p, trp__multiply_place_of(p, p.whole + share), thread), sub / QUADS,
              sub % QUADS, sum);
    }
};

/* Other architectures have no such instructions: their module is empty. */
#if !defined(__CUDACC_RTC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

TRP__ENTRY(trp_multiply_split_n, trp__multiply, (TRP__MULTIPLY_SPLIT_THREADS),
           trp__multiply_splitter<false>::run)
TRP__ENTRY(trp_multiply_split_t, trp__multiply, (TRP__MULTIPLY_SPLIT_THREADS),
           trp__multiply_splitter<true>::run)
TRP__ENTRY(trp_multiply_n, trp__multiply, (TRP__MULTIPLY_THREADS, 1), trp__multiplier<true>::run)
TRP__ENTRY(trp_multiply_t, trp__multiply, (TRP__MULTIPLY_THREADS, 1), trp__multiplier<false>::run)

TRP__GLOBAL(TRP__MULTIPLY_FINISH_THREADS)
trp_multiply_finish(const TRP__CONSTANT trp__multiply p)
{
    __shared__ float shared[2 * trp__multiply_square::DEPTH * trp__multiply_square::PITCH];
    const bool any = trp__at<uint32_t>(p.any, 0) != 0;
    const int32_t share = (int32_t)blockIdx.x / TRP__MULTIPLY_GATHER_BLOCKS;
    if (share < p.shared && !(any && trp__multiply_square::takes(p, p.whole + share)))
        trp__multiplier<true>::gather(p, share); /* parts do not depend on A's layout */
    if (any)
        trp__multiply_square::run_all(p, shared);
}

#endif

#endif
