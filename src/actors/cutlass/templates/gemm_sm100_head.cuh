/* The settings of gemm_sm100.cuh, what it includes, and what an epilogue tree may use: a source with
 * a tree has this, then the tree's text, then gemm_sm100.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#pragma once

/* Settings of a row beyond those of head_3x.cuh, with their defaults. */
#ifndef TRP_SM /* 100, 120 */
#define TRP_SM 100
#endif
#ifndef TRP_TILE /* of a block */
#define TRP_TILE 128, 128, 64
#endif
#ifndef TRP_CLUSTER
#define TRP_CLUSTER 1, 1
#endif
#ifndef TRP_BLOCK /* a factor for so many elements along k: 16 (nvfp4), 32 (mxfp8); 0: none */
#define TRP_BLOCK 0
#endif
#define TRP_SCALE_A 0

#include "head_3x.cuh"

#include "sm100.cuh"

/* Elements of A and B per aligned access. */
template <class T> inline constexpr int trp_align = 128 / trp_bits<T>;

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
