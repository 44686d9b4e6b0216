/* Includes of CUTLASS shared by the templates for sm_100 and sm_120.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "builders.cuh"

#include "cutlass/gemm/collective/collective_builder_decl.hpp"

#if TRP_SM >= 120
#include "cutlass/epilogue/collective/builders/sm90_builder.inl"
#include "cutlass/epilogue/collective/builders/sm120_builder.inl"
#if TRP_BLOCK
#include "cutlass/gemm/collective/builders/sm100_blockscaled_umma_builder.inl"
#include "cutlass/gemm/collective/builders/sm120_blockscaled_mma_builder.inl"
#include "cutlass/gemm/collective/sm120_blockscaled_mma_tma.hpp"
#else
#include "cutlass/gemm/collective/builders/sm120_mma_builder.inl"
#include "cutlass/gemm/collective/sm120_mma_tma.hpp"
#endif
#if TRP_PINGPONG
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#else
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
#endif
#else
#include "cutlass/epilogue/thread/linear_combination_bias_elementwise.h"
#include "cutlass/epilogue/collective/builders/sm100_builder.inl"
#if TRP_BLOCK
#include "cutlass/gemm/collective/builders/sm100_blockscaled_umma_builder.inl"
#include "cutlass/gemm/collective/sm100_blockscaled_mma_warpspecialized.hpp"
#else
#include "cutlass/gemm/collective/builders/sm100_umma_builder.inl"
#include "cutlass/gemm/collective/sm100_mma_warpspecialized.hpp"
#endif
#include "cutlass/gemm/kernel/sm100_gemm_tma_warpspecialized.hpp"
#endif
