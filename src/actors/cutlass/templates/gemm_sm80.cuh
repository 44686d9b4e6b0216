/* D = alpha A B + beta C, or what a tree of visitors makes of A B, by CUTLASS 2.x: sm_80 and what
 * came after it, with mma.sync or SIMT. Row, column and any mix of layouts; batches; k split
 * serially or by stream-K. The settings are in gemm_sm80_head.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm80_head.cuh"

#ifndef TRP_MMA /* the main loop, and what it needs besides a product's arguments */
#define TRP_MMA                 typename trp_plain_kernel::Mma
#define TRP_PLACE(params, args) (void)(params)
#endif

#ifndef TRP_SPLITS /* how many parts each sum has, if nobody says */
#define TRP_SPLITS(args) 1
#endif

#if TRP_TREE
static_assert(TRP_D_ROW, "trees are written for a row-major D");
using trp_epilogue = cutlass::epilogue::threadblock::EpilogueWithVisitorCallbacks<
    typename trp_plain_kernel::Epilogue, TRP_FUSION, 1>;
#if TRP_STREAM_K
using trp_kernel =
    cutlass::gemm::kernel::GemmWithEpilogueVisitorStreamk<TRP_MMA, trp_epilogue, trp_swizzle>;
#else
using trp_kernel =
    cutlass::gemm::kernel::GemmWithEpilogueVisitor<TRP_MMA, trp_epilogue, trp_swizzle>;
#endif
#else
using trp_kernel = trp_plain_kernel;
#endif

#if TRP_STREAM_K
#define TRP_RUN trp_run_2x_static
#else
#define TRP_RUN trp_run_2x
#endif

/* Places the kernel's workspace and the part of it that must be zero. */
#if TRP_STREAM_K
struct trp_params : trp_kernel::Params {
    using trp_kernel::Params::Params;
    /* A waiter resets its barrier, so the zeroed flags can be used if there are enough. */
    __device__ void place(trp_cutlass_args const &args, trp_cutlass_built &built)
    {
        const size_t barriers = this->get_barrier_workspace_size();
        const size_t apart = barriers <= TRP_CUTLASS_FLAGS ? 0 : barriers;
        built.workspace_bytes = this->get_partials_workspace_size() + apart;
        built.zero_bytes = apart;
        this->barrier_workspace = reinterpret_cast<void *>(apart ? args.workspace : args.flags);
        this->partials_workspace = reinterpret_cast<void *>(args.workspace + apart);
    }
};
#else
struct trp_params : trp_kernel::Params {
    using trp_kernel::Params::Params;
    __device__ void place(trp_cutlass_args const &args, trp_cutlass_built &built)
    {
        built.workspace_bytes = built.zero_bytes = this->get_workspace_size();
        this->semaphore = reinterpret_cast<int *>(args.workspace);
    }
};
#endif

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    using scalar = TRP_SCALAR;
    if (args.m <= 0 || args.n <= 0 || args.k <= 0)
        return TRP_CUTLASS_REFUSED;
#if TRP_TREE
    typename trp_kernel::EpilogueOutputOp::Params epilogue = TRP_FUSION_ARGS(args);
#elif defined(TRP_EPILOGUE_PLAIN)
    typename trp_kernel::EpilogueOutputOp::Params epilogue(scalar(args.alpha), scalar(args.beta));
    if (args.alpha_ptr)
        epilogue.alpha_ptr = reinterpret_cast<scalar const *>(args.alpha_ptr);
    if (args.beta_ptr)
        epilogue.beta_ptr = reinterpret_cast<scalar const *>(args.beta_ptr);
#else
    typename trp_kernel::EpilogueOutputOp::Params epilogue = TRP_EPILOGUE_ARGS(args);
#endif
    const bool batched = args.l > 1;
    const int splits = args.splits > 1 ? args.splits : args.stream_k == 0 ? TRP_SPLITS(args) : 1;
    if (splits > 1 && (batched || (TRP_TREE && !TRP_STREAM_K)))
        return TRP_CUTLASS_REFUSED;
    const auto mode = batched ? cutlass::gemm::GemmUniversalMode::kBatched
                              : cutlass::gemm::GemmUniversalMode::kGemm;

    constexpr bool swap = !TRP_D_ROW;
    const int m = swap ? args.n : args.m, n = swap ? args.m : args.n;
    auto pointer = [](uint64_t address) { return reinterpret_cast<void *>(address); };
    typename trp_kernel::Arguments arguments(
        mode, {m, n, args.k}, batched ? args.l : splits, epilogue, pointer(swap ? args.b : args.a),
        pointer(swap ? args.a : args.b), pointer(args.c), pointer(args.d),
        swap ? args.batch_b : args.batch_a, swap ? args.batch_a : args.batch_b, args.batch_c,
        args.batch_d, swap ? args.ldb : args.lda, swap ? args.lda : args.ldb, args.ldc, args.ldd
#if TRP_STREAM_K
        ,
        args.stream_k == 1 ? 1 : -1
#endif
    );
    if (trp_kernel::can_implement(arguments) != cutlass::Status::kSuccess)
        return TRP_CUTLASS_REFUSED;

    trp_params params(arguments, args.sm_count, args.blocks_per_sm > 0 ? args.blocks_per_sm : 1);
    TRP_PLACE(params, args);
    params.place(args, built);
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;
    const dim3 grid = params.get_grid_dims();
    built.grid[0] = grid.x;
    built.grid[1] = grid.y;
    built.grid[2] = grid.z;
    trp_write_params<typename trp_kernel::Params>(out, params);
    return TRP_CUTLASS_BUILT;
}

TRP_MODULE(trp_kernel, TRP_RUN, sizeof(typename trp_kernel::SharedStorage),
           trp_kernel::kThreadCount, 1, 1, 1, 1, trp_kernel::ThreadblockShape::kM,
           trp_kernel::ThreadblockShape::kN, trp_kernel::ThreadblockShape::kK, TRP_STAGES)
