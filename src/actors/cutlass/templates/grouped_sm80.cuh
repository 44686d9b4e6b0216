/* Grouped products by parts of CUTLASS 2.x: persistent blocks iterate over the tiles of all groups.
 * CUTLASS's own grouped kernel has no epilogue trees. The settings are in gemm_sm80_head.cuh; there
 * is always a tree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm80_head.cuh"

#define TRP_COUNT_TILES 1
#include "grouped.cuh"

#ifndef TRP_C
#define TRP_C TRP_D
#endif

static_assert(TRP_TREE && TRP_D_ROW, "the epilogue is a tree, for a row-major D");
using trp_epilogue = cutlass::epilogue::threadblock::EpilogueWithVisitorCallbacks<
    typename trp_plain_kernel::Epilogue, TRP_FUSION, 1>;

/* Vectors of the tree along n are read like lines of D. */
__device__ constexpr int32_t trp_vector_bytes(int32_t elements, int32_t bytes)
{
    return elements * bytes < 16 ? elements * bytes : 16;
}

__device__ inline trp_group_kind trp_kind()
{
    constexpr int32_t a = trp_bytes<TRP_A>, b = trp_bytes<TRP_B>, c = trp_bytes<TRP_C>,
                      d = trp_bytes<TRP_D>;
    return {{TRP_A_ROW, TRP_B_ROW, 1, 1},
            {a, b, c, d},
            {trp_vector_bytes(TRP_A_ALIGN, a), trp_vector_bytes(TRP_B_ALIGN, b),
             c ? trp_vector_bytes(TRP_D_ALIGN, c) : 1, trp_vector_bytes(TRP_D_ALIGN, d)},
            {TRP_A_ALIGN, TRP_B_ALIGN, TRP_D_ALIGN, TRP_D_ALIGN}};
}

__device__ inline int64_t trp_tiles(trp_group const &group)
{
    constexpr cutlass::gemm::GemmShape<TRP_TILE> tile;
    return int64_t((group.size[0] + tile.kM - 1) / tile.kM) *
           ((group.size[1] + tile.kN - 1) / tile.kN);
}

struct trp_kernel {
    using Mma = typename trp_plain_kernel::Mma;
    using Epilogue = trp_epilogue;
    using ThreadblockShape = typename Mma::Shape;
    static constexpr int kThreadCount = 32 * Mma::WarpCount::kCount;

    struct Params {
        trp_cutlass_args args;
        trp_group_arrays arrays;
    };

    union SharedStorage {
        typename Mma::SharedStorage main_loop;
        typename Epilogue::SharedStorage epilogue;
    };

    /* Finds the group of a tile: the last one with tiles that begins at the tile or before it. */
    CUTLASS_DEVICE static int32_t find(int64_t const *first, int32_t groups, int64_t tile)
    {
        int32_t low = 0, high = groups; /* first[low] <= tile < first[high] */
        while (high - low > 1) {
            const int32_t middle = low + (high - low) / 2;
            if (first[middle] <= tile)
                low = middle;
            else
                high = middle;
        }
        return low;
    }

    /* Sets the problem of one group, from which the tree's arguments are filled. */
    CUTLASS_DEVICE static void become(trp_cutlass_args &args, trp_group_arrays const &arrays,
                                      int32_t index)
    {
        const trp_group_vector vectors[TRP_VECTOR_COUNT + 1] = {TRP_VECTORS};
        int32_t const *shape = reinterpret_cast<int32_t const *>(arrays.shapes) + 3 * index;
        auto at = [&](int i) { return reinterpret_cast<uint64_t const *>(arrays.at[i])[index]; };
        auto ld = [&](int i) { return reinterpret_cast<int64_t const *>(arrays.ld[i])[index]; };
        for (int v = 0; v < TRP_VECTOR_COUNT; v++) {
            args.slot[vectors[v].word] = reinterpret_cast<uint64_t const *>(
                arrays.vector)[int64_t(v) * args.l + index];
            args.slot[vectors[v].word + 1] = 0;
        }
#ifdef TRP_SCALARS
        constexpr int32_t scalars[] = {TRP_SCALARS};
        for (int32_t word : scalars) {
            if (args.slot[word]) {
                args.slot[word] += uint64_t(int64_t(args.slot[word + 1]) * index) * sizeof(TRP_SCALAR);
                args.slot[word + 1] = 0;
            }
        }
#endif
        args.m = shape[0];
        args.n = shape[1];
        args.k = shape[2];
        args.a = at(0);
        args.b = at(1);
        args.c = at(2);
        args.d = at(3);
        args.lda = ld(0);
        args.ldb = ld(1);
        args.ldc = ld(2);
        args.ldd = ld(3);
        args.batch_c = args.batch_d = 0;
    }

    CUTLASS_DEVICE static void compute(trp_cutlass_args const &args, int row, int column,
                                       SharedStorage &shared)
    {
        const int thread = threadIdx.x, warp = cutlass::canonical_warp_idx_sync(),
                  lane = threadIdx.x % 32;
        typename Mma::FragmentC sums;
        sums.clear();
        if (args.k > 0) {
            typename Mma::IteratorA a(
                typename Mma::IteratorA::Params(typename Mma::IteratorA::Layout(
                    typename Mma::IteratorA::Layout::LongIndex(args.lda))),
                reinterpret_cast<typename Mma::IteratorA::Element *>(args.a), {args.m, args.k},
                thread, {row * ThreadblockShape::kM, 0});
            typename Mma::IteratorB b(
                typename Mma::IteratorB::Params(typename Mma::IteratorB::Layout(
                    typename Mma::IteratorB::Layout::LongIndex(args.ldb))),
                reinterpret_cast<typename Mma::IteratorB::Element *>(args.b), {args.k, args.n},
                thread, {0, column * ThreadblockShape::kN});
            Mma mma(shared.main_loop, thread, warp, lane);
            mma((args.k - 1) / ThreadblockShape::kK + 1, sums, a, b, sums);
        }
        const cutlass::gemm::GemmCoord size(args.m, args.n, args.k);
        auto shape = cute::make_shape(args.m, args.n, 1);
        const typename TRP_FUSION::Params params = TRP_FUSION::to_underlying_arguments(
            shape, TRP_FUSION_ARGS(args), nullptr);
        Epilogue epilogue(params, shared.epilogue, thread, warp, lane);
        epilogue(sums, cutlass::gemm::GemmCoord(row, column, 0), shape, thread);
    }

    CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared)
    {
        int64_t const *first = reinterpret_cast<int64_t const *>(params.arrays.first);
        const int64_t tiles = first[params.args.l];
        for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            trp_cutlass_args args = params.args;
            const int32_t index = find(first, params.args.l, tile);
            become(args, params.arrays, index);
            const int32_t rest = int32_t(tile - first[index]);
            const int32_t rows = (args.m - 1) / ThreadblockShape::kM + 1;
            compute(args, rest % rows, rest / rows, shared);
            __syncthreads();
        }
    }
};

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    if (args.l <= 0)
        return TRP_CUTLASS_REFUSED;
    typename trp_kernel::Params params = {
        args, trp_group_arrays_at(args.workspace, args.l, TRP_VECTOR_COUNT)};
    built.workspace_bytes = params.arrays.bytes;
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;
    built.grid[0] = args.sm_count * (args.blocks_per_sm > 0 ? args.blocks_per_sm : 1);
    built.grid[1] = 1;
    built.grid[2] = 1;
    trp_write_params(out, params);
    return TRP_CUTLASS_BUILT;
}

TRP_MODULE(trp_kernel, trp_run_2x, sizeof(typename trp_kernel::SharedStorage),
           trp_kernel::kThreadCount, 1, 1, 1, 1, trp_kernel::ThreadblockShape::kM,
           trp_kernel::ThreadblockShape::kN, trp_kernel::ThreadblockShape::kK, TRP_STAGES)
