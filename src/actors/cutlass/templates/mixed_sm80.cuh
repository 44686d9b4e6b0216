/* Products of 16-bit elements with 8- or 4-bit ones, which are widened to 16 bits, by CUTLASS 2.x:
 * gemm_sm80.cuh with another main loop. sm_80 and later, A row-major and B column-major, either of
 * them narrow. A source has gemm_sm80_head.cuh, then the tree's text, then this; its TRP_A and
 * TRP_B are both the wide type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm80_head.cuh"

/* Settings of a row with their defaults. */
#ifndef TRP_NARROW /* elements of the narrow operand, of 8 or 4 bits */
#define TRP_NARROW int8_t
#endif
#ifndef TRP_LEFT_NARROW /* which is A, not B */
#define TRP_LEFT_NARROW 0
#endif
#ifndef TRP_FACTORS /* it has factors of groups of k, multiples of 32 elements, or all */
#define TRP_FACTORS 0
#endif
#ifndef TRP_ZEROS /* and what is added */
#define TRP_ZEROS 0
#endif

static_assert(TRP_A_ROW && !TRP_B_ROW && TRP_D_ROW, "lines are along k");
static_assert(TRP_TREE && TRP_STAGES > 2, "of which there are no others");

#include "mixed_sm80_operand.cuh"

constexpr bool trp_left_narrow = TRP_LEFT_NARROW;
constexpr int trp_narrow_bits = cutlass::sizeof_bits<TRP_NARROW>::value;

template <class Plain> struct trp_mixed_of;

template <class Shape, class IteratorA, class SmemA, cutlass::arch::CacheOperation::Kind CacheA,
          class IteratorB, class SmemB, cutlass::arch::CacheOperation::Kind CacheB, class C,
          class Layout, class Policy, int Stages, cutlass::gemm::SharedMemoryClearOption Clear,
          class Enable>
struct trp_mixed_of<
    cutlass::gemm::threadblock::MmaMultistage<Shape, IteratorA, SmemA, CacheA, IteratorB, SmemB,
                                              CacheB, C, Layout, Policy, Stages, Clear, Enable>> {
    template <class Narrow, class Other>
    using pick_a = cutlass::platform::conditional_t<trp_left_narrow, Narrow, Other>;
    template <class Other, class Narrow>
    using pick_b = cutlass::platform::conditional_t<trp_left_narrow, Other, Narrow>;

    using Warp = typename Policy::Operator;
    static constexpr int K = Shape::kK;
    static constexpr int Lines = trp_left_narrow ? Shape::kM : Shape::kN;
    static constexpr int WarpLines = trp_left_narrow ? Warp::Shape::kM : Warp::Shape::kN;
    static constexpr int Threads = trp_plain_kernel::kThreadCount;
    static_assert(Warp::Shape::kK == K, "warps share no sums");

    using Tile = trp_narrow_tile<Lines, K, trp_narrow_bits>;
    using Copies = trp_narrow_copies<Tile, K, trp_narrow_bits, Threads, trp_left_narrow,
                                     typename pick_a<IteratorA, IteratorB>::Layout>;
    using Places = trp_narrow_places<Tile, Threads, trp_left_narrow>;
    using Steps = trp_narrow_steps<Tile, WarpLines, K, trp_narrow_bits, trp_left_narrow,
                                   TRP_FACTORS, TRP_ZEROS>;
    using MixedPolicy = cutlass::gemm::threadblock::MmaPolicy<
        trp_mixed_warp<Warp, TRP_NARROW, TRP_A, Steps, trp_left_narrow, TRP_FACTORS, TRP_ZEROS>,
        typename Policy::SmemPaddingA, typename Policy::SmemPaddingB, Policy::kPartitionsK>;
    using Base = cutlass::gemm::threadblock::MmaMultistage<
        Shape, pick_a<Copies, IteratorA>, pick_a<Places, SmemA>, CacheA, pick_b<IteratorB, Copies>,
        pick_b<SmemB, Places>, CacheB, C, Layout, MixedPolicy, Stages, Clear>;

    struct type : Base {
        using Base::Base;

        CUTLASS_DEVICE void operator()(int iterations, typename Base::FragmentC &sums,
                                       typename Base::IteratorA a, typename Base::IteratorB b,
                                       typename Base::FragmentC const &from)
        {
#if TRP_FACTORS && TRP_LEFT_NARROW
            this->warp_tile_iterator_A_.place(a);
#elif TRP_FACTORS
            this->warp_tile_iterator_B_.place(b);
#endif
            Base::operator()(iterations, sums, a, b, from);
        }
    };
};

using trp_mma = typename trp_mixed_of<typename trp_plain_kernel::Mma>::type;
#define TRP_MMA trp_mma

/* Replaces a leading dimension. */
template <class Params>
__device__ inline void trp_mixed_place(Params &params, trp_cutlass_args const &args)
{
#if TRP_LEFT_NARROW
    auto &narrow = params.params_A;
    narrow.line = args.lda * trp_narrow_bits / 8;
    narrow.groups.lines = args.m;
    params.batch_stride_A = args.batch_a * trp_narrow_bits / 8;
#else
    auto &narrow = params.params_B;
    narrow.line = args.ldb * trp_narrow_bits / 8;
    narrow.groups.lines = args.n;
    params.batch_stride_B = args.batch_b * trp_narrow_bits / 8;
#endif
    narrow.groups.scale = reinterpret_cast<uint16_t const *>(args.scale_b);
    narrow.groups.zero = reinterpret_cast<uint16_t const *>(args.zero_b);
    narrow.groups.batch = args.batch_scale_b;
    narrow.groups.size = args.group;
}
#define TRP_PLACE(params, args) trp_mixed_place(params, args)

#if TRP_STREAM_K
/* With few tiles, each processor gets as many parts as it can hold if instructions for widening,
 * not memory, are the limit: CUTLASS's own division gives it one. */
__device__ inline int trp_mixed_splits(trp_cutlass_args const &args)
{
    using tile = typename trp_mma::Shape;
    constexpr int steps_of_part = 16;
    auto divide_up = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
    if ((!TRP_FACTORS && trp_narrow_bits == 8) || args.l > 1)
        return 1;
    const int64_t tiles = divide_up(args.m, tile::kM) * divide_up(args.n, tile::kN);
    const int64_t room = int64_t(args.sm_count) * args.blocks_per_sm / tiles;
    const int64_t most = divide_up(args.k, tile::kK) / steps_of_part;
    const int64_t splits = room < most ? room : most;
    return splits > 1 ? int(splits) : 1;
}
#define TRP_SPLITS(args) trp_mixed_splits(args)
#endif

#include "gemm_sm80.cuh"
