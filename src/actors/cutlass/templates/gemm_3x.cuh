/* A product by CUTLASS 3.x of any generation:
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#ifndef TRP_MAINLOOP /* the main loop, how many terms its sums have, and where its operands are */
#define TRP_MAINLOOP    trp_mainloop
#define TRP_TERMS(args) (args).k
#define TRP_INPUTS(mainloop, args)                                                                 \
    (mainloop).ptr_A = reinterpret_cast<decltype((mainloop).ptr_A)>((args).a);                     \
    (mainloop).dA = trp_stride<typename trp_kernel::StrideA>((args).lda, (args).batch_a);          \
    (mainloop).ptr_B = reinterpret_cast<decltype((mainloop).ptr_B)>((args).b);                     \
    (mainloop).dB = trp_stride<typename trp_kernel::StrideB>((args).ldb, (args).batch_b)
#endif

#if TRP_SCHEDULER == 1
using trp_scheduler = cutlass::gemm::StreamKScheduler;
#else
using trp_scheduler = cutlass::gemm::PersistentScheduler;
#endif

using trp_kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>,
                                                        TRP_MAINLOOP, trp_epilogue, trp_scheduler>;

#include "module_3x.cuh"

#if TRP_SWAP
/* The problem D' = B' A'. */
__device__ inline trp_cutlass_args trp_turned(trp_cutlass_args const &x)
{
    trp_cutlass_args y = x;
    y.m = x.n;
    y.n = x.m;
    y.a = x.b;
    y.b = x.a;
    y.lda = x.ldb;
    y.ldb = x.lda;
    y.batch_a = x.batch_b;
    y.batch_b = x.batch_a;
    return y;
}
#endif

#if TRP_BLOCK
/* A layout of block factors with the given distance between batches. */
template <class Layout> __device__ Layout trp_apart(Layout packed, int64_t distance)
{
    auto stride = packed.stride();
    auto &last = cute::get<2>(stride);
    if constexpr (cute::is_tuple<cute::remove_cvref_t<decltype(last)>>::value)
        cute::get<1>(last) = int32_t(distance);
    else
        last = int32_t(distance);
    return cute::make_layout(packed.shape(), stride);
}
#endif

#if TRP_SCHEDULER == 1
/* Returns the number of tiles along a side, rounded up to a multiple. */
__device__ inline uint64_t trp_tiles_up_to(uint64_t size, uint32_t tile, int32_t multiple)
{
    const uint64_t tiles = (size + tile - 1) / tile, each = multiple > 1 ? multiple : 1;
    return (tiles + each - 1) / each * each;
}
#endif

__device__ inline uint32_t trp_build(trp_cutlass_args const &given, void *out,
                                     trp_cutlass_built &built)
{
#if TRP_SWAP
    const trp_cutlass_args args = trp_turned(given);
#else
    trp_cutlass_args const &args = given;
#endif
    using scalar = TRP_SCALAR;
    if (args.m <= 0 || args.n <= 0 || args.k <= 0)
        return TRP_CUTLASS_REFUSED;
    typename trp_kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    const int32_t batches = args.l > 1 ? args.l : 1;
    arguments.problem_shape = {args.m, args.n, TRP_TERMS(args), batches};

    auto &mainloop = arguments.mainloop;
    TRP_INPUTS(mainloop, args);
#if TRP_SCALE_A
    mainloop.ptr_SFA = reinterpret_cast<decltype(mainloop.ptr_SFA)>(args.scale_a);
    mainloop.ptr_SFB = reinterpret_cast<decltype(mainloop.ptr_SFB)>(args.scale_b);
    mainloop.layout_SFA =
        trp_scale_layout<trp_scales_a>(args.m, args.k, batches, args.batch_scale_a);
    mainloop.layout_SFB =
        trp_scale_layout<trp_scales_b>(args.n, args.k, batches, args.batch_scale_b);
#elif TRP_BLOCK
    using factors = typename trp_mainloop::Sm1xxBlkScaledConfig;
    const auto shape = cute::make_shape(args.m, args.n, args.k, batches);
    mainloop.ptr_SFA = reinterpret_cast<decltype(mainloop.ptr_SFA)>(args.scale_a);
    mainloop.ptr_SFB = reinterpret_cast<decltype(mainloop.ptr_SFB)>(args.scale_b);
    mainloop.layout_SFA = factors::tile_atom_to_shape_SFA(shape);
    mainloop.layout_SFB = factors::tile_atom_to_shape_SFB(shape);
#endif
#if TRP_MIXED
    if (args.group) {
        mainloop.ptr_S = reinterpret_cast<decltype(mainloop.ptr_S)>(args.scale_b);
        mainloop.ptr_Z = reinterpret_cast<decltype(mainloop.ptr_Z)>(args.zero_b);
        mainloop.dS = {cute::_1{}, int64_t(args.m), args.batch_scale_b};
        mainloop.group_size = args.group;
    }
#endif

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

    /* CUTLASS requires line lengths with the alignment of strides; TMA clips lines at their
     * ends. */
    auto whole = [](int32_t size) { return int32_t((uint32_t(size) + 31) / 32 * 32); };
    typename trp_kernel::Arguments asked = arguments;
    asked.problem_shape = {whole(args.m), whole(args.n), whole(args.k), batches};
#if TRP_MIXED
    if (args.group >= args.k)
        asked.mainloop.group_size = whole(args.k);
#endif
    if (!trp_kernel::can_implement(asked))
        return TRP_CUTLASS_REFUSED;
#if TRP_BLOCK /* what it asks for is that one follows the other */
    if (batches > 1) {
        mainloop.layout_SFA = trp_apart(mainloop.layout_SFA, args.batch_scale_a);
        mainloop.layout_SFB = trp_apart(mainloop.layout_SFB, args.batch_scale_b);
    }
#endif
    built.workspace_bytes = trp_kernel::get_workspace_size(arguments);
#if TRP_SCHEDULER == 1
    /* CUTLASS places barriers after the sums, one per tile (their number rounded up) and group of
     * warps. A few surplus bytes do no harm. */
    const uint64_t lines = trp_tiles_up_to(args.m, cute::size<0>(trp_tile{}),
                                           cute::size<0>(trp_cluster{}) * args.swizzle),
                   columns = trp_tiles_up_to(args.n, cute::size<1>(trp_tile{}),
                                             cute::size<1>(trp_cluster{}) * args.swizzle),
                   barriers =
                       (lines * columns * batches * trp_kernel::NumMmaWarpGroups + 64) * 4 / 16 *
                       16;
    built.zero_bytes = barriers < built.workspace_bytes ? barriers : built.workspace_bytes;
    built.zero_at = built.workspace_bytes - built.zero_bytes;
#else
    built.zero_bytes = built.workspace_bytes;
#endif
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;

    TRP_RETURN_BUILT(arguments, args.workspace, out, built);
}

TRP_MODULE_3X
