/* Convolution, forward and gradients by data and by filter, as implicit GEMM by CUTLASS 3.x with
 * operands gathered by TMA: gemm_sm90.cuh with another producer. sm_90a, two and three dimensions
 * (one is two with height 1), lines at multiples of 16 bytes, groups as a batch. Layouts and k are
 * those of conv_sm80.cuh, except that channels (dgrad: filters) of each filter position are padded
 * to a multiple of a tile; in wgrad they are a multiple of a line. dgrad requires strides of 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm90_head.cuh"

/* Settings of a row with their defaults. */
#ifndef TRP_CONV /* 0 fprop, 1 dgrad, 2 wgrad */
#define TRP_CONV 0
#endif
#ifndef TRP_CONV_DIMS
#define TRP_CONV_DIMS 2
#endif

static_assert(TRP_A_ROW == (TRP_CONV != 2) && TRP_B_ROW == (TRP_CONV != 0), "their layouts");

/* Pixels of a tensor in the order of the product's rows or terms. */
struct trp_conv_pixels {
    cutlass::FastDivmod size[TRP_CONV_DIMS]; /* innermost first, as tensor maps have it */
    int lower[TRP_CONV_DIMS], step[TRP_CONV_DIMS];

    /* Computes the coordinates of pixel `index`, with its image last. */
    CUTLASS_DEVICE void find(int index, int (&at)[TRP_CONV_DIMS + 1]) const
    {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < TRP_CONV_DIMS; i++) {
            int digit;
            size[i](index, digit, index);
            at[i] = lower[i] + digit * step[i];
        }
        at[TRP_CONV_DIMS] = index;
    }
};

/* Filter positions and their inner tiles or lines. */
struct trp_conv_taps {
    cutlass::FastDivmod inner, size[TRP_CONV_DIMS];
    int count[TRP_CONV_DIMS], dilation[TRP_CONV_DIMS];
    bool reversed;

    /* Returns the inner number of `index` and computes its filter position and the offset of that
     * from a window's first position. */
    CUTLASS_DEVICE int find(int index, int (&tap)[TRP_CONV_DIMS],
                            uint16_t (&offset)[TRP_CONV_DIMS]) const
    {
        int number;
        inner(index, number, index);
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < TRP_CONV_DIMS; i++) {
            size[i](index, tap[i], index);
            offset[i] =
                uint16_t((reversed ? count[i] - 1 - tap[i] : tap[i]) * dilation[i]);
        }
        return number;
    }
};

/* The main loop of a product whose tiles in shared memory are blocks of lines of 128 bytes: one
 * block with a line per row for a K-major operand, several with a line per term for an MN-major
 * one. */
template <class Product> struct trp_conv_mainloop : Product {
    using DispatchPolicy = typename Product::DispatchPolicy;
    using TileShape = typename Product::TileShape;
    using MainloopPipeline = typename Product::MainloopPipeline;
    using PipelineState = typename Product::PipelineState;
    using TensorStorage = typename Product::TensorStorage;
    using Cluster = typename DispatchPolicy::ClusterShape;

    static constexpr int TileM = cute::size<0>(TileShape{}), TileN = cute::size<1>(TileShape{});
    static constexpr int TileK = cute::size<2>(TileShape{});
    static constexpr int Line = 128 / sizeof(TRP_A);
    /* Blocks that share a tile of A or B each load a part of each of its blocks of lines. */
    static constexpr int PartsA = cute::size<1>(Cluster{}), PartsB = cute::size<0>(Cluster{});
    static constexpr int LinesA = TRP_CONV == 2 ? TileK : TileM, PartA = LinesA / PartsA;
    static constexpr int LinesB = TRP_CONV == 0 ? TileN : TileK, PartB = LinesB / PartsB;
    static constexpr int BlocksA = TRP_CONV == 2 ? TileM / Line : 1;
    static constexpr int BlocksB = TRP_CONV == 0 ? 1 : TileN / Line;
    static_assert(TileK == Line && sizeof(TRP_A) == sizeof(TRP_B), "a term's line is one of TMA");

    struct Arguments {
        trp_cutlass_args const *args;
    };

    struct Params {
        cute::TmaDescriptor a, b;
        uint32_t tma_transaction_bytes;
        int group_a, group_b; /* channels or filters between groups, of A and B */
        trp_conv_pixels pixels;
#if TRP_CONV == 2
        trp_conv_pixels outputs;
#endif
        trp_conv_taps taps;
    };

    __device__ static CUtensorMapDataType element()
    {
        return cute::TMA::to_CUtensorMapDataType<
            cute::conditional_t<cute::is_same_v<TRP_A, float>, cute::tfloat32_t,
                                cute::uint_bit_t<cute::sizeof_bits_v<TRP_A>>>>();
    }

    /* Extents and strides (bytes) of a tensor, innermost first. */
    struct Tensor {
        uint64_t size[TRP_CONV_DIMS + 2], stride[TRP_CONV_DIMS + 1];
        __device__ Tensor(int channels, int32_t const *sizes, int outer, int64_t const *strides)
        {
            size[0] = channels;
            for (int i = 0; i < TRP_CONV_DIMS; i++) {
                size[1 + i] = sizes[2 - i];
                stride[i] = strides[3 - i] * sizeof(TRP_A);
            }
            size[1 + TRP_CONV_DIMS] = outer;
            stride[TRP_CONV_DIMS] = strides[0] * sizeof(TRP_A);
        }
    };

    /* Encodes a map over windows that begin at pixels.lower, `counts` of them in each dimension
     * (outermost first). */
    __device__ static void encode_gathered(cute::TmaDescriptor &map, uint64_t address,
                                           Tensor const &t, trp_conv_pixels const &pixels,
                                           int32_t const *counts, int lines)
    {
        int upper[TRP_CONV_DIMS];
        uint32_t step[TRP_CONV_DIMS + 2];
        step[0] = step[TRP_CONV_DIMS + 1] = 1;
        for (int i = 0; i < TRP_CONV_DIMS; i++) {
            upper[i] =
                pixels.lower[i] + (counts[2 - i] - 1) * pixels.step[i] + 1 - int(t.size[1 + i]);
            step[1 + i] = pixels.step[i];
        }
        trp_cuTensorMapEncodeIm2col(&map, element(), TRP_CONV_DIMS + 2,
                                    reinterpret_cast<void *>(address), t.size, t.stride,
                                    pixels.lower, upper, Line, lines, step,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }

    __device__ static void encode_filter(cute::TmaDescriptor &map, uint64_t address,
                                         Tensor const &t, int lines)
    {
        uint32_t box[TRP_CONV_DIMS + 2], step[TRP_CONV_DIMS + 2];
        for (int i = 0; i < TRP_CONV_DIMS + 2; i++)
            box[i] = step[i] = 1;
        box[0] = Line;
        box[TRP_CONV_DIMS + 1] = lines;
        trp_cuTensorMapEncodeTiled(&map, element(), TRP_CONV_DIMS + 2,
                                   reinterpret_cast<void *>(address), t.size, t.stride, box, step,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }

    /* Returns the number of terms including padding. */
    __device__ static int terms(trp_cutlass_args const &a)
    {
        const int inner = TRP_CONV == 1 ? a.conv_filters : a.conv_channels;
        return TRP_CONV == 2 ? a.k : a.k / inner * ((inner + TileK - 1) / TileK * TileK);
    }

    template <class Problem>
    __device__ static Params to_underlying_arguments(Problem const &, Arguments const &arguments,
                                                     void *)
    {
        trp_cutlass_args const &args = *arguments.args;
        const int channels = args.conv_channels, filters = args.conv_filters;
        int32_t const *sizes = TRP_CONV == 1 ? args.conv_output : args.conv_input;
        int32_t const *counts = TRP_CONV == 1 ? args.conv_input : args.conv_output;
        Params p{};
        p.tma_transaction_bytes = Product::TmaTransactionBytes;
        p.group_a = TRP_CONV == 0 ? channels : filters;
        p.group_b = TRP_CONV == 2 ? channels : filters;
        p.taps.inner = cutlass::FastDivmod(
            TRP_CONV == 2 ? channels / Line
                          : ((TRP_CONV == 1 ? filters : channels) + TileK - 1) / TileK);
        p.taps.reversed = (args.conv_flip != 0) != (TRP_CONV == 1);
        for (int i = 0; i < TRP_CONV_DIMS; i++) {
            const int d = 2 - i, wide = (args.conv_filter[d] - 1) * args.conv_dilation[d];
            p.taps.size[i] = cutlass::FastDivmod(args.conv_filter[d]);
            p.taps.count[i] = args.conv_filter[d];
            p.taps.dilation[i] = args.conv_dilation[d];
            p.pixels.size[i] = cutlass::FastDivmod(counts[d]);
            p.pixels.lower[i] =
                TRP_CONV == 1 ? args.conv_pad[d] - wide : -args.conv_pad[d];
            p.pixels.step[i] = TRP_CONV == 1 ? 1 : args.conv_stride[d];
#if TRP_CONV == 2
            p.outputs.size[i] = p.pixels.size[i];
            p.outputs.step[i] = 1;
#endif
        }
#if TRP_CONV == 2
        encode_gathered(p.a, args.a,
                        Tensor(filters * args.l, counts, args.conv_images, args.conv_a), p.outputs,
                        counts, PartA);
        encode_gathered(p.b, args.b,
                        Tensor(channels * args.l, sizes, args.conv_images, args.conv_b), p.pixels,
                        counts, PartB);
#else
        encode_gathered(p.a, args.a,
                        Tensor(p.group_a * args.l, sizes, args.conv_images, args.conv_a), p.pixels,
                        counts, PartA);
        encode_filter(p.b, args.b,
                      Tensor(channels, args.conv_filter, filters * args.l, args.conv_b), PartB);
#endif
        return p;
    }

    template <class Problem> __device__ static bool can_implement(Problem const &, Arguments const &)
    {
        return true;
    }

    CUTLASS_DEVICE static void prefetch_tma_descriptors(Params const &p)
    {
        cute::prefetch_tma_descriptor(&p.a);
        cute::prefetch_tma_descriptor(&p.b);
    }

    /* Read by the kernel for the number of tiles. */
    template <class Problem>
    CUTLASS_DEVICE auto load_init(Problem const &problem, Params const &) const
    {
        using namespace cute;
        auto [m, n, k, l] = problem;
        return make_tuple(local_tile(make_identity_tensor(make_shape(m, k, l)), TileShape{},
                                     make_coord(_, _, _), Step<_1, Underscore, _1>{}),
                          local_tile(make_identity_tensor(make_shape(n, k, l)), TileShape{},
                                     make_coord(_, _, _), Step<Underscore, _1, _1>{}));
    }

    /* Loads a tile's part for all blocks of the cluster that share it. */
    template <int Parts>
    CUTLASS_DEVICE static void copy_gathered(cute::TmaDescriptor const &map, uint64_t *barrier,
                                             uint16_t mask, void *to, int channel,
                                             int const (&at)[TRP_CONV_DIMS + 1],
                                             uint16_t const (&by)[TRP_CONV_DIMS])
    {
#if TRP_CONV_DIMS == 2
        if constexpr (Parts > 1)
            cute::SM90_TMA_LOAD_IM2COL_MULTICAST::copy(&map, barrier, mask, to, channel, at[0],
                                                       at[1], at[2], by[0], by[1]);
        else
            cute::SM90_TMA_LOAD_IM2COL::copy(&map, barrier, to, channel, at[0], at[1], at[2], by[0],
                                             by[1]);
#else
        if constexpr (Parts > 1)
            cute::SM90_TMA_LOAD_IM2COL_MULTICAST::copy(&map, barrier, mask, to, channel, at[0],
                                                       at[1], at[2], at[3], by[0], by[1], by[2]);
        else
            cute::SM90_TMA_LOAD_IM2COL::copy(&map, barrier, to, channel, at[0], at[1], at[2], at[3],
                                             by[0], by[1], by[2]);
#endif
    }

    CUTLASS_DEVICE static void copy_filter(cute::TmaDescriptor const &map, uint64_t *barrier,
                                           uint16_t mask, void *to, int channel,
                                           int const (&tap)[TRP_CONV_DIMS], int line)
    {
        constexpr auto hint = uint64_t(cute::TMA::CacheHintSm90::EVICT_NORMAL);
#if TRP_CONV_DIMS == 2
        if constexpr (PartsB > 1)
            cute::SM90_TMA_LOAD_MULTICAST::copy(&map, barrier, mask, hint, to, channel, tap[0],
                                                tap[1], line);
        else
            cute::SM90_TMA_LOAD::copy(&map, barrier, hint, to, channel, tap[0], tap[1], line);
#else
        if constexpr (PartsB > 1)
            cute::SM90_TMA_LOAD_MULTICAST::copy(&map, barrier, mask, hint, to, channel, tap[0],
                                                tap[1], tap[2], line);
        else
            cute::SM90_TMA_LOAD::copy(&map, barrier, hint, to, channel, tap[0], tap[1], tap[2],
                                      line);
#endif
    }

    template <class Inputs, class KTileIterator, class BlockCoord>
    CUTLASS_DEVICE void load(Params const &p, MainloopPipeline pipeline, PipelineState write,
                             Inputs const &, BlockCoord const &block, KTileIterator k_tile,
                             int count, int, uint32_t rank, TensorStorage &shared)
    {
        if (!cute::elect_one_sync())
            return;
        const uint32_t x = rank % PartsB, y = rank / PartsB;
        uint16_t mask_a = 0, mask_b = 0;
        for (int i = 0; i < PartsA; i++)
            mask_a |= uint16_t(1) << (x + i * PartsB);
        for (int i = 0; i < PartsB; i++)
            mask_b |= uint16_t(1) << (i + y * PartsB);
        const int m = cute::get<0>(block) * TileM, n = cute::get<1>(block) * TileN;
        const int first_a = cute::get<3>(block) * p.group_a;
        const int first_b = cute::get<3>(block) * p.group_b;
        TRP_A *const shared_a =
            reinterpret_cast<TRP_A *>(shared.smem_A.data()) + y * PartA * Line;
        TRP_B *const shared_b =
            reinterpret_cast<TRP_B *>(shared.smem_B.data()) + x * PartB * Line;

        int at[TRP_CONV_DIMS + 1], tap[TRP_CONV_DIMS];
        uint16_t offset[TRP_CONV_DIMS];
#if TRP_CONV == 2
        constexpr uint16_t none[TRP_CONV_DIMS] = {};
        int channel_b[BlocksB];
        uint16_t offset_b[BlocksB][TRP_CONV_DIMS];
        CUTLASS_PRAGMA_UNROLL
        for (int j = 0; j < BlocksB; j++)
            channel_b[j] = first_b + p.taps.find(n / Line + j, tap, offset_b[j]) * Line;
#else
        p.pixels.find(m + y * PartA, at);
#endif
        CUTLASS_PRAGMA_NO_UNROLL
        for (; count > 0; --count) {
            pipeline.producer_acquire(write);
            uint64_t *barrier = reinterpret_cast<uint64_t *>(pipeline.producer_get_barrier(write));
            TRP_A *const to_a = shared_a + write.index() * (TileM * TileK);
            TRP_B *const to_b = shared_b + write.index() * (TileN * TileK);
            const int k = *k_tile;
#if TRP_CONV == 2
            p.outputs.find(k * TileK + y * PartA, at);
            CUTLASS_PRAGMA_UNROLL
            for (int j = 0; j < BlocksA; j++)
                copy_gathered<PartsA>(p.a, barrier, mask_a, to_a + j * LinesA * Line,
                                      first_a + m + j * Line, at, none);
            p.pixels.find(k * TileK + x * PartB, at);
            CUTLASS_PRAGMA_UNROLL
            for (int j = 0; j < BlocksB; j++)
                copy_gathered<PartsB>(p.b, barrier, mask_b, to_b + j * LinesB * Line, channel_b[j],
                                      at, offset_b[j]);
#else
            const int inner = p.taps.find(k, tap, offset) * TileK;
            copy_gathered<PartsA>(p.a, barrier, mask_a, to_a, first_a + inner, at, offset);
#if TRP_CONV == 0
            copy_filter(p.b, barrier, mask_b, to_b, inner, tap, first_b + n + x * PartB);
#else
            CUTLASS_PRAGMA_UNROLL
            for (int j = 0; j < BlocksB; j++)
                copy_filter(p.b, barrier, mask_b, to_b + j * LinesB * Line, n + j * Line, tap,
                            first_b + inner + x * PartB);
#endif
#endif
            ++k_tile;
            ++write;
        }
    }

    /* Ignores the other parameters of a product's loop. */
    template <class Accumulators>
    CUTLASS_DEVICE void mma(MainloopPipeline pipeline, PipelineState read, Accumulators &sums,
                            int count, int thread, TensorStorage &shared, Params const &)
    {
        typename Product::Params ignored{};
        Product::mma(pipeline, read, sums, count, thread, shared, ignored);
    }
};

#define TRP_MAINLOOP    trp_conv_mainloop<trp_mainloop>
#define TRP_TERMS(args) trp_kernel::CollectiveMainloop::terms(args)
#define TRP_INPUTS(mainloop, arguments) (mainloop).args = &(arguments)

#include "gemm_sm90.cuh"
