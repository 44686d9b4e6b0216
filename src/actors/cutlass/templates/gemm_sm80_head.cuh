/* The settings of gemm_sm80.cuh, what it includes, and what an epilogue tree may use: a source with
 * a tree has this, then the tree's text, then gemm_sm80.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#pragma once

/* Settings of a row with their defaults. */
#ifndef TRP_A /* elements of A and B, of C and D */
#define TRP_A cutlass::half_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D TRP_A
#endif
#ifndef TRP_ACC /* what is summed up in */
#define TRP_ACC float
#endif
#ifndef TRP_SCALAR /* what alpha, beta and the epilogue are in */
#define TRP_SCALAR TRP_ACC
#endif
#ifndef TRP_A_ROW /* layouts: 1 row-major, 0 column-major */
#define TRP_A_ROW 1
#endif
#ifndef TRP_B_ROW
#define TRP_B_ROW 0
#endif
#ifndef TRP_D_ROW
#define TRP_D_ROW 1
#endif
#ifndef TRP_A_ALIGN /* elements that are loaded at once */
#define TRP_A_ALIGN 8
#endif
#ifndef TRP_B_ALIGN
#define TRP_B_ALIGN TRP_A_ALIGN
#endif
#ifndef TRP_D_ALIGN
#define TRP_D_ALIGN 8
#endif
#ifndef TRP_CLASS /* OpClassTensorOp or OpClassSimt */
#define TRP_CLASS OpClassTensorOp
#endif
#ifndef TRP_ARCH /* Sm80, Sm89 */
#define TRP_ARCH Sm80
#endif
#ifndef TRP_TILE
#define TRP_TILE 128, 128, 32
#endif
#ifndef TRP_WARP
#define TRP_WARP 64, 64, 32
#endif
#ifndef TRP_INSTRUCTION
#define TRP_INSTRUCTION 16, 8, 16
#endif
#ifndef TRP_STAGES
#define TRP_STAGES 3
#endif
#ifndef TRP_OPERATOR /* OpMultiplyAdd, OpMultiplyAddSaturate, OpMultiplyAddFastF32, ... */
#define TRP_OPERATOR OpMultiplyAdd
#endif
#ifndef TRP_STREAM_K
#define TRP_STREAM_K 0
#endif
#ifndef TRP_TREE /* 1: TRP_FUSION is a tree of visitors, and D is row-major */
#define TRP_TREE 0
#endif
#ifndef TRP_EPILOGUE /* a functor of the 2.x epilogue; its parameters from TRP_EPILOGUE_ARGS(args) \
                      */
#define TRP_EPILOGUE_PLAIN
#define TRP_EPILOGUE                                                                               \
    cutlass::epilogue::thread::LinearCombination<trp_element, TRP_D_ALIGN, TRP_ACC, TRP_SCALAR>
#endif

#include "gemm_sm80_headers.cuh"
#if TRP_TREE
#include "cutlass/epilogue/threadblock/epilogue_with_visitor_callbacks.h"
#include "cutlass/epilogue/threadblock/fusion/visitors.hpp"
#if TRP_STREAM_K
#include "cutlass/gemm/kernel/gemm_universal_with_visitor_streamk.h"
#else
#include "cutlass/gemm/kernel/gemm_universal_with_visitor.h"
#endif
#endif

template <bool Row>
using trp_layout =
    cutlass::platform::conditional_t<Row, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
#if TRP_STREAM_K
using trp_swizzle = cutlass::gemm::threadblock::ThreadblockSwizzleStreamK;
#else
using trp_swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>;
#endif

/* The element type of the epilogue's layout. With a tree, the tree stores D and the epilogue needs
 * only a layout of it: CUTLASS has none from sums in i32 to every type, nor for few 8-bit elements.
 * The layout of the sums always exists. */
constexpr bool trp_own_layout = !TRP_TREE || (cutlass::sizeof_bits<TRP_D>::value > 8 &&
                                              !cutlass::platform::is_same<TRP_ACC, int32_t>::value);
using trp_element = cutlass::platform::conditional_t<trp_own_layout, TRP_D, TRP_ACC>;

/* The epilogue writes rows. A D that is column-major is the row-major D' = B' A' of the transposes,
 * whose layouts are the other ones. */
#if TRP_D_ROW
#define TRP_LEFT  TRP_A, trp_layout<TRP_A_ROW>, cutlass::ComplexTransform::kNone, TRP_A_ALIGN
#define TRP_RIGHT TRP_B, trp_layout<TRP_B_ROW>, cutlass::ComplexTransform::kNone, TRP_B_ALIGN
#else
#define TRP_LEFT  TRP_B, trp_layout<!TRP_B_ROW>, cutlass::ComplexTransform::kNone, TRP_B_ALIGN
#define TRP_RIGHT TRP_A, trp_layout<!TRP_A_ROW>, cutlass::ComplexTransform::kNone, TRP_A_ALIGN
#endif
using trp_plain_kernel = typename cutlass::gemm::kernel::DefaultGemmUniversal<
    TRP_LEFT, TRP_RIGHT, trp_element, cutlass::layout::RowMajor, TRP_ACC, cutlass::arch::TRP_CLASS,
    cutlass::arch::TRP_ARCH, cutlass::gemm::GemmShape<TRP_TILE>, cutlass::gemm::GemmShape<TRP_WARP>,
    cutlass::gemm::GemmShape<TRP_INSTRUCTION>, TRP_EPILOGUE, trp_swizzle, TRP_STAGES,
    cutlass::arch::TRP_OPERATOR>::GemmKernel;

#if TRP_TREE
/* The elements of D of a thread: OutputTileThreadLayout of tensor cores' epilogues, extended to
 * SIMT epilogues, where a thread has several groups of rows and groups alternate between warps. */
template <class Map> struct trp_map_layout : Map {
    using Access = typename Map::Detail;
    using Repeat = typename Map::Iterations;
    using Shape = typename Map::Shape;
    using Count = typename Map::Count;
    static_assert(Shape::kRow > 1 || Access::kWarpsRemainingForRows == 1,
                  "warps that share a row are not what this says");
    static constexpr int Stages = 1;
    static constexpr int Groups = Shape::kGroup / Repeat::kGroup;
    static constexpr int Clusters = Shape::kCluster / Repeat::kCluster;

    using ThreadShape = cute::Shape<cute::Int<Access::kAccessWidth>, cute::Int<Access::kAccessRows>,
                                    cute::Int<Access::kWarpsRemainingForRows>, cute::Int<Groups>,
                                    cute::Int<Clusters>>;
    using CtaShapeMNL = cute::Shape<cute::Int<Shape::kRow * Count::kRow * Shape::kGroup *
                                              Count::kGroup * Shape::kCluster * Count::kCluster>,
                                    cute::Int<Shape::kColumn * Count::kColumn>, cute::_1>;
    /* In the form that visitors access: reductions use the modes 0, 1, 2, 3, 5, 8 and 10. */
    using ThreadMapShape =
        cute::Shape<cute::Int<Map::kElementsPerAccess>, cute::Int<Access::kAccessWidth>,
                    cute::Int<Repeat::kColumn>, cute::Int<Access::kAccessRows>,
                    cute::Int<Repeat::kRow>, cute::Int<Access::kWarpsRemainingForRows>,
                    cute::Int<Count::kRow>, cute::Int<Count::kGroup>, cute::Int<Groups>,
                    cute::Int<Count::kCluster>, cute::Int<Clusters>>;
    /* A tile's columns, then its rows, fastest first. */
    using TileShape =
        cute::Shape<cute::Int<Map::kElementsPerAccess>, cute::Int<Access::kAccessWidth>,
                    cute::Int<Repeat::kColumn>, cute::Int<Access::kAccessRows>,
                    cute::Int<Repeat::kRow>, cute::Int<Access::kWarpsRemainingForRows>,
                    cute::Int<Count::kRow>, cute::Int<Groups>, cute::Int<Repeat::kGroup>,
                    cute::Int<Count::kGroup>, cute::Int<Clusters>, cute::Int<Repeat::kCluster>,
                    cute::Int<Count::kCluster>>;
    /* Rows of a step: visitors take one mode, and no more than one repeats. */
    static_assert((Repeat::kRow > 1) + (Repeat::kGroup > 1) + (Repeat::kCluster > 1) <= 1,
                  "the rows of a step are not evenly spaced");
    static constexpr int Rows = Repeat::kRow > 1 ? 2 : Repeat::kGroup > 1 ? 4 : 6;

    CUTLASS_DEVICE static auto tid2coord(int thread)
    {
        return cute::idx2crd(thread, ThreadShape{});
    }

    /* (vector, columns, rows of a step, and three modes that make up the step) */
    template <class Tensor>
    CUTLASS_DEVICE static auto partition(Tensor &&x, int thread, cutlass::gemm::GemmCoord tile)
    {
        using namespace cute;
        auto block = local_tile(x, CtaShapeMNL{}, make_coord(_, _, _),
                                Step<_1, _1, Underscore>{})(_, _, tile.m(), tile.n(), tile.k());
        auto [column, row, warp, group, cluster] = tid2coord(thread);
        auto all =
            make_tensor(block.data(), make_layout(get<1>(block.layout()), get<0>(block.layout())))
                .compose(make_layout(TileShape{}));
        auto mine = all(_, column, _, row, _, warp, _, group, _, _, cluster, _, _);
        auto l = mine.layout();
        return make_tensor(mine.data(), make_layout(get<0>(l), get<1>(l), get<Rows>(l), get<3>(l),
                                                    get<5>(l), get<7>(l)));
    }
};
using trp_thread_map =
    trp_map_layout<typename trp_plain_kernel::Epilogue::OutputTileIterator::ThreadMap>;
#endif
