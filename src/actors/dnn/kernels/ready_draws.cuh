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
    trp__normal normal;
    uint32_t last; /* BERNOULLI: the last word that gives 1 */
    float one;     /* what it gives: 0 if none does */
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
    /* The words of V elements, the first of which is element i of the launch. A launch begins at a
     * multiple of 2^30 elements and has no more of them, so the upper word of the number of a block
     * of words is the same for all, and what of Philox follows from that alone is computed once. */
    template <int V> TRP__DEVICE void words(uint32_t i, uint32_t word[V]) const
    {
        TRP__UNROLL
        for (int k = 0; k < V; k += 4) {
            const uint32_t block[4] = {counter[0] + (i + (uint32_t)k) / 4, counter[1], counter[2],
                                       counter[3]};
            trp__philox(block, key, word + k);
        }
    }
    /* The least of x and `most`; of 16 bits two are compared at once when they are rounded. */
    template <int TYPE> TRP__DEVICE float clamp(float x) const
    {
        return trp__draws_has_min<TYPE>() ? x : fmin(x, most);
    }
    /* The numbers of a pack, the first of which is element i of the launch. */
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

/* --- Numbers of a normal distribution of 16 bits --- */

/* Functions of the hardware, with the errors that the PTX manual promises. */
#ifdef __CUDACC_RTC__
#define TRP__DRAWS_HARDWARE(name, instruction, function)                                           \
    TRP__DEVICE float trp__draws_##name(float x)                                                   \
    {                                                                                              \
        float y;                                                                                   \
        asm(instruction ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));                             \
        return y;                                                                                  \
    }
#else
#define TRP__DRAWS_HARDWARE(name, instruction, function)                                           \
    TRP__DEVICE float trp__draws_##name(float x)                                                   \
    {                                                                                              \
        return (float)(function);                                                                  \
    }
#endif
TRP__DRAWS_HARDWARE(log2, "lg2", log2(x))      /* 2^-22; below 1/2 relative */
TRP__DRAWS_HARDWARE(root, "rsqrt", 1 / sqrt(x)) /* relative 2^-22.9 */
TRP__DRAWS_HARDWARE(sine, "sin", sin(x))       /* 2^-20.5 for |x| up to pi */
TRP__DRAWS_HARDWARE(cosine, "cos", cos(x))     /* the same */

/* Bounds between which the numbers of trp__normal_two() are, in half the instructions: where both
 * bounds round to the same number of 16 bits, that is it.
 *
 * With far = sqrt(x), x = -2 log v, near = 1 / far: log2 is off by 2^-22 where v is above 1/2, so x
 * by 2^-21.5 and far by no more than that times near; below, by less than 2^-23 far; products and
 * the root add 2^-21.8 far, sine and cosine with their argument 2^-20 far. trp__normal_two() is off
 * by less than 2^-21.5 far itself. */
struct trp__draws_bounds {
    float mean, deviation, of_far, of_near, least;

    TRP__DEVICE trp__draws_bounds(const trp__normal &n)
        : mean(n.mean), deviation(n.deviation), of_far(n.deviation * 0x1.4p-19f),
          of_near(n.deviation * 0x1.8p-22f), least((float)fabs(n.mean) * 0x1p-22f + 0x1p-120f)
    {
        if (!(fabs(n.mean) + 8 * n.deviation < 0x1p120f)) { /* could overflow on the way: no bounds */
            mean = deviation = 0;
            least = INFINITY;
        }
    }
    TRP__DEVICE void of(uint32_t word, uint32_t next, float low[2], float high[2]) const
    {
        const float v = fma((float)(word >> 8), -0x1p-24f, 1.0f);
        const float x = fmax(trp__draws_log2(v) * -1.38629436111989061883f, 0x1p-60f);
        const float near = trp__draws_root(x), far = x * near, scaled = deviation * far;
        const float angle = (float)((int32_t)next >> 8) * (6.28318530717958647693f * 0x1p-24f);
        const float error = fma(far, of_far, fma(near, of_near, least));
        const float cosine = trp__draws_cosine(angle), sine = trp__draws_sine(angle);
        const float below = mean - error, above = mean + error;
        low[0] = fma(scaled, cosine, below);
        low[1] = fma(scaled, sine, below);
        high[0] = fma(scaled, cosine, above);
        high[1] = fma(scaled, sine, above);
    }
};

/* Packs between whose bounds a rounding lies, one in a hundred of bf16: all threads of a block
 * compute them together at the end, so that a warp does not wait for the few. */
struct trp__draws_late {
    enum { ROOM = 2048 };
    uint32_t count, first[ROOM];
};

/* Two results as they lie in memory. */
template <int TYPE> TRP__DEVICE uint32_t trp__draws_pair(float low, float high)
{
    return TYPE == TRP_BF16 ? trp__bfloat_pair(low, high) : trp__half_pair(low, high);
}

/* False: a rounding lies between bounds. */
template <int TYPE, int V>
TRP__DEVICE bool trp__draws_narrow(const trp__draws<TRP_DNN_NORMAL> &draws,
                                   const trp__draws_bounds &bounds, uint32_t i,
                                   trp__pack<TYPE, V> *out)
{
    uint32_t word[V], unsure = 0;
    draws.words<V>(i, word);
    TRP__UNROLL
    for (int k = 0; k < V / 2; k++) {
        float low[2], high[2];
        bounds.of(word[2 * k], word[2 * k + 1], low, high);
        out->word[k] = trp__draws_pair<TYPE>(low[0], low[1]);
        unsure |= out->word[k] ^ trp__draws_pair<TYPE>(high[0], high[1]);
    }
    return unsure == 0;
}

template <int TYPE, int V>
TRP__DEVICE void trp__draw_narrow(const trp__draws<TRP_DNN_NORMAL> &draws, uint64_t y,
                                  uint32_t first, uint32_t step, uint32_t end)
{
    __shared__ trp__draws_late late;
    const trp__draws_bounds bounds(draws.normal);
    trp__pack<TYPE, V> pack;
    if (threadIdx.x == 0)
        late.count = 0;
    __syncthreads();
    for (uint32_t i = first; i < end; i += step) {
        if (!trp__draws_narrow(draws, bounds, i, &pack)) {
            const uint32_t at = atomicAdd(&late.count, 1u);
            if (at < late.ROOM)
                late.first[at] = i;
            else
                draws.make(i, &pack);
        }
        pack.store(y, i, TYPE);
    }
    __syncthreads();
    const uint32_t count = late.count < late.ROOM ? late.count : late.ROOM;
    for (uint32_t k = threadIdx.x; k < count; k += blockDim.x) {
        draws.make(late.first[k], &pack);
        pack.store(y, late.first[k], TYPE);
    }
}

/* --- Kernels --- */

template <int MODE, int TYPE> TRP__DEVICE void trp__draw(const trp__map &m)
{
    enum { V = TYPE == TRP_F32 ? 4 : 8 };
    const uint64_t y = m.operand[1].at;
    const trp__draws<MODE> draws(m);
    const uint32_t step = gridDim.x * blockDim.x * V, whole = m.count / V * V;
    const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    trp__pack<TYPE, V> pack;
    if constexpr (MODE == TRP_DNN_NORMAL && TYPE != TRP_F32) {
        trp__draw_narrow<TYPE, V>(draws, y, first, step, whole);
    } else {
        for (uint32_t i = first; i < whole; i += step) {
            draws.make(i, &pack);
            pack.store(y, i, TYPE);
        }
    }
    if (first != whole % step || whole == m.count)
        return;
    draws.make(whole, &pack);
    TRP__UNROLL
    for (int k = 0; k < V; k++) {
        if (whole + (uint32_t)k < m.count)
            pack.take(k, y, whole + (uint32_t)k);
    }
}

#define TRP__DRAWS_KERNEL(name, mode, suffix, type)                                                \
    TRP__GLOBAL(TRP__READY_DRAW_THREADS) trp_##name##_##suffix(const TRP__CONSTANT trp__map m)     \
    {                                                                                              \
        trp__draw<(mode)&TRP__MAP_RANDOM_MODES, type>(m);                                          \
    }
#define TRP__DRAWS_PROGRAM(name, program, mode)                                                    \
    TRP__DRAWS_KERNEL(name, mode, f32, TRP_F32)                                                    \
    TRP__DRAWS_KERNEL(name, mode, bf16, TRP_BF16)                                                  \
    TRP__DRAWS_KERNEL(name, mode, f16, TRP_F16)

/* All kernels of a list, whose names begin with `prefix`. */
#define TRP__DRAWS_KERNELS(prefix, programs) programs(TRP__DRAWS_PROGRAM)

TRP__DRAWS_KERNELS(trp_random, TRP__READY_DRAWS)

#endif
