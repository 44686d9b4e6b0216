/* Grouped products with sizes, strides and addresses in device memory: sm_90a with TMA, whose maps
 * the kernel itself changes from group to group. The settings are in gemm_sm90_head.cuh, with
 * TRP_SCHEDULER 2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_SCHEDULER
#define TRP_SCHEDULER 2
#endif
#include "gemm_sm90_head.cuh"

#include "grouped.cuh"

#ifndef TRP_FUSION
#define TRP_FUSION_PLAIN
#define TRP_FUSION                                                                                 \
    cutlass::epilogue::fusion::LinearCombination<TRP_D, TRP_SCALAR, TRP_C, TRP_SCALAR>
#endif

using trp_epilogue = trp_epilogue_of<TRP_FUSION>;

/* The main loop with sums cleared first: CUTLASS's own leaves them unset where a group's k is 0. */
template <class Base> struct trp_cleared : Base {
    using Base::Base;
    template <class Pipeline, class State, class Sums, class... Rest>
    CUTLASS_DEVICE void mma(Pipeline &&pipeline, State &&state, Sums &sums, Rest &&...rest)
    {
        cute::clear(sums);
        Base::mma(static_cast<Pipeline &&>(pipeline), static_cast<State &&>(state), sums,
                  static_cast<Rest &&>(rest)...);
    }
};
using trp_mainloop =
    trp_cleared<trp_mainloop_of<trp_epilogue, TRP_A, trp_lines<TRP_A_ROW>, trp_bits<TRP_A>, TRP_B,
                                trp_lines<TRP_B_ROW>>>;

using trp_problem = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
using trp_kernel = cutlass::gemm::kernel::GemmUniversal<trp_problem, trp_mainloop, trp_epilogue,
                                                        cutlass::gemm::GroupScheduler>;

#include "module_3x.cuh"

/* Prepare writes the layout that CUTLASS reads. */
static_assert(sizeof(typename trp_problem::UnderlyingProblemShape) == 12, "m, n, k");
static_assert(sizeof(typename trp_kernel::InternalStrideA) == 8, "a leading dimension");

/* TMA clips lines at their ends and requires all else at multiples of 16 bytes. */
__device__ inline trp_group_kind trp_kind()
{
    return {{TRP_A_ROW, TRP_B_ROW, TRP_C_ROW, TRP_D_ROW},
            {trp_bytes<TRP_A>, trp_bytes<TRP_B>, trp_bytes<TRP_C>, trp_bytes<TRP_D>},
            {16, 16, 16, 16},
            {1, 1, 1, 1}};
}

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    if (args.l <= 0)
        return TRP_CUTLASS_REFUSED;
    const trp_group_arrays arrays = trp_group_arrays_at(args.workspace, args.l, TRP_VECTOR_COUNT);
    typename trp_kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape.num_groups = args.l;
    arguments.problem_shape.problem_shapes =
        reinterpret_cast<typename trp_problem::UnderlyingProblemShape *>(arrays.shapes);

    auto &mainloop = arguments.mainloop;
    mainloop.ptr_A = reinterpret_cast<decltype(mainloop.ptr_A)>(arrays.at[0]);
    mainloop.dA = reinterpret_cast<decltype(mainloop.dA)>(arrays.ld[0]);
    mainloop.ptr_B = reinterpret_cast<decltype(mainloop.ptr_B)>(arrays.at[1]);
    mainloop.dB = reinterpret_cast<decltype(mainloop.dB)>(arrays.ld[1]);

    auto &epilogue = arguments.epilogue;
    epilogue.ptr_C = reinterpret_cast<decltype(epilogue.ptr_C)>(arrays.at[2]);
    epilogue.dC = reinterpret_cast<decltype(epilogue.dC)>(arrays.ld[2]);
    epilogue.ptr_D = reinterpret_cast<decltype(epilogue.ptr_D)>(arrays.at[3]);
    epilogue.dD = reinterpret_cast<decltype(epilogue.dD)>(arrays.ld[3]);
#ifdef TRP_FUSION_PLAIN
    using scalar = TRP_SCALAR;
    epilogue.thread.alpha = scalar(args.alpha);
    epilogue.thread.beta = scalar(args.beta);
    epilogue.thread.alpha_ptr = reinterpret_cast<scalar const *>(args.alpha_ptr);
    epilogue.thread.beta_ptr = reinterpret_cast<scalar const *>(args.beta_ptr);
#else
    /* The visitor gets a vector's array of addresses without a stride. */
    const trp_group_vector vectors[TRP_VECTOR_COUNT + 1] = {TRP_VECTORS};
    trp_cutlass_args of_arrays = args;
    for (int v = 0; v < TRP_VECTOR_COUNT; v++) {
        of_arrays.slot[vectors[v].word] = arrays.vector + uint64_t(v) * uint64_t(args.l) * 8;
        of_arrays.slot[vectors[v].word + 1] = 0;
    }
    epilogue.thread = TRP_FUSION_ARGS(of_arrays);
#endif

    arguments.hw_info.sm_count = args.sm_count;
    arguments.hw_info.max_active_clusters = args.max_active_clusters;
    auto &scheduler = arguments.scheduler;
    using raster = decltype(scheduler.raster_order);
    scheduler.max_swizzle_size = args.swizzle > 1 ? args.swizzle : 1;
    scheduler.raster_order = args.raster == 2 ? raster::AlongN : raster::AlongM;

    /* The maps that the kernel changes follow the arrays in the workspace. */
    built.workspace_bytes = arrays.bytes + trp_kernel::get_workspace_size(arguments);
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;

    TRP_RETURN_BUILT(arguments, args.workspace + arrays.bytes, out, built);
}

TRP_MODULE_3X
