/* The operands of a convolution as CUTLASS 2.x reads them: implicit matrices whose elements are
 * addressed by two positions, one along the lines and one across.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cutlass/fast_math.h"

/* What a position counts. */
enum class trp_kind {
    line,  /* filters or channels */
    pixel, /* images and, inner, pixels of the output (dgrad: of the activation) */
    tap,   /* pixels of the filter and, inner, channels or filters */
};

/* The contribution of a position: an element offset, and coordinates of the gathered tensor. */
struct trp_place {
    int64_t offset;
    int at[TRP_CONV_DIMS];
    bool valid;
};

template <trp_kind Kind, bool Gathered> struct trp_axis {
    int extent;
    cutlass::FastDivmod inner; /* tap */
    cutlass::FastDivmod size[TRP_CONV_DIMS];
    int64_t scale[TRP_CONV_DIMS]; /* elements; gathered: coordinates */
    int first[TRP_CONV_DIMS];     /* gathered */
    int64_t outer;                /* elements between lines, images, or channels of a tap */

    CUTLASS_DEVICE trp_place operator()(int index) const
    {
        trp_place p = {};
        int innermost = index;
        p.valid = index < extent;
        if constexpr (Kind == trp_kind::tap)
            inner(index, innermost, index);
        if constexpr (Kind != trp_kind::line) {
            CUTLASS_PRAGMA_UNROLL
            for (int i = TRP_CONV_DIMS - 1; i >= 0; i--) {
                int digit = index;
                if (Kind == trp_kind::pixel || i > 0)
                    size[i](index, digit, index);
                if constexpr (Gathered)
                    p.at[i] = digit * int(scale[i]) + (Kind == trp_kind::pixel ? first[i] : 0);
                else
                    p.offset += digit * scale[i];
            }
        }
        p.offset += (Kind == trp_kind::pixel ? index : innermost) * outer;
        return p;
    }
};

/* An operand with lines along Contiguous. With Gathered the sum of both positions' coordinates is a
 * pixel, which may be outside; with Divided it must be a multiple of the divisor. */
template <class Contiguous, class Strided, bool Gathered, bool Divided> struct trp_gather {
    Contiguous contiguous;
    Strided strided;
    int64_t stride[TRP_CONV_DIMS];
    int limit[TRP_CONV_DIMS];
    cutlass::FastDivmod divisor[TRP_CONV_DIMS];

    trp_gather() = default;
    /* Constructed from the leading dimension of a product; the values are set afterwards. */
    template <class Stride> CUTLASS_DEVICE trp_gather(Stride const &)
    {
    }

    /* Computes the offset from the first element; returns false for an element outside, whose value
     * is 0. */
    CUTLASS_DEVICE bool operator()(trp_place const &c, trp_place const &s, int64_t &offset) const
    {
        bool valid = c.valid && s.valid;
        offset = c.offset + s.offset;
        if constexpr (Gathered) {
            CUTLASS_PRAGMA_UNROLL
            for (int i = 0; i < TRP_CONV_DIMS; i++) {
                int at = c.at[i] + s.at[i];
                if constexpr (Divided) {
                    int rest;
                    valid = valid && at >= 0;
                    divisor[i](at, rest, at);
                    valid = valid && rest == 0 && at < limit[i];
                } else {
                    valid = valid && unsigned(at) < unsigned(limit[i]);
                }
                offset += at * stride[i];
            }
        }
        return valid;
    }
};

/* Reads the elements that Like, an iterator of a product, would read, access by access. K is the
 * dimension in which tiles advance: 0 along the lines, 1 across. */
template <class Like, class Gather, int K> class trp_access_iterator
{
  public:
    using Shape = typename Like::Shape;
    using Element = typename Like::Element;
    using Layout = typename Like::Layout;
    using ThreadMap = typename Like::ThreadMap;
    using AccessType = typename Like::AccessType;
    using TensorCoord = cutlass::MatrixCoord;
    using Params = Gather;
    using Pointer = Element *;
    static constexpr int kAdvanceRank = Like::kAdvanceRank;
    static constexpr int kAccessesPerVector =
        ThreadMap::kElementsPerAccess / AccessType::kElements;

  private:
    using Iterations = typename ThreadMap::Iterations;
    using Delta = typename ThreadMap::Delta;
    /* Lines are rows of a row-major operand, and columns of a column-major one. */
    static constexpr bool Rows =
        cutlass::platform::is_same<Layout, cutlass::layout::RowMajor>::value;
    static constexpr int Advance = (K == 0) == Rows ? Shape::kColumn : Shape::kRow;
    /* Positions are cached unless small accesses make them too many. */
    static constexpr bool Kept = kAccessesPerVector == 1;

    Gather const &gather_;
    Element const *pointer_;
    int first_[2]; /* of this thread */
    trp_place contiguous_[Kept ? Iterations::kContiguous : 1], strided_[Iterations::kStrided];
    int vector_ = 0, along_ = 0, across_ = 0;
    bool cleared_ = false;

    CUTLASS_DEVICE void find_contiguous()
    {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; Kept && i < Iterations::kContiguous; i++)
            contiguous_[i] = gather_.contiguous(first_[0] + i * Delta::kContiguous);
    }
    CUTLASS_DEVICE void find_strided()
    {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Iterations::kStrided; i++)
            strided_[i] = gather_.strided(first_[1] + i * Delta::kStrided);
    }
    CUTLASS_DEVICE bool find(int64_t &offset) const
    {
        if constexpr (Kept)
            return gather_(contiguous_[along_], strided_[across_], offset) && !cleared_;
        else
            return gather_(gather_.contiguous(first_[0] + along_ * Delta::kContiguous +
                                              vector_ * AccessType::kElements),
                           strided_[across_], offset) &&
                   !cleared_;
    }

  public:
    CUTLASS_DEVICE trp_access_iterator(Params const &params, Element *pointer, TensorCoord,
                                       int thread, TensorCoord const &offset, int const * = nullptr)
        : gather_(params), pointer_(pointer)
    {
        const auto at = ThreadMap::initial_offset(thread);
        first_[0] = at.contiguous() + (Rows ? offset.column() : offset.row());
        first_[1] = at.strided() + (Rows ? offset.row() : offset.column());
        find_contiguous();
        find_strided();
    }

    CUTLASS_DEVICE void set_iteration_index(int index)
    {
        vector_ = index % kAccessesPerVector;
        index /= kAccessesPerVector;
        along_ = index % Iterations::kContiguous;
        across_ = index / Iterations::kContiguous;
    }
    CUTLASS_DEVICE AccessType *get() const
    {
        int64_t offset;
        find(offset);
        return reinterpret_cast<AccessType *>(const_cast<Element *>(pointer_ + offset));
    }
    CUTLASS_DEVICE bool valid() const
    {
        int64_t offset;
        return find(offset);
    }
    CUTLASS_DEVICE trp_access_iterator &operator++()
    {
        if (++vector_ < kAccessesPerVector)
            return *this;
        vector_ = 0;
        if (++along_ < Iterations::kContiguous)
            return *this;
        along_ = 0;
        ++across_;
        return *this;
    }
    CUTLASS_DEVICE void clear_mask(bool clear = true)
    {
        cleared_ = cleared_ || clear;
    }
    /* Called only to advance by one tile along k. */
    CUTLASS_DEVICE void add_tile_offset(TensorCoord const &)
    {
        first_[K] += Advance;
        if constexpr (K == 0)
            find_contiguous();
        else
            find_strided();
    }
};

/* The same for tiles loaded through registers. */
template <class Like, class Gather, int K> class trp_tile_iterator
{
    using Accesses = trp_access_iterator<Like, Gather, K>;
    Accesses accesses_;

  public:
    using Shape = typename Accesses::Shape;
    using Element = typename Accesses::Element;
    using Layout = typename Accesses::Layout;
    using ThreadMap = typename Accesses::ThreadMap;
    using AccessType = typename Accesses::AccessType;
    using TensorCoord = typename Accesses::TensorCoord;
    using Params = Gather;
    using Pointer = Element *;
    using Fragment = cutlass::Array<Element, ThreadMap::Iterations::kCount *
                                                 ThreadMap::kElementsPerAccess>;
    static constexpr int kAdvanceRank = Accesses::kAdvanceRank;
    static constexpr int kAccessesPerVector = Accesses::kAccessesPerVector;

    CUTLASS_DEVICE trp_tile_iterator(Params const &params, Element *pointer, TensorCoord extent,
                                     int thread, TensorCoord const &offset, int const * = nullptr)
        : accesses_(params, pointer, extent, thread, offset)
    {
    }
    CUTLASS_DEVICE void load(Fragment &fragment)
    {
        AccessType *to = reinterpret_cast<AccessType *>(&fragment);
        fragment.clear();
        accesses_.set_iteration_index(0);
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < ThreadMap::Iterations::kCount * kAccessesPerVector; i++) {
            cutlass::arch::global_load<AccessType, sizeof(AccessType)>(to[i], accesses_.get(),
                                                                       accesses_.valid());
            ++accesses_;
        }
    }
    CUTLASS_DEVICE trp_tile_iterator &operator++()
    {
        accesses_.add_tile_offset({0, 0});
        return *this;
    }
    CUTLASS_DEVICE void clear_mask(bool clear = true)
    {
        accesses_.clear_mask(clear);
    }
};

/* A product's main loop with other iterators. Elements outside of the tensors are 0. */
template <class Mma, class A, class B> struct trp_conv_mma;

constexpr int trp_conv_k_of_a = TRP_A_ROW ? 0 : 1, trp_conv_k_of_b = TRP_B_ROW ? 1 : 0;

template <class Shape, class IteratorA, class SmemA, cutlass::arch::CacheOperation::Kind CacheA,
          class IteratorB, class SmemB, cutlass::arch::CacheOperation::Kind CacheB, class C,
          class Layout, class Policy, int Stages,
          cutlass::gemm::SharedMemoryClearOption Clear, class Enable, class A, class B>
struct trp_conv_mma<
    cutlass::gemm::threadblock::MmaMultistage<Shape, IteratorA, SmemA, CacheA, IteratorB, SmemB,
                                              CacheB, C, Layout, Policy, Stages, Clear, Enable>,
    A, B> {
    using type = cutlass::gemm::threadblock::MmaMultistage<
        Shape, trp_access_iterator<IteratorA, A, trp_conv_k_of_a>, SmemA, CacheA,
        trp_access_iterator<IteratorB, B, trp_conv_k_of_b>, SmemB, CacheB, C, Layout, Policy,
        Stages, cutlass::gemm::SharedMemoryClearOption::kZfill>;
};

template <class Shape, class IteratorA, class SmemA, class IteratorB, class SmemB, class C,
          class Layout, class Policy, class TransformA, class TransformB, class Enable, class A,
          class B>
struct trp_conv_mma<
    cutlass::gemm::threadblock::MmaPipelined<Shape, IteratorA, SmemA, IteratorB, SmemB, C, Layout,
                                             Policy, TransformA, TransformB, Enable>,
    A, B> {
    using type = cutlass::gemm::threadblock::MmaPipelined<
        Shape, trp_tile_iterator<IteratorA, A, trp_conv_k_of_a>, SmemA,
        trp_tile_iterator<IteratorB, B, trp_conv_k_of_b>, SmemB, C, Layout, Policy, TransformA,
        TransformB>;
};
