/* Shared by the templates of CUTLASS 3.x: the declarations that its builders specialise, without
 * those of other architectures.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "troupe_cutlass.h"

#include <cute/tensor.hpp>

#include "cutlass/epilogue/dispatch_policy.hpp"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cutlass/gemm/gemm.h"
#include "cutlass/gemm/kernel/gemm_universal_decl.h"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"

#include "cutlass/epilogue/fusion/callbacks.hpp"

namespace cutlass::epilogue::collective
{

struct EpilogueTileAuto {
};
struct EpilogueScheduleAuto {
};

template <class Arch, class Class, class Tile, class Cluster, class EpilogueTile, class Accumulator,
          class Compute, class C, class LayoutC, int AlignmentC, class D, class LayoutD,
          int AlignmentD, class Schedule,
          class Fusion = cutlass::epilogue::fusion::LinearCombination<D, Compute, C, Compute>,
          class Enable = void>
struct CollectiveBuilder {
    static_assert(cutlass::detail::dependent_false<Arch>, "there is no such epilogue");
};

namespace detail
{

/* Named operations have callbacks elsewhere; a tree of visitors is its own callback. */
template <class Policy, class Operation, class Tile, class EpilogueTile, class Accumulator,
          class Load = cute::DefaultCopy, class = void>
struct CallbacksBuilder {
    using Callbacks = fusion::FusionCallbacks<Policy, Operation, Tile, EpilogueTile>;
};
template <class Policy, class Tree, class Tile, class EpilogueTile, class Load, class Accumulator>
struct CallbacksBuilder<Policy, Tree, Tile, EpilogueTile, Accumulator, Load,
                        cute::enable_if_t<not cute::is_base_of_v<fusion::FusionOperation, Tree>>> {
    using Callbacks = Tree;
};

} // namespace detail
} // namespace cutlass::epilogue::collective

#include "cutlass/gemm/collective/collective_mma_decl.hpp"

/* Returns a matrix's stride in a kernel's form: of its rows (row-major) or columns, one, of
 * batches. */
template <class Stride> __device__ __forceinline__ Stride trp_stride(int64_t leading, int64_t batch)
{
    Stride stride{};
    if constexpr (cutlass::gemm::detail::is_major<0, Stride>())
        cute::get<1>(stride) = leading;
    else
        cute::get<0>(stride) = leading;
    if constexpr (!cute::is_static<decltype(cute::get<2>(stride))>::value)
        cute::get<2>(stride) = batch;
    return stride;
}
