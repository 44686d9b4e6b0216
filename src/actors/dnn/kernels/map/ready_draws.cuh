/* Random numbers alone: the programs of ready.h that draw and store. A thread makes 16 bytes at a
 * time, so that terms that follow from the seed are computed once. The bits are those of
 * trp__map_drawn(). */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_READY_DRAWS_CUH
#define TRP_ACTORS_DNN_KERNELS_MAP_READY_DRAWS_CUH

#include "actors/dnn/kernels/map/operands.cuh"
#include "actors/dnn/kernels/common/packs.cuh"
#include "actors/dnn/kernels/map/ready.h"

/* Tells whether two numbers of 16 bits are compared by one instruction. */
template <int TYPE> TRP__DEVICE constexpr bool trp__draws_has_min()
{
#ifdef __CUDACC_RTC__
    return TYPE != TRP_F32;
#else
    return false;
#endif
}

/* Limits the numbers of a pack to `most`, a number of the type. */
template <int TYPE> TRP__DEVICE void trp__draws_min(uint32_t word[4], float most)
{
#ifdef __CUDACC_RTC__
    const uint32_t both = TYPE == TRP_BF16 ? trp__bfloat_pair(most, most) : trp__half_pair(most, most);
    TRP__EACH(k, 4) {
        if constexpr (TYPE == TRP_BF16)
            asm("min.bf16x2 %0, %0, %1;" : "+r"(word[k]) : "r"(both));
        else
            asm("min.f16x2 %0, %0, %1;" : "+r"(word[k]) : "r"(both));
    }
#else
    (void)word;
    (void)most;
#endif
}

/* Numbers that are the same for all elements of a launch. */
template <int MODE> struct trp__draws {
    float low, span, most; /* UNIFORM */
    trp__normal normal;
    uint32_t last; /* BERNOULLI: the last word that gives 1 */
    float one;     /* the result of such words; 0 if there are none */
    uint32_t key[2], counter[4];

    TRP__DEVICE trp__draws(const trp__map &m)
        : low((float)m.number[2]), span((float)(m.number[3] * 0x1p-24)), most((float)m.number[4]),
          normal(trp__normal_of(m.number[2], m.number[3])),
          last(((uint32_t)m.number[2] << 8) - 1), one(m.number[2] > 0 ? 1.0f : 0.0f)
    {
        const uint64_t seed = trp__map_word(m, TRP__MAP_NUMBER);
        const uint64_t offset = trp__map_word(m, TRP__MAP_NUMBER + 1);
        const uint64_t number = m.operand[0].at / 4;
        key[0] = (uint32_t)seed;
        key[1] = (uint32_t)(seed >> 32);
        counter[0] = (uint32_t)number;
        counter[1] = (uint32_t)(number >> 32);
        counter[2] = (uint32_t)offset;
        counter[3] = (uint32_t)(offset >> 32);
    }
    /* Draws the words of V elements, the first of which is element i of the launch. A launch begins
     * at a multiple of 2^30 elements and has at most as many, so the upper word of the number of a
     * block of words is the same for all. The compiler computes the part of Philox that follows
     * from it once. */
    template <int V> TRP__DEVICE void words(uint32_t i, uint32_t word[V]) const
    {
        TRP__UNROLL
        for (int k = 0; k < V; k += 4) {
            const uint32_t block[4] = {counter[0] + (i + (uint32_t)k) / 4, counter[1], counter[2],
                                       counter[3]};
            trp__philox(block, key, word + k);
        }
    }
    /* Returns the lesser of x and `most`. Numbers of 16 bits are limited two at a time instead,
     * once they are rounded. */
    template <int TYPE> TRP__DEVICE float clamp(float x) const
    {
        return trp__draws_has_min<TYPE>() ? x : fmin(x, most);
    }
    /* Draws the numbers of a pack, the first of which is element i of the launch. */
    template <int TYPE, int V> TRP__DEVICE void make(uint32_t i, trp__pack<TYPE, V> *out) const
    {
        uint32_t word[V];
        float v[V];
        words<V>(i, word);
        TRP__UNROLL
        for (int k = 0; k < V; k += 2) {
            if constexpr (MODE == TRP_DNN_NORMAL) {
                trp__normal_two(normal, word[k], word[k + 1], v + k);
            } else if constexpr (MODE == TRP_DNN_BERNOULLI) {
                v[k] = word[k] <= last ? one : 0.0f;
                v[k + 1] = word[k + 1] <= last ? one : 0.0f;
            } else {
                v[k] = clamp<TYPE>(fma(span, (float)(word[k] >> 8), low));
                v[k + 1] = clamp<TYPE>(fma(span, (float)(word[k + 1] >> 8), low));
            }
        }
        out->set(v);
        if constexpr (MODE == TRP_DNN_UNIFORM && trp__draws_has_min<TYPE>())
            trp__draws_min<TYPE>(out->word, most);
    }
};

template <int MODE, int TYPE> TRP__DEVICE void trp__draw(const trp__map &m)
{
    enum { V = TYPE == TRP_F32 ? 4 : 8 };
    const uint64_t y = m.operand[1].at;
    const trp__draws<MODE> draws(m);
    const uint32_t step = gridDim.x * blockDim.x * V, whole = m.count / V * V;
    const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    trp__pack<TYPE, V> pack;
    for (uint32_t i = first; i < whole; i += step) {
        draws.make(i, &pack);
        pack.store(y, i, TYPE);
    }
    if (first != whole % step || whole == m.count)
        return;
    draws.make(whole, &pack);
    TRP__EACH(k, V) {
        if (whole + (uint32_t)k < m.count)
            pack.take(k, y, whole + (uint32_t)k);
    }
}

#define TRP__DRAWS_KERNEL(name, mode, suffix, type)                                                \
    TRP__ENTRY(trp_##name##_##suffix, trp__map, (TRP__READY_DRAW_THREADS),                         \
               trp__draw<(mode)&TRP__MAP_RANDOM_MODES, type>)
#define TRP__DRAWS_PROGRAM(name, program, mode)                                                    \
    TRP__DRAWS_KERNEL(name, mode, f32, TRP_F32)                                                    \
    TRP__DRAWS_KERNEL(name, mode, bf16, TRP_BF16)                                                  \
    TRP__DRAWS_KERNEL(name, mode, f16, TRP_F16)

/* All kernels of a list. The fake NVRTC of the tests reads `prefix`, with which names begin. */
#define TRP__DRAWS_KERNELS(prefix, programs) programs(TRP__DRAWS_PROGRAM)

TRP__DRAWS_KERNELS(trp_random, TRP__READY_DRAWS)

#endif
