/* Random numbers alone: the programs of ready.h that draw and store. A thread makes 16 bytes at a
 * time, so that what follows from the seed is computed once. The bits are those of
 * trp__map_drawn(). */
#ifndef TRP_ACTORS_DNN_KERNELS_READY_DRAWS_CUH
#define TRP_ACTORS_DNN_KERNELS_READY_DRAWS_CUH

#include "actors/dnn/kernels/map_operands.cuh"
#include "actors/dnn/kernels/packs.cuh"
#include "actors/dnn/kernels/ready.h"

/* Whether two numbers of 16 bits are compared by one instruction. */
template <int TYPE> TRP__DEVICE constexpr bool trp__draws_has_min()
{
#ifdef __CUDACC_RTC__
    return TYPE != TRP_F32;
#else
    return false;
#endif
}

/* No number of a pack is above `most`, which is one of the type. */
template <int TYPE> TRP__DEVICE void trp__draws_min(uint32_t word[4], float most)
{
#ifdef __CUDACC_RTC__
    const uint32_t both = TYPE == TRP_BF16 ? trp__bfloat_pair(most, most) : trp__half_pair(most, most);
    TRP__UNROLL
    for (int k = 0; k < 4; k++) {
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

/* What is the same for all elements of a launch. */
template <int MODE> struct trp__draws {
    float low, span, most; /* UNIFORM */
    double mean, deviation;
    uint32_t last; /* BERNOULLI: the last word that gives 1 */
    float one;     /* what it gives: 0 if none does */

    TRP__DEVICE trp__draws(const double *number)
        : low((float)number[0]), span((float)(number[1] * 0x1p-24)), most((float)number[2]),
          mean(number[0]), deviation(number[1]), last(((uint32_t)number[0] << 8) - 1),
          one(number[0] > 0 ? 1.0f : 0.0f)
    {
    }
    /* The least of x and `most`; of 16 bits two are compared at once when they are rounded. */
    template <int TYPE> TRP__DEVICE float clamp(float x) const
    {
        return trp__draws_has_min<TYPE>() ? x : fmin(x, most);
    }
    template <int TYPE, typename LINES>
    TRP__DEVICE void make(const LINES &lines, const uint32_t word[4], float out[4]) const
    {
        if constexpr (MODE == TRP_DNN_NORMAL) {
            TRP__UNROLL
            for (int k = 0; k < 4; k += 2) {
                double two[2];
                trp__normal_two(lines, word[k], word[k + 1], mean, deviation, two);
                out[k] = (float)two[0];
                out[k + 1] = (float)two[1];
            }
        } else {
            TRP__UNROLL
            for (int k = 0; k < 4; k++) {
                if constexpr (MODE == TRP_DNN_BERNOULLI)
                    out[k] = word[k] <= last ? one : 0.0f;
                else
                    out[k] = clamp<TYPE>(fma(span, (float)(word[k] >> 8), low));
            }
        }
    }
};

/* Two results as they lie in memory. */
template <int TYPE> TRP__DEVICE uint32_t trp__draws_pair(float low, float high)
{
    return TYPE == TRP_BF16 ? trp__bfloat_pair(low, high) : trp__half_pair(low, high);
}

/* Numbers of a normal distribution of 16 bits: by bounds in f32, and those between whose bounds a
 * rounding is in f64. */
template <int TYPE, typename LINES>
TRP__DEVICE void trp__draws_narrow(const LINES &lines, const trp__draws<TRP_DNN_NORMAL> &draws,
                                   const trp__normal_bounds &bounds, const uint32_t word[8],
                                   uint32_t out[4])
{
    uint32_t unsure = 0;
    TRP__UNROLL
    for (int k = 0; k < 4; k++) {
        float low[2], high[2];
        bounds.of(word[2 * k], word[2 * k + 1], low, high);
        out[k] = trp__draws_pair<TYPE>(low[0], low[1]);
        unsure |= out[k] != trp__draws_pair<TYPE>(high[0], high[1]) ? 1u << k : 0;
    }
    while (unsure) {
        uint32_t one = word[0], next = word[1];
        const uint32_t bit = unsure & (0u - unsure);
        double two[2];
        TRP__UNROLL
        for (int k = 1; k < 4; k++) {
            one = bit >> k & 1 ? word[2 * k] : one;
            next = bit >> k & 1 ? word[2 * k + 1] : next;
        }
        trp__normal_two(lines, one, next, draws.mean, draws.deviation, two);
        const uint32_t pair = trp__draws_pair<TYPE>((float)two[0], (float)two[1]);
        TRP__UNROLL
        for (int k = 0; k < 4; k++)
            out[k] = bit >> k & 1 ? pair : out[k];
        unsure ^= bit;
    }
}

/* 16 bytes of results, the first of which is element i of the launch. A launch begins at a multiple
 * of 2^30 elements and has no more of them, so the upper word of the number of a block of words is the
 * same for all, and what of Philox follows from that alone is computed once. */
template <int MODE, int TYPE, int V, typename LINES>
TRP__DEVICE void trp__draws_sixteen(const LINES &lines, const trp__draws<MODE> &draws,
                                    const trp__normal_bounds &bounds, const uint32_t counter[4],
                                    const uint32_t key[2], uint32_t i, trp__pack<TYPE, V> *out)
{
    uint32_t word[V];
    TRP__UNROLL
    for (int k = 0; k < V; k += 4) {
        const uint32_t block[4] = {counter[0] + (i + (uint32_t)k) / 4, counter[1], counter[2],
                                   counter[3]};
        trp__philox(block, key, word + k);
    }
    if constexpr (MODE == TRP_DNN_NORMAL && TYPE != TRP_F32) {
        trp__draws_narrow<TYPE>(lines, draws, bounds, word, out->word);
    } else {
        float v[V];
        TRP__UNROLL
        for (int k = 0; k < V; k += 4)
            draws.template make<TYPE>(lines, word + k, v + k);
        out->set(v);
        if constexpr (MODE == TRP_DNN_UNIFORM && trp__draws_has_min<TYPE>())
            trp__draws_min<TYPE>(out->word, draws.most);
    }
}

template <int MODE, int TYPE, typename LINES>
TRP__DEVICE void trp__draw(const trp__map &m, const LINES &lines)
{
    enum { V = TYPE == TRP_F32 ? 4 : 8 };
    const uint64_t y = m.operand[1].at, number = m.operand[0].at / 4;
    const uint64_t seed = trp__map_word(m, TRP__MAP_NUMBER);
    const uint64_t offset = trp__map_word(m, TRP__MAP_NUMBER + 1);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), (uint32_t)offset,
                                 (uint32_t)(offset >> 32)};
    const trp__draws<MODE> draws(m.number + 2);
    const trp__normal_bounds bounds(m.number[2], m.number[3]);
    const uint32_t step = gridDim.x * blockDim.x * V, whole = m.count / V * V;
    trp__pack<TYPE, V> pack;
    uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    for (; i < whole; i += step) {
        trp__draws_sixteen<MODE, TYPE, V>(lines, draws, bounds, counter, key, i, &pack);
        pack.store(y, i, TYPE);
    }
    if (i >= m.count)
        return;
    trp__draws_sixteen<MODE, TYPE, V>(lines, draws, bounds, counter, key, i, &pack);
    TRP__UNROLL
    for (int k = 0; k < V; k++) {
        if (i + (uint32_t)k < m.count)
            pack.take(k, y, i + (uint32_t)k);
    }
}

#define TRP__DRAWS_KERNEL(name, mode, suffix, type)                                                \
    TRP__GLOBAL(TRP__READY_DRAW_THREADS) trp_##name##_##suffix(const TRP__CONSTANT trp__map m)     \
    {                                                                                              \
        __shared__ trp__normal_table lines;                                                        \
        if (((mode)&TRP__MAP_RANDOM_MODES) == TRP_DNN_NORMAL)                                      \
            lines.fill();                                                                          \
        trp__draw<(mode)&TRP__MAP_RANDOM_MODES, type>(m, lines);                                   \
    }
#define TRP__DRAWS_PROGRAM(name, program, mode)                                                    \
    TRP__DRAWS_KERNEL(name, mode, f32, TRP_F32)                                                    \
    TRP__DRAWS_KERNEL(name, mode, bf16, TRP_BF16)                                                  \
    TRP__DRAWS_KERNEL(name, mode, f16, TRP_F16)

/* All kernels of a list, whose names begin with `prefix`. */
#define TRP__DRAWS_KERNELS(prefix, programs) programs(TRP__DRAWS_PROGRAM)

TRP__DRAWS_KERNELS(trp_random, TRP__READY_DRAWS)

#endif
