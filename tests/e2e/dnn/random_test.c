/* Random numbers of the dnn actor: those that are known, at the ends of ranges, and that they are
 * as random as they are said to be. Against a reference: tests/conformance.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

/* --- numbers that are known --- */

/* `count` of f32, or f64 if `wide`. */
static double *draw(trp_dnn_random random, bool wide, uint64_t seed, uint64_t offset, int64_t count)
{
    const size_t size = wide ? sizeof(double) : sizeof(float);
    double *out = h_malloc((size_t)count * sizeof *out);
    void *raw = h_malloc((size_t)count * size);
    trp_buffer y = h_buffer(world.device, (uint64_t)count * size);
    trp_completion done = {0};
    const trp_dnn_tensor tensors[] = {
        {0},
        trp_dnn_integer(seed),
        trp_dnn_integer(offset),
        {.type = wide ? TRP_F64 : TRP_F32, .rank = 1, .dim = {count}, .buffer = y}};
    const trp_dnn_node node = {
        .kind = TRP_DNN_RANDOM, .random = random, .seed = 1, .offset = 2, .y = 3};
    const trp_dnn_graph_request r = {
        .tensors = tensors, .tensor_count = 4, .nodes = &node, .node_count = 1};
    H_OK(trp_dnn_graph(dnn, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, y, 0, raw, (uint64_t)count * size);
    for (int64_t i = 0; i < count; i++)
        out[i] = wide ? ((double *)raw)[i] : (double)((float *)raw)[i];
    H_OK(trp_buffer_free(world.device, y));
    free(raw);
    return out;
}

/* The first words of the key 0 are published; so are those of digits of pi, of which the counter
 * can't be reached, but the key and the offset can. */
static void known(void)
{
    static const uint32_t zero[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    world = dp_open(&dnn);
    double *u = draw(TRP_DNN_UNIFORM, false, 0, 0, 5), *b = draw(TRP_DNN_BERNOULLI, false, 0, 0, 4);
    double *wide = draw(TRP_DNN_UNIFORM, true, 0, 0, 3), *z = draw(TRP_DNN_NORMAL, false, 0, 0, 4);
    for (int i = 0; i < 4; i++) {
        H_CHECK(u[i] == (zero[i] >> 8) / 0x1p24);
        H_CHECK(b[i] == (zero[i] < 0x80000000));
        const double far = sqrt(-2 * log(1 - (zero[i / 2 * 2] >> 8) / 0x1p24));
        const double turn = 2 * acos(-1) * (zero[i / 2 * 2 + 1] >> 8) / 0x1p24;
        H_CHECK(fabs(z[i] - far * (i % 2 ? sin(turn) : cos(turn))) < 1e-6);
    }
    for (int i = 0; i < 2; i++)
        H_CHECK(wide[i] ==
                (double)(((uint64_t)zero[2 * i] << 32 | zero[2 * i + 1]) >> 11) / 0x1p53);
    free(u);
    free(b);
    free(wide);
    free(z);
    dp_close(&world);
}

/* Numbers of f64 that are computed in f32: still none is outside. */
static void narrow_ends(void)
{
    enum { COUNT = 64 };
    const double ends[][2] = {{(double)0.7F, (double)nextafterf(0.7F, 1)}, {0.7, 0.8}, {-0.1, 0.1}};
    double y[COUNT];
    world = dp_open(&dnn);
    trp_buffer buffer = h_buffer(world.device, sizeof y);
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        trp_completion done = {0};
        const trp_dnn_tensor tensors[] = {
            {0},
            trp_dnn_integer(5),
            {.type = TRP_F64, .rank = 1, .dim = {COUNT}, .buffer = buffer}};
        const trp_dnn_node node = {.kind = TRP_DNN_RANDOM,
                                   .compute = TRP_F32,
                                   .parameter = {trp_real(ends[e][0]), trp_real(ends[e][1])},
                                   .seed = 1,
                                   .y = 2};
        const trp_dnn_graph_request r = {
            .tensors = tensors, .tensor_count = 3, .nodes = &node, .node_count = 1};
        H_OK(trp_dnn_graph(dnn, &r, &done));
        H_OK(h_await_any(done));
        h_read(world.device, buffer, 0, y, sizeof y);
        for (int i = 0; i < COUNT; i++)
            H_CHECK(y[i] >= (double)(float)ends[e][0] && y[i] < (double)(float)ends[e][1]);
    }
    H_OK(trp_buffer_free(world.device, buffer));
    dp_close(&world);
}

/* Seeds and offsets that differ in any bit draw other numbers, and the same ones the same. */
static void sequences(void)
{
    enum { COUNT = 64 };
    world = dp_open(&dnn);
    double *first = draw(TRP_DNN_UNIFORM, false, 0, 0, COUNT);
    for (int bit = 0; bit < 128; bit += 1 + (int)dp_below(20)) {
        const uint64_t seed = bit < 64 ? UINT64_C(1) << bit : 0;
        const uint64_t offset = bit < 64 ? 0 : UINT64_C(1) << (bit - 64);
        double *other = draw(TRP_DNN_UNIFORM, false, seed, offset, COUNT);
        double *again = draw(TRP_DNN_UNIFORM, false, seed, offset, COUNT + 3);
        int same = 0;
        for (int i = 0; i < COUNT; i++)
            same += first[i] == other[i];
        H_CHECK(same < 3);
        H_SAME(other, again, COUNT * sizeof *other);
        free(other);
        free(again);
    }
    free(first);
    dp_close(&world);
}

/* --- how random they are, of one seed --- */

enum { MANY = 1 << 16, BINS = 256 };

static void moments_of(const double *v, double mean, double power[5])
{
    for (int k = 0; k < 5; k++) {
        power[k] = 0;
        for (int i = 0; i < MANY; i++)
            power[k] += pow(v[i] - mean, k) / MANY;
    }
}

/* The sum of squares over BINS that should be full alike: 255 on average, by 22.6. */
static double chi_square(const double *u)
{
    int bin[BINS] = {0};
    double sum = 0;
    for (int i = 0; i < MANY; i++)
        bin[(int)(u[i] * BINS)]++;
    for (int i = 0; i < BINS; i++)
        sum += pow(bin[i] - MANY / BINS, 2) / (MANY / BINS);
    return sum;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The largest distance from the distribution, times the root of the count: 1.63 in one of 100. */
static double kolmogorov(double *z)
{
    double most = 0;
    qsort(z, MANY, sizeof *z, ascending);
    for (int i = 0; i < MANY; i++) {
        const double below = erfc(-z[i] / sqrt(2)) / 2;
        most = fmax(most, fmax(fabs(below - (double)i / MANY), fabs(below - (i + 1.0) / MANY)));
    }
    return most * sqrt(MANY);
}

/* Bounds are four standard deviations. */
static void distributions(void)
{
    world = dp_open(&dnn);
    for (int wide = 0; wide < 2; wide++) {
        double power[5], bound = 4 / sqrt(MANY), neighbours = 0;
        double *v = draw(TRP_DNN_UNIFORM, wide, 2026, 7, MANY);
        moments_of(v, 0.5, power);
        H_CHECK(fabs(power[1]) < bound * sqrt(1.0 / 12));
        H_CHECK(fabs(power[2] - 1.0 / 12) < bound * sqrt(1.0 / 180));
        H_CHECK(chi_square(v) > 255 - 4 * 22.6 && chi_square(v) < 255 + 4 * 22.6);
        free(v);
        v = draw(TRP_DNN_NORMAL, wide, 2026, 8, MANY);
        moments_of(v, 0, power);
        H_CHECK(fabs(power[1]) < bound);
        H_CHECK(fabs(power[2] - 1) < bound * sqrt(2));
        H_CHECK(fabs(power[3]) < bound * sqrt(15));
        H_CHECK(fabs(power[4] - 3) < bound * sqrt(96));
        for (int i = 0; i + 1 < MANY; i++)
            neighbours += v[i] * v[i + 1] / MANY;
        H_CHECK(fabs(neighbours) < bound);
        H_CHECK(kolmogorov(v) < 1.63);
        free(v);
        v = draw(TRP_DNN_BERNOULLI, wide, 2026, 9, MANY);
        moments_of(v, 0.5, power);
        H_CHECK(fabs(power[1]) < bound / 2);
        free(v);
    }
    dp_close(&world);
}

/* However little there is below `high`, nothing is drawn that is not. */
static void ends(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2};
    world = dp_open(&dnn);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        const double ends[][2] = {{1, 1.25}, {-0.25, 0}, {256, 320}, {-448, 448}, {0, 0x1p-9}};
        for (size_t k = 0; k < COUNT_OF(ends); k++) {
            dp_problem p = {.kind = "ends"};
            trp_dnn_node *n = dp_node(&p, TRP_DNN_RANDOM);
            n->seed = dp_value(&p, (double)dp_below(1000));
            n->parameter[0] = trp_real(ends[k][0]);
            n->parameter[1] = trp_real(ends[k][1]);
            n->y = dp_memory(&p, types[i], 1, (const int64_t[]){2000});
            dp_make(world.device, &p);
            dp_compute(dnn, &p);
            double *v = dp_read(&p, n->y);
            for (int j = 0; j < 2000; j++)
                H_CHECK(v[j] >= ends[k][0] && v[j] < ends[k][1]);
            free(v);
            dp_compare(&p);
            dp_drop(&p);
        }
    }
    dp_close(&world);
}

H_CASES(H_CASE(known), H_CASE(narrow_ends), H_CASE(sequences), H_CASE(distributions), H_CASE(ends))
