/* What a thread of a kernel makes at a time: a chunk of at least 16 bytes, from whole blocks of
 * words. A maker has the bytes and words of an element, and make(), which computes the chunk's
 * words in memory from `word`; `block` is the number of the first block. */
#ifndef TRP_ACTORS_RANDOM_KERNELS_MAKERS_CUH
#define TRP_ACTORS_RANDOM_KERNELS_MAKERS_CUH

#include "actors/random/kernels/problem.h"
#include "actors/random/law/elements.h"
#include "compile/kernel.cuh"

/* An element of a chunk takes BYTES_ in memory and WORDS_ of the stream. */
template <int BYTES_, int WORDS_> struct trp__random_chunk {
    enum {
        BYTES = BYTES_,
        WORDS = WORDS_,
        BLOCKS = BYTES >= 4 * WORDS ? 1 : 4 * WORDS / BYTES,
        TAKEN = 4 * BLOCKS, /* words of the stream */
        ELEMENTS = TAKEN / WORDS,
        OUT = ELEMENTS * BYTES / 4, /* words in memory */
    };
};

/* Sets numbers k and k + 1 of a chunk of f32, f16 or bf16. */
template <int TYPE> TRP__DEVICE void trp__random_set(uint32_t *out, int k, float a, float b)
{
    if constexpr (TYPE == TRP_F32) {
        out[k] = trp__f32_bits(a);
        out[k + 1] = trp__f32_bits(b);
    } else if constexpr (TYPE == TRP_F16) {
        out[k / 2] = trp__half_pair(a, b);
    } else {
        out[k / 2] = trp__bfloat_pair(a, b);
    }
}

template <int TYPE> TRP__DEVICE void trp__random_set(uint32_t *out, int k, double a, double b)
{
    if constexpr (TYPE == TRP_F32) {
        trp__random_set<TYPE>(out, k, (float)a, (float)b);
    } else if constexpr (TYPE == TRP_F16) {
        out[k / 2] = trp__f64_to_f16(a) | (uint32_t)trp__f64_to_f16(b) << 16;
    } else {
        out[k / 2] = trp__f64_to_bf16(a) | (uint32_t)trp__f64_to_bf16(b) << 16;
    }
}

TRP__DEVICE void trp__random_set_64(uint32_t *out, int k, uint64_t bits)
{
    out[2 * k] = (uint32_t)bits;
    out[2 * k + 1] = (uint32_t)(bits >> 32);
}

template <int TYPE> TRP__DEVICE constexpr int trp__random_bytes()
{
    return TYPE == TRP_F32 ? 4 : 2;
}

struct trp__random_bits : trp__random_chunk<4, 1> {
    TRP__DEVICE trp__random_bits(const trp__random_launch &, uint64_t)
    {
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        TRP__EACH(i, TAKEN)
            out[i] = word[i];
    }
};

/* Rejected words are rare where the range is much smaller than that of the words. */
TRP__SHARED_CODE uint64_t trp__random_next_try_far(const trp__random_launch &p, uint64_t seed,
                                                   uint64_t block, int at)
{
    return trp__random_next_try(&p.g, seed, block, at);
}

template <int BYTES_> struct trp__random_integers : trp__random_chunk<BYTES_, 1> {
    typedef trp__random_chunk<BYTES_, 1> chunk;
    const trp__random_launch &p;
    const uint64_t seed;
    TRP__DEVICE trp__random_integers(const trp__random_launch &of, uint64_t key) : p(of), seed(key)
    {
    }
    TRP__DEVICE void make(uint64_t block, const uint32_t *word, uint32_t *out) const
    {
        const uint32_t range = (uint32_t)p.g.whole[1], limit = (uint32_t)p.g.limit;
        TRP__EACH(i, chunk::OUT)
            out[i] = 0;
        TRP__EACH(i, chunk::TAKEN) {
            uint32_t value;
            if (!trp__random_try_32(word[i], range, limit, &value))
                value = (uint32_t)trp__random_next_try_far(p, seed, block + i / 4, i % 4);
            value += (uint32_t)p.g.whole[0];
            if constexpr (BYTES_ == 4)
                out[i] = value;
            else
                out[i / 4] |= (value & 0xff) << i % 4 * 8;
        }
    }
};

struct trp__random_integers_64 : trp__random_chunk<8, 2> {
    const trp__random_launch &p;
    const uint64_t seed;
    TRP__DEVICE trp__random_integers_64(const trp__random_launch &of, uint64_t key)
        : p(of), seed(key)
    {
    }
    TRP__DEVICE void make(uint64_t block, const uint32_t *word, uint32_t *out) const
    {
        TRP__EACH(i, ELEMENTS) {
            uint64_t value;
            if (!trp__random_try_64(trp__random_pair(word + 2 * i), p.g.whole[1], p.g.limit,
                                    &value))
                value = trp__random_next_try_far(p, seed, block, 2 * i);
            trp__random_set_64(out, i, p.g.whole[0] + value);
        }
    }
};

template <int TYPE> struct trp__random_uniform
    : trp__random_chunk<trp__random_bytes<TYPE>(), 1> {
    typedef trp__random_chunk<trp__random_bytes<TYPE>(), 1> chunk;
    const trp__random_uniform_f32 u;
    /* From 0 to 1, without rounding to the nearest: nothing is to be scaled, and limits hold. */
    const bool plain;
    TRP__DEVICE trp__random_uniform(const trp__random_launch &p, uint64_t)
        : u(trp__random_uniform_f32_of(&p.g)),
          plain(u.low == 0 && u.width == 1 && u.half == 0 && u.add == 0)
    {
    }
    TRP__DEVICE float number(uint32_t word) const
    {
        return fmaf((float)(int32_t)(word >> u.shift), u.unit, u.bias);
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        if (plain) {
            TRP__EACH(i, chunk::TAKEN / 2)
                trp__random_set<TYPE>(out, 2 * i, number(word[2 * i]), number(word[2 * i + 1]));
            return;
        }
        TRP__EACH(i, chunk::TAKEN / 2)
            trp__random_set<TYPE>(out, 2 * i, trp__random_uniform_f32_at(&u, word[2 * i]),
                                  trp__random_uniform_f32_at(&u, word[2 * i + 1]));
    }
};

struct trp__random_uniform_64 : trp__random_chunk<8, 2> {
    const trp__random_launch &p;
    const trp__random_cut cut;
    TRP__DEVICE trp__random_uniform_64(const trp__random_launch &of, uint64_t)
        : p(of), cut(trp__random_cut_for(of.g.ends, 53, 64))
    {
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        TRP__EACH(i, ELEMENTS)
            trp__random_set_64(out, i,
                               trp__random_bits_of(trp__random_uniform_f64_at(
                                   &p.g, cut, trp__random_pair(word + 2 * i))));
    }
};

template <int TYPE> struct trp__random_normal : trp__random_chunk<trp__random_bytes<TYPE>(), 1> {
    typedef trp__random_chunk<trp__random_bytes<TYPE>(), 1> chunk;
    const float re, im, scale;
    TRP__DEVICE trp__random_normal(const trp__random_launch &p, uint64_t)
        : re((float)p.g.number[0]), im((float)p.g.number[1]), scale((float)p.g.number[2])
    {
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        TRP__EACH(i, chunk::TAKEN / 2) {
            float z[2];
            trp__random_normal_f32_two(word[2 * i], word[2 * i + 1], z);
            trp__random_set<TYPE>(out, 2 * i, fmaf(scale, z[0], re), fmaf(scale, z[1], im));
        }
    }
};

struct trp__random_normal_64 : trp__random_chunk<8, 2> {
    const double re, im, scale;
    TRP__DEVICE trp__random_normal_64(const trp__random_launch &p, uint64_t)
        : re(p.g.number[0]), im(p.g.number[1]), scale(p.g.number[2])
    {
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        double z[2];
        trp__random_normal_two(trp__random_pair(word), trp__random_pair(word + 2), z);
        trp__random_set_64(out, 0, trp__random_bits_of(fma(scale, z[0], re)));
        trp__random_set_64(out, 1, trp__random_bits_of(fma(scale, z[1], im)));
    }
};

/* BERNOULLI and DROPOUT. */
template <int BYTES_> struct trp__random_two_values : trp__random_chunk<BYTES_, 1> {
    typedef trp__random_chunk<BYTES_, 1> chunk;
    const uint64_t hit, miss;
    const uint32_t limit;
    const bool all;
    TRP__DEVICE trp__random_two_values(const trp__random_launch &p, uint64_t)
        : hit(p.g.whole[0]), miss(p.g.whole[1]), limit((uint32_t)p.g.limit),
          all(p.g.limit > UINT32_MAX)
    {
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        enum { OF_WORD = BYTES_ < 4 ? 4 / BYTES_ : 1 };
        TRP__EACH(i, chunk::OUT)
            out[i] = 0;
        TRP__EACH(i, chunk::TAKEN) {
            const uint64_t value = word[i] < limit || all ? hit : miss;
            if constexpr (BYTES_ == 8)
                trp__random_set_64(out, i, value);
            else
                out[i / OF_WORD] |= (uint32_t)value << i % OF_WORD * BYTES_ * 8;
        }
    }
};

/* A branch for all elements of a launch; its code is there once. */
TRP__SHARED_CODE double trp__random_transform_far(int distribution, double v, double loc,
                                                  double scale)
{
    return trp__random_transform(distribution, v, loc, scale);
}

template <int TYPE> struct trp__random_others : trp__random_chunk<trp__random_bytes<TYPE>(), 1> {
    typedef trp__random_chunk<trp__random_bytes<TYPE>(), 1> chunk;
    const trp__random &g;
    TRP__DEVICE trp__random_others(const trp__random_launch &p, uint64_t) : g(p.g)
    {
    }
    TRP__DEVICE double number(double v) const
    {
        return trp__random_transform_far(g.distribution, v, g.number[0], g.number[2]);
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        TRP__EACH(i, chunk::TAKEN / 2) {
            double v[2];
            if (g.distribution == TRP_RANDOM_LOGNORMAL) {
                float z[2];
                trp__random_normal_f32_two(word[2 * i], word[2 * i + 1], z);
                v[0] = (double)z[0];
                v[1] = (double)z[1];
            } else {
                v[0] = trp__random_fraction_of_32(word[2 * i]);
                v[1] = trp__random_fraction_of_32(word[2 * i + 1]);
            }
            trp__random_set<TYPE>(out, 2 * i, number(v[0]), number(v[1]));
        }
    }
};

struct trp__random_others_64 : trp__random_chunk<8, 2> {
    const trp__random &g;
    TRP__DEVICE trp__random_others_64(const trp__random_launch &p, uint64_t) : g(p.g)
    {
    }
    TRP__DEVICE void make(uint64_t, const uint32_t *word, uint32_t *out) const
    {
        double v[2];
        if (g.distribution == TRP_RANDOM_LOGNORMAL) {
            trp__random_normal_two(trp__random_pair(word), trp__random_pair(word + 2), v);
        } else {
            v[0] = trp__random_fraction_of_64(trp__random_pair(word));
            v[1] = trp__random_fraction_of_64(trp__random_pair(word + 2));
        }
        TRP__EACH(i, 2)
            trp__random_set_64(out, i,
                               trp__random_bits_of(trp__random_transform_far(
                                   g.distribution, v[i], g.number[0], g.number[2])));
    }
};

#endif
