/* D = alpha A B + beta C by CUTLASS 2.x: sm_80 and what came after it, with mma.sync or SIMT.
 * Row, column and any mix of layouts; batches; k split serially or by stream-K.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* What a row sets, with what it is otherwise. */
#ifndef TRP_A /* elements of A and B, of C and D */
#define TRP_A cutlass::half_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D TRP_A
#endif
#ifndef TRP_ACC /* what is summed up in */
#define TRP_ACC float
#endif
#ifndef TRP_SCALAR /* what alpha, beta and the epilogue are in */
#define TRP_SCALAR TRP_ACC
#endif
#ifndef TRP_A_ROW /* layouts: 1 row-major, 0 column-major */
#define TRP_A_ROW 1
#endif
#ifndef TRP_B_ROW
#define TRP_B_ROW 0
#endif
#ifndef TRP_D_ROW
#define TRP_D_ROW 1
#endif
#ifndef TRP_A_ALIGN /* elements that are loaded at once */
#define TRP_A_ALIGN 8
#endif
#ifndef TRP_B_ALIGN
#define TRP_B_ALIGN TRP_A_ALIGN
#endif
#ifndef TRP_D_ALIGN
#define TRP_D_ALIGN 8
#endif
#ifndef TRP_CLASS /* OpClassTensorOp or OpClassSimt */
#define TRP_CLASS OpClassTensorOp
#endif
#ifndef TRP_ARCH /* Sm80, Sm89 */
#define TRP_ARCH Sm80
#endif
#ifndef TRP_TILE
#define TRP_TILE 128, 128, 32
#endif
#ifndef TRP_WARP
#define TRP_WARP 64, 64, 32
#endif
#ifndef TRP_INSTRUCTION
#define TRP_INSTRUCTION 16, 8, 16
#endif
#ifndef TRP_STAGES
#define TRP_STAGES 3
#endif
#ifndef TRP_OPERATOR /* OpMultiplyAdd, OpMultiplyAddSaturate, OpMultiplyAddFastF32, ... */
#define TRP_OPERATOR OpMultiplyAdd
#endif
#ifndef TRP_STREAM_K
#define TRP_STREAM_K 0
#endif
#ifndef TRP_EPILOGUE /* a functor of the 2.x epilogue; its parameters from TRP_EPILOGUE_ARGS(args) \
                      */
#define TRP_EPILOGUE_PLAIN
#define TRP_EPILOGUE                                                                               \
    cutlass::epilogue::thread::LinearCombination<TRP_D, TRP_D_ALIGN, TRP_ACC, TRP_SCALAR>
#endif

#include "gemm_sm80_headers.cuh"

template <bool Row>
using trp_layout =
    cutlass::platform::conditional_t<Row, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
#if TRP_STREAM_K
using trp_swizzle = cutlass::gemm::threadblock::ThreadblockSwizzleStreamK;
#else
using trp_swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>;
#endif

/* The epilogue writes rows. A D that is column-major is the row-major D' = B' A' of the transposes,
 * whose layouts are the other ones. */
#if TRP_D_ROW
#define TRP_LEFT  TRP_A, trp_layout<TRP_A_ROW>, cutlass::ComplexTransform::kNone, TRP_A_ALIGN
#define TRP_RIGHT TRP_B, trp_layout<TRP_B_ROW>, cutlass::ComplexTransform::kNone, TRP_B_ALIGN
#else
#define TRP_LEFT  TRP_B, trp_layout<!TRP_B_ROW>, cutlass::ComplexTransform::kNone, TRP_B_ALIGN
#define TRP_RIGHT TRP_A, trp_layout<!TRP_A_ROW>, cutlass::ComplexTransform::kNone, TRP_A_ALIGN
#endif
using trp_kernel = typename cutlass::gemm::kernel::DefaultGemmUniversal<
    TRP_LEFT, TRP_RIGHT, TRP_D, cutlass::layout::RowMajor, TRP_ACC, cutlass::arch::TRP_CLASS,
    cutlass::arch::TRP_ARCH, cutlass::gemm::GemmShape<TRP_TILE>, cutlass::gemm::GemmShape<TRP_WARP>,
    cutlass::gemm::GemmShape<TRP_INSTRUCTION>, TRP_EPILOGUE, trp_swizzle, TRP_STAGES,
    cutlass::arch::TRP_OPERATOR>::GemmKernel;

#if TRP_STREAM_K
#define TRP_RUN trp_run_2x_static
#else
#define TRP_RUN trp_run_2x
#endif

/* Where the kernel finds its workspace, and how much of it is to be zero. */
#if TRP_STREAM_K
struct trp_params : trp_kernel::Params {
    using trp_kernel::Params::Params;
    __device__ void place(uint64_t workspace, trp_cutlass_built &built)
    {
        const size_t partials = this->get_partials_workspace_size();
        const size_t barriers = this->get_barrier_workspace_size();
        /* CUTLASS has the barriers last; here first, as that is what is to be zero. */
        this->barrier_workspace = reinterpret_cast<void *>(barriers ? workspace : 0);
        this->partials_workspace = reinterpret_cast<void *>(partials ? workspace + barriers : 0);
        built.workspace_zero = barriers;
    }
};
#else
struct trp_params : trp_kernel::Params {
    using trp_kernel::Params::Params;
    __device__ void place(uint64_t workspace, trp_cutlass_built &built)
    {
        this->semaphore = reinterpret_cast<int *>(workspace);
        built.workspace_zero = built.workspace_bytes;
    }
};
#endif

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    using scalar = TRP_SCALAR;
    if (args.m <= 0 || args.n <= 0 || args.k <= 0)
        return TRP_CUTLASS_REFUSED;
#ifdef TRP_EPILOGUE_PLAIN
    typename trp_kernel::EpilogueOutputOp::Params epilogue(scalar(args.alpha), scalar(args.beta));
    if (args.alpha_ptr)
        epilogue.alpha_ptr = reinterpret_cast<scalar const *>(args.alpha_ptr);
    if (args.beta_ptr)
        epilogue.beta_ptr = reinterpret_cast<scalar const *>(args.beta_ptr);
#else
    typename trp_kernel::EpilogueOutputOp::Params epilogue = TRP_EPILOGUE_ARGS(args);
#endif
    const bool batched = args.l > 1;
    const int splits = args.splits > 1 ? args.splits : 1;
    if (batched && splits > 1)
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
    built.workspace_bytes = params.get_workspace_size();
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;
    params.place(args.workspace, built);
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
