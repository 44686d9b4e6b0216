/* The loop of fp8 products whose sums are kept exact. Tensor cores add up with 14 bits, so that after
 * each step of 128 along k their sums are added to others in f32. CUTLASS does that a step at a time,
 * which takes a second set of sums as large as the tile's: too many registers for a large tile, and
 * its tensor cores wait meanwhile. Here
 *
 *   a wide tile is computed in halves along n, so that the second set is half as large;
 *   of a narrow one two steps have a set each: one is added while the other is computed;
 *   in between there are registers for one more set, which the two groups of warps use in turns.
 *
 * No instruction in flight extends into the next iteration of a loop: ptxas does not track it there
 * and would wait after each instruction. Sums equal CUTLASS's bit by bit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A collective of CUTLASS with another tiled MMA. */
template <class Collective, class Mma> struct trp_with_mma;

template <class Policy, class Tile, class A, class StrideA, class B, class StrideB, class Old,
          class CopyA, class LayoutA, class AtomA, class TransformA, class CopyB, class LayoutB,
          class AtomB, class TransformB, class Mma>
struct trp_with_mma<
    cutlass::gemm::collective::CollectiveMma<Policy, Tile, A, StrideA, B, StrideB, Old, CopyA,
                                             LayoutA, AtomA, TransformA, CopyB, LayoutB, AtomB,
                                             TransformB>,
    Mma> {
    using type =
        cutlass::gemm::collective::CollectiveMma<Policy, Tile, A, StrideA, B, StrideB, Mma, CopyA,
                                                 LayoutA, AtomA, TransformA, CopyB, LayoutB, AtomB,
                                                 TransformB>;
};

inline constexpr int trp_fp8_width = cute::size<1>(trp_tile{});
inline constexpr int trp_fp8_parts = trp_fp8_width > 160 ? 2 : 1;
inline constexpr int trp_fp8_steps = trp_fp8_width > 144 ? 1 : 2; /* of a round */

using trp_fp8_mma = decltype(cute::make_tiled_mma(
    cute::GMMA::ss_op_selector<
        TRP_A, TRP_B, TRP_ACC,
        trp_shape<cute::size<0>(trp_tile{}), cute::size<1>(trp_tile{}) / trp_fp8_parts,
                  cute::size<2>(trp_tile{})>>(),
    cute::Layout<trp_shape<TRP_PINGPONG || TRP_SINGLE ? 1 : 2, 1>>{}));

template <class Plain>
struct trp_fp8_mainloop : trp_with_mma<Plain, trp_fp8_mma>::type {
    using Collective = typename trp_with_mma<Plain, trp_fp8_mma>::type;
    using typename Collective::MainloopPipeline;
    using typename Collective::Params;
    using typename Collective::PipelineState;
    using typename Collective::TensorStorage;
    using typename Collective::TiledMma;

    template <class Sums>
    CUTLASS_DEVICE void mma(MainloopPipeline pipeline, PipelineState read, Sums &sums, int steps,
                            int thread, TensorStorage &shared, Params const &)
    {
        using namespace cute;
        constexpr int groups = size(TiledMma{}) / cutlass::NumThreadsPerWarpGroup;
        static_assert(decltype(size<2>(sums))::value == trp_fp8_parts, "an instruction is as wide");
        const int group = __shfl_sync(0xffffffff, thread / cutlass::NumThreadsPerWarpGroup, 0);
        TiledMma mma;
        auto slice = mma.get_slice(
            make_layout(Int<groups>{}, Int<cutlass::NumThreadsPerWarpGroup>{})(group));
        auto a = slice.make_fragment_A(slice.partition_A(make_tensor(
            make_smem_ptr(shared.smem_A.data()), typename Collective::SmemLayoutA{})));
        auto b = slice.make_fragment_B(slice.partition_B(make_tensor(
            make_smem_ptr(shared.smem_B.data()), typename Collective::SmemLayoutB{})));
        auto even = make_fragment_like(sums(_, _, Int<0>{}));
        auto odd = make_fragment_like(even);
        PipelineState done = read;

        /* The first part of a step waits for its operands, the last releases them. */
        auto issue = [&](auto &batch, int part) {
            if (part == 0)
                pipeline.consumer_wait(read, pipeline.consumer_try_wait(read));
            warpgroup_fence_operand(batch);
            warpgroup_arrive();
            mma.accumulate_ = GMMA::ScaleOut::Zero;
            CUTLASS_PRAGMA_UNROLL
            for (int k = 0; k < size<2>(a); k++) {
                CUTLASS_PRAGMA_UNROLL
                for (int m = 0; m < size<1>(a); m++)
                    cute::gemm(mma, a(_, m, k, read.index()), b(_, part, k, read.index()),
                               batch(_, m));
                mma.accumulate_ = GMMA::ScaleOut::One;
            }
            warpgroup_commit_batch();
            if (part == trp_fp8_parts - 1)
                ++read;
        };
        auto add = [&](auto &batch, int part) {
            warpgroup_fence_operand(batch);
            CUTLASS_PRAGMA_UNROLL
            for (int i = 0; i < size(batch); i++)
                sums(_, _, part)(i) += batch(i);
            if (part == trp_fp8_parts - 1) {
                pipeline.consumer_release(done);
                ++done;
            }
        };

        clear(sums);
        if constexpr (trp_fp8_steps == 2) {
            CUTLASS_PRAGMA_NO_UNROLL
            for (; steps > 1; steps -= 2) {
                issue(even, 0);
                issue(odd, 0);
                warpgroup_wait<1>();
                add(even, 0);
                warpgroup_wait<0>();
                add(odd, 0);
            }
        }
        CUTLASS_PRAGMA_NO_UNROLL
        for (; steps > 0; steps--) {
            CUTLASS_PRAGMA_UNROLL
            for (int part = 0; part < trp_fp8_parts; part++) {
                issue(even, part);
                warpgroup_wait<0>();
                add(even, part);
            }
        }
    }

    /* Nothing is left to finish. */
    CUTLASS_DEVICE void mma_tail(MainloopPipeline, PipelineState, int)
    {
    }
};
