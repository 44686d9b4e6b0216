/* D = epilogue(A B, C) by CUTLASS 3.x: sm_90a with TMA and warp-specialised wgmma, persistent.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* What a row sets, with what it is otherwise. */
#ifndef TRP_A /* elements of A and B; float is computed as tf32 */
#define TRP_A cutlass::bfloat16_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D cutlass::bfloat16_t
#endif
#ifndef TRP_C /* void: the epilogue reads no C, and keeps no room for it */
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
#ifndef TRP_TILE /* of a block */
#define TRP_TILE 128, 256, 64
#endif
#ifndef TRP_CLUSTER
#define TRP_CLUSTER 2, 1
#endif
#ifndef TRP_STAGES /* 0: as many as fit */
#define TRP_STAGES 0
#endif
#ifndef TRP_PINGPONG
#define TRP_PINGPONG 0
#endif
#ifndef TRP_FAST_FP8 /* fp8: sums stay in the tensor core's own precision */
#define TRP_FAST_FP8 0
#endif
#ifndef TRP_SCHEDULER /* 0 persistent, 1 stream-K */
#define TRP_SCHEDULER 0
#endif

#define TRP_SM 90
#include "sm90.cuh"

#if TRP_FP8
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp"
#endif
#if !TRP_FP8 || TRP_FAST_FP8
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp"
#endif
#if TRP_RS /* one operand through registers: 8-bit and tf32 with a layout that wgmma can't read */
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized.hpp"
#endif
#if TRP_PINGPONG
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#else
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
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

#if TRP_PINGPONG
#if TRP_FAST_FP8
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum;
#else
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
#endif
using trp_epilogue_schedule = cutlass::epilogue::TmaWarpSpecialized;
#else
#if TRP_FAST_FP8
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum;
#else
using trp_schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
#endif
using trp_epilogue_schedule = cutlass::epilogue::TmaWarpSpecializedCooperative;
#endif

/* A tree of visitors, if there is one, is a type and how its arguments follow from the slots. It
 * may use trp_tile, and trp_epilogue_descriptor for nodes that load or store by TMA. */
using trp_epilogue_descriptor = cutlass::epilogue::collective::detail::EpilogueDescriptor<
    trp_tile, cutlass::epilogue::collective::EpilogueTileAuto, TRP_C, TRP_D, trp_epilogue_schedule>;
#ifndef TRP_FUSION
#define TRP_FUSION_PLAIN
#define TRP_FUSION                                                                                 \
    cutlass::epilogue::fusion::LinearCombination<TRP_D, TRP_SCALAR, TRP_C, TRP_SCALAR>
#endif

using trp_epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, trp_tile, trp_cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, TRP_ACC, TRP_SCALAR, TRP_C,
    trp_layout<TRP_C_ROW>, 128 / trp_bits<TRP_C>, TRP_D, trp_layout<TRP_D_ROW>,
    128 / trp_bits<TRP_D>, trp_epilogue_schedule, TRP_FUSION>::CollectiveOp;

#if TRP_STAGES
using trp_stages = cutlass::gemm::collective::StageCount<TRP_STAGES>;
#else
using trp_stages = cutlass::gemm::collective::StageCountAutoCarveout<int(
    sizeof(typename trp_epilogue::SharedStorage))>;
#endif
using trp_mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TRP_A, trp_layout<TRP_A_ROW>,
    128 / trp_bits<TRP_A>, TRP_B, trp_layout<TRP_B_ROW>, 128 / trp_bits<TRP_B>, TRP_ACC, trp_tile,
    trp_cluster, trp_stages, trp_schedule>::CollectiveOp;

#if TRP_SCHEDULER == 1
using trp_scheduler = cutlass::gemm::StreamKScheduler;
#else
using trp_scheduler = cutlass::gemm::PersistentScheduler;
#endif

using trp_kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>,
                                                        trp_mainloop, trp_epilogue, trp_scheduler>;

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    using scalar = TRP_SCALAR;
    if (args.m <= 0 || args.n <= 0 || args.k <= 0)
        return TRP_CUTLASS_REFUSED;
    typename trp_kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    arguments.problem_shape = {args.m, args.n, args.k, args.l > 1 ? args.l : 1};

    auto &mainloop = arguments.mainloop;
    mainloop.ptr_A = reinterpret_cast<decltype(mainloop.ptr_A)>(args.a);
    mainloop.dA = trp_stride<typename trp_kernel::StrideA>(args.lda, args.batch_a);
    mainloop.ptr_B = reinterpret_cast<decltype(mainloop.ptr_B)>(args.b);
    mainloop.dB = trp_stride<typename trp_kernel::StrideB>(args.ldb, args.batch_b);

    auto &epilogue = arguments.epilogue;
    epilogue.ptr_C = reinterpret_cast<decltype(epilogue.ptr_C)>(args.c);
    epilogue.dC = trp_stride<typename trp_kernel::StrideC>(args.ldc, args.batch_c);
    epilogue.ptr_D = reinterpret_cast<decltype(epilogue.ptr_D)>(args.d);
    epilogue.dD = trp_stride<typename trp_kernel::StrideD>(args.ldd, args.batch_d);
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
    scheduler.raster_order = args.raster == 1   ? raster::AlongM
                             : args.raster == 2 ? raster::AlongN
                                                : raster::Heuristic;
#if TRP_SCHEDULER == 1
    using decomposition = decltype(scheduler.decomposition_mode);
    using reduction = decltype(scheduler.reduction_mode);
    scheduler.splits = args.splits > 1 ? args.splits : 1;
    scheduler.decomposition_mode = args.stream_k == 1   ? decomposition::DataParallel
                                   : args.stream_k == 2 ? decomposition::SplitK
                                   : args.stream_k == 3 ? decomposition::StreamK
                                                        : decomposition::Heuristic;
    scheduler.reduction_mode =
        args.reduction ? reduction::Nondeterministic : reduction::Deterministic;
#endif

    if (!trp_kernel::can_implement(arguments))
        return TRP_CUTLASS_REFUSED;
    built.workspace_bytes = trp_kernel::get_workspace_size(arguments);
    built.workspace_zero = built.workspace_bytes;
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
