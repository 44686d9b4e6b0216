/* Includes CUTLASS's header and adds the part that it hides from NVRTC: the size of stream-K's
 * workspace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cutlass/coord.h"
#include "cutlass/cuda_host_adapter.hpp"
#include "cutlass/fast_math.h"
#include "cutlass/gemm/kernel/tile_scheduler_detail.hpp"
#include "cutlass/gemm_coord.h"
#include "cutlass/kernel_hardware_info.h"
#include "cutlass/platform/platform.h"
#include "cutlass/trace.h"
#include "cutlass/workspace.h"

/* The host zeroes the workspace. */
namespace cutlass
{
__device__ inline Status zero_workspace(void *, size_t, cudaStream_t, CudaHostAdapter *)
{
    return Status::kSuccess;
}
} // namespace cutlass

#undef __CUDACC_RTC__
#include_next <cutlass/gemm/kernel/tile_scheduler_params.h>
#define __CUDACC_RTC__ 1
