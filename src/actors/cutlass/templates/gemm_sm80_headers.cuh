/* All that gemm_sm80.cuh includes, whatever the row: a source may have it in front of its settings,
 * with #pragma nv_hdrstop behind it, and be compiled with a precompiled header (see
 * docs/cutlass-kernels.md).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define TRP_SM 80
#include "troupe_cutlass.h"

#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/kernel/default_gemm_universal.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle_streamk.h"

#include "module.cuh"
