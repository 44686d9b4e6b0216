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

using trp_epilogue = trp_epilogue_of<TRP_FUSION>;

/* Layout of block factors: those of one block of k are contiguous, or, for blocks of 128 lines,
 * those of one block of lines, whose count is rounded up to a multiple of four. */
#if TRP_SCALE_A
using trp_major = cute::UMMA::Major;
using trp_scales =
    cutlass::detail::Sm1xxBlockwiseScaleConfig<TRP_SCALE_A, TRP_SCALE_B, 128,
                                               TRP_SCALE_A == 1 ? trp_major::MN : trp_major::K,
                                               TRP_SCALE_B == 1 ? trp_major::MN : trp_major::K>;
using trp_scales_a = decltype(trp_scales::deduce_layoutSFA());
using trp_scales_b = decltype(trp_scales::deduce_layoutSFB());
using trp_left = cute::tuple<trp_layout<TRP_A_ROW>, trp_scales_a>;
using trp_right = cute::tuple<trp_layout<TRP_B_ROW>, trp_scales_b>;

template <class Layout>
__device__ Layout trp_scale_layout(int32_t lines, int32_t k, int32_t batches, int64_t distance)
{
    constexpr int width = cute::size<0, 0>(Layout{});
    const int32_t blocks = (k - 1) / 128 + 1, along = (lines - 1) / width + 1;
    auto shape = Layout{}.shape();
    auto stride = Layout{}.stride();
    cute::get<0, 1>(shape) = along;
    cute::get<1, 1>(shape) = blocks;
    cute::get<2>(shape) = batches;
    cute::get<2>(stride) = int32_t(distance);
    if constexpr (width == 1)
        cute::get<1, 1>(stride) = along;
    else
        cute::get<0, 1>(stride) = (blocks + 3) / 4 * 4;
    return cute::make_layout(shape, stride);
}
#elif TRP_SWAP
using trp_left = trp_layout<!TRP_B_ROW>;
using trp_right = trp_layout<!TRP_A_ROW>;
#else
using trp_left = trp_layout<TRP_A_ROW>;
using trp_right = trp_layout<TRP_B_ROW>;
#endif

/* The narrow operand and its factors come first: they pass through registers, where they are
 * widened. */
#if TRP_SWAP
using trp_first = TRP_B;
using trp_second = TRP_A;
#else
using trp_first = TRP_A;
using trp_second = TRP_B;
#endif
template <class T, class Scale, class Zero> struct trp_with_groups {
    using type = cute::tuple<T, Scale, Zero>;
};
template <class T, class Scale> struct trp_with_groups<T, Scale, void> {
    using type = cute::tuple<T, Scale>;
};
template <class T> struct trp_with_groups<T, void, void> {
    using type = T;
};
using trp_plain_mainloop =
    trp_mainloop_of<trp_epilogue, typename trp_with_groups<trp_first, TRP_GROUPS, TRP_ZEROS>::type,
                    trp_left, trp_bits<trp_first>, trp_second, trp_right>;
#if TRP_FP8 && !TRP_FAST_FP8 && !TRP_SCALE_A
using trp_mainloop = trp_fp8_mainloop<trp_plain_mainloop>;
#else
using trp_mainloop = trp_plain_mainloop;
#endif

#include "gemm_3x.cuh"
