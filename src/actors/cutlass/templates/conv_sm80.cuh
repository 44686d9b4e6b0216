/* Convolution, forward and gradients by data and by filter, as implicit GEMM by CUTLASS 2.x:
 * gemm_sm80.cuh with iterators that gather the operands. sm_80 and later, two and three dimensions
 * (one is two with height 1), any strides, any alignment, groups as a batch. A source with a tree
 * has gemm_sm80_head.cuh, then the tree's text, then this.
 *
 * As a product (see trp_conv_request), D is row-major and k is, from the outermost on:
 *
 *     fprop   pixels of the filter, channels     A row-major, B column-major
 *     dgrad   pixels of the filter, filters      A row-major, B row-major
 *     wgrad   images, pixels of the output       A column-major, B row-major
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm80_head.cuh"

/* Settings of a row with their defaults. */
#ifndef TRP_CONV /* 0 fprop, 1 dgrad, 2 wgrad */
#define TRP_CONV 0
#endif
#ifndef TRP_CONV_DIMS
#define TRP_CONV_DIMS 2
#endif
#ifndef TRP_CONV_UNIT_STRIDE /* dgrad: all strides are 1 */
#define TRP_CONV_UNIT_STRIDE 0
#endif

static_assert(TRP_TREE, "without a tree the main loop would be a product's");

#include "conv_sm80_iterator.cuh"

#if TRP_CONV == 2
static_assert(!TRP_A_ROW && TRP_B_ROW && TRP_D_ROW, "the layouts of wgrad");
using trp_conv_a = trp_gather<trp_axis<trp_kind::line, false>, trp_axis<trp_kind::pixel, false>,
                              false, false>;
using trp_conv_b = trp_gather<trp_axis<trp_kind::tap, true>, trp_axis<trp_kind::pixel, true>, true,
                              false>;
#else
static_assert(TRP_A_ROW && TRP_B_ROW == TRP_CONV && TRP_D_ROW, "the layouts of fprop or dgrad");
using trp_conv_a = trp_gather<trp_axis<trp_kind::tap, true>, trp_axis<trp_kind::pixel, true>, true,
                              TRP_CONV == 1 && !TRP_CONV_UNIT_STRIDE>;
#if TRP_CONV == 0
using trp_conv_b = trp_gather<trp_axis<trp_kind::tap, false>, trp_axis<trp_kind::line, false>,
                              false, false>;
#else
using trp_conv_b = trp_gather<trp_axis<trp_kind::line, false>, trp_axis<trp_kind::tap, false>,
                              false, false>;
#endif
#endif

using trp_mma = typename trp_conv_mma<typename trp_plain_kernel::Mma, trp_conv_a, trp_conv_b>::type;
#define TRP_MMA trp_mma

/* The coordinate in dimension i of the activation (dgrad: of the output): pixel * `mul` + filter
 * position * step + first, and for dgrad with strides this divided by the stride. */
struct trp_meeting {
    int mul, step, first;
    __device__ trp_meeting(trp_cutlass_args const &args, int i)
    {
        const int dilation = args.conv_dilation[i];
        step = args.conv_flip ? -dilation : dilation;
        first = (args.conv_flip ? (args.conv_filter[i] - 1) * dilation : 0) - args.conv_pad[i];
        mul = TRP_CONV == 1 ? 1 : args.conv_stride[i];
        if (TRP_CONV == 1) {
            step = -step;
            first = -first;
        }
    }
};

template <class Axis>
__device__ inline void trp_conv_pixels(Axis &axis, trp_cutlass_args const &args, bool gathered,
                                       int64_t const *stride)
{
    int32_t const *size = TRP_CONV == 1 ? args.conv_input : args.conv_output;
    axis.extent = args.conv_images;
    axis.outer = stride[0];
    for (int i = 0; i < TRP_CONV_DIMS; i++) {
        const int d = i + 3 - TRP_CONV_DIMS;
        const trp_meeting meeting(args, d);
        axis.extent *= size[d];
        axis.size[i] = cutlass::FastDivmod(size[d]);
        axis.scale[i] = gathered ? meeting.mul : stride[1 + d];
        axis.first[i] = gathered ? meeting.first : 0;
    }
}

template <class Axis>
__device__ inline void trp_conv_taps(Axis &axis, trp_cutlass_args const &args, bool gathered,
                                     int inner, int64_t inner_stride, int64_t const *stride)
{
    axis.extent = inner;
    axis.inner = cutlass::FastDivmod(inner);
    axis.outer = inner_stride;
    for (int i = 0; i < TRP_CONV_DIMS; i++) {
        const int d = i + 3 - TRP_CONV_DIMS;
        const trp_meeting meeting(args, d);
        axis.extent *= args.conv_filter[d];
        axis.size[i] = cutlass::FastDivmod(args.conv_filter[d]);
        axis.scale[i] = gathered ? meeting.step : stride[1 + d];
    }
}

template <class Axis>
__device__ inline void trp_conv_lines(Axis &axis, int extent, int64_t stride)
{
    axis.extent = extent;
    axis.outer = stride;
}

/* The gathered tensor. */
template <class Params>
__device__ inline void trp_conv_source(Params &p, trp_cutlass_args const &args,
                                       int64_t const *stride)
{
    for (int i = 0; i < TRP_CONV_DIMS; i++) {
        const int d = i + 3 - TRP_CONV_DIMS;
        p.stride[i] = stride[1 + d];
        p.limit[i] = TRP_CONV == 1 ? args.conv_output[d] : args.conv_input[d];
        p.divisor[i] = cutlass::FastDivmod(args.conv_stride[d]);
    }
}

template <class A, class B>
__device__ inline void trp_conv_place(trp_cutlass_args const &args, A &a, B &b)
{
    const int channels = args.conv_channels, filters = args.conv_filters;
#if TRP_CONV == 0
    trp_conv_taps(a.contiguous, args, true, channels, 1, nullptr);
    trp_conv_pixels(a.strided, args, true, args.conv_a);
    trp_conv_source(a, args, args.conv_a);
    trp_conv_taps(b.contiguous, args, false, channels, 1, args.conv_b);
    trp_conv_lines(b.strided, filters, args.conv_b[0]);
#elif TRP_CONV == 1
    trp_conv_taps(a.contiguous, args, true, filters, 1, nullptr);
    trp_conv_pixels(a.strided, args, true, args.conv_a);
    trp_conv_source(a, args, args.conv_a);
    trp_conv_lines(b.contiguous, channels, 1);
    trp_conv_taps(b.strided, args, false, filters, args.conv_b[0], args.conv_b);
#else
    trp_conv_lines(a.contiguous, filters, 1);
    trp_conv_pixels(a.strided, args, false, args.conv_a);
    trp_conv_taps(b.contiguous, args, true, channels, 1, nullptr);
    trp_conv_pixels(b.strided, args, true, args.conv_b);
    trp_conv_source(b, args, args.conv_b);
#endif
}

/* Replaces the leading dimensions of a product. */
#define TRP_PLACE(params, args) trp_conv_place(args, (params).params_A, (params).params_B)

#include "gemm_sm80.cuh"
