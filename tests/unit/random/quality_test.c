/* Statistics of random numbers: moments and the test of Kolmogorov and Smirnov for every
 * distribution; a battery for the words of streams in several layouts. Seeds are fixed, so an
 * outcome is always the same: each test must be one that right numbers fail once in 10,000 (KS) or
 * 150,000 (others, beyond 4.5 deviations) seeds. TROUPE_TEST_QUALITY=N makes all of it N times as
 * long. */
#include "actors/random/host/batch.h"
#include "base/os/team.h"
#include "support/label.h"
#include "support/reference/random_reference.h"

#include "support/unit.h"

#include <math.h>

TROUPE_TEST("computes", "no tsan", "long");

enum { SEED = 20261128 };

static size_t longer(size_t count)
{
    const char *text = getenv("TROUPE_TEST_QUALITY");
    const long times = text ? strtol(text, NULL, 10) : 1;
    return count * (size_t)(times > 1 ? times : 1);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

/* How far a number that is normal, with this mean and variance, is from its mean. */
static void must_be_near(const char *what, double got, double mean, double variance)
{
    const double z = (got - mean) / sqrt(variance);
    printf("    %-36s %+.2f\n", what, z);
    assert_true(fabs(z) < 4.5);
}

/* Chi-square with so many degrees of freedom, by the cube root of Wilson and Hilferty. */
static void chi_square(const char *what, double statistic, double degrees)
{
    const double part = 2 / (9 * degrees);
    must_be_near(what, cbrt(statistic / degrees), 1 - part, part);
}

/* ---- distributions ---- */

static double phi(double z)
{
    return 0.5 * erfc(-z * sqrt(0.5));
}

static double below_laplace(double z)
{
    return z < 0 ? 0.5 * exp(z) : 1 - 0.5 * exp(-z);
}

/* The probability of a number up to z, with loc 0 and scale 1. */
static double below(trp_random_distribution distribution, double z)
{
    switch (distribution) {
    case TRP_RANDOM_UNIFORM:
        return z < 0 ? 0 : z > 1 ? 1 : z;
    case TRP_RANDOM_NORMAL:
        return phi(z);
    case TRP_RANDOM_LOGNORMAL:
        return z > 0 ? phi(log(z)) : 0;
    case TRP_RANDOM_EXPONENTIAL:
        return z > 0 ? -expm1(-z) : 0;
    case TRP_RANDOM_LAPLACE:
        return below_laplace(z);
    case TRP_RANDOM_CAUCHY:
        return 0.5 + atan(z) / 3.14159265358979323846;
    default:
        return exp(-exp(-z));
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static trp__random request(trp_random_distribution distribution, trp_dtype type, size_t count)
{
    const bool uniform = distribution == TRP_RANDOM_UNIFORM;
    return (trp__random){.seed = SEED,
                         .stream = (uint64_t)distribution,
                         .distribution = (uint8_t)distribution,
                         .type = (uint8_t)type,
                         .words = (uint8_t)trp_random_words(distribution, type),
                         .number = {0, uniform, !uniform, 1},
                         .rank = 1,
                         .dim = {{(int64_t)count, 1}}};
}

static double *numbers(const trp__random *g, size_t count)
{
    const size_t size = trp_dtype_bits(g->type) / 8;
    char *raw = allocate(count * size);
    double *x = allocate(count * sizeof *x);
    trp__random_fill(g, raw);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)ref_random_load(g->type, raw + i * size, 0).value;
    free(raw);
    return x;
}

/* The largest difference of the two distribution functions. Numbers that a narrow type has rounded
 * to one stand for all of a step of the type, so both ends of the step are looked at. */
static void kolmogorov(const char *name, const trp__random *g, double *x, size_t count, double unit)
{
    double most = 0;
    qsort(x, count, sizeof *x, compare);
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && x[end] == x[i])
            end++;
        const double step = fabs(x[i]) * unit;
        const trp_random_distribution d = (trp_random_distribution)g->distribution;
        most = fmax(most, (double)end / (double)count - below(d, x[i] + step));
        most = fmax(most, below(d, x[i] - step) - (double)i / (double)count);
        i = end;
    }
    printf("    %-36s %.2f of 2.22\n", name, most * sqrt((double)count));
    assert_true(most * sqrt((double)count) < 2.225);
}

typedef struct moments {
    trp_random_distribution distribution;
    const char *name;
    double mean, variance, fourth; /* fourth: the central moment; 0: none of them exist */
} moments;

/* Euler's constant, pi^2 / 6; the fourth moments are 9/5, 3, 9, 6, 5.4 times the variance's square.
 */
static const moments known[] = {
    {TRP_RANDOM_UNIFORM, "uniform", 0.5, 1.0 / 12, 1.0 / 80},
    {TRP_RANDOM_NORMAL, "normal", 0, 1, 3},
    {TRP_RANDOM_LOGNORMAL, "lognormal", 1.6487212707001282, 4.670774270471605, 0},
    {TRP_RANDOM_EXPONENTIAL, "exponential", 1, 1, 9},
    {TRP_RANDOM_LAPLACE, "laplace", 0, 2, 24},
    {TRP_RANDOM_CAUCHY, "cauchy", 0, 0, 0},
    {TRP_RANDOM_GUMBEL, "gumbel", 0.5772156649015329, 1.6449340668482264, 14.611363655100365},
};

static void one_distribution(const moments *m, trp_dtype type, double unit)
{
    char name[64];
    const size_t count = longer(200000);
    const trp__random g = request(m->distribution, type, count);
    double *x = numbers(&g, count), sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i];
        squares += (x[i] - m->mean) * (x[i] - m->mean);
    }
    const double n = (double)count, square = m->variance * m->variance;
    snprintf(name, sizeof name, "%s %s, mean", m->name, trp_dtype_name(type));
    if (m->variance > 0)
        must_be_near(name, sum / n, m->mean, m->variance / n);
    snprintf(name, sizeof name, "%s %s, variance", m->name, trp_dtype_name(type));
    if (m->fourth > 0)
        must_be_near(name, squares / n, m->variance, (m->fourth - square) / n);
    snprintf(name, sizeof name, "%s %s, KS", m->name, trp_dtype_name(type));
    kolmogorov(name, &g, x, count, unit);
    free(x);
}

/* f16 and bf16 are roundings of what f32 has, but for uniform numbers; these have few steps. */
static void distributions(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        one_distribution(&known[i], TRP_F64, 0);
        one_distribution(&known[i], TRP_F32, 0);
        if (known[i].distribution != TRP_RANDOM_UNIFORM) {
            one_distribution(&known[i], TRP_F16, 0x1p-11);
            one_distribution(&known[i], TRP_BF16, 0x1p-8);
        }
    }
}

/* Each step of a narrow type is as probable as every other. */
static void narrow_uniform(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        const size_t steps = i ? 256 : 2048, count = longer(400000);
        trp__random g = request(TRP_RANDOM_UNIFORM, i ? TRP_BF16 : TRP_F16, count);
        double *x = numbers(&g, count), statistic = 0;
        size_t *seen = calloc(steps, sizeof *seen);
        assert_non_null(seen);
        for (size_t k = 0; k < count; k++)
            seen[(size_t)(x[k] * (double)steps)]++;
        const double wanted = (double)count / (double)steps;
        for (size_t k = 0; k < steps; k++)
            statistic += ((double)seen[k] - wanted) * ((double)seen[k] - wanted) / wanted;
        chi_square(i ? "uniform bf16, steps" : "uniform f16, steps", statistic, (double)steps - 1);
        free(seen);
        free(x);
    }
}

/* Ranges that a product without rejection would favour parts of: three of four words' worth. */
static void integers(void **unused)
{
    enum { PARTS = 3 };
    const size_t count = longer(300000);
    (void)unused;
    for (int wide = 0; wide < 2; wide++) {
        trp__random g = request(TRP_RANDOM_INTEGERS, wide ? TRP_I64 : TRP_I32, count);
        g.whole[1] = wide ? UINT64_C(0xc000000000000000) : UINT32_C(0xc0000000);
        int64_t *x = allocate(count * sizeof *x);
        size_t odd = 0, seen[PARTS] = {0};
        double statistic = 0;
        trp__random_fill(&g, x);
        for (size_t i = 0; i < count; i++) {
            const uint64_t value =
                wide ? (uint64_t)x[i] : (uint64_t)((uint32_t *)(void *)x)[i] << 32;
            seen[value >> 62]++;
            odd += wide ? value & 1 : value >> 32 & 1;
        }
        for (int i = 0; i < PARTS; i++) {
            const double wanted = (double)count / PARTS, off = (double)seen[i] - wanted;
            statistic += off * off / wanted;
        }
        chi_square(wide ? "integers i64, thirds" : "integers i32, thirds", statistic, PARTS - 1);
        must_be_near(wide ? "integers i64, odd" : "integers i32, odd", (double)odd,
                     (double)count / 2, (double)count / 4);
        free(x);
    }
}

static void masks(void **unused)
{
    static const double probabilities[] = {0.001, 0.1, 0.5, 0.9};
    const size_t count = longer(300000);
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        const double p = probabilities[i];
        trp__random g = request(TRP_RANDOM_BERNOULLI, TRP_BOOL, count);
        size_t hits = 0, both = 0;
        uint8_t *x = allocate(count);
        g.limit = (uint64_t)(p * 0x1p32 + 0.5);
        g.whole[0] = 1;
        trp__random_fill(&g, x);
        for (size_t k = 0; k < count; k++) {
            hits += x[k];
            both += k > 0 && x[k] && x[k - 1];
        }
        const double n = (double)count;
        must_be_near("bernoulli, hits", (double)hits, n * p, n * p * (1 - p));
        must_be_near("bernoulli, neighbours", (double)both, n * p * p,
                     n * p * p * (1 + 2 * p - 3 * p * p));
        free(x);
    }
}

/* ---- words ---- */

typedef enum layout { ONE_STREAM, MANY_STREAMS, MANY_SEEDS, LAYOUTS } layout;

static const char *const layouts[] = {"one stream", "a stream for each block",
                                      "a seed for each block"};

static uint32_t *words(layout how, size_t count)
{
    uint32_t *word = allocate((count + 4) * sizeof *word);
    trp__random g = request(TRP_RANDOM_BITS, TRP_I32, count);
    g.stream = 99;
    if (how == ONE_STREAM)
        trp__random_fill(&g, word);
    g.dim[0].n = 4;
    for (size_t i = 0; i < count && how != ONE_STREAM; i += 4) {
        g.seed += how == MANY_SEEDS;
        g.stream += how == MANY_STREAMS;
        trp__random_fill(&g, word + i);
    }
    return word;
}

static void frequency(const uint32_t *word, size_t count)
{
    double ones = 0, runs = 1;
    const double n = 32 * (double)count;
    for (size_t i = 0; i < count; i++) {
        const uint32_t before = i ? word[i - 1] >> 31 : word[0] & 1;
        ones += __builtin_popcount(word[i]);
        runs += __builtin_popcount(word[i] ^ (word[i] << 1 | before));
    }
    must_be_near("frequency", ones, n / 2, n / 4);
    must_be_near("runs of bits", runs, (n + 1) / 2, (n - 1) / 4);
}

/* Pairs of bytes: the first of a word and that of the next one. */
static void serial(const uint32_t *word, size_t count)
{
    static uint32_t seen[65536];
    double statistic = 0;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i + 1 < count; i += 2)
        seen[(word[i] >> 24) << 8 | word[i + 1] >> 24]++;
    const double wanted = (double)(count / 2) / 65536;
    for (size_t i = 0; i < 65536; i++)
        statistic += ((double)seen[i] - wanted) * ((double)seen[i] - wanted) / wanted;
    chi_square("serial pairs", statistic, 65535);
}

/* Words between two that are below an eighth. */
static void gaps(const uint32_t *word, size_t count)
{
    enum { LONGEST = 40 };
    double seen[LONGEST + 1] = {0}, total = 0, statistic = 0, left = 1;
    size_t gap = 0;
    for (size_t i = 0; i < count; i++, gap++) {
        if (word[i] >> 29 != 0)
            continue;
        seen[gap < LONGEST ? gap : LONGEST]++;
        total++;
        gap = (size_t)-1;
    }
    for (int i = 0; i <= LONGEST; i++) {
        const double wanted = total * (i < LONGEST ? left / 8 : left);
        statistic += (seen[i] - wanted) * (seen[i] - wanted) / wanted;
        left *= 7.0 / 8;
    }
    chi_square("gaps", statistic, LONGEST);
}

static int compare_words(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Equal spacings of 4,096 birthdays in a year of 2^32 days: 4 of them on average (Marsaglia). */
static void birthdays(const uint32_t *word, size_t count)
{
    enum { BIRTHDAYS = 4096 };
    static uint32_t day[BIRTHDAYS];
    double equal = 0, rounds = 0;
    for (size_t at = 0; at + BIRTHDAYS <= count; at += BIRTHDAYS, rounds++) {
        memcpy(day, word + at, sizeof day);
        qsort(day, BIRTHDAYS, sizeof *day, compare_words);
        for (int i = BIRTHDAYS - 1; i > 0; i--)
            day[i] -= day[i - 1];
        qsort(day, BIRTHDAYS, sizeof *day, compare_words);
        for (int i = 1; i < BIRTHDAYS; i++)
            equal += day[i] == day[i - 1];
    }
    must_be_near("birthday spacings", equal, 4 * rounds, 4 * rounds);
}

static int rank_of(const uint32_t row[32])
{
    uint32_t m[32];
    int rank = 0;
    memcpy(m, row, sizeof m);
    for (int bit = 0; bit < 32; bit++) {
        int at = rank;
        while (at < 32 && !(m[at] >> bit & 1))
            at++;
        if (at == 32)
            continue;
        const uint32_t pivot = m[at];
        m[at] = m[rank];
        m[rank++] = pivot;
        for (int i = rank; i < 32; i++)
            m[i] ^= m[i] >> bit & 1 ? pivot : 0;
    }
    return rank;
}

/* Of 32 x 32 bits: 32, 31, 30 or less. */
static void ranks(const uint32_t *word, size_t count)
{
    static const double share[3] = {0.2887880952, 0.5775761902, 0.1336357146};
    double seen[3] = {0}, statistic = 0;
    const double n = (double)(count / 32);
    for (size_t at = 0; at + 32 <= count; at += 32) {
        const int lacking = 32 - rank_of(word + at);
        seen[lacking < 2 ? lacking : 2]++;
    }
    for (int i = 0; i < 3; i++)
        statistic += (seen[i] - n * share[i]) * (seen[i] - n * share[i]) / (n * share[i]);
    chi_square("matrix ranks", statistic, 2);
}

/* 2^14 balls into 2^20 urns (the first 20 bits): so many fall into one that is not empty (Knuth).
 */
static void collisions(const uint32_t *word, size_t count)
{
    enum { BALLS = 1 << 14, URNS = 1 << 20 };
    static uint8_t urn[URNS / 8];
    double found = 0, rounds = 0;
    const double urns = URNS, wanted = BALLS - urns * -expm1(BALLS * log1p(-1 / urns));
    for (size_t at = 0; at + BALLS <= count; at += BALLS, rounds++) {
        memset(urn, 0, sizeof urn);
        for (size_t i = at; i < at + BALLS; i++) {
            const uint32_t which = word[i] >> 12;
            found += urn[which / 8] >> which % 8 & 1;
            urn[which / 8] = (uint8_t)(urn[which / 8] | 1U << which % 8);
        }
    }
    must_be_near("collisions", found, rounds * wanted, rounds * wanted);
}

static void battery(void **unused)
{
    const size_t count = longer((size_t)1 << 22);
    (void)unused;
    for (int how = 0; how < LAYOUTS; how++) {
        uint32_t *word = words((layout)how, count);
        printf("  %s\n", layouts[how]);
        frequency(word, count);
        serial(word, count);
        gaps(word, count);
        birthdays(word, count);
        ranks(word, count);
        collisions(word, count);
        free(word);
    }
}

/* The same from neighbouring seeds and streams have nothing in common. */
static void correlations(void **unused)
{
    const size_t count = longer(200000);
    trp__random g = request(TRP_RANDOM_NORMAL, TRP_F32, count);
    double *a = numbers(&g, count), *b, sum;
    (void)unused;
    for (int i = 0; i < 3; i++) {
        trp__random other = g;
        other.seed += i == 0;
        other.stream += i == 1;
        other.offset = i == 2 ? 4 : 0;
        b = numbers(&other, count);
        sum = 0;
        for (size_t k = 0; k < count; k++)
            sum += a[k] * b[k];
        must_be_near(i == 0   ? "next seed"
                     : i == 1 ? "next stream"
                              : "next block",
                     sum, 0, (double)count);
        free(b);
    }
    sum = 0;
    for (size_t k = 0; k + 1 < count; k += 2)
        sum += a[k] * a[k] * a[k + 1] * a[k + 1] - 1;
    must_be_near("squares of a pair", sum, 0, 8 * (double)count / 2);
    free(a);
}

UNIT_MAIN(UNIT(distributions), UNIT(narrow_uniform), UNIT(integers), UNIT(masks), UNIT(battery),
          UNIT(correlations))
