/* Transforms of the host's own FFT against those of FFTW in long double: every length to 4096 and
 * some up to 2^22, both types, all sides; tensors of any layout; equal bits on every processor.
 * With
 * --bench, and perhaps a number of threads: times beside those of FFTW. */
#include "actors/fft/host/kernels.h"
#include "base/os/cpu.h"
#include "base/os/team.h"
#include "support/harness.h"
#include "support/label.h"
#include "support/reference/reference.h"
#include "unit/fft/fftw_times.h"

#include "support/unit.h"

#include <fftw3.h>
#include <math.h>

TROUPE_TEST("computes", "no tsan", "long");

static ref_rng rng;

static int64_t below(int64_t bound)
{
    return (int64_t)ref_rng_below(&rng, (size_t)bound);
}

static void *allocate(int64_t numbers, bool wide)
{
    void *memory = malloc((size_t)numbers * (wide ? 8 : 4) + 8);
    assert_non_null(memory);
    return memory;
}

static void put(void *array, bool wide, int64_t at, double value)
{
    if (wide)
        ((double *)array)[at] = value;
    else
        ((float *)array)[at] = (float)value;
}

static double get(const void *array, bool wide, int64_t at)
{
    return wide ? ((const double *)array)[at] : (double)((const float *)array)[at];
}

/* ---- one length ---- */

/* A line of random numbers, exact in f32, and its transform. */
typedef struct reference {
    int64_t n;
    long double *x, *y; /* complex */
} reference;

static reference make_reference(int64_t n)
{
    reference r = {.n = n, .x = fftwl_malloc((size_t)n * 32), .y = fftwl_malloc((size_t)n * 32)};
    fftwl_plan plan = fftwl_plan_dft_1d((int)n, (fftwl_complex *)r.x, (fftwl_complex *)r.y,
                                        FFTW_FORWARD, FFTW_ESTIMATE);
    assert_non_null(plan);
    for (int64_t i = 0; i < 2 * n; i++)
        r.x[i] = (float)ref_rng_uniform(&rng, -1, 1);
    fftwl_execute(plan);
    fftwl_destroy_plan(plan);
    return r;
}

static void free_reference(reference *r)
{
    fftwl_free(r->x);
    fftwl_free(r->y);
}

/* What a transform takes and gives, from the one reference: part 0 or 1 of element k. */
static long double transformed(const reference *r, trp__fft_sides sides, bool inverse, int64_t k,
                               int part)
{
    const int64_t n = r->n, back = (n - k) % n, at = inverse ? back : k;
    if (sides == TRP__FFT_COMPLEX)
        return r->y[2 * at + part];
    /* The transform of the real parts alone is the symmetric part. */
    const int64_t other = inverse ? k : back;
    return part == 0 ? (r->y[2 * at] + r->y[2 * other]) / 2
                     : (r->y[2 * at + 1] - r->y[2 * other + 1]) / 2;
}

static const trp__fft_sides kinds[] = {TRP__FFT_COMPLEX, TRP__FFT_FROM_REAL, TRP__FFT_TO_REAL};

typedef struct shape {
    bool wide, single, inverse;
    trp__fft_sides sides;
    int64_t lines;
} shape;

static double scale_of(int64_t line)
{
    return ldexp(1, (int)(line % 12)); /* tells lines from each other, exactly */
}

static int64_t numbers_of(const shape *s, int64_t n, bool output)
{
    if (s->sides == (output ? TRP__FFT_TO_REAL : TRP__FFT_FROM_REAL))
        return n;
    return s->sides == TRP__FFT_COMPLEX ? 2 * n : n / 2 * 2 + 2;
}

static long double input(const reference *r, const shape *s, int64_t number)
{
    if (s->sides == TRP__FFT_COMPLEX)
        return r->x[number];
    if (s->sides == TRP__FFT_FROM_REAL)
        return r->x[2 * number];
    /* The forward transform of the conjugate is that of the other sign. */
    return transformed(r, TRP__FFT_FROM_REAL, !s->inverse, number / 2, (int)(number % 2));
}

static long double wanted(const reference *r, const shape *s, int64_t number)
{
    return s->sides == TRP__FFT_TO_REAL
               ? r->x[2 * number] * (long double)r->n
               : transformed(r, s->sides, s->inverse, number / 2, (int)(number % 2));
}

static void run_job(trp__fft_job *job, void (*run)(const trp__fft_job *job))
{
    trp__fft_job_settle(job);
    job->scratch = aligned_alloc(TRP__FFT_PAIR_BYTES, trp__fft_scratch_bytes(job->plan));
    assert_non_null(job->scratch);
    run(job);
    free(job->scratch);
}

static trp__fft_plan *make_plan(int64_t n, const shape *s)
{
    const trp__fft_key key = {
        .n = n, .wide = s->wide, .real = s->sides != TRP__FFT_COMPLEX, .single = s->single};
    trp__fft_plan *plan = NULL;
    trp_error error;
    assert_int_equal(trp__fft_plan_make(&key, &plan, &error), TRP_OK);
    return plan;
}

/* The error of a line, of the size of all of it, in ulps times log2(n); the largest of the lines.
 */
static double error_of(const reference *r, const shape *s)
{
    const int64_t in = numbers_of(s, r->n, false), out = numbers_of(s, r->n, true);
    void *x = allocate(in * s->lines, s->wide), *y = allocate(out * s->lines, s->wide);
    trp__fft_plan *plan = make_plan(r->n, s);
    for (int64_t l = 0; l < s->lines; l++) {
        for (int64_t i = 0; i < in; i++)
            put(x, s->wide, l * in + i, (double)(input(r, s, i) * (long double)scale_of(l)));
    }
    memset(y, 0xff, (size_t)(out * s->lines) * (s->wide ? 8 : 4));
    trp__fft_job job = {.plan = plan,
                        .sides = s->sides,
                        .inverse = s->inverse,
                        .scale = 1,
                        .x = x,
                        .y = y,
                        .x_step = s->sides == TRP__FFT_FROM_REAL ? 1 : 2,
                        .y_step = s->sides == TRP__FFT_TO_REAL ? 1 : 2,
                        .have = s->sides == TRP__FFT_TO_REAL ? r->n / 2 + 1 : r->n,
                        .others = 1,
                        .other = {{s->lines, s->lines, in, out}}};
    run_job(&job, trp__fft_run);
    double worst = 0;
    for (int64_t l = 0; l < s->lines; l++) {
        long double error = 0, size = 0;
        for (int64_t i = 0; i < out; i++) {
            const long double want = wanted(r, s, i) * (long double)scale_of(l),
                              off = (long double)get(y, s->wide, l * out + i) - want;
            error += off * off;
            size += want * want;
        }
        const double ulps = (double)sqrtl(error / size) / (s->wide ? 0x1p-52 : 0x1p-23);
        const double share = ulps / (r->n > 2 ? log2((double)r->n) : 1);
        worst = share <= worst ? worst : share; /* a NaN is the worst */
    }
    trp__fft_plan_drop(plan);
    free(x);
    free(y);
    return worst;
}

/* Both types, all sides, both directions, beside each other and alone; of longer ones a part by
 * turns. */
static double check_length(int64_t n, int64_t lines)
{
    reference r = make_reference(n);
    double worst = 0;
    for (unsigned way = 0; way < 24; way++) {
        if (n > 256 && (way * 5 + (unsigned)n) % 4 > 0)
            continue;
        const shape s = {.wide = way & 1,
                         .inverse = way & 2,
                         .single = way & 4,
                         .sides = kinds[way / 8],
                         .lines = way & 4 ? 1 + lines % 2 : lines};
        const int64_t length = n % 2 == 0 && s.sides != TRP__FFT_COMPLEX ? n / 2 : n;
        if (s.single ? length < TRP__FFT_SPLIT_MIN : length > TRP__FFT_STRIP_MAX)
            continue;
        const double error = error_of(&r, &s);
        if (!(error <= 4)) {
            fprintf(stderr, "length %lld, %s, sides %d%s%s, %lld lines: %g ulp * log2(n)\n",
                    (long long)n, s.wide ? "f64" : "f32", s.sides, s.inverse ? ", inverse" : "",
                    s.single ? ", single" : "", (long long)s.lines, error);
            assert_true(false);
        }
        worst = error > worst ? error : worst;
    }
    free_reference(&r);
    return worst;
}

static void every_length_to_4096(void **state)
{
    double worst = 0;
    (void)state;
    for (int64_t n = 1; n <= 4096; n += H_SANITIZED && n > 128 ? 1 + below(200) : 1) {
        const double error = check_length(n, 1 + below(n < 200 ? 20 : 10));
        worst = error > worst ? error : worst;
    }
    printf("    largest error %.3f ulp * log2(n)\n", worst);
}

/* A length up to `most` of small primes, or with a large one. */
static int64_t random_length(int64_t most, bool mixed)
{
    static const int64_t primes[] = {2, 2, 2, 3, 3, 5, 7, 11, 13, 17, 61};
    int64_t n = mixed ? 1 : most / 2 + below(most / 2);
    for (int tries = 0; mixed && tries < 60; tries++) {
        const int64_t p = primes[below(sizeof primes / sizeof *primes)];
        n = n * p <= most ? n * p : n;
    }
    for (bool prime = mixed; !prime; n++) {
        prime = true;
        for (int64_t p = 2; p * p <= n && prime; p++)
            prime = n % p != 0;
        if (prime)
            break;
    }
    return n;
}

static void large_lengths(void **state)
{
    double worst = 0;
    (void)state;
    for (int log = 13; log <= (H_SANITIZED ? 15 : 20); log++) {
        for (int i = 0; i < 3; i++) {
            const int64_t most = INT64_C(1) << log, n = i == 0 ? most : random_length(most, i == 1);
            const double error = check_length(n, 1);
            worst = error > worst ? error : worst;
        }
    }
    for (int i = 0; i < 3 && !H_SANITIZED; i++) {
        const int64_t most = INT64_C(1) << 22, n = i == 0 ? most : random_length(most, i == 1);
        const double error = check_length(n, 1);
        worst = error > worst ? error : worst;
    }
    printf("    largest error %.3f ulp * log2(n)\n", worst);
}

/* ---- layouts ---- */

enum { DIMS = 3, MOST = 4000 };

/* A tensor of random layout: dimension 0 is transformed. */
typedef struct tensor {
    int64_t n[DIMS], step[DIMS], numbers, first;
} tensor;

static void lay_out(tensor *t, bool complex)
{
    int order[DIMS] = {0, 1, 2};
    int64_t step = (complex ? 2 : 1) * (1 + (below(3) == 0 ? below(3) : 0));
    for (int i = DIMS - 1; i > 0; i--) {
        const int64_t k = below(i + 1);
        const int was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    t->first = 0;
    for (int i = 0; i < DIMS; i++) {
        const int d = order[i];
        t->step[d] = below(6) == 0 ? -step : step;
        t->first -= t->step[d] < 0 ? t->step[d] * (t->n[d] - 1) : 0;
        step *= t->n[d];
        if (below(3) == 0)
            step += (complex ? 2 : 1) * below(4);
    }
    t->numbers = step + 2;
}

static int64_t place(const tensor *t, int64_t i, int64_t j, int64_t k)
{
    return t->first + i * t->step[0] + j * t->step[1] + k * t->step[2];
}

/* Element i of a line of x: zero beyond what there is. */
static long double part_of_x(const void *x, const tensor *t, const shape *s, const int64_t at[DIMS],
                             int part)
{
    const bool real = s->sides == TRP__FFT_FROM_REAL;
    for (int d = 0; d < DIMS; d++) {
        if (at[d] >= t->n[d])
            return 0;
    }
    return real && part ? 0 : (long double)get(x, s->wide, place(t, at[0], at[1], at[2]) + part);
}

/* The same of the whole spectrum behind a half one. */
static long double whole(const void *x, const tensor *t, const shape *s, int64_t n, int64_t i,
                         int64_t j, int64_t k, int part)
{
    const bool mirrored = s->sides == TRP__FFT_TO_REAL && i > n / 2;
    const int64_t at[DIMS] = {mirrored ? n - i : i, j, k};
    if (s->sides == TRP__FFT_TO_REAL && part && (i == 0 || 2 * i == n))
        return 0; /* imaginary parts that are not looked at */
    const long double value = part_of_x(x, t, s, at, part);
    return mirrored && part ? -value : value;
}

static void check_line(const void *x, const tensor *tx, const void *y, const tensor *ty,
                       const shape *s, int64_t n, double scale, int64_t j, int64_t k, bool *written)
{
    long double error = 0, size = 0;
    for (int64_t i = 0; i < ty->n[0]; i++) {
        long double re = 0, im = 0;
        for (int64_t l = 0; l < n; l++) {
            const long double angle = (s->inverse ? 2 : -2) * 3.14159265358979323846264338328L *
                                      (long double)(l * i % n) / (long double)n;
            const long double c = cosl(angle), d = sinl(angle);
            const long double a = whole(x, tx, s, n, l, j, k, 0),
                              b = whole(x, tx, s, n, l, j, k, 1);
            re += a * c - b * d;
            im += a * d + b * c;
        }
        const int64_t at = place(ty, i, j, k);
        const long double off_re = (long double)get(y, s->wide, at) - re * (long double)scale;
        error += off_re * off_re;
        size += re * re + (s->sides == TRP__FFT_TO_REAL ? 0 : im * im);
        written[at] = true;
        if (s->sides == TRP__FFT_TO_REAL)
            continue;
        const long double off_im = (long double)get(y, s->wide, at + 1) - im * (long double)scale;
        error += off_im * off_im;
        written[at + 1] = true;
    }
    const double bound =
        (s->wide ? 0x1p-52 : 0x1p-23) * fabs(scale) * (n > 2 ? log2((double)n) : 1);
    if (!((double)sqrtl(error) <= 4 * bound * (double)sqrtl(size))) {
        fprintf(stderr, "n %lld, sides %d, line %lld %lld: error %Lg of %Lg\n", (long long)n,
                s->sides, (long long)j, (long long)k, sqrtl(error), sqrtl(size));
        assert_true(false);
    }
}

static void check_layout(void)
{
    const shape s = {
        .wide = below(2), .inverse = below(2), .sides = kinds[below(3)], .single = below(4) == 0};
    const int64_t n = s.single ? 130 + below(100) : 1 + below(40);
    const bool in_place = s.sides == TRP__FFT_COMPLEX && below(4) == 0;
    tensor x, y = {.n = {s.sides == TRP__FFT_FROM_REAL ? n / 2 + 1 : n, 1 + below(s.single ? 2 : 9),
                         1 + below(s.single ? 2 : 9)}};
    x = y;
    x.n[0] = s.sides == TRP__FFT_TO_REAL ? n / 2 + 1 : n;
    for (int d = 0; d < DIMS && !in_place; d++) {
        if (below(4) == 0)
            x.n[d] = below(x.n[d] + (d == 0 ? 5 : 1));
    }
    lay_out(&y, s.sides != TRP__FFT_TO_REAL);
    lay_out(&x, s.sides != TRP__FFT_FROM_REAL);
    if (in_place)
        x = y;
    assert_true(x.numbers < 10 * MOST * 40 && y.numbers < 10 * MOST * 40);
    void *from = allocate(x.numbers, s.wide), *to = allocate(y.numbers, s.wide), *at_x = from;
    bool *written = calloc((size_t)y.numbers, sizeof *written);
    assert_non_null(written);
    for (int64_t i = 0; i < x.numbers; i++)
        put(from, s.wide, i, ref_rng_uniform(&rng, -1, 1));
    const double scale = below(2) ? 1 : 0.375;
    memset(to, 0x7f, (size_t)y.numbers * (s.wide ? 8 : 4));
    if (in_place) {
        memcpy(to, from, (size_t)y.numbers * (s.wide ? 8 : 4));
        at_x = to;
    }
    trp__fft_plan *plan = make_plan(n, &s);
    const size_t size = s.wide ? 8 : 4;
    trp__fft_job job = {
        .plan = plan,
        .sides = s.sides,
        .inverse = s.inverse,
        .scale = scale,
        .x = (char *)at_x + (size_t)x.first * size,
        .y = (char *)to + (size_t)y.first * size,
        .x_step = x.step[0],
        .y_step = y.step[0],
        .have = x.n[0],
        .others = 2,
        .other = {{y.n[1], x.n[1], x.step[1], y.step[1]}, {y.n[2], x.n[2], x.step[2], y.step[2]}}};
    run_job(&job, trp__fft_run);
    for (int64_t j = 0; j < y.n[1]; j++) {
        for (int64_t k = 0; k < y.n[2]; k++)
            check_line(from, &x, to, &y, &s, n, scale, j, k, written);
    }
    for (int64_t i = 0; i < y.numbers && !in_place; i++) {
        if (!written[i] && get(to, s.wide, i) != get(memset(&(double){0}, 0x7f, 8), s.wide, 0))
            fail_msg("number %lld was written", (long long)i);
    }
    trp__fft_plan_drop(plan);
    free(from);
    free(to);
    free(written);
}

static void layouts(void **state)
{
    (void)state;
    for (int i = 0; i < (H_SANITIZED ? 100 : 600); i++)
        check_layout();
}

/* ---- bits ---- */

static void equal_bits_without_avx2(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!trp__cpu_has_avx2())
        skip();
    for (int round = 0; round < 200; round++) {
        const shape s = {
            .wide = below(2), .single = below(2), .sides = kinds[below(3)], .lines = 5};
        const int64_t n = 128 + below(2000), in = numbers_of(&s, n, false),
                      out = numbers_of(&s, n, true);
        const size_t bytes = (size_t)(out * s.lines) * (s.wide ? 8 : 4);
        void *x = allocate(in * s.lines, s.wide), *y[2];
        trp__fft_plan *plan = make_plan(n, &s);
        for (int64_t i = 0; i < in * s.lines; i++)
            put(x, s.wide, i, ref_rng_uniform(&rng, -1, 1));
        for (int i = 0; i < 2; i++) {
            y[i] = allocate(out * s.lines, s.wide);
            trp__fft_job job = {.plan = plan,
                                .sides = s.sides,
                                .scale = 0.1,
                                .x = x,
                                .y = y[i],
                                .x_step = s.sides == TRP__FFT_FROM_REAL ? 1 : 2,
                                .y_step = s.sides == TRP__FFT_TO_REAL ? 1 : 2,
                                .have = s.sides == TRP__FFT_TO_REAL ? n / 2 + 1 : n,
                                .others = 1,
                                .other = {{s.lines, s.lines, in, out}}};
            run_job(&job, s.wide ? (i ? trp__fft_run_f64_avx2 : trp__fft_run_f64)
                                 : (i ? trp__fft_run_f32_avx2 : trp__fft_run_f32));
        }
        assert_memory_equal(y[0], y[1], bytes);
        trp__fft_plan_drop(plan);
        free(x);
        free(y[0]);
        free(y[1]);
    }
#endif
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {UNIT(every_length_to_4096), UNIT(large_lengths),
                                       UNIT(layouts), UNIT(equal_bits_without_avx2)};
    ref_rng_init(&rng, ref_seed());
    trp__team_open();
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        fftw_times(argc > 2 ? atoi(argv[2]) : trp__team_width());
    const int failed = argc > 1 ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
    trp__team_close();
    return failed;
}
