/* The settings of gemm_sm90.cuh, what it includes, and what an epilogue tree may use: a source with
 * a tree has this, then the tree's text, then gemm_sm90.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#pragma once

/* What a row sets, with what it is otherwise. */
#ifndef TRP_A /* elements of A and B; float is computed as tf32 */
#define TRP_A cutlass::bfloat16_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D cutlass::bfloat16_t
#endif
#ifndef TRP_C /* void: the epilogue reads no C, and keeps no room for it */
#define TRP_C TRP_D
#endif
#ifndef TRP_ACC
#define TRP_ACC float
#endif
#ifndef TRP_SCALAR
#define TRP_SCALAR float
#endif
#ifndef TRP_A_ROW
#define TRP_A_ROW 1
#endif
#ifndef TRP_B_ROW
#define TRP_B_ROW 0
#endif
#ifndef TRP_C_ROW
#define TRP_C_ROW 1
#endif
#ifndef TRP_D_ROW
#define TRP_D_ROW 1
#endif
#ifndef TRP_TILE /* of a block */
#define TRP_TILE 128, 256, 64
#endif
#ifndef TRP_CLUSTER
#define TRP_CLUSTER 2, 1
#endif
#ifndef TRP_STAGES /* 0: as many as fit */
#define TRP_STAGES 0
#endif
#ifndef TRP_PINGPONG
#define TRP_PINGPONG 0
#endif
#ifndef TRP_FAST_FP8 /* fp8: sums stay in the tensor core's own precision */
#define TRP_FAST_FP8 0
#endif
#ifndef TRP_SCHEDULER /* 0 persistent, 1 stream-K */
#define TRP_SCHEDULER 0
#endif

#define TRP_SM 90
#include "sm90.cuh"

#if TRP_FP8
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp"
#endif
#if !TRP_FP8 || TRP_FAST_FP8
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp"
#endif
#if TRP_RS /* one operand through registers: 8-bit and tf32 with a layout that wgmma can't read */
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized.hpp"
#endif
#if TRP_PINGPONG
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#else
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
#endif

#include "module.cuh"

template <int M, int N, int K = 1>
using trp_shape = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
template <bool Row>
using trp_layout =
    cutlass::platform::conditional_t<Row, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
template <class T> inline constexpr int trp_bits = cutlass::sizeof_bits<T>::value;
template <> inline constexpr int trp_bits<void> = 128;

using trp_tile = trp_shape<TRP_TILE>;
using trp_cluster = trp_shape<TRP_CLUSTER>;

#if TRP_PINGPONG
#if TRP_FAST_FP8
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum;
#else
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
#endif
using trp_epilogue_schedule = cutlass::epilogue::TmaWarpSpecialized;
#else
#if TRP_FAST_FP8
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum;
#else
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
#endif
using trp_epilogue_schedule = cutlass::epilogue::TmaWarpSpecializedCooperative;
#endif

/* A tree of visitors, if there is one, is a type and how its arguments follow from the slots. It
 * may use trp_tile, and trp_epilogue_descriptor for nodes that load or store by TMA. */
using trp_epilogue_descriptor = cutlass::epilogue::collective::detail::EpilogueDescriptor<
    trp_tile, cutlass::epilogue::collective::EpilogueTileAuto, TRP_C, TRP_D, trp_epilogue_schedule>;
