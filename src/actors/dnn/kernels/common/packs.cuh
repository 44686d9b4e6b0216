/* Elements of a type that is known at compile time, stored as in memory. A pack is V elements that
 * follow each other. It takes a register for each 4 bytes, and an element becomes f32 when it is
 * used. TYPE TRP_DTYPE_NONE: one element whose type is known at run time only. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_PACKS_CUH

#include "actors/dnn/kernels/common/rows.cuh"

/* Returns the larger of two f32, or the larger of the lower and of the upper halves of two words of
 * 16-bit numbers. NaN is larger than all numbers or, without NAN_FIRST, smaller. */
template <int TYPE, bool NAN_FIRST> TRP__DEVICE uint32_t trp__pack_most(uint32_t a, uint32_t b)
{
#ifdef __CUDACC_RTC__
    uint32_t out;
    if constexpr (TYPE == TRP_F32 && NAN_FIRST)
        asm("max.NaN.f32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    else if constexpr (TYPE == TRP_F32)
        asm("max.f32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    else if constexpr (TYPE == TRP_BF16 && NAN_FIRST)
        asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    else if constexpr (TYPE == TRP_BF16)
        asm("max.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    else if constexpr (NAN_FIRST)
        asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    else
        asm("max.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
#else
    uint32_t out = 0;
    for (int shift = 0; shift < 32; shift += TYPE == TRP_F32 ? 32 : 16) {
        const uint32_t mask = TYPE == TRP_F32 ? 0xffffffffu : 0xffffu;
        const uint32_t bits[2] = {a >> shift & mask, b >> shift & mask};
        float v[2];
        for (int i = 0; i < 2; i++)
            v[i] = TYPE == TRP_F32    ? trp__f32_from_bits(bits[i])
                   : TYPE == TRP_BF16 ? trp__f32_from_bits(bits[i] << 16)
                                      : trp__half_value((uint16_t)bits[i]);
        const bool second = v[0] != v[0]   ? !NAN_FIRST
                            : v[1] != v[1] ? NAN_FIRST
                                           : v[1] > v[0];
        out |= bits[second] << shift;
    }
    return out;
#endif
}

/* The unsigned integer that holds the bits of an element. */
template <int TYPE> struct trp__stored {
    typedef uint16_t word;
};
template <> struct trp__stored<TRP_F32> {
    typedef uint32_t word;
};
template <int TYPE> TRP__DEVICE float trp__stored_value(uint32_t bits)
{
    return TYPE == TRP_F32   ? trp__f32_from_bits(bits)
           : TYPE == TRP_F16 ? trp__half_value((uint16_t)bits)
                             : trp__f32_from_bits(bits << 16);
}

template <int TYPE, int V> struct trp__pack {
    enum { SIZE = TYPE == TRP_F32 ? 4 : 2, WORDS = V * SIZE / 4, ELEMENTS = V };
    uint32_t word[WORDS];

    /* Loads the pack that begins at element i of an operand, which is aligned to the bytes of a
     * pack, at most 16. */
    TRP__DEVICE void load(uint64_t address, int64_t i, uint8_t type)
    {
        (void)type;
        if constexpr (WORDS == 2) {
            take(trp__at<uint64_t>(address + (uint64_t)i * SIZE, 0));
        } else {
            TRP__EACH(k, WORDS / 4) {
                const trp__pack16 q = trp__at<trp__pack16>(address + (uint64_t)i * SIZE, k);
                TRP__EACH(j, 4)
                    word[4 * k + j] = q.word[j];
            }
        }
    }
    /* Takes the bytes of a pack, unconverted. */
    TRP__DEVICE void take(const trp__pack16 &q)
    {
        static_assert(WORDS == 4, "as many");
        TRP__EACH(k, WORDS)
            word[k] = q.word[k];
    }
    TRP__DEVICE void take(uint64_t q)
    {
        static_assert(WORDS == 2, "as many");
        word[0] = (uint32_t)q;
        word[1] = (uint32_t)(q >> 32);
    }
    TRP__DEVICE void give(trp__pack16 *to) const
    {
        static_assert(WORDS == 4, "as many");
        TRP__EACH(k, WORDS)
            to->word[k] = word[k];
    }
    TRP__DEVICE void clear()
    {
        TRP__EACH(k, WORDS)
            word[k] = 0;
    }
    TRP__DEVICE void fill(float value)
    {
        float v[V];
        TRP__EACH(k, V)
            v[k] = value;
        set(v);
    }
    /* Returns the largest element. NaN is larger than all numbers or, without NAN_FIRST, smaller.
     */
    template <bool NAN_FIRST> TRP__DEVICE float most() const
    {
        uint32_t w = word[0];
        TRP__UNROLL
        for (int k = 1; k < WORDS; k++)
            w = trp__pack_most<TYPE, NAN_FIRST>(w, word[k]);
        trp__pack out;
        out.word[0] = SIZE == 4 ? w : trp__pack_most<TYPE, NAN_FIRST>(w, w >> 16 | w << 16);
        return out.get(0);
    }
    /* Inverts these bits of all words. */
    TRP__DEVICE void flip(uint32_t bits)
    {
        TRP__EACH(k, WORDS)
            word[k] ^= bits;
    }
    /* Makes the compiler convert anew from here on. It would hold what get() returned for the
     * next pass over the pack, in twice as many registers. */
    TRP__DEVICE void forget()
    {
#ifdef __CUDACC_RTC__
        TRP__EACH(k, WORDS)
            asm volatile("" : "+r"(word[k]));
#endif
    }
    TRP__DEVICE float get(int j) const
    {
        if constexpr (TYPE == TRP_F32)
            return trp__f32_from_bits(word[j]);
        else if constexpr (TYPE == TRP_BF16)
            return trp__f32_from_bits(j % 2 ? word[j / 2] & 0xffff0000u : word[j / 2] << 16);
        else
            return trp__half_value((uint16_t)(j % 2 ? word[j / 2] >> 16 : word[j / 2]));
    }
    /* Copies element i of an operand to element j of the pack, unconverted. */
    TRP__DEVICE void put(int j, uint64_t address, int64_t i)
    {
        if constexpr (SIZE == 4) {
            word[j] = trp__at<uint32_t>(address, i);
        } else {
            const uint32_t half = trp__at<uint16_t>(address, i), old = word[j / 2];
            word[j / 2] = j % 2 ? (old & 0xffffu) | half << 16 : (old & 0xffff0000u) | half;
        }
    }
    /* Writes element j of the pack to element i of an operand, unconverted. */
    TRP__DEVICE void take(int j, uint64_t address, int64_t i) const
    {
        if constexpr (SIZE == 4)
            trp__to<uint32_t>(address, i) = word[j];
        else
            trp__to<uint16_t>(address, i) = (uint16_t)(word[j / 2] >> (j % 2 * 16));
    }
    TRP__DEVICE void set(const float v[V])
    {
        TRP__EACH(k, WORDS) {
            if constexpr (TYPE == TRP_F32)
                word[k] = trp__f32_bits(v[k]);
            else
                word[k] = TYPE == TRP_BF16 ? trp__bfloat_pair(v[2 * k], v[2 * k + 1])
                                           : trp__half_pair(v[2 * k], v[2 * k + 1]);
        }
    }
    TRP__DEVICE void store(uint64_t address, int64_t i, uint8_t type) const
    {
        (void)type;
        if constexpr (WORDS == 2) {
            trp__to<uint64_t>(address + (uint64_t)i * SIZE, 0) = word[0] | (uint64_t)word[1] << 32;
        } else {
            TRP__EACH(k, WORDS / 4)
                trp__store16(address + (uint64_t)i * SIZE + k * 16, word + 4 * k);
        }
    }
};

/* The type that copies a pack of BYTES. */
template <int BYTES> struct trp__raw {
    typedef trp__pack16 type;
};
template <> struct trp__raw<8> {
    typedef uint64_t type;
};

/* One element. */
template <int TYPE> struct trp__pack<TYPE, 1> {
    enum { ELEMENTS = 1 };
    float value;

    TRP__DEVICE void load(uint64_t address, int64_t i, uint8_t type)
    {
        (void)type;
        value = trp__load_float<float>(address, i, TYPE == TRP_DTYPE_NONE ? type : TYPE);
    }
    TRP__DEVICE void clear()
    {
        value = 0;
    }
    TRP__DEVICE float get(int) const
    {
        return value;
    }
    TRP__DEVICE void set(const float v[1])
    {
        value = v[0];
    }
    TRP__DEVICE void store(uint64_t address, int64_t i, uint8_t type) const
    {
        (void)type;
        trp__store_float<float>(address, i, TYPE == TRP_DTYPE_NONE ? type : TYPE, value);
    }
};

#endif
