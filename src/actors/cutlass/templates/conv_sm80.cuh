/* Convolution forward, and its gradients by data and by filter, as implicit products by
 * CUTLASS 2.x: channels last, two dimensions (one is two with height 1) or three; sm_80 and what
 * came after it.
 *
 * A and B are what the operation reads: activation and filter (fprop), gradient of the output and
 * filter (dgrad), gradient of the output and activation (wgrad). C and D are like its result.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* What a row sets, with what it is otherwise. */
#ifndef TRP_CONV /* 0 fprop, 1 dgrad, 2 wgrad */
#define TRP_CONV 0
#endif
#ifndef TRP_CONV_DIMS
#define TRP_CONV_DIMS 2
#endif
#ifndef TRP_CONV_UNIT_STRIDE /* dgrad: all strides are 1 */
#define TRP_CONV_UNIT_STRIDE 0
#endif
#ifndef TRP_CONV_ITERATOR /* kOptimized, kAnalytic: dgrad of 3 dimensions with strides is that */
#define TRP_CONV_ITERATOR kOptimized
#endif
#ifndef TRP_A
#define TRP_A cutlass::half_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D TRP_A
#endif
#ifndef TRP_ACC
#define TRP_ACC float
#endif
#ifndef TRP_SCALAR
#define TRP_SCALAR TRP_ACC
#endif
#ifndef TRP_A_ALIGN
#define TRP_A_ALIGN 8
#endif
#ifndef TRP_B_ALIGN
#define TRP_B_ALIGN TRP_A_ALIGN
#endif
#ifndef TRP_D_ALIGN
#define TRP_D_ALIGN 8
#endif
#ifndef TRP_CLASS
#define TRP_CLASS OpClassTensorOp
#endif
#ifndef TRP_ARCH
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
#ifndef TRP_OPERATOR
#define TRP_OPERATOR OpMultiplyAdd
#endif
#ifndef TRP_EPILOGUE
#define TRP_EPILOGUE_PLAIN
#define TRP_EPILOGUE                                                                               \
    cutlass::epilogue::thread::LinearCombination<TRP_D, TRP_D_ALIGN, TRP_ACC, TRP_SCALAR>
#endif

#define TRP_SM 80
#include "troupe_cutlass.h"

#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#if TRP_CONV_DIMS == 2
#if TRP_CONV == 0
#include "cutlass/conv/kernel/default_conv2d_fprop.h"
#elif TRP_CONV == 1
#include "cutlass/conv/kernel/default_conv2d_dgrad.h"
#else
#include "cutlass/conv/kernel/default_conv2d_wgrad.h"
#endif
#else
#if TRP_CONV == 0
#include "cutlass/conv/kernel/default_conv3d_fprop.h"
#elif TRP_CONV == 1
#include "cutlass/conv/kernel/default_conv3d_dgrad.h"
#else
#include "cutlass/conv/kernel/default_conv3d_wgrad.h"
#endif
#endif

#include "module.cuh"

#if TRP_CONV_DIMS == 2
using trp_tensor = cutlass::layout::TensorNHWC;
#if TRP_CONV == 0
#define TRP_CONV_KERNEL DefaultConv2dFprop
#elif TRP_CONV == 1
#define TRP_CONV_KERNEL DefaultConv2dDgrad
#else
#define TRP_CONV_KERNEL DefaultConv2dWgrad
#endif
#else
using trp_tensor = cutlass::layout::TensorNDHWC;
#if TRP_CONV == 0
#define TRP_CONV_KERNEL DefaultConv3dFprop
#elif TRP_CONV == 1
#define TRP_CONV_KERNEL DefaultConv3dDgrad
#else
#define TRP_CONV_KERNEL DefaultConv3dWgrad
#endif
#endif

#if TRP_CONV == 1 && !TRP_CONV_UNIT_STRIDE && TRP_CONV_DIMS == 2
using trp_swizzle = cutlass::conv::threadblock::StridedDgradIdentityThreadblockSwizzle<1>;
#else
using trp_swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>;
#endif

using trp_kernel = typename cutlass::conv::kernel::TRP_CONV_KERNEL<
    TRP_A, trp_tensor, TRP_B, trp_tensor, TRP_D, trp_tensor, TRP_ACC, cutlass::arch::TRP_CLASS,
    cutlass::arch::TRP_ARCH, cutlass::gemm::GemmShape<TRP_TILE>, cutlass::gemm::GemmShape<TRP_WARP>,
    cutlass::gemm::GemmShape<TRP_INSTRUCTION>, TRP_EPILOGUE, trp_swizzle, TRP_STAGES,
    cutlass::arch::TRP_OPERATOR, cutlass::conv::IteratorAlgorithm::TRP_CONV_ITERATOR,
#if TRP_CONV == 1 && TRP_CONV_UNIT_STRIDE
    cutlass::conv::StrideSupport::kUnity
#else
    cutlass::conv::StrideSupport::kStrided
#endif
#if TRP_CONV_DIMS == 2
    ,
    TRP_A_ALIGN, TRP_B_ALIGN
#endif
    >::Kernel;

__device__ inline uint32_t trp_build(trp_cutlass_args const &args, void *out,
                                     trp_cutlass_built &built)
{
    using scalar = TRP_SCALAR;
    auto const &a = args;
    const int splits = a.splits > 1 ? a.splits : 1;
    const int groups = a.conv_groups > 1 ? a.conv_groups : 1;
    const auto mode =
        a.conv_cross ? cutlass::conv::Mode::kCrossCorrelation : cutlass::conv::Mode::kConvolution;
#if TRP_CONV_DIMS == 2
    cutlass::conv::Conv2dProblemSize problem(
        a.conv_n, a.conv_h, a.conv_w, a.conv_c, a.conv_k, a.conv_r, a.conv_s, a.conv_p, a.conv_q,
        a.conv_pad[1], a.conv_pad[2], a.conv_stride[1], a.conv_stride[2], a.conv_dilation[1],
        a.conv_dilation[2], mode, splits, groups);
    trp_tensor activation(a.conv_c, a.conv_w * a.conv_c, a.conv_h * a.conv_w * a.conv_c);
    trp_tensor filter(a.conv_c / groups, a.conv_s * (a.conv_c / groups),
                      a.conv_r * a.conv_s * (a.conv_c / groups));
    trp_tensor output(a.conv_k, a.conv_q * a.conv_k, a.conv_p * a.conv_q * a.conv_k);
#else
    cutlass::conv::Conv3dProblemSize problem(
        a.conv_n, a.conv_d, a.conv_h, a.conv_w, a.conv_c, a.conv_k, a.conv_t, a.conv_r, a.conv_s,
        a.conv_z, a.conv_p, a.conv_q, a.conv_pad[0], a.conv_pad[1], a.conv_pad[2], a.conv_stride[0],
        a.conv_stride[1], a.conv_stride[2], a.conv_dilation[0], a.conv_dilation[1],
        a.conv_dilation[2], mode, splits, groups);
    trp_tensor activation = trp_tensor::packed({a.conv_n, a.conv_d, a.conv_h, a.conv_w, a.conv_c});
    trp_tensor filter = trp_tensor::packed({a.conv_k, a.conv_t, a.conv_r, a.conv_s, a.conv_c});
    trp_tensor output = trp_tensor::packed({a.conv_n, a.conv_z, a.conv_p, a.conv_q, a.conv_k});
#endif
#if TRP_CONV == 0
    trp_tensor const &layout_a = activation, &layout_b = filter, &layout_d = output;
#elif TRP_CONV == 1
    trp_tensor const &layout_a = output, &layout_b = filter, &layout_d = activation;
#else
    trp_tensor const &layout_a = output, &layout_b = activation, &layout_d = filter;
#endif

#ifdef TRP_EPILOGUE_PLAIN
    typename trp_kernel::EpilogueOutputOp::Params epilogue(scalar(args.alpha), scalar(args.beta));
    if (args.alpha_ptr)
        epilogue.alpha_ptr = reinterpret_cast<scalar const *>(args.alpha_ptr);
    if (args.beta_ptr)
        epilogue.beta_ptr = reinterpret_cast<scalar const *>(args.beta_ptr);
#else
    typename trp_kernel::EpilogueOutputOp::Params epilogue = TRP_EPILOGUE_ARGS(args);
#endif

    typename trp_kernel::Arguments arguments(problem, {reinterpret_cast<TRP_A *>(args.a), layout_a},
                                             {reinterpret_cast<TRP_B *>(args.b), layout_b},
                                             {reinterpret_cast<TRP_D *>(args.c), layout_d},
                                             {reinterpret_cast<TRP_D *>(args.d), layout_d},
                                             epilogue, cutlass::conv::SplitKMode::kSerial);

    trp_swizzle swizzle;
    const auto tiled =
        swizzle.get_tiled_shape(trp_kernel::kConvolutionalOperator, problem,
                                {trp_kernel::ThreadblockShape::kM, trp_kernel::ThreadblockShape::kN,
                                 trp_kernel::ThreadblockShape::kK},
                                splits);
    if (splits > 1)
        built.workspace_bytes = sizeof(int) * size_t(tiled.m()) * size_t(tiled.n());
    built.workspace_zero = built.workspace_bytes;
    if (built.workspace_bytes > (args.workspace ? args.workspace_bytes : 0))
        return TRP_CUTLASS_WORKSPACE;

    typename trp_kernel::Params params(arguments, reinterpret_cast<int *>(args.workspace));
    const dim3 grid = swizzle.get_grid_shape(tiled);
    built.grid[0] = grid.x;
    built.grid[1] = grid.y;
    built.grid[2] = grid.z;
    trp_write_params(out, params);
    return TRP_CUTLASS_BUILT;
}

TRP_MODULE(trp_kernel, trp_run_2x, sizeof(typename trp_kernel::SharedStorage),
           32 * trp_kernel::WarpCount::kCount, 1, 1, 1, 1, trp_kernel::ThreadblockShape::kM,
           trp_kernel::ThreadblockShape::kN, trp_kernel::ThreadblockShape::kK, TRP_STAGES)
