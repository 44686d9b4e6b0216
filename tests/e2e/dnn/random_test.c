/* Random numbers of the dnn actor: each against an implementation of its own, alone and as dropout,
 * whatever the type and the strides; that they are as random as they are said to be; and what is
 * wrong with nodes. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

static trp_dtype draw_type(trp_dnn_random random)
{
    static const trp_dtype all[] = {TRP_I8, TRP_U8, TRP_I32, TRP_BOOL};
    return random != TRP_DNN_BERNOULLI || dp_below(2) ? dd_float() : all[dp_below(COUNT_OF(all))];
}

static void alone(void)
{
    static const char *const names[] = {"uniform", "normal", "bernoulli"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(60); i++) {
        const trp_dnn_random random = (trp_dnn_random)(i % 3);
        dp_problem p = {.kind = names[i % 3]};
        int64_t dim[TRP_DNN_RANK_MAX];
        trp_dnn_node *n = dd_random(&p, random);
        const uint32_t rank = (uint32_t)dp_from(1, 5);
        for (uint32_t k = 0; k < rank; k++)
            dim[k] = dp_below(20) ? dp_from(1, rank == 1 ? 3000 : 7) : 0;
        n->y = dp_memory(&p, draw_type(random), rank, dim);
        if (dp_below(4) == 0)
            n->compute = dp_below(2) ? TRP_F64 : TRP_F32;
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* y = x * mask / (1 - p), where the mask is virtual, and kept for the gradient at times; the
 * gradient is made of numbers that are drawn again. */
static void dropout(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(20); i++) {
        dp_problem p = {.kind = "dropout"};
        const int64_t dim[] = {dp_from(1, 3), dp_from(1, 5), dp_from(1, 9)};
        const trp_dtype type = dd_float();
        const double keep = ref_rng_uniform(h_rng(), 0.1, 1);
        const uint32_t scale = dp_value(&p, 1 / keep);
        uint32_t words[2] = {0, 0};
        for (int pass = 0; pass < 2; pass++) {
            trp_dnn_node *n = pass ? dp_node(&p, TRP_DNN_RANDOM) : dd_random(&p, TRP_DNN_BERNOULLI);
            if (pass) {
                n->seed = words[0];
                n->offset = words[1];
                n->random = TRP_DNN_BERNOULLI;
            }
            words[0] = n->seed;
            words[1] = n->offset;
            n->parameter[0] = trp_real(keep);
            const uint32_t mask = n->y =
                dp_below(2) ? dp_memory(&p, TRP_BOOL, 3, dim) : dp_virtual(&p, TRP_DTYPE_NONE);
            p.tensor[mask].rank = 3;
            memcpy(p.tensor[mask].dim, dim, sizeof dim);
            n = dp_node(&p, TRP_DNN_POINTWISE);
            n->pointwise = TRP_DNN_MUL;
            n->x = dp_memory(&p, type, 3, dim);
            n->b = mask;
            const uint32_t dropped = n->y = dp_virtual(&p, type);
            n = dp_node(&p, TRP_DNN_POINTWISE);
            n->pointwise = TRP_DNN_MUL;
            n->x = dropped;
            n->b = scale;
            n->y = dp_memory(&p, type, 3, dim);
        }
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

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

/* --- wrong nodes --- */

enum { SEED = 1, OFFSET, Y, X };

/* What is done to a good node, which draws y (f32) and adds x to itself, and what is said of it. */
#define BAD_CASES(BAD)                                                                             \
    BAD("nodes[0].seed (random): expected a tensor, 1 to 5, got 0", n->seed = 0)                   \
    BAD("nodes[0].seed (random): expected i64, got f32", t[SEED].type = TRP_F32)                   \
    BAD("nodes[0].seed (random): expected one element, got 2", t[SEED].dim[0] = 2)                 \
    BAD("nodes[0].offset (random): expected i64, got i32",                                         \
        (t[OFFSET].type = TRP_I32, t[OFFSET].value = trp_real(1)))                                 \
    BAD("nodes[0].offset (random): expected whole numbers", t[OFFSET].value = trp_real(0.5))       \
    BAD("nodes[0].offset (random): expected whole numbers", t[OFFSET].value = trp_real(-1))        \
    BAD("nodes[0].offset (random): expected whole numbers", t[OFFSET].value = trp_real(0x1p54))    \
    BAD("nodes[0].offset (random): expected whole numbers", t[OFFSET].value = trp_real(NAN))       \
    BAD("nodes[0].offset (random): expected whole numbers",                                        \
        t[OFFSET].value = trp_complex(0, 0x1p32))                                                  \
    BAD("nodes[0].offset (random): expected less than 2^64",                                       \
        t[OFFSET].value = trp_complex(0x1p32, UINT32_MAX))                                         \
    BAD("tensors[2].value: expected a real finite number",                                         \
        (t[OFFSET].type = TRP_DTYPE_NONE, t[OFFSET].value = trp_complex(0, 1)))                    \
    BAD("nodes[0].y (random): expected dimensions",                                                \
        (t[Y] = (trp_dnn_tensor){0}, n[1].x = n[1].b = Y))                                         \
    BAD("nodes[0].y (random): expected a floating type, got i32", t[Y].type = TRP_I32)             \
    BAD("nodes[0].y (random): expected a floating type, got bool",                                 \
        (n->random = TRP_DNN_NORMAL, t[Y].type = TRP_BOOL))                                        \
    BAD("nodes[0].y (random): expected a floating type, i8, u8, i32 or bool, got i64",             \
        (n->random = TRP_DNN_BERNOULLI, t[Y].type = TRP_I64))                                      \
    BAD("nodes[0].y (random): expected a floating type, i8, u8, i32 or bool, got f8e8m0",          \
        (n->random = TRP_DNN_BERNOULLI, t[Y].type = TRP_F8E8M0))                                   \
    BAD("nodes[0].random (random): expected 0 to 2, got 3", n->random = (trp_dnn_random)3)         \
    BAD("nodes[1].random (pointwise): expected 0 to 0, got 1", n[1].random = TRP_DNN_NORMAL)       \
    BAD("nodes[1].seed: expected 0, for pointwise has no such tensor", n[1].seed = SEED)           \
    BAD("nodes[0].x: expected 0, for random has no such tensor", n->x = X)                         \
    BAD("nodes[0].parameter[1] (random): expected more than the low end, 1 in f32",                \
        n->parameter[0] = trp_real(1))                                                             \
    BAD("nodes[0].parameter[1] (random): expected more than the low end",                          \
        (t[Y].type = TRP_F16, n->parameter[1] = trp_real(1e-9)))                                   \
    BAD("nodes[0].parameter[1] (random): expected a number that f16 holds, got 70000",             \
        (t[Y].type = TRP_F16, n->parameter[1] = trp_real(70000)))                                  \
    BAD("nodes[0].parameter[0] (random): expected a number that f8e4m3 holds, got -500",           \
        (t[Y].type = TRP_F8E4M3, n->parameter[0] = trp_real(-500)))                                \
    BAD("nodes[0].parameter[1] (random): expected more than the low end",                          \
        (t[Y].type = TRP_F64, n->parameter[0] = trp_real(-1e308),                                  \
         n->parameter[1] = trp_real(1e308)))                                                       \
    BAD("nodes[0].parameter[1] (random): expected a number that f32 holds, got 1e+300",            \
        (t[Y].type = TRP_F64, n->compute = TRP_F32, n->parameter[1] = trp_real(1e300)))            \
    BAD("nodes[0].parameter[1] (random): expected more than the low end, 0.7 in f32",              \
        (t[Y].type = TRP_F64, n->compute = TRP_F32, n->parameter[0] = trp_real(0.7),               \
         n->parameter[1] = trp_real(0.7 + 1e-9)))                                                  \
    BAD("nodes[0].parameter[0]: expected a real finite number", n->parameter[0] = trp_real(NAN))   \
    BAD("nodes[0].parameter[1] (random): expected at least 0, got -1",                             \
        (n->random = TRP_DNN_NORMAL, n->parameter[1] = trp_real(-1)))                              \
    BAD("nodes[0].parameter[0] (random): expected 0 to 1, got 1.5",                                \
        (n->random = TRP_DNN_BERNOULLI, n->parameter[0] = trp_real(1.5)))                          \
    BAD("nodes[0].parameter[1]: expected none",                                                    \
        (n->random = TRP_DNN_BERNOULLI, n->parameter[1] = trp_real(1)))                            \
    BAD("nodes[0].parameter[2]: expected none", n->parameter[2] = trp_real(1))                     \
    BAD("nodes[0].compute (random): expected f32 or f64, got i32", n->compute = TRP_I32)           \
    BAD("nodes[1].b (pointwise): expected another type than i64", n[1].b = SEED)                   \
    BAD("nodes[0].kind: expected a trp_dnn_kind", n->kind = (trp_dnn_kind)99)

static void make(trp_dnn_tensor t[6], trp_dnn_node n[2])
{
    memset(n, 0, 2 * sizeof *n);
    t[SEED] = (trp_dnn_tensor){.type = TRP_I64, .rank = 1, .dim = {1}, .buffer = t[SEED].buffer};
    t[OFFSET] = trp_dnn_integer(UINT64_MAX);
    for (int i = Y; i <= 5; i++)
        t[i] = (trp_dnn_tensor){.type = TRP_F32, .rank = 1, .dim = {64}, .buffer = t[i].buffer};
    n[0] = (trp_dnn_node){.kind = TRP_DNN_RANDOM, .seed = SEED, .offset = OFFSET, .y = Y};
    n[1] =
        (trp_dnn_node){.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = X, .b = X, .y = 5};
}

static void wrong_ones(void)
{
    trp_dnn_tensor t[6] = {{0}};
    trp_dnn_node n[2];
    trp_buffer kept[6] = {{0}};
    world = dp_open(&dnn);
    for (int i = 1; i < 6; i++)
        kept[i] = h_buffer(world.device, 4096);
    const trp_dnn_graph_request r = {.tensors = t, .tensor_count = 6, .nodes = n, .node_count = 2};
#define TRY(says, change)                                                                          \
    {                                                                                              \
        for (int i = 1; i < 6; i++)                                                                \
            t[i].buffer = kept[i];                                                                 \
        make(t, n);                                                                                \
        change;                                                                                    \
        H_IS(trp_dnn_graph(dnn, &r, NULL), TRP_E_ARGUMENT);                                        \
        H_SAYS(says);                                                                              \
    }
    BAD_CASES(TRY)
#undef TRY
    dp_close(&world);
}

static const h_case cases[] = {
    {"alone", alone},         {"dropout", dropout},
    {"known", known},         {"narrow_ends", narrow_ends},
    {"sequences", sequences}, {"distributions", distributions},
    {"ends", ends},           {"wrong_ones", wrong_ones},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, COUNT_OF(cases));
}
