/* In place of CUTLASS's, which includes the schedulers of all architectures: those of sm_90
 * and sm_100, and of them only what a template asks for. TRP_SCHEDULER: 0 persistent (for sm_90 ours),
 * 1 stream-K, 2 grouped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cutlass/arch/arch.h"
#include "cutlass/detail/dependent_false.hpp"

namespace cutlass::gemm {

struct PersistentScheduler {};
struct StreamKScheduler {};
struct GroupScheduler {};
struct DynamicPersistentScheduler {};
struct StaticPersistentScheduler {};

} // namespace cutlass::gemm

#include "cutlass/gemm/kernel/sm90_tile_scheduler.hpp"
#if TRP_SM >= 100
#include "cutlass/gemm/kernel/sm100_tile_scheduler.hpp"
#endif
#if TRP_SM == 90 && TRP_SCHEDULER == 0
#include "tiles_sm90.cuh"
#endif
#if TRP_SCHEDULER == 1
#include "cutlass/gemm/kernel/sm90_tile_scheduler_stream_k.hpp"
#elif TRP_SCHEDULER == 2
#include "cutlass/gemm/kernel/sm90_tile_scheduler_group.hpp"
#endif

namespace cutlass::gemm::kernel::detail {

template <class Tag, class Arch, class Tile, class Cluster, uint32_t Stages = 2,
          class Problem = void>
struct TileSchedulerSelector {
#if TRP_SM == 90 && TRP_SCHEDULER == 0
    using Scheduler = trp_tiles;
#else
    using Scheduler = PersistentTileSchedulerSm90;
#endif
};

#if TRP_SM >= 100
template <class Tag, class Tile, class Cluster, uint32_t Stages, class Problem>
struct TileSchedulerSelector<Tag, arch::Sm100, Tile, Cluster, Stages, Problem> {
    using Scheduler = PersistentTileSchedulerSm100<Cluster, Stages>;
};
template <class Tag, class Tile, class Cluster, uint32_t Stages, class Problem>
struct TileSchedulerSelector<Tag, arch::Sm120, Tile, Cluster, Stages, Problem> {
    using Scheduler = PersistentTileSchedulerSm100<Cluster, Stages>;
};
#endif

#if TRP_SCHEDULER == 1
template <class Arch, class Tile, class Cluster, uint32_t Stages, class Problem>
struct TileSchedulerSelector<StreamKScheduler, Arch, Tile, Cluster, Stages, Problem> {
    using Scheduler = PersistentTileSchedulerSm90StreamK<Tile, Cluster>;
};
#elif TRP_SCHEDULER == 2
template <class Arch, class Tile, class Cluster, uint32_t Stages, class Problem>
struct TileSchedulerSelector<GroupScheduler, Arch, Tile, Cluster, Stages, Problem> {
    using Scheduler = PersistentTileSchedulerSm90Group<Problem, Stages>;
};
#endif

} // namespace cutlass::gemm::kernel::detail
