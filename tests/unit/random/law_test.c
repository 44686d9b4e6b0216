/* The law of counters: words against Random123's known answers and against cuRAND's own generator
 * on the processor, where there is its library; equal bits on every processor, with any number of
 * threads and however a tensor is cut; the functions that numbers are made by. */
#include "actors/random/law/functions.h"
#include "actors/random/host/batch.h"
#include "actors/random/law/counters.h"
#include "base/os/cpu.h"
#include "base/os/team.h"
#include "support/label.h"
#include "support/reference/random.h"
#include "support/reference/reference.h"

#include "support/unit.h"

#include <dlfcn.h>
#include <math.h>

TROUPE_TEST("computes", "no tsan");

static ref_rng rng;

static trp__random bits_32(uint64_t seed, uint64_t stream, uint64_t offset, int64_t count)
{
    return (trp__random){.seed = seed,
                         .stream = stream,
                         .offset = offset,
                         .distribution = TRP_RANDOM_BITS,
                         .type = TRP_I32,
                         .words = 1,
                         .rank = 1,
                         .dim = {{count, 1}}};
}

/* ---- words ---- */

/* Random123's kat_vectors, as far as a position is a counter: its number of a block has 62 bits. */
static void known_answers(void **unused)
{
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t word[8], block[4];
    (void)unused;
    trp__random g = bits_32(0, 0, 0, 4);
    trp__random_fill(&g, word);
    assert_memory_equal(word, zeros, sizeof zeros);
    const uint64_t seed = UINT64_C(0x299f31d0a4093822), stream = UINT64_C(0x0370734413198a2e);
    const uint64_t number = UINT64_C(0x05a308d3243f6a88);
    g = bits_32(seed, stream, 4 * number + 3, 5);
    trp__random_fill(&g, word);
    trp__philox_block(seed, stream, number, block);
    assert_int_equal(word[0], block[3]);
    trp__philox_block(seed, stream, number + 1, block);
    assert_memory_equal(word + 1, block, sizeof block);
    g = bits_32(seed, stream, UINT64_MAX - 3, 8); /* the last block, then the first */
    trp__random_fill(&g, word);
    trp__philox_block(seed, stream, (UINT64_C(1) << 62) - 1, block);
    assert_memory_equal(word, block, sizeof block);
    trp__philox_block(seed, stream, 0, block);
    assert_memory_equal(word + 4, block, sizeof block);
}

/* cuRAND's generator Philox4_32_10 with its default order deals blocks to 65,536 streams in turn:
 * its words 4b to 4b + 3 are words 4 (b / 65536) and so on of stream b % 65536. */
static void words_of_curand(void **unused)
{
    typedef int create(void **generator, int type);
    typedef int set(void *generator, unsigned long long value);
    typedef int generate(void *generator, unsigned int *out, size_t count);
    typedef int destroy(void *generator);
    enum { PHILOX4_32_10 = 161, STREAMS = 65536, BLOCKS = STREAMS + 100 };
    static uint32_t theirs[4 * BLOCKS];
    const uint64_t seed = ref_rng_next(&rng);
    void *generator = NULL, *library = dlopen("libcurand.so.10", RTLD_NOW);
    (void)unused;
    if (!library)
        library = dlopen("/usr/local/cuda/lib64/libcurand.so.10", RTLD_NOW);
    if (!library)
        skip();
    create *make = (create *)dlsym(library, "curandCreateGeneratorHost");
    set *set_seed = (set *)dlsym(library, "curandSetPseudoRandomGeneratorSeed");
    generate *fill = (generate *)dlsym(library, "curandGenerate");
    destroy *end = (destroy *)dlsym(library, "curandDestroyGenerator");
    assert_true(make && set_seed && fill && end);
    assert_int_equal(make(&generator, PHILOX4_32_10), 0);
    assert_int_equal(set_seed(generator, seed), 0);
    assert_int_equal(fill(generator, theirs, 4 * BLOCKS), 0);
    for (uint64_t b = 0; b < BLOCKS; b++) {
        uint32_t word[4];
        const trp__random g = bits_32(seed, b % STREAMS, b / STREAMS * 4, 4);
        trp__random_fill(&g, word);
        assert_memory_equal(word, theirs + 4 * b, sizeof word);
    }
    assert_int_equal(end(generator), 0);
}

/* Again, and not the same: the rejected block's words have no part in it. */
static void next_tries(void **unused)
{
    uint32_t block[4] = {1, 2, 3, 4}, wanted[4];
    const uint32_t counter[4] = {1, 2, 3, 4}, key[2] = {~5U, ~6U};
    (void)unused;
    trp__random_again(UINT64_C(6) << 32 | 5, block);
    trp__philox(counter, key, wanted);
    assert_memory_equal(block, wanted, sizeof block);
}

/* ---- any way of computing gives the same bits ---- */

static trp__random random_request(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    trp__random g = {.seed = ref_rng_next(&rng),
                     .stream = ref_rng_next(&rng),
                     .offset = ref_rng_next(&rng) >> 2,
                     .distribution = (uint8_t)ref_rng_below(&rng, TRP_RANDOM_DROPOUT + 1),
                     .ends = (uint8_t)ref_rng_below(&rng, 4),
                     .type = (uint8_t)types[ref_rng_below(&rng, 4)],
                     .number = {0.25, 3, 1.5, 3.125},
                     .rank = 1};
    if (g.distribution <= TRP_RANDOM_INTEGERS)
        g.type = ref_rng_below(&rng, 2) ? TRP_I32 : TRP_I64;
    if (g.distribution == TRP_RANDOM_NORMAL && ref_rng_below(&rng, 2))
        g.type = ref_rng_below(&rng, 2) ? TRP_C64 : TRP_C128;
    g.words = (uint8_t)trp_random_words((trp_random_distribution)g.distribution, g.type);
    g.whole[0] = 3;
    g.whole[1] = g.words == 2 ? UINT64_C(0xc000000000000001) : UINT32_C(0xc0000001);
    g.limit = UINT32_C(1) << 30;
    return g;
}

static void equal_on_every_processor(void **unused)
{
    (void)unused;
    if (trp__random_batch_find() == trp__random_batch_plain)
        skip();
    for (int i = 0; i < 2000; i++) {
        char a[TRP__RANDOM_BATCH_BYTES] __attribute__((aligned(64))) = {0};
        char b[TRP__RANDOM_BATCH_BYTES] __attribute__((aligned(64))) = {0};
        const trp__random g = random_request();
        const uint64_t first = ref_rng_next(&rng);
        trp__random_batch_plain(&g, first, a);
        trp__random_batch_find()(&g, first, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* Three parts, each at its own offset, are the whole; with threads and without. */
static void equal_in_parts(void **unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        trp__random g = random_request();
        const size_t size = trp_dtype_bits(g.type) / 8;
        const size_t count = 1 + ref_rng_below(&rng, i % 20 == 0 ? 400000 : 3000);
        char *whole = malloc(count * size), *parts = malloc(count * size);
        assert_true(whole && parts);
        g.dim[0] = (trp__random_dim){(int64_t)count, 1};
        trp__team_open();
        trp__random_fill(&g, whole);
        trp__team_close();
        const size_t first = ref_rng_below(&rng, count + 1);
        const size_t second = first + ref_rng_below(&rng, count - first + 1);
        const size_t begin[4] = {0, first, second, count};
        for (int k = 0; k < 3; k++) {
            trp__random part = g;
            part.offset += begin[k] * g.words;
            part.dim[0].n = (int64_t)(begin[k + 1] - begin[k]);
            if (part.dim[0].n > 0)
                trp__random_fill(&part, parts + begin[k] * size);
        }
        assert_memory_equal(whole, parts, count * size);
        free(whole);
        free(parts);
    }
}

/* ---- functions ---- */

static double worst(double worst_so_far, double got, long double wanted)
{
    const double off = (double)(fabsl((long double)got - wanted) / fabsl(wanted)) * 0x1p53;
    return off > worst_so_far ? off : worst_so_far;
}

static void functions(void **unused)
{
    const long double pi = 3.141592653589793238462643383279502884L;
    double log_off = 0, near_one = 0, exp_off = 0, sine = 0, cosine = 0;
    (void)unused;
    for (int i = 0; i < 300000; i++) {
        const double u = ldexp(ref_rng_uniform(&rng, 0.5, 1), -(int)ref_rng_below(&rng, 60));
        const double x = 1 - ldexp(u, -(int)ref_rng_below(&rng, 30)), t = u / 4;
        const double e = ref_rng_uniform(&rng, -700, 700);
        log_off = worst(log_off, trp__random_log(u), logl((long double)u));
        if (x < 1)
            near_one = worst(near_one, trp__random_log(x), logl((long double)x));
        exp_off = worst(exp_off, trp__random_exp(e), expl((long double)e));
        sine = worst(sine, trp__random_sinpi(t), sinl(pi * (long double)t));
        cosine = worst(cosine, trp__random_cospi(t), cosl(pi * (long double)t));
    }
    printf("    off by 2^-53 times: log %.2f, near 1 %.2f, exp %.2f, sin %.2f, cos %.2f\n", log_off,
           near_one, exp_off, sine, cosine);
    assert_true(log_off < 4 && near_one < 4 && exp_off < 4 && sine < 4 && cosine < 4);
    assert_true(trp__random_exp(0) == 1 && trp__random_log(1) == 0);
    assert_true(trp__random_exp(710) == (double)INFINITY && trp__random_exp(1e300) > 0x1p1023);
    assert_true(trp__random_exp(-745) == 0x1p-1074 && trp__random_exp(-1e300) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(known_answers),  UNIT(words_of_curand),
        UNIT(next_tries),     UNIT(equal_on_every_processor),
        UNIT(equal_in_parts), UNIT(functions),
    };
    const uint64_t seed = ref_seed();
    printf("seed %llu\n", (unsigned long long)seed);
    ref_rng_init(&rng, seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
