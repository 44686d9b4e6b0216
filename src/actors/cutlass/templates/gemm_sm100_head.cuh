/* The settings of gemm_sm100.cuh, what it includes, and what an epilogue tree may use: a source with
 * a tree has this, then the tree's text, then gemm_sm100.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#pragma once

/* What a row sets, with what it is otherwise. */
#ifndef TRP_SM /* 100, 120 */
#define TRP_SM 100
#endif
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
#define TRP_TILE 128, 128, 64
#endif
#ifndef TRP_CLUSTER
#define TRP_CLUSTER 1, 1
#endif
#ifndef TRP_STAGES /* 0: as many as fit */
#define TRP_STAGES 0
#endif
#ifndef TRP_PINGPONG /* sm_120 */
#define TRP_PINGPONG 0
#endif
#ifndef TRP_BLOCK /* a factor for so many elements along k: 16 (nvfp4), 32 (mxfp8); 0: none */
#define TRP_BLOCK 0
#endif
#ifndef TRP_SCHEDULER
#define TRP_SCHEDULER 0
#endif
#define TRP_SCALE_A 0

#include "sm100.cuh"

#include "module.cuh"

template <int M, int N, int K = 1>
using trp_shape = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
template <bool Row>
using trp_layout =
    cutlass::platform::conditional_t<Row, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
template <class T> inline constexpr int trp_bits = cutlass::sizeof_bits<T>::value;
template <> inline constexpr int trp_bits<void> = 128;
/* Elements of A and B that lie together at an aligned address. */
template <class T> inline constexpr int trp_align = 128 / trp_bits<T>;

using trp_tile = trp_shape<TRP_TILE>;
using trp_cluster = trp_shape<TRP_CLUSTER>;

#if TRP_SM >= 120
using trp_arch = cutlass::arch::Sm120;
#else
using trp_arch = cutlass::arch::Sm100;
#endif

#if TRP_BLOCK == 16
using trp_class = cutlass::arch::OpClassBlockScaledTensorOp;
using trp_left = cutlass::nv_float4_t<TRP_A>;
using trp_right = cutlass::nv_float4_t<TRP_B>;
#elif TRP_BLOCK == 32
using trp_class = cutlass::arch::OpClassBlockScaledTensorOp;
using trp_left = cutlass::mx_float8_t<TRP_A>;
using trp_right = cutlass::mx_float8_t<TRP_B>;
#else
using trp_class = cutlass::arch::OpClassTensorOp;
using trp_left = TRP_A;
using trp_right = TRP_B;
#endif

#if TRP_SM >= 120
#if TRP_PINGPONG
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
#else
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
#endif
using trp_epilogue_schedule = cutlass::epilogue::collective::EpilogueScheduleAuto;
#else
#if TRP_BLOCK == 16
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecialized1SmNvf4Sm100;
#elif TRP_BLOCK == 32
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecialized1SmMxf8f6f4Sm100;
#else
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecialized1SmSm100;
#endif
using trp_epilogue_schedule = cutlass::epilogue::TmaWarpSpecialized1Sm;
#endif
