/* CuTe's own, with the part that it hides from NVRTC (see copy_traits_sm90_tma.hpp), and only where it
 * is wanted: CuTe always includes it, and reading it takes long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once
#if TRP_SM >= 100

#include <cute/arch/copy_sm100_tma.hpp>
#include <cute/atom/copy_traits.hpp>
#include <cute/atom/copy_traits_sm90_tma.hpp>
#include <cute/atom/copy_traits_sm90_tma_swizzle.hpp>
#include <cute/layout.hpp>

/* Functions of the host alone NVRTC does not take. */
#pragma push_macro("CUTE_HOST")
#undef CUTE_HOST
#define CUTE_HOST CUTE_HOST_DEVICE
#undef __CUDACC_RTC__
#include_next <cute/atom/copy_traits_sm100_tma.hpp>
#define __CUDACC_RTC__ 1
#pragma pop_macro("CUTE_HOST")

#endif
