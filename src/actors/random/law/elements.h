/* Elements made of their words: what the host's batches and kernels for GPUs compute alike. Steps
 * without branches, so that loops over them become vector instructions. */
#ifndef TRP_ACTORS_RANDOM_LAW_ELEMENTS_H
#define TRP_ACTORS_RANDOM_LAW_ELEMENTS_H

#include "actors/random/law/counters.h"
#include "actors/random/law/functions.h"
#include "actors/random/law/random_wire.h"
#include "base/numbers/normal.h"

/* Integers. */

/* What an integer is whose words were rejected, less the smallest one: `at` is the place of its
 * words in the block. */
static inline uint64_t trp__random_next_try(const trp__random *g, uint64_t seed, uint64_t number,
                                            int at)
{
    uint32_t block[TRP__PHILOX_WORDS], narrow = 0;
    uint64_t wide = 0;
    trp__philox_block(seed, g->stream, number % TRP__RANDOM_BLOCKS, block);
    do
        trp__random_again(seed, block);
    while (
        g->words == 2
            ? !trp__random_try_64(trp__random_pair(block + at), g->whole[1], g->limit, &wide)
            : !trp__random_try_32(block[at], (uint32_t)g->whole[1], (uint32_t)g->limit, &narrow));
    return g->words == 2 ? wide : narrow;
}

/* Uniform numbers. */

/* A fraction with `bits` bits is ((word >> shift) + add) >> half, times a unit, plus a bias. */
typedef struct trp__random_cut {
    int shift, half;
    int add;
    double unit, bias;
} trp__random_cut;

static inline trp__random_cut trp__random_cut_for(uint8_t ends, int bits, int of)
{
    const double unit = trp__random_with_bits((uint64_t)(1023 - bits) << 52);
    trp__random_cut c = {of - bits, 0, 0, unit, 0};
    if (ends == TRP_RANDOM_OPEN) { /* odd multiples of a unit */
        c.shift++;
        c.unit = 2 * unit;
        c.bias = unit;
    } else if (ends == TRP_RANDOM_CLOSED) { /* rounded to the nearest multiple */
        c.shift--;
        c.half = c.add = 1;
    } else if (ends == TRP_RANDOM_OPEN_LOW) {
        c.add = 1;
    }
    return c;
}

typedef struct trp__random_uniform_f32 {
    int shift, half, add;
    float unit, bias, low, width, least, most;
} trp__random_uniform_f32;

static inline trp__random_uniform_f32 trp__random_uniform_f32_of(const trp__random *g)
{
    const int bits = g->type == TRP_F32 ? 24 : g->type == TRP_F16 ? 11 : 8;
    const trp__random_cut c = trp__random_cut_for(g->ends, bits, 32);
    const trp__random_uniform_f32 u = {c.shift,
                                       c.half,
                                       c.add,
                                       (float)c.unit,
                                       (float)c.bias,
                                       (float)g->number[0],
                                       (float)g->number[1],
                                       (float)g->number[2],
                                       (float)g->number[3]};
    return u;
}

/* The ends are no NaN and no -0, so a GPU's minimum and maximum choose as these comparisons do. */
static inline float trp__random_within_f32(float y, float least, float most)
{
#ifdef __CUDACC_RTC__
    return fminf(fmaxf(y, least), most);
#else
    return y < least ? least : y > most ? most : y;
#endif
}

static inline float trp__random_uniform_f32_at(const trp__random_uniform_f32 *u, uint32_t word)
{
    const int32_t k = ((int32_t)(word >> u->shift) + u->add) >> u->half;
    const float y = fmaf(u->width, fmaf((float)k, u->unit, u->bias), u->low);
    return trp__random_within_f32(y, u->least, u->most);
}

static inline double trp__random_uniform_f64_at(const trp__random *g, trp__random_cut c,
                                                uint64_t pair)
{
    const int64_t k = ((int64_t)(pair >> c.shift) + c.add) >> c.half;
    const double y = fma(g->number[1], fma((double)k, c.unit, c.bias), g->number[0]);
    return y < g->number[2] ? g->number[2] : y > g->number[3] ? g->number[3] : y;
}

/* Normal numbers in f32 from words 2j and 2j + 1; all 32 bits decide how far they are. */
static inline void trp__random_normal_f32_two(uint32_t word, uint32_t next, float z[2])
{
    float turn[2];
    const uint32_t sign = next & UINT32_C(0x80000000);
    const float part = fmaf((float)word, 0x1p-32F, 0x1p-33F);
    const float far = trp__normal_float(trp__normal_bits(trp__normal_far(part)) ^ sign);
    trp__normal_turn(next, turn);
    z[0] = far * turn[0];
    z[1] = far * turn[1];
}

/* A number of the other distributions, from a fraction or, of LOGNORMAL, a normal number. */
static inline double trp__random_transform(int distribution, double v, double loc, double scale)
{
    switch (distribution) {
    case TRP_RANDOM_LOGNORMAL:
        return trp__random_exp(fma(scale, v, loc));
    case TRP_RANDOM_EXPONENTIAL:
        return scale * trp__random_exponential(v);
    case TRP_RANDOM_LAPLACE:
        return fma(scale, trp__random_laplace(v), loc);
    case TRP_RANDOM_CAUCHY:
        return fma(scale, trp__random_cauchy(v), loc);
    default: /* TRP_RANDOM_GUMBEL */
        return fma(scale, trp__random_gumbel(v), loc);
    }
}

#endif
