/* In place of CUTLASS's, which includes the epilogues of all architectures: the one of sm_90 or
 * sm_100 with TMA, or of products whose pointers are in arrays (TRP_SCHEDULER 2).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cutlass/detail/dependent_false.hpp>

namespace cutlass::epilogue::collective {

template <class Policy, class... Arguments> class CollectiveEpilogue {
    static_assert(cutlass::detail::dependent_false<Policy>, "there is no such epilogue");
};

} // namespace cutlass::epilogue::collective

#include "cutlass/epilogue/collective/detail.hpp"
#include "cutlass/epilogue/collective/default_epilogue.hpp"
#include "cutlass/epilogue/collective/default_epilogue_array.hpp"
#include "cutlass/epilogue/collective/sm90_epilogue_tma_warpspecialized_bias_elementwise.hpp"
#if TRP_SM >= 100 && TRP_SM < 120
#include "cutlass/epilogue/collective/sm70_epilogue_vectorized.hpp"
#include "cutlass/epilogue/collective/sm100_epilogue_nosmem.hpp"
#include "cutlass/epilogue/collective/sm100_epilogue_tma_warpspecialized.hpp"
#elif TRP_SCHEDULER == 2
#include "cutlass/epilogue/collective/sm90_epilogue_array_tma_warpspecialized.hpp"
#else
#include "cutlass/epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp"
#endif
