/* Many products at once, each with its own sizes, strides and addresses, all in device memory:
 * sm_90a with TMA, whose maps the kernel itself changes from group to group.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* What a row sets, with what it is otherwise: as in gemm_sm90.cuh. */
#ifndef TRP_A
#define TRP_A cutlass::bfloat16_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D cutlass::bfloat16_t
#endif
#ifndef TRP_C
#define TRP_C TRP_D
#endif
#ifndef TRP_ACC
#define TRP_ACC float
#endif
#ifndef TRP_SCALAR
#define TRP_SCALAR float
#endif
#ifndef TRP_A_ROW
#define TRP_A_ROW 1
#endif
#ifndef TRP_B_ROW
#define TRP_B_ROW 0
#endif
#ifndef TRP_C_ROW
#define TRP_C_ROW 1
#endif
#ifndef TRP_D_ROW
#define TRP_D_ROW 1
#endif
#ifndef TRP_TILE
#define TRP_TILE 128, 128, 64
#endif
#ifndef TRP_CLUSTER
#define TRP_CLUSTER 2, 1
#endif
#ifndef TRP_STAGES
#define TRP_STAGES 0
#endif
#ifndef TRP_PINGPONG
#define TRP_PINGPONG 0
#endif

#define TRP_SCHEDULER 2
#define TRP_SM        90
#include "sm90.cuh"

#include "cutlass/gemm/group_array_problem_shape.hpp"
#if TRP_FP8
#include "cutlass/gemm/collective/sm90_mma_array_tma_gmma_ss_warpspecialized_fp8.hpp"
#else
#include "cutlass/gemm/collective/sm90_mma_array_tma_gmma_ss_warpspecialized.hpp"
#endif
#if TRP_PINGPONG
#include "cutlass/gemm/kernel/sm90_gemm_array_tma_warpspecialized_pingpong.hpp"
#else
#include "cutlass/gemm/kernel/sm90_gemm_array_tma_warpspecialized_cooperative.hpp"
#endif

#include "module.cuh"

template <int M, int N, int K = 1>
using trp_shape = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
template <bool Row>
using trp_layout =
    cutlass::platform::conditional_t<Row, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
template <class T> inline constexpr int trp_bits = cutlass::sizeof_bits<T>::value;
template <> inline constexpr int trp_bits<void> = 128;

using trp_tile = trp_shape<TRP_TILE>;
using trp_cluster = trp_shape<TRP_CLUSTER>;
using trp_problem = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;

#if TRP_PINGPONG
using trp_schedule = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
using trp_epilogue_schedule = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
#else
using trp_schedule = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative;
using trp_epilogue_schedule = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
#endif

using trp_epilogue_descriptor = cutlass::epilogue::collective::detail::EpilogueDescriptor<
    trp_tile, cutlass::epilogue::collective::EpilogueTileAuto, TRP_C, TRP_D, trp_epilogue_schedule>;
#ifndef TRP_FUSION
#define TRP_FUSION_PLAIN
#define TRP_FUSION                                                                                 \
    cutlass::epilogue::fusion::LinearCombination<TRP_D, TRP_SCALAR, TRP_C, TRP_SCALAR>
#endif

/* A layout with a star: strides are in an array, one a group. */
using trp_epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, trp_tile, trp_cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, TRP_ACC, TRP_SCALAR, TRP_C,
    trp_layout<TRP_C_ROW> *, 128 / trp_bits<TRP_C>, TRP_D, trp_layout<TRP_D_ROW> *,
    128 / trp_bits<TRP_D>, trp_epilogue_schedule, TRP_FUSION>::CollectiveOp;

#if TRP_STAGES
using trp_stages = cutlass::gemm::collective::StageCount<TRP_STAGES>;
#else
using trp_stages = cutlass::gemm::collective::StageCountAutoCarveout<int(
    sizeof(typename trp_epilogue::SharedStorage))>;
#endif
using trp_mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TRP_A, trp_layout<TRP_A_ROW> *,
    128 / trp_bits<TRP_A>, TRP_B, trp_layout<TRP_B_ROW> *, 128 / trp_bits<TRP_B>, TRP_ACC, trp_tile,
    trp_cluster, trp_stages, trp_schedule>::CollectiveOp;

using trp_kernel = cutlass::gemm::kernel::GemmUniversal<trp_problem, trp_mainloop, trp_epilogue,
                                                        cutlass::gemm::GroupScheduler>;

/* What the host's arrays hold is what CUTLASS reads. */
static_assert(sizeof(typename trp_problem::UnderlyingProblemShape) == 12, "m, n, k");
static_assert(sizeof(typename trp_kernel::InternalStrideA) == 8, "a leading dimension");

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    using scalar = TRP_SCALAR;
    if (args.l <= 0)
        return TRP_CUTLASS_REFUSED;
    typename trp_kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape.num_groups = args.l;
    arguments.problem_shape.problem_shapes =
        reinterpret_cast<typename trp_problem::UnderlyingProblemShape *>(args.group_shapes);

    auto &mainloop = arguments.mainloop;
    mainloop.ptr_A = reinterpret_cast<decltype(mainloop.ptr_A)>(args.a);
    mainloop.dA = reinterpret_cast<decltype(mainloop.dA)>(args.group_lda);
    mainloop.ptr_B = reinterpret_cast<decltype(mainloop.ptr_B)>(args.b);
    mainloop.dB = reinterpret_cast<decltype(mainloop.dB)>(args.group_ldb);

    auto &epilogue = arguments.epilogue;
    epilogue.ptr_C = reinterpret_cast<decltype(epilogue.ptr_C)>(args.c);
    epilogue.dC = reinterpret_cast<decltype(epilogue.dC)>(args.group_ldc);
    epilogue.ptr_D = reinterpret_cast<decltype(epilogue.ptr_D)>(args.d);
    epilogue.dD = reinterpret_cast<decltype(epilogue.dD)>(args.group_ldd);
#ifdef TRP_FUSION_PLAIN
    epilogue.thread.alpha = scalar(args.alpha);
    epilogue.thread.beta = scalar(args.beta);
    epilogue.thread.alpha_ptr = reinterpret_cast<scalar const *>(args.alpha_ptr);
    epilogue.thread.beta_ptr = reinterpret_cast<scalar const *>(args.beta_ptr);
#else
    epilogue.thread = TRP_FUSION_ARGS(args);
#endif

    arguments.hw_info.sm_count = args.sm_count;
    arguments.hw_info.max_active_clusters = args.max_active_clusters;
    auto &scheduler = arguments.scheduler;
    using raster = decltype(scheduler.raster_order);
    scheduler.max_swizzle_size = args.swizzle > 1 ? args.swizzle : 1;
    scheduler.raster_order = args.raster == 2 ? raster::AlongN : raster::AlongM;

    /* The maps that the kernel changes are in the workspace. */
    built.workspace_bytes = trp_kernel::get_workspace_size(arguments);
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;

    typename trp_kernel::Params params =
        trp_kernel::to_underlying_arguments(arguments, reinterpret_cast<void *>(args.workspace));
    const dim3 grid = trp_kernel::get_grid_shape(params);
    built.grid[0] = grid.x;
    built.grid[1] = grid.y;
    built.grid[2] = grid.z;
    trp_write_params(out, params);
    return TRP_CUTLASS_BUILT;
}

TRP_MODULE(trp_kernel, trp_run_3x, trp_kernel::SharedStorageSize, trp_kernel::MaxThreadsPerBlock,
           trp_kernel::MinBlocksPerMultiprocessor, cute::size<0>(trp_cluster{}),
           cute::size<1>(trp_cluster{}), cute::size<2>(trp_cluster{}), cute::size<0>(trp_tile{}),
           cute::size<1>(trp_tile{}), cute::size<2>(trp_tile{}),
           trp_mainloop::DispatchPolicy::Stages)
