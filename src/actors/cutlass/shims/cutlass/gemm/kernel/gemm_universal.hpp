/* In place of CUTLASS's, which includes the 3.x kernels of all architectures, and which kernels of 2.x
 * include too: the declaration alone. A template includes its own kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cutlass/gemm/kernel/gemm_universal_decl.h"

namespace cutlass::gemm::kernel {

/* Whether a problem's shape is that of a product with pointers in arrays: none of 2.x is. */
template <class Problem, class = void> struct IsCutlass3ArrayKernel : cute::false_type {};

} // namespace cutlass::gemm::kernel
