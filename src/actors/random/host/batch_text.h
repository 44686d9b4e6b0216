/* The text of batch.h; the includer defines NAME. Loops have a constant trip count and no branches,
 * so that compilers make vector instructions of them. */
#include "actors/random/host/batch.h"
#include "actors/random/law/elements.h"
#include "base/numbers/half.h"

enum { BLOCKS = TRP__RANDOM_BATCH_BLOCKS, WORDS = TRP__RANDOM_BATCH_WORDS, PAIRS = WORDS / 2 };

#define LOOP(count) for (int i = 0; i < (count); i++)

/* Words. */

enum { LANES = 16 };

/* The words of LANES blocks: trp__philox(), one step of all lanes after the other. */
static void make_blocks(uint64_t seed, uint64_t stream, uint64_t first, uint32_t word[4 * LANES])
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    LOOP(LANES)
    {
        const uint64_t number = (first + (uint64_t)i) % TRP__RANDOM_BLOCKS;
        c0[i] = (uint32_t)number;
        c1[i] = (uint32_t)(number >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < 10; round++) {
        LOOP(LANES)
        {
            const uint64_t p0 = (uint64_t)c0[i] * UINT32_C(0xd2511f53);
            const uint64_t p2 = (uint64_t)c2[i] * UINT32_C(0xcd9e8d57);
            c0[i] = (uint32_t)(p2 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p2;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    LOOP(LANES)
    {
        word[4 * i] = c0[i];
        word[4 * i + 1] = c1[i];
        word[4 * i + 2] = c2[i];
        word[4 * i + 3] = c3[i];
    }
}

static void make_words(const trp__random *g, uint64_t first, uint32_t word[WORDS])
{
    for (int at = 0; at < BLOCKS; at += LANES)
        make_blocks(g->seed, g->stream, first + (uint64_t)at, word + 4 * at);
}

/* Storing what was computed in f64 or f32. */

static void store_f64(uint8_t type, const double *v, int count, void *out)
{
    if (type == TRP_F64) {
        memcpy(out, v, (size_t)count * sizeof *v);
    } else if (type == TRP_F32) {
        float *to = out;
        LOOP(WORDS) to[i] = (float)v[i];
    } else {
        uint16_t *to = out;
        if (type == TRP_F16)
            LOOP(WORDS) to[i] = trp__f64_to_f16(v[i]);
        else
            LOOP(WORDS) to[i] = trp__f64_to_bf16(v[i]);
    }
}

static void store_f32(uint8_t type, const float *v, void *out)
{
    if (type == TRP_F16) {
        uint16_t *to = out;
        LOOP(WORDS) to[i] = trp__f32_to_f16(v[i]);
    } else if (type == TRP_BF16) {
        uint16_t *to = out;
        LOOP(WORDS) to[i] = trp__f32_to_bf16(v[i]);
    } else {
        memcpy(out, v, WORDS * sizeof *v);
    }
}

/* Whole numbers. */

static void integers_64(const trp__random *g, uint64_t first, const uint32_t *word, uint64_t *out)
{
    const uint64_t low = g->whole[0], range = g->whole[1], limit = g->limit;
    LOOP(PAIRS)
    {
        uint64_t value;
        if (!trp__random_try_64(trp__random_pair(word + 2 * i), range, limit, &value))
            value = trp__random_next_try(g, g->seed, first + (uint64_t)i / 2, i % 2 * 2);
        out[i] = low + value;
    }
}

static void integers_32(const trp__random *g, uint64_t first, const uint32_t *word, void *out)
{
    const uint32_t low = (uint32_t)g->whole[0], range = (uint32_t)g->whole[1];
    const uint32_t limit = (uint32_t)g->limit;
    const bool wide = g->type == TRP_I32;
    LOOP(WORDS)
    {
        uint32_t value;
        if (!trp__random_try_32(word[i], range, limit, &value))
            value = (uint32_t)trp__random_next_try(g, g->seed, first + (uint64_t)i / 4, i % 4);
        value += low;
        if (wide)
            ((uint32_t *)out)[i] = value;
        else
            ((uint8_t *)out)[i] = (uint8_t)value;
    }
}

static void integers(const trp__random *g, uint64_t first, const uint32_t *word, void *out)
{
    if (g->words == 2)
        integers_64(g, first, word, out);
    else
        integers_32(g, first, word, out);
}

#define TWO_VALUES(T)                                                                              \
    do {                                                                                           \
        T *to = out;                                                                               \
        const T hit = (T)g->whole[0], miss = (T)g->whole[1];                                       \
        LOOP(WORDS) to[i] = word[i] < limit || all ? hit : miss;                                   \
    } while (0)

/* BERNOULLI and DROPOUT. */
static void two_values(const trp__random *g, const uint32_t *word, void *out)
{
    const uint32_t limit = (uint32_t)g->limit;
    const bool all = g->limit > UINT32_MAX;
    switch (trp_dtype_bits(g->type)) {
    case 8:
        TWO_VALUES(uint8_t);
        break;
    case 16:
        TWO_VALUES(uint16_t);
        break;
    case 32:
        TWO_VALUES(uint32_t);
        break;
    default:
        TWO_VALUES(uint64_t);
    }
}

/* Uniform numbers. */

static void uniform_f32(const trp__random *g, const uint32_t *word, void *out)
{
    const trp__random_uniform_f32 u = trp__random_uniform_f32_of(g);
    float v[WORDS];
    LOOP(WORDS) v[i] = trp__random_uniform_f32_at(&u, word[i]);
    store_f32(g->type, v, out);
}

static void uniform_f64(const trp__random *g, const uint32_t *word, double *out)
{
    const trp__random_cut c = trp__random_cut_for(g->ends, 53, 64);
    const trp__random local = *g;
    LOOP(PAIRS) out[i] = trp__random_uniform_f64_at(&local, c, trp__random_pair(word + 2 * i));
}

/* Normal numbers. */

static void normal_f32(const uint32_t *word, float *z)
{
    LOOP(PAIRS) trp__random_normal_f32_two(word[2 * i], word[2 * i + 1], z + 2 * i);
}

static void normal_f64(const uint32_t *word, double *z)
{
    uint64_t far[BLOCKS], turn[BLOCKS];
    LOOP(BLOCKS)
    {
        far[i] = trp__random_pair(word + 4 * i);
        turn[i] = trp__random_pair(word + 4 * i + 2);
    }
    LOOP(BLOCKS)
    {
        double two[2];
        trp__random_normal_two(far[i], turn[i], two);
        z[2 * i] = two[0];
        z[2 * i + 1] = two[1];
    }
}

/* Also of complex numbers, whose parts are a pair. */
static void normal(const trp__random *g, const uint32_t *word, void *out)
{
    if (g->type == TRP_F64 || g->type == TRP_C128) {
        double *z = out;
        const double re = g->number[0], im = g->number[1], scale = g->number[2];
        normal_f64(word, z);
        LOOP(BLOCKS)
        {
            z[2 * i] = fma(scale, z[2 * i], re);
            z[2 * i + 1] = fma(scale, z[2 * i + 1], im);
        }
        return;
    }
    float z[WORDS];
    const float re = (float)g->number[0], im = (float)g->number[1], scale = (float)g->number[2];
    normal_f32(word, z);
    LOOP(PAIRS)
    {
        z[2 * i] = fmaf(scale, z[2 * i], re);
        z[2 * i + 1] = fmaf(scale, z[2 * i + 1], im);
    }
    store_f32(g->type, z, out);
}

/* The others, in f64. */

static void transform(const trp__random *g, double *v, int count)
{
    const double loc = g->number[0], scale = g->number[2];
#define EACH(name)                                                                                 \
    for (int i = 0; i < count; i++)                                                                \
    v[i] = trp__random_transform(name, v[i], loc, scale)
    switch (g->distribution) {
    case TRP_RANDOM_LOGNORMAL:
        EACH(TRP_RANDOM_LOGNORMAL);
        break;
    case TRP_RANDOM_EXPONENTIAL:
        EACH(TRP_RANDOM_EXPONENTIAL);
        break;
    case TRP_RANDOM_LAPLACE:
        EACH(TRP_RANDOM_LAPLACE);
        break;
    case TRP_RANDOM_CAUCHY:
        EACH(TRP_RANDOM_CAUCHY);
        break;
    default:
        EACH(TRP_RANDOM_GUMBEL);
    }
#undef EACH
}

static void others(const trp__random *g, const uint32_t *word, void *out)
{
    const bool normals = g->distribution == TRP_RANDOM_LOGNORMAL;
    const int count = g->words == 2 ? PAIRS : WORDS;
    double v[WORDS];
    if (g->words == 2 && normals) {
        normal_f64(word, v);
    } else if (normals) {
        float z[WORDS];
        normal_f32(word, z);
        LOOP(WORDS) v[i] = (double)z[i];
    } else if (g->words == 2) {
        LOOP(PAIRS) v[i] = trp__random_fraction_of_64(trp__random_pair(word + 2 * i));
    } else {
        LOOP(WORDS) v[i] = trp__random_fraction_of_32(word[i]);
    }
    transform(g, v, count);
    store_f64(g->type, v, count, out);
}

void NAME(trp__random_batch)(const trp__random *g, uint64_t first, void *out)
{
    uint32_t word[WORDS] __attribute__((aligned(64)));
    make_words(g, first, word);
    switch (g->distribution) {
    case TRP_RANDOM_BITS:
        memcpy(out, word, sizeof word);
        break;
    case TRP_RANDOM_INTEGERS:
        integers(g, first, word, out);
        break;
    case TRP_RANDOM_UNIFORM:
        if (g->type == TRP_F64)
            uniform_f64(g, word, out);
        else
            uniform_f32(g, word, out);
        break;
    case TRP_RANDOM_NORMAL:
        normal(g, word, out);
        break;
    case TRP_RANDOM_BERNOULLI:
    case TRP_RANDOM_DROPOUT:
        two_values(g, word, out);
        break;
    default:
        others(g, word, out);
    }
}
