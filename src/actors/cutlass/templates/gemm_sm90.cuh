/* D = epilogue(A B, C) by CUTLASS 3.x: sm_90a with TMA and warp-specialised wgmma, persistent. The
 * settings are in gemm_sm90_head.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm90_head.cuh"

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

    /* CUTLASS also asks for lines that are as long as strides have to be; TMA cuts them where they
     * end. */
    auto whole = [](int32_t size) { return int32_t((uint32_t(size) + 15) / 16 * 16); };
    typename trp_kernel::Arguments asked = arguments;
    asked.problem_shape = {whole(args.m), whole(args.n), whole(args.k), args.l > 1 ? args.l : 1};
    if (!trp_kernel::can_implement(asked))
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
