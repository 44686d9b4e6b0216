/* Includes CUTLASS's header with the compiler's 128-bit integers, which it does not detect under
 * NVRTC: without them its division is a breakpoint, and a parameter with a fast divisor that is not
 * a power of two is built with one. Needs NVRTC's --device-int128.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define CUTLASS_UINT128_NATIVE
#include_next <cutlass/uint128.h>
