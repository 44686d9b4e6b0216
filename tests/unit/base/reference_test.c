/* The test helpers themselves, on cases small enough to work out by hand. */
#include "support/unit.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/reference/reference.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

static uint64_t seed;

static void generator_matches_published_values(void **state)
{
    (void)state;
    /* xoshiro256++ from the state {1, 2, 3, 4}: rotl(1 + 4, 23) + 1 = 5 * 2^23 + 1, and from the
     * next state. */
    ref_rng rng = {{1, 2, 3, 4}};
    assert_int_equal(ref_rng_next(&rng), 41943041);
    assert_int_equal(ref_rng_next(&rng), 58720359);
    /* splitmix64 from 0: its well-known first value. */
    ref_rng_init(&rng, 0);
    assert_true(rng.state[0] == UINT64_C(0xe220a8397b1dcdaf));
}

static void generator_repeats_and_stays_in_range(void **state)
{
    (void)state;
    ref_rng one, two;
    ref_rng_init(&one, seed);
    ref_rng_init(&two, seed);
    double sum = 0.0;
    size_t seen[7] = {0};
    for (int i = 0; i < 100000; i++) {
        const double x = ref_rng_uniform(&one, -3.0, 5.0);
        assert_true(x == ref_rng_uniform(&two, -3.0, 5.0));
        assert_true(x >= -3.0 && x < 5.0);
        sum += x;
        const size_t below = ref_rng_below(&one, 7);
        assert_true(below == ref_rng_below(&two, 7));
        assert_true(below < 7);
        seen[below]++;
    }
    assert_true(fabs(sum / 100000.0 - 1.0) < 0.1); /* 13 standard deviations */
    for (size_t i = 0; i < 7; i++) {
        assert_true(seen[i] > 13000 && seen[i] < 15600);
    }
    assert_int_equal(ref_rng_below(&one, 1), 0);
}

/* In a child, as a bad value aborts; the exit status carries whether the seed was the one expected.
 */
static int seed_status(const char *text, uint64_t expected)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL);
        setenv("TROUPE_TEST_SEED", text, 1);
        _exit(ref_seed() == expected ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void seed_comes_from_the_environment(void **state)
{
    (void)state;
    assert_int_equal(seed_status("12345", 12345), 0);
    assert_int_equal(seed_status("010", 10), 0);
    assert_int_equal(seed_status("0xffffffffffffffff", UINT64_MAX), 0);
    static const char *const bad[] = {"-1", " 1", "1x", "x", "0x", "18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const int status = seed_status(bad[i], 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void elements_load_what_was_stored(void **state)
{
    (void)state;
    static const size_t sizes[REF_DTYPE_COUNT] = {2, 2, 4, 8};
    static const double third[REF_DTYPE_COUNT] = {0x1.554p-2, 0x1.56p-2, 0x1.555556p-2, 1.0 / 3.0};
    for (int d = 0; d < REF_DTYPE_COUNT; d++) {
        const ref_dtype dtype = (ref_dtype)d;
        unsigned char array[3 * 8 + 1];
        void *odd = array + 1; /* no alignment is needed */
        assert_int_equal(ref_dtype_size(dtype), sizes[d]);
        ref_poison(odd, 3 * sizes[d]);
        for (size_t i = 0; i < 3; i++) {
            assert_true(isnan(ref_load(dtype, odd, i)));
        }
        ref_store(dtype, odd, 1, 1.0 / 3.0);
        assert_true(ref_load(dtype, odd, 1) == third[d]);
        assert_true(isnan(ref_load(dtype, odd, 0)));
        assert_true(isnan(ref_load(dtype, odd, 2)));
    }
}

static void filling_stays_in_range(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    ref_rng rng;
    ref_rng_init(&rng, seed);
    double *array = malloc(COUNT * sizeof *array);
    assert_non_null(array);
    for (int d = 0; d < REF_DTYPE_COUNT; d++) {
        const ref_dtype dtype = (ref_dtype)d;
        double sum = 0.0, squares = 0.0;
        ref_fill_uniform(dtype, array, COUNT, &rng);
        for (size_t i = 0; i < COUNT; i++) {
            const double x = ref_load(dtype, array, i);
            assert_true(x >= -1.0 && x < 1.0);
            sum += x;
            squares += x * x;
        }
        assert_true(fabs(sum / COUNT) < 0.04);
        assert_true(fabs(squares / COUNT - 1.0 / 3.0) < 0.03);
    }
    free(array);
}

/* A = [1 2 3; 4 5 6], B = [7 8; 9 10; 11 12], AB = [58 64; 139 154]. */
static void small_products(void **state)
{
    (void)state;
    static const float a[] = {1, 4, 2, 5, 3, 6}, a_transposed[] = {1, 2, 3, 4, 5, 6};
    static const float b[] = {7, 9, 11, 8, 10, 12}, b_transposed[] = {7, 8, 9, 10, 11, 12};
    static const double c[] = {1, 2, 3, 4};
    static const double product[] = {58, 139, 64, 154};
    for (unsigned flags = 0; flags < 4; flags++) {
        const bool ta = (flags & 1u) != 0, tb = (flags & 2u) != 0;
        ref_gemm_problem problem = {
            .m = 2,
            .n = 2,
            .k = 3,
            .transpose_a = ta,
            .transpose_b = tb,
            .alpha = 1.0,
            .a = {.dtype = REF_F32, .data = ta ? a_transposed : a, .ld = ta ? 3 : 2},
            .b = {.dtype = REF_F32, .data = tb ? b_transposed : b, .ld = tb ? 2 : 3},
        };
        double out[4];
        ref_gemm(&problem, out);
        assert_memory_equal(out, product, sizeof product);

        problem.alpha = 2.0;
        problem.beta = -1.0;
        problem.c = (ref_matrix){.dtype = REF_F64, .data = c, .ld = 2};
        ref_gemm(&problem, out);
        for (size_t i = 0; i < 4; i++) {
            assert_true(out[i] == 2.0 * product[i] - c[i]);
        }

        /* As in BLAS: what has no weight isn't read, were it NaN. */
        problem.alpha = 0.0;
        problem.a.data = problem.b.data = NULL;
        ref_gemm(&problem, out);
        for (size_t i = 0; i < 4; i++) {
            assert_true(out[i] == -c[i]);
        }
        problem.alpha = 1.0;
        problem.k = 0;
        problem.beta = 0.0;
        problem.c.data = NULL;
        ref_gemm(&problem, out);
        for (size_t i = 0; i < 4; i++) {
            assert_true(out[i] == 0.0);
        }
    }
}

/* 1 x 1 matrices with k = 2 in a batch: every offset, stride and leading dimension decides which
 * number is read. */
static void offsets_strides_and_leading_dimensions(void **state)
{
    (void)state;
    double a[64], b[64], c[64], out[3];
    for (size_t i = 0; i < 64; i++) {
        a[i] = (double)i;
        b[i] = 1000.0 * (double)i;
        c[i] = 1e6 * (double)i;
    }
    const ref_gemm_problem problem = {
        .m = 1,
        .n = 1,
        .k = 2,
        .batch = 3,
        .alpha = 1.0,
        .beta = 1.0,
        .a = {.dtype = REF_F64, .data = a, .offset = 5, .ld = 3, .stride = 10},
        .b = {.dtype = REF_F64, .data = b, .offset = 2, .ld = 2, .stride = 0},
        .c = {.dtype = REF_F64, .data = c, .offset = 1, .ld = 1, .stride = 7},
    };
    ref_gemm(&problem, out);
    for (size_t i = 0; i < 3; i++) {
        const double x = 5.0 + 10.0 * (double)i;
        assert_true(out[i] == x * 2000.0 + (x + 3.0) * 3000.0 + 1e6 * (1.0 + 7.0 * (double)i));
    }
    assert_int_equal(ref_matrix_span(&problem.a, 1, 2, 3), 5 + 20 + 3 + 1);
    assert_int_equal(ref_matrix_span(&problem.c, 1, 1, 0), 1);
}

static void *random_array(ref_dtype dtype, size_t count, ref_rng *rng)
{
    void *array = malloc(count * ref_dtype_size(dtype));
    assert_non_null(array);
    ref_fill_uniform(dtype, array, count, rng);
    return array;
}

/* Random shapes: against the sum written down once more entry by entry, and against the samples. */
static void random_products_agree_with_samples(void **state)
{
    (void)state;
    ref_rng rng;
    ref_rng_init(&rng, seed);
    for (unsigned round = 0; round < 64; round++) {
        const bool ta = (round & 1u) != 0, tb = (round & 2u) != 0;
        const size_t m = 1 + ref_rng_below(&rng, 20), n = 1 + ref_rng_below(&rng, 20);
        const size_t k = 1 + ref_rng_below(&rng, 20), batch = 1 + ref_rng_below(&rng, 3);
        const ref_dtype dtype = (ref_dtype)(round / 4 % REF_DTYPE_COUNT);
        ref_gemm_problem p = {
            .m = m,
            .n = n,
            .k = k,
            .batch = batch,
            .transpose_a = ta,
            .transpose_b = tb,
            .alpha = 1.25,
            .beta = round % 3 == 0 ? 0.0 : -0.5,
            .a = {.dtype = dtype, .offset = 3, .ld = (ta ? k : m) + 2, .stride = 600},
            .b = {.dtype = dtype, .offset = 0, .ld = (tb ? n : k) + 1, .stride = 500},
            .c = {.dtype = REF_F32, .offset = 1, .ld = m + 3, .stride = 480},
        };
        void *a = random_array(dtype, 2000, &rng), *b = random_array(dtype, 2000, &rng);
        void *c = random_array(REF_F32, 2000, &rng);
        p.a.data = a;
        p.b.data = b;
        p.c.data = c;

        double *out = calloc(batch * m * n, sizeof *out);
        assert_non_null(out);
        ref_gemm(&p, out);
        for (size_t t = 0; t < batch; t++) {
            for (size_t i = 0; i < m; i++) {
                for (size_t j = 0; j < n; j++) {
                    double sum = 0.0;
                    for (size_t q = 0; q < k; q++) {
                        const size_t in_a = ta ? i * p.a.ld + q : q * p.a.ld + i;
                        const size_t in_b = tb ? q * p.b.ld + j : j * p.b.ld + q;
                        sum += ref_load(dtype, a, 3 + t * 600 + in_a) *
                               ref_load(dtype, b, t * 500 + in_b);
                    }
                    sum = 1.25 * sum + p.beta * ref_load(REF_F32, c, 1 + t * 480 + j * p.c.ld + i);
                    assert_true(fabs(out[(t * n + j) * m + i] - sum) < 1e-13);
                }
            }
        }

        ref_sample samples[100];
        ref_gemm_sample(&p, &rng, 100, samples);
        for (size_t s = 0; s < 100; s++) {
            assert_true(samples[s].row < m && samples[s].column < n && samples[s].batch < batch);
            const size_t index = (samples[s].batch * n + samples[s].column) * m + samples[s].row;
            assert_true(fabs(out[index] - samples[s].value) < 1e-13);
        }
        assert_int_equal(samples[7].row, m - 1);
        assert_int_equal(samples[7].column, n - 1);
        assert_int_equal(samples[7].batch, batch - 1);

        const ref_matrix packed = {.dtype = REF_F64, .data = out, .ld = m, .stride = m * n};
        assert_true(ref_relative_error_sample(&packed, samples, 100) < 1e-13);
        assert_true(ref_relative_error(&packed, m, n, batch, out) == 0.0);
        free(out);
        free(a);
        free(b);
        free(c);
    }
}

static void errors_by_hand(void **state)
{
    (void)state;
    /* Reference [3 4], norm 5; the result is off by [0.5 0] in one column of ld 4, with NaN in the
     * gap. */
    const double reference[] = {3, 4};
    double result[4];
    ref_poison(result, sizeof result);
    result[1] = 3.5;
    result[2] = 4.0;
    const ref_matrix out = {.dtype = REF_F64, .data = result, .offset = 1, .ld = 4};
    assert_true(fabs(ref_relative_error(&out, 2, 1, 0, reference) - 0.1) < 1e-15);
    assert_true(fabs(ref_worst_error(&out, 2, 1, 0, reference) - 0.5 / sqrt(12.5)) < 1e-15);

    const ref_sample samples[] = {{0, 0, 0, 3.0}, {1, 0, 0, 4.0}};
    assert_true(fabs(ref_relative_error_sample(&out, samples, 2) - 0.1) < 1e-15);

    /* Nothing but zeros: right is 0, anything else infinitely wrong. */
    const double zeros[] = {0, 0};
    assert_true(ref_relative_error(&out, 2, 1, 1, zeros) == INFINITY);
    result[1] = result[2] = 0.0;
    assert_true(ref_relative_error(&out, 2, 1, 1, zeros) == 0.0);
    assert_true(ref_relative_error(&out, 0, 1, 1, zeros) == 0.0);
    assert_true(ref_relative_error(&out, 2, 1, 1, reference) == 1.0);

    /* The ends of the range of float64. */
    for (int exponent = -1060; exponent <= 1020; exponent += 2080) {
        const double scaled[] = {ldexp(3, exponent), ldexp(4, exponent)};
        result[1] = ldexp(3.5, exponent);
        result[2] = scaled[1];
        assert_true(fabs(ref_relative_error(&out, 2, 1, 1, scaled) - 0.1) < 1e-4);
    }
}

static void nan_gives_infinity(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t which = 0; which < 3; which++) {
        for (size_t place = 0; place < 12; place++) {
            double reference[12], result[12];
            for (size_t i = 0; i < 12; i++) {
                reference[i] = result[i] = (double)i + 1.0;
            }
            const ref_matrix out = {.dtype = REF_F64, .data = result, .ld = 2, .stride = 6};
            result[place] = bad[which];
            assert_true(ref_relative_error(&out, 2, 3, 2, reference) == INFINITY);
            assert_true(ref_worst_error(&out, 2, 3, 2, reference) == INFINITY);
            const ref_sample sample = {place % 2, place / 2 % 3, place / 6, reference[place]};
            assert_true(ref_relative_error_sample(&out, &sample, 1) == INFINITY);
            result[place] = reference[place];
            assert_true(ref_relative_error(&out, 2, 3, 2, reference) == 0.0);
            reference[place] = bad[which];
            assert_true(ref_relative_error(&out, 2, 3, 2, reference) == INFINITY);
        }
    }
}

/* One wholly wrong element of 512 x 512: below the tolerance of the norm in bf16, far above that of
 * the worst. */
static void worst_error_finds_one_wrong_element(void **state)
{
    (void)state;
    enum { SIZE = 512 };
    ref_rng rng;
    ref_rng_init(&rng, seed);
    double *reference = random_array(REF_F64, SIZE * SIZE, &rng);
    uint16_t *result = malloc(SIZE * SIZE * sizeof *result);
    assert_non_null(result);
    for (size_t i = 0; i < SIZE * SIZE; i++) {
        ref_store(REF_BF16, result, i, reference[i]);
    }
    const ref_matrix out = {.dtype = REF_BF16, .data = result, .ld = SIZE};
    const double tolerance = ref_gemm_tolerance(REF_BF16, 1, false);
    assert_true(ref_relative_error(&out, SIZE, SIZE, 1, reference) < tolerance);
    assert_true(ref_worst_error(&out, SIZE, SIZE, 1, reference) < REF_WORST_FACTOR * tolerance);
    ref_store(REF_BF16, result, 1000, reference[1000] + 1.0);
    assert_true(ref_relative_error(&out, SIZE, SIZE, 1, reference) < tolerance);
    assert_true(ref_worst_error(&out, SIZE, SIZE, 1, reference) > REF_WORST_FACTOR * tolerance);
    free(reference);
    free(result);
}

/* The product done in the dtype the way a plain float32 kernel would passes; one with the inputs
 * cut to TF32 passes only where that is allowed. */
static void tolerance_parts_right_from_wrong(void **state)
{
    (void)state;
    enum { M = 33, N = 29 };
    static const size_t depths[] = {1, 2, 17, 64, 1000};
    ref_rng rng;
    ref_rng_init(&rng, seed);
    for (size_t depth = 0; depth < sizeof depths / sizeof depths[0]; depth++) {
        const size_t k = depths[depth];
        for (int d = 0; d < REF_DTYPE_COUNT; d++) {
            const ref_dtype dtype = (ref_dtype)d;
            void *a = random_array(dtype, M * k, &rng), *b = random_array(dtype, k * N, &rng);
            const ref_gemm_problem p = {
                .m = M,
                .n = N,
                .k = k,
                .alpha = 1.0,
                .a = {.dtype = dtype, .data = a, .ld = M},
                .b = {.dtype = dtype, .data = b, .ld = k},
            };
            double reference[M * N], plain[M * N], cut[M * N], short_by_one[M * N];
            ref_gemm(&p, reference);
            for (size_t e = 0; e < M * N; e++) {
                double wide = 0.0, missing = 0.0;
                float narrow = 0.0f, cut_sum = 0.0f;
                for (size_t q = k;
                     q-- > 0;) { /* backwards, so that f64 differs from the reference */
                    const double x = ref_load(dtype, a, q * M + e % M);
                    const double y = ref_load(dtype, b, e / M * k + q);
                    const float factors[] = {(float)x, (float)y};
                    uint32_t bits[2];
                    float cut_factors[2];
                    memcpy(bits, factors, sizeof bits);
                    bits[0] &= ~UINT32_C(0x1fff);
                    bits[1] &= ~UINT32_C(0x1fff);
                    memcpy(cut_factors, bits, sizeof bits);
                    wide += x * y;
                    missing += q == 0 ? 0.0 : x * y;
                    narrow += (float)x * (float)y;
                    cut_sum += cut_factors[0] * cut_factors[1];
                }
                ref_store(dtype, plain, e, dtype == REF_F64 ? wide : (double)narrow);
                ref_store(dtype, cut, e, (double)cut_sum);
                ref_store(dtype, short_by_one, e, missing);
            }
            ref_matrix out = {.dtype = dtype, .data = plain, .ld = M};
            const double tolerance = ref_gemm_tolerance(dtype, k, false);
            assert_true(ref_relative_error(&out, M, N, 1, reference) < tolerance);
            out.data = short_by_one;
            assert_true(ref_relative_error(&out, M, N, 1, reference) > tolerance);
            out.data = cut;
            const double error = ref_relative_error(&out, M, N, 1, reference);
            if (dtype == REF_F32) {
                assert_true(error > tolerance);
                assert_true(error < ref_gemm_tolerance(dtype, k, true));
            }
            free(a);
            free(b);
        }
    }
}

/* A 2 x 2 batch of 2 in an array of 24 elements; each byte is changed in turn. */
static void guards_detect_every_write_outside(void **state)
{
    (void)state;
    static const size_t inside[] = {3, 4, 6, 7, 12, 13, 15, 16}; /* offset 3, ld 3, stride 9 */
    for (int d = 0; d < REF_DTYPE_COUNT; d++) {
        const ref_dtype dtype = (ref_dtype)d;
        const size_t size = ref_dtype_size(dtype);
        const size_t bytes = 24 * size + 1; /* an odd byte at the end is guarded too */
        const ref_matrix written = {.dtype = dtype, .offset = 3, .ld = 3, .stride = 9};
        unsigned char before[24 * 8 + 1], after[24 * 8 + 1];
        ref_poison(before, bytes);
        memcpy(after, before, bytes);
        assert_true(ref_guards_intact(before, after, bytes, &written, 2, 2, 2, NULL));
        for (size_t byte = 0; byte < bytes; byte++) {
            bool allowed = false;
            for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
                allowed = allowed || byte / size == inside[i];
            }
            size_t bad = SIZE_MAX;
            after[byte] ^= 1;
            assert_int_equal(ref_guards_intact(before, after, bytes, &written, 2, 2, 2, &bad),
                             allowed);
            assert_true(bad == (allowed ? SIZE_MAX : byte));
            assert_int_equal(ref_guards_intact(before, after, bytes, &written, 2, 2, 2, NULL),
                             allowed);
            assert_false(ref_guards_intact(before, after, bytes, &written, 0, 2, 2, NULL));
            after[byte] ^= 1;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(generator_matches_published_values),
        UNIT(generator_repeats_and_stays_in_range),
        UNIT(seed_comes_from_the_environment),
        UNIT(elements_load_what_was_stored),
        UNIT(filling_stays_in_range),
        UNIT(small_products),
        UNIT(offsets_strides_and_leading_dimensions),
        UNIT(random_products_agree_with_samples),
        UNIT(errors_by_hand),
        UNIT(nan_gives_infinity),
        UNIT(worst_error_finds_one_wrong_element),
        UNIT(tolerance_parts_right_from_wrong),
        UNIT(guards_detect_every_write_outside),
    };
    seed = ref_seed();
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
