/* An 8- or 4-bit operand beside a 16-bit one, as CUTLASS 2.x reads it: copied unchanged into shared
 * memory, and widened in registers. Its lines are along k, in whole chunks of 16 bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Addresses of the factors and zero points of groups: those of line i and group g of k are at g *
 * lines + i. */
struct trp_groups {
    uint16_t const *scale, *zero; /* zero: nullptr without zero points */
    int64_t batch;                /* distance between batches */
    int lines;
    int size; /* of k */
};

/* A tile of an operand in shared memory: lines of chunks, rotated so that neither copies nor reads
 * of a warp cause bank conflicts. */
template <int Lines, int K, int Bits> struct trp_narrow_tile {
    static constexpr int Line = K * Bits / 8; /* bytes */
    static constexpr int Chunks = Line / 16;  /* of a line */
    static constexpr int Count = Lines * Chunks;
    static constexpr int Bytes = Lines * Line;
    static_assert(Chunks == 2 || Chunks == 4 || Chunks == 8, "of so many k");

    CUTLASS_DEVICE static int chunk(int line, int chunk)
    {
        return line * Line + (chunk ^ line / (8 / Chunks) % Chunks) * 16;
    }
};

/* A thread's copies of a tile. The first tile is the partial one, as in CUTLASS's iterators: k's
 * remainder, then multiples of a tile. */
template <class Tile, int K, int Bits, int Threads, bool Left, class LayoutOf>
class trp_narrow_copies
{
  public:
    using Element = uint8_t;
    using Layout = LayoutOf;
    using AccessType = cutlass::AlignedArray<uint8_t, 16>;
    using TensorCoord = cutlass::MatrixCoord;
    using Pointer = uint8_t *;
    static constexpr int kAccessesPerVector = 1;
    struct ThreadMap {
        static constexpr int kElementsPerAccess = 16;
        struct Iterations {
            static constexpr int kCount = Tile::Count / Threads;
        };
    };
    static_assert(Tile::Count % Threads == 0, "each thread copies as much");

    struct Params {
        int64_t line; /* bytes from one to the next */
        trp_groups groups;

        Params() = default;
        /* Constructed from the leading dimension of a product; the values are set afterwards. */
        template <class Stride> CUTLASS_DEVICE Params(Stride const &)
        {
        }
    };

  private:
    Params const &params_;
    uint8_t const *from_;
    int lines_, first_line_; /* those that there are, and the tile's first */
    int line_, chunk_;       /* this thread's first */
    int k_, first_, extent_; /* of the tile; the end of the first one; of all */
    int access_ = 0;
    bool cleared_ = false;

  public:
    CUTLASS_DEVICE trp_narrow_copies(Params const &params, Pointer from, TensorCoord extent,
                                     int thread, TensorCoord const &offset, int const * = nullptr)
        : params_(params), from_(from), lines_(Left ? extent.row() : extent.column()),
          first_line_(Left ? offset.row() : offset.column()),
          line_(first_line_ + thread / Tile::Chunks), chunk_(thread % Tile::Chunks),
          k_(Left ? offset.column() : offset.row()), extent_(Left ? extent.column() : extent.row())
    {
        const int rest = (extent_ - k_) % K;
        first_ = k_ + (rest ? rest : K);
    }

    /* Where the operand and its tiles are. */
    CUTLASS_DEVICE trp_groups const &groups() const
    {
        return params_.groups;
    }
    CUTLASS_DEVICE int first_line() const
    {
        return first_line_;
    }
    CUTLASS_DEVICE int k() const
    {
        return k_;
    }
    CUTLASS_DEVICE int first_end() const
    {
        return first_;
    }
    CUTLASS_DEVICE int end() const
    {
        return extent_;
    }

    CUTLASS_DEVICE void set_iteration_index(int index)
    {
        access_ = index;
    }
    CUTLASS_DEVICE int line() const
    {
        return line_ + access_ * (Threads / Tile::Chunks);
    }
    CUTLASS_DEVICE AccessType *get() const
    {
        const int64_t at = line() * params_.line + int64_t(k_) * Bits / 8 + chunk_ * 16;
        return reinterpret_cast<AccessType *>(const_cast<uint8_t *>(from_ + at));
    }
    CUTLASS_DEVICE bool valid() const
    {
        const int k = k_ + chunk_ * (128 / Bits);
        return !cleared_ && line() < lines_ && k < (k_ < first_ ? first_ : extent_);
    }
    CUTLASS_DEVICE trp_narrow_copies &operator++()
    {
        access_++;
        return *this;
    }
    CUTLASS_DEVICE void clear_mask(bool clear = true)
    {
        cleared_ = cleared_ || clear;
    }
    /* Always by one tile along k. */
    CUTLASS_DEVICE void add_tile_offset(TensorCoord const &)
    {
        k_ = k_ < first_ ? first_ : k_ + K;
    }
};

/* The destinations of a thread's copies. */
template <class Tile, int Threads, bool Left> class trp_narrow_places
{
    uint8_t *to_;
    int access_ = 0;
    int place_;

  public:
    using AccessType = cutlass::AlignedArray<uint8_t, 16>;

    template <class Ref>
    CUTLASS_DEVICE trp_narrow_places(Ref ref, int thread)
        : to_(reinterpret_cast<uint8_t *>(ref.data())),
          place_(Tile::chunk(thread / Tile::Chunks, thread % Tile::Chunks))
    {
        static_assert(Threads / Tile::Chunks % 8 == 0, "chunks are turned alike in each access");
    }
    CUTLASS_DEVICE void set_iteration_index(int index)
    {
        access_ = index;
    }
    CUTLASS_DEVICE AccessType *get() const
    {
        return reinterpret_cast<AccessType *>(to_ + place_ +
                                              access_ * (Threads / Tile::Chunks) * Tile::Line);
    }
    CUTLASS_DEVICE trp_narrow_places &operator++()
    {
        access_++;
        return *this;
    }
    CUTLASS_DEVICE void add_tile_offset(cutlass::MatrixCoord const &by)
    {
        to_ += (Left ? by.column() : by.row()) * Tile::Bytes;
    }
};

/* Loads a factor or zero point if the line exists; else keeps the previous value. */
CUTLASS_DEVICE void trp_load_factor(uint32_t &to, uint16_t const *from, bool there)
{
    asm("{.reg .pred p;\n"
        " setp.ne.b32 p, %2, 0;\n"
        " @p ld.global.nc.u16 %0, [%1];}"
        : "+r"(to)
        : "l"(from), "r"((int)there));
}

/* The factors of a thread's lines (each eighth line of a warp) for the groups that steps pass
 * through. The next group's are loaded when a group begins; groups begin at multiples of two steps.
 * The code has no branch, so that it overlaps with the products. */
template <int Count, int K, bool Zeros> class trp_group_factors
{
    static constexpr int Pair = 32; /* k of two steps */

    uint16_t const *scale_ = nullptr, *zero_ = nullptr; /* this thread's, of the group to load */
    int64_t lines_ = 0;
    uint32_t mine_ = 0;                /* a bit for each line that there is */
    int groups_ = 0;                   /* that are still to be loaded */
    int pairs_ = 0, left_ = 0;         /* of steps: of a group; of this one */
    int pair_ = 0, gap_ = 0, end_ = 0; /* of the first tile: where what there is not begins, ends */
    uint32_t factor_[Count], next_[Count], next_zero_[Zeros ? Count : 1];

    CUTLASS_DEVICE void load_next(bool wanted)
    {
        wanted = wanted && groups_ > 0;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Count; i++) {
            const bool there = wanted && (mine_ >> i & 1);
            trp_load_factor(next_[i], scale_ + i * 8, there);
            if constexpr (Zeros)
                trp_load_factor(next_zero_[i], zero_ + i * 8, there);
        }
        groups_ -= wanted;
        scale_ += wanted ? lines_ : 0;
        if constexpr (Zeros)
            zero_ += wanted ? lines_ : 0;
    }
    CUTLASS_DEVICE void take_next(bool wanted)
    {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Count; i++) {
            uint32_t word = next_[i];
            if constexpr (Zeros)
                word = __byte_perm(word, next_zero_[i], 0x5410);
            factor_[i] = wanted ? word : factor_[i];
        }
    }

  public:
    /* Of lines from `line` on, and steps from `k` to `end`, whose first tile ends at `first`. */
    CUTLASS_DEVICE void begin(trp_groups const &groups, int line, int k, int first, int end)
    {
        const int group = k / groups.size;
        const int64_t at = blockIdx.z * groups.batch + (int64_t)group * groups.lines + line;
        scale_ = groups.scale + at;
        zero_ = groups.zero + at;
        lines_ = groups.lines;
        groups_ = (end - 1) / groups.size + 1 - group;
        pairs_ = (groups.size - 1) / Pair + 1;
        left_ = pairs_ - (k - group * groups.size) / Pair;
        gap_ = (first - k - 1) / Pair + 1;
        end_ = K / Pair;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Count; i++) {
            mine_ |= uint32_t(line + i * 8 < groups.lines) << i;
            factor_[i] = next_[i] = 0;
            if constexpr (Zeros)
                next_zero_[i] = 0;
        }
        load_next(true);
        take_next(true);
        load_next(true);
    }
    /* Returns the factors of the next two steps. They are zero after the end of the first tile and
     * stay zero. */
    CUTLASS_DEVICE void get(uint32_t to[Count])
    {
        const bool there = pair_ < gap_ || pair_ >= end_, renew = there && left_ == 0;
        take_next(renew);
        load_next(renew);
        left_ = (renew ? pairs_ : left_) - there;
        pair_++;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Count; i++)
            to[i] = there ? factor_[i] : 0;
    }
};

/* A thread's narrow elements for one step of mma.sync (k of 16): from every eighth line those of
 * its two columns of k and of the two that are 8 further, in the low bits of a word; and, in
 * another word, the line's factor and (high) zero point. */
template <int Lines, bool Factors> struct trp_narrow_fragment {
    static constexpr int Count = Lines / 8;
    uint32_t element[Count];
    uint32_t factor[Factors ? Count : 1];
};

/* Reads the fragments of a warp, step by step. */
template <class Tile, int Lines, int K, int Bits, bool Left, bool Factors, bool Zeros>
class trp_narrow_steps
{
  public:
    using Fragment = trp_narrow_fragment<Lines, Factors>;

  private:
    static constexpr int Steps = K / 16; /* of a tile */

    uint8_t const *from_; /* of the tile, the warp's lines */
    int line_, column_;   /* of this thread: among eight lines; pairs of elements */
    int step_ = 0, warp_ = 0;
    trp_group_factors<Fragment::Count, K, Zeros> factors_;
    uint32_t factor_[Factors ? Fragment::Count : 1];

  public:
    template <class Ref>
    CUTLASS_DEVICE trp_narrow_steps(Ref ref, int lane)
        : from_(reinterpret_cast<uint8_t const *>(ref.data())), line_(lane / 4), column_(lane % 4)
    {
    }
    /* Which tile of the operand this is: what copies it says. */
    template <class Copies> CUTLASS_DEVICE void place(Copies const &copies)
    {
        factors_.begin(copies.groups(), copies.first_line() + warp_ * Lines + line_, copies.k(),
                       copies.first_end(), copies.end());
    }
    CUTLASS_DEVICE void set_kgroup_index(int step)
    {
        step_ = step;
    }
    CUTLASS_DEVICE void load(Fragment &to)
    {
        uint8_t const *at = from_ + Tile::chunk(line_, step_ * 16 * Bits / 128) +
                            column_ * Bits / 4 + (Bits == 4 ? step_ % 2 * 8 : 0);
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Fragment::Count; i++, at += 8 * Tile::Line) {
            if constexpr (Bits == 4)
                to.element[i] = at[0] | (uint32_t)at[4] << 8;
            else
                to.element[i] = *reinterpret_cast<uint16_t const *>(at) |
                                (uint32_t) * reinterpret_cast<uint16_t const *>(at + 8) << 16;
        }
        if constexpr (Factors) {
            if (step_ % 2 == 0)
                factors_.get(factor_);
            CUTLASS_PRAGMA_UNROLL
            for (int i = 0; i < Fragment::Count; i++)
                to.factor[i] = factor_[i];
        }
    }
    CUTLASS_DEVICE trp_narrow_steps &operator++()
    {
        from_ += step_ == Steps - 1 ? Tile::Bytes : 0;
        return *this;
    }
    /* By steps, of whole tiles, and warps. */
    CUTLASS_DEVICE void add_tile_offset(cutlass::MatrixCoord const &by)
    {
        const int warps = Left ? by.row() : by.column();
        from_ += (Left ? by.column() : by.row()) / Steps * Tile::Bytes;
        from_ += warps * Lines * Tile::Line;
        warp_ += warps;
    }
};

/* Computes (x & mask) ^ with in one instruction: otherwise the compiler uses two because it has no
 * second immediate operand. */
template <uint32_t Mask, uint32_t With> CUTLASS_DEVICE uint32_t trp_and_xor(uint32_t x)
{
    uint32_t y;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(y) : "r"(x), "n"(Mask), "n"(With));
    return y;
}

/* Arithmetic of two elements of 16 bits, each rounded once. */
template <class Wide> struct trp_pair;

template <> struct trp_pair<cutlass::half_t> {
    CUTLASS_DEVICE static uint32_t mul(uint32_t x, uint32_t y)
    {
        uint32_t z;
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
        return z;
    }
    CUTLASS_DEVICE static uint32_t add(uint32_t x, uint32_t y)
    {
        uint32_t z;
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
        return z;
    }
    CUTLASS_DEVICE static uint32_t of_half(uint32_t x)
    {
        return x;
    }
};

template <> struct trp_pair<cutlass::bfloat16_t> {
    CUTLASS_DEVICE static uint32_t fma(uint32_t x, uint32_t y, uint32_t z)
    {
        uint32_t w;
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(w) : "r"(x), "r"(y), "r"(z));
        return w;
    }
    CUTLASS_DEVICE static uint32_t mul(uint32_t x, uint32_t y)
    {
        return fma(x, y, 0x80008000); /* -0 */
    }
    CUTLASS_DEVICE static uint32_t add(uint32_t x, uint32_t y)
    {
        return fma(x, 0x3f803f80, y); /* 1 */
    }
    /* Of values with at most 8 significant bits. */
    CUTLASS_DEVICE static uint32_t of_half(uint32_t x)
    {
        uint32_t low, high;
        asm("{.reg .b16 a, b;\n"
            " mov.b32 {a, b}, %2;\n"
            " cvt.f32.f16 %0, a;\n"
            " cvt.f32.f16 %1, b;}"
            : "=r"(low), "=r"(high)
            : "r"(x));
        return __byte_perm(low, high, 0x7632);
    }
};

/* Element<Narrow>::half(word, which): the low or the high pair of a word as f16, exactly. */
template <class Narrow> struct trp_narrow_element;

template <> struct trp_narrow_element<int8_t> {
    /* 1024 + (x + 128), less 1152 */
    CUTLASS_DEVICE static uint32_t half(uint32_t word, int which)
    {
        return trp_pair<cutlass::half_t>::add(
            __byte_perm(word ^ 0x80808080, 0x64646464, which ? 0x4342 : 0x4140), 0xe480e480);
    }
};

template <> struct trp_narrow_element<cutlass::float_e5m2_t> {
    CUTLASS_DEVICE static uint32_t half(uint32_t word, int which)
    {
        return __byte_perm(word, 0, which ? 0x3424 : 0x1404);
    }
};

template <> struct trp_narrow_element<cutlass::float_e4m3_t> {
    CUTLASS_DEVICE static uint32_t half(uint32_t word, int which)
    {
        uint32_t x;
#if __CUDA_ARCH__ >= 890
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(x) : "h"(uint16_t(which ? word >> 16 : word)));
#else
        uint32_t nan;
        x = __byte_perm(word, 0, which ? 0x3424 : 0x1404);
        x = (x & 0x80008000) | (x & 0x7f007f00) >> 1;
        x = trp_pair<cutlass::half_t>::mul(x, 0x5c005c00); /* 256: f16's bias is larger by 8 */
        /* The largest is 448; what looks like 480 is a NaN. */
        asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(nan) : "r"(x & 0x7fff7fff), "r"(0x5f005f00));
        x |= nan & 0x7fff7fff;
#endif
        return x;
    }
};

/* Whole words as pairs of Wide. */
template <class Narrow, class Wide> struct trp_widened {
    CUTLASS_DEVICE static uint32_t pair(uint32_t word, int which)
    {
        return trp_pair<Wide>::of_half(trp_narrow_element<Narrow>::half(word, which));
    }
};

/* 128 and the low seven bits, less 128 or, with the sign, 256. */
template <> struct trp_widened<int8_t, cutlass::bfloat16_t> {
    CUTLASS_DEVICE static uint32_t pair(uint32_t word, int which)
    {
        const uint32_t x = __byte_perm(word, 0, which ? 0x4342 : 0x4140);
        return trp_pair<cutlass::bfloat16_t>::fma(trp_and_xor<0x00800080, 0x43004300>(x),
                                                  0xbf80bf80,
                                                  trp_and_xor<0x007f007f, 0x43004300>(x));
    }
};

/* 2^n + (x + 8), less 2^n + 8. */
template <class Wide> struct trp_widened<cutlass::int4b_t, Wide> {
    static constexpr bool Half = cutlass::platform::is_same<Wide, cutlass::half_t>::value;
    static constexpr uint32_t Base = Half ? 0x64086408 : 0x43084308; /* 1024 + 8, 128 + 8 */

    CUTLASS_DEVICE static uint32_t pair(uint32_t word, int which)
    {
        const uint32_t apart = which ? word >> 8 | word << 4 : word | word << 12;
        return trp_pair<Wide>::add(trp_and_xor<0x000f000f, Base>(apart), Base | 0x80008000);
    }
};

/* A warp's product with one narrow operand. */
template <class Like, class Narrow, class Wide, class Steps, bool Left, bool Factors, bool Zeros>
struct trp_mixed_warp : Like {
    template <bool Mine, class T, class U>
    using pick = cutlass::platform::conditional_t<Mine, T, U>;
    using ElementA = pick<Left, Narrow, typename Like::ElementA>;
    using ElementB = pick<Left, typename Like::ElementB, Narrow>;
    using LayoutA = pick<Left, cutlass::layout::RowMajor, typename Like::LayoutA>;
    using LayoutB = pick<Left, typename Like::LayoutB, cutlass::layout::ColumnMajor>;
    using IteratorA = pick<Left, Steps, typename Like::IteratorA>;
    using IteratorB = pick<Left, typename Like::IteratorB, Steps>;
    using FragmentA = typename IteratorA::Fragment;
    using FragmentB = typename IteratorB::Fragment;
    using Fragment = typename Steps::Fragment;

    /* Of A's fragment of 16 lines a thread has the low pairs of both of its lines, then the high
     * pairs; of B's of 8 lines the low and the high pair. */
    CUTLASS_DEVICE static void widen(void *to, Fragment const &from)
    {
        uint32_t *words = static_cast<uint32_t *>(to);
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < Fragment::Count; i++) {
            CUTLASS_PRAGMA_UNROLL
            for (int which = 0; which < 2; which++) {
                uint32_t x = trp_widened<Narrow, Wide>::pair(from.element[i], which);
                if constexpr (Factors)
                    x = trp_pair<Wide>::mul(x, __byte_perm(from.factor[i], 0, 0x1010));
                if constexpr (Zeros)
                    x = trp_pair<Wide>::add(x, __byte_perm(from.factor[i], 0, 0x3232));
                words[Left ? i / 2 * 4 + which * 2 + i % 2 : i * 2 + which] = x;
            }
        }
    }

    CUTLASS_DEVICE void transform(typename Like::TransformedFragmentA &to_a,
                                  typename Like::TransformedFragmentB &to_b, FragmentA const &a,
                                  FragmentB const &b) const
    {
        if constexpr (Left) {
            widen(&to_a, a);
            to_b = b;
        } else {
            to_a = a;
            widen(&to_b, b);
        }
    }
};
