/* The settings of gemm_sm90.cuh and grouped_sm90.cuh, what they include, and what an epilogue tree
 * may use: a source with a tree has this, then the tree's text, then one of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#pragma once

/* Settings of a row beyond those of head_3x.cuh, with their defaults. */
#ifndef TRP_TILE /* of a block */
#define TRP_TILE 128, 256, 64
#endif
#ifndef TRP_CLUSTER
#define TRP_CLUSTER 2, 1
#endif
#ifndef TRP_SINGLE /* one warp group computes one tile, and the block ends with it */
#define TRP_SINGLE 0
#endif
#ifndef TRP_FAST_FP8 /* fp8: sums stay in the tensor core's own precision */
#define TRP_FAST_FP8 0
#endif
#ifndef TRP_SCALE_A /* fp8: a factor for so many rows of A and 128 of k: 1 or 128; 0: none */
#define TRP_SCALE_A 0
#endif
#ifndef TRP_MIXED /* A or B is narrower than the other, to which its elements are widened */
#define TRP_MIXED 0
#endif
#ifndef TRP_SWAP /* mixed: B is the narrow one. The kernel computes D' = B' A', as does the tree */
#define TRP_SWAP 0
#endif
#ifndef TRP_GROUPS /* mixed: its factors, one for a group of k, of this type */
#define TRP_GROUPS void
#endif
#ifndef TRP_ZEROS /* and what is added, in the same type; void: nothing */
#define TRP_ZEROS void
#endif
#ifndef TRP_SCALE_B /* likewise of columns of B; both or none */
#define TRP_SCALE_B 0
#endif
#ifndef TRP_ODD_WIDTH /* the tile's columns are no multiple of 192, of 256 or of a part of it by 2s:
                       * instructions of such widths are in headers of their own */
#define TRP_ODD_WIDTH 0
#endif
#if TRP_ODD_WIDTH
#define CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED
#endif
#define TRP_GROUPED (TRP_SCHEDULER == 2)

/* Blocks are launched while the previous kernel computes its last tiles. CUTLASS's grouped kernels
 * do not wait for it, and those of stream-K do not compile with it (4.3). */
#if TRP_SCHEDULER == 0
#define TRP_OVERLAPS 1
#define CUTLASS_ENABLE_GDC_FOR_SM90
#endif

#define TRP_SM 90
#include "head_3x.cuh"

#include "sm90.cuh"

#if TRP_GROUPED
#include "cutlass/gemm/group_array_problem_shape.hpp"
#if TRP_FP8
#include "cutlass/gemm/collective/sm90_mma_array_tma_gmma_ss_warpspecialized_fp8.hpp"
#endif
#if !TRP_FP8 || TRP_FAST_FP8
#include "cutlass/gemm/collective/sm90_mma_array_tma_gmma_ss_warpspecialized.hpp"
#endif
#if TRP_PINGPONG
#include "cutlass/gemm/kernel/sm90_gemm_array_tma_warpspecialized_pingpong.hpp"
#else
#include "cutlass/gemm/kernel/sm90_gemm_array_tma_warpspecialized_cooperative.hpp"
#endif
#else
#if TRP_SCALE_A
#include "cute/arch/mma_sm100_desc.hpp"
#include "cutlass/gemm/collective/fp8_accumulation.hpp"
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8_blockwise_scaling.hpp"
#elif TRP_FP8
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp"
#endif
#if TRP_MIXED
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized_mixed_input.hpp"
#elif !TRP_FP8 || TRP_FAST_FP8
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp"
#endif
#if TRP_RS /* one operand through registers: 8-bit and tf32 with a layout that wgmma can't read */
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized.hpp"
#endif
#if TRP_PINGPONG
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#elif TRP_SINGLE
/* CUTLASS has this in a header that includes kernels of all kinds. */
namespace cutlass::gemm::kernel
{
template <class Shape> struct IsCutlass3ArrayKernel : cute::false_type {
};
} // namespace cutlass::gemm::kernel
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized.hpp"
#else
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
#endif
#endif

#if TRP_FP8 && !TRP_FAST_FP8 && !TRP_SCALE_A && !TRP_GROUPED
#include "fp8_mainloop.cuh"
#endif

/* The names of schedules: those of groups, and of fp8 whose sums stay in the tensor core. */
#if TRP_GROUPED
#define TRP_SCHEDULE(name) KernelPtrArray##name
using trp_pingpong_epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
using trp_cooperative_epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
#else
#define TRP_SCHEDULE(name) Kernel##name
using trp_pingpong_epilogue = cutlass::epilogue::TmaWarpSpecialized;
using trp_cooperative_epilogue = cutlass::epilogue::TmaWarpSpecializedCooperative;
#endif
#if TRP_PINGPONG
#if TRP_SCALE_A
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8Blockwise;
#elif TRP_FAST_FP8
using trp_schedule = cutlass::gemm::TRP_SCHEDULE(TmaWarpSpecializedPingpongFP8FastAccum);
#else
using trp_schedule = cutlass::gemm::TRP_SCHEDULE(TmaWarpSpecializedPingpong);
#endif
using trp_epilogue_schedule = trp_pingpong_epilogue;
#elif TRP_SINGLE
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecialized;
using trp_epilogue_schedule = cutlass::epilogue::TmaWarpSpecialized;
#else
#if TRP_SCALE_A
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8Blockwise;
#elif TRP_FAST_FP8
using trp_schedule = cutlass::gemm::TRP_SCHEDULE(TmaWarpSpecializedCooperativeFP8FastAccum);
#else
using trp_schedule = cutlass::gemm::TRP_SCHEDULE(TmaWarpSpecializedCooperative);
#endif
using trp_epilogue_schedule = trp_cooperative_epilogue;
#endif

/* The columns that an epilogue processes together: CUTLASS uses 32 or a common divisor with the
 * tile's columns, which is 16 for 144. */
#if TRP_ODD_WIDTH
using trp_epilogue_tile = cutlass::platform::conditional_t<
    cute::size<1>(trp_tile{}) % 48 == 0, cute::Shape<cute::_128, cute::_48>,
    cutlass::epilogue::collective::EpilogueTileAuto>;
#else
using trp_epilogue_tile = cutlass::epilogue::collective::EpilogueTileAuto;
#endif

/* A tree of visitors, if there is one, is a type and how its arguments follow from the slots. It
 * may use trp_tile, and trp_epilogue_descriptor for nodes that load or store by TMA. */
using trp_epilogue_descriptor = cutlass::epilogue::collective::detail::EpilogueDescriptor<
    trp_tile, trp_epilogue_tile, TRP_C, TRP_D, trp_epilogue_schedule>;

/* A pointer to a layout: an array with strides per group. */
#if TRP_GROUPED
template <bool Row> using trp_lines = trp_layout<Row> *;
#else
template <bool Row> using trp_lines = trp_layout<Row>;
#endif

template <class Fusion>
using trp_epilogue_of = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, trp_tile, trp_cluster,
    trp_epilogue_tile, TRP_ACC, TRP_SCALAR, TRP_C,
    trp_lines<TRP_C_ROW != TRP_SWAP>, 128 / trp_bits<TRP_C>, TRP_D,
    trp_lines<TRP_D_ROW != TRP_SWAP>, 128 / trp_bits<TRP_D>, trp_epilogue_schedule,
    Fusion>::CollectiveOp;

#if TRP_STAGES
template <class Epilogue> using trp_stages = cutlass::gemm::collective::StageCount<TRP_STAGES>;
#else
template <class Epilogue>
using trp_stages = cutlass::gemm::collective::StageCountAutoCarveout<int(
    sizeof(typename Epilogue::SharedStorage))>;
#endif

/* First and Second are elements, possibly with factors, loaded as A and B. */
template <class Epilogue, class First, class Left, int LeftBits, class Second, class Right>
using trp_mainloop_of = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, First, Left, 128 / LeftBits, Second, Right,
    128 / trp_bits<Second>, TRP_ACC, trp_tile, trp_cluster, trp_stages<Epilogue>,
    trp_schedule>::CollectiveOp;
