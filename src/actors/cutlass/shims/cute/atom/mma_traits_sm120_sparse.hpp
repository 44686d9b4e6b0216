/* CUTLASS's own, only where it is wanted: CuTe always includes it, and reading it takes long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once
#if TRP_SM >= 120
#include_next <cute/atom/mma_traits_sm120_sparse.hpp>
#endif
