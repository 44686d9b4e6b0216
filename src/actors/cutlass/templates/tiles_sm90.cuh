/* The order of tiles for sm_90: in groups of `swizzle` lines, the last one as narrow as it is.
 * CUTLASS rounds the tiles up to whole groups along both sides, and computes those that there are
 * not as it does the others: of 1536 x 1536 by 128 x 144, 144 instead of 132.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tiles.h"

#include "cutlass/gemm/kernel/sm90_tile_scheduler.hpp"

class trp_tiles : public cutlass::gemm::kernel::detail::StaticPersistentTileScheduler<trp_tiles>
{
    using Plain = cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90;
    using Base = cutlass::gemm::kernel::detail::StaticPersistentTileScheduler<trp_tiles>;

  public:
    using Base::Base;
    using Pipeline = Plain::Pipeline;
    using PipelineStorage = Plain::PipelineStorage;
    using ThrottlePipeline = Plain::ThrottlePipeline;
    using ThrottlePipelineStorage = Plain::ThrottlePipelineStorage;
    using CLCResponse = Plain::CLCResponse;
    using SharedStorage = Plain::SharedStorage;

    /* log_swizzle_size_ of the parameters is used only here; CUTLASS's own code gets no groups. */
    template <class Problem, class Tile, class Cluster>
    static Params to_underlying_arguments(Problem problem, Tile tile, Cluster cluster,
                                          cutlass::KernelHardwareInfo const &hardware,
                                          Arguments const &given, void *workspace = nullptr,
                                          uint32_t subtiles = 1, uint32_t alignment = 1)
    {
        Params params =
            Base::to_underlying_arguments(problem, tile, cluster, hardware, without_groups(given),
                                          workspace, subtiles, alignment);
        const uint32_t lines = lines_of(params);
        while ((2u << params.log_swizzle_size_) <= uint32_t(given.max_swizzle_size) &&
               (2u << params.log_swizzle_size_) <= lines)
            params.log_swizzle_size_++;
        return params;
    }

    template <class Problem, class Tile, class Cluster>
    static dim3 get_grid_shape(Params const &params, Problem problem, Tile tile, Cluster cluster,
                               cutlass::KernelHardwareInfo hardware, Arguments given)
    {
        return Base::get_grid_shape(params, problem, tile, cluster, hardware,
                                    without_groups(given));
    }

    template <class Problem, class Sum, class... Rest>
    static size_t get_workspace_size(Arguments const &, Problem, Rest...)
    {
        return 0;
    }

    /* Finds a tile's place in line order and converts it to group order. */
    template <class... Rest>
    static CUTLASS_DEVICE auto get_work_idx_m_and_n(uint64_t at,
                                                    cutlass::FastDivmodU64Pow2 const &major,
                                                    cutlass::FastDivmodU64Pow2 const &minor,
                                                    cutlass::FastDivmodU64 const &length,
                                                    int32_t /* log_swizzle_size */, Rest... rest)
    {
        return Plain::get_work_idx_m_and_n(at, major, minor, length, 0, rest...);
    }

    template <class Cluster> CUTLASS_DEVICE WorkTileInfo initial_work_tile_info(Cluster)
    {
        return get_current_work();
    }

    CUTLASS_DEVICE WorkTileInfo get_current_work() const
    {
        return in_groups(Base::get_current_work());
    }

    template <class... Rest> CUTLASS_DEVICE auto fetch_next_work(WorkTileInfo, Rest &&...)
    {
        advance_to_next_work();
        return cute::make_tuple(get_current_work(), true);
    }

  private:
    static Arguments without_groups(Arguments given)
    {
        given.max_swizzle_size = 1;
        return given;
    }

    /* Return the number and length of lines in clusters. */
    static CUTLASS_HOST_DEVICE uint32_t lines_of(Params const &params)
    {
        return params.raster_order_ == RasterOrder::AlongN ? params.problem_tiles_m_
                                                           : params.problem_tiles_n_;
    }

    CUTLASS_DEVICE WorkTileInfo in_groups(WorkTileInfo work) const
    {
        Params const &params = scheduler_params;
        const bool along_n = params.raster_order_ == RasterOrder::AlongN;
        const uint32_t lines = lines_of(params), shift = uint32_t(params.log_swizzle_size_);
        const uint32_t length = along_n ? params.problem_tiles_n_ : params.problem_tiles_m_;
        const uint32_t wide = along_n ? params.cluster_shape_m_ : params.cluster_shape_n_;
        const uint32_t deep = along_n ? params.cluster_shape_n_ : params.cluster_shape_m_;
        if (shift == 0 || !work.is_valid())
            return work;
        uint32_t across = uint32_t(along_n ? work.M_idx : work.N_idx);
        uint32_t along = uint32_t(along_n ? work.N_idx : work.M_idx);
        const trp_tile_place place =
            trp_tile_in_groups(lines, length, shift, across / wide, along / deep);
        across = place.line * wide + across % wide;
        along = place.at * deep + along % deep;
        work.M_idx = int32_t(along_n ? across : along);
        work.N_idx = int32_t(along_n ? along : across);
        return work;
    }
};
