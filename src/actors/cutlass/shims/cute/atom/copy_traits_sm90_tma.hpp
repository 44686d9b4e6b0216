/* CuTe's own, with the part that it hides from NVRTC: the call that encodes a tensor map, which here
 * writes its arguments down (see cuda.h beside this).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once
#if TRP_SM >= 90

#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/atom/copy_traits_sm90_tma_swizzle.hpp>
#include <cute/atom/copy_traits.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cute/algorithm/prefetch.hpp>
#include <cute/numeric/integral_ratio.hpp>
#include <cutlass/cuda_host_adapter.hpp>

#undef __CUDACC_RTC__
#include_next <cute/atom/copy_traits_sm90_tma.hpp>
#define __CUDACC_RTC__ 1

#endif
