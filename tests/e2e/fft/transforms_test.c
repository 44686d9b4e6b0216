/* The fft actor beside tests/conformance: more lengths than it keeps plans of, long lines, tensors
 * of nothing, x as it was behind a transform to real numbers, requests behind each other, cancelled
 * ones, memory that is given back. */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *fft;

static void open_world(void)
{
    world = h_open(NULL);
    fft = h_actor(world.device, "fft");
}

static float *random_numbers(size_t count)
{
    float *x = h_malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
    return x;
}

static trp_buffer uploaded(const float *x, size_t count)
{
    trp_buffer b = h_buffer(world.device, count * sizeof *x);
    h_write(world.device, b, 0, x, count * sizeof *x);
    return b;
}

/* One line of complex numbers. */
static trp_fft_request line(trp_buffer x, trp_buffer y, int64_t n, bool inverse)
{
    return (trp_fft_request){.inverse = inverse,
                             .rank = 1,
                             .x = {.buffer = x, .type = TRP_C64, .dim = {n}},
                             .y = {.buffer = y}};
}

static double distance(const float *a, const float *b, size_t count)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(error / size);
}

/* There, and in place back, by 300 plans in a row of which 64 are kept. Nothing waits between. */
static void more_lengths_than_plans(void)
{
    enum { LENGTHS = 150 };
    trp_buffer x[LENGTHS], y[LENGTHS];
    trp_completion done[LENGTHS];
    float *before[LENGTHS];
    open_world();
    for (int i = 0; i < LENGTHS; i++) {
        const int64_t n = 1 + i + (i % 10 == 0 ? 1000 : 0);
        before[i] = random_numbers((size_t)n * 2);
        x[i] = uploaded(before[i], (size_t)n * 2);
        y[i] = h_buffer(world.device, (uint64_t)n * 8);
    }
    for (int i = 0; i < LENGTHS; i++) {
        const int64_t n = 1 + i + (i % 10 == 0 ? 1000 : 0);
        const trp_fft_request there = line(x[i], y[i], n, false), back = line(y[i], y[i], n, true);
        done[i] = (trp_completion){0};
        H_OK(trp_fft(fft, &there, NULL));
        H_OK(trp_fft(fft, &back, &done[i]));
    }
    for (int i = 0; i < LENGTHS; i++) {
        const size_t numbers = (size_t)(1 + i + (i % 10 == 0 ? 1000 : 0)) * 2;
        float *after = h_malloc(numbers * sizeof *after);
        H_OK(h_await_any(done[i]));
        h_read(world.device, y[i], 0, after, numbers * sizeof *after);
        H_CHECK(distance(after, before[i], numbers) < 2e-6);
        h_read(world.device, x[i], 0, after, numbers * sizeof *after);
        H_SAME(after, before[i], numbers * sizeof *after);
        free(after);
        free(before[i]);
    }
    h_close(&world);
}

/* Whether the test's GPU is the fake one, on which proofs of long lines take long. */
static bool is_slow(void)
{
    return h_is_cuda() && !h_is_gpu();
}

/* Two powers of two, a prime and a mixed length; an impulse becomes a wave. */
static void long_lines(void)
{
    static const int64_t lengths[] = {1 << 16, 1 << 20, 100003, 720720};
    static const int64_t shorter[] = {1 << 12, 1 << 14, 10007, 5040};
    open_world();
    for (size_t i = 0; i < (H_SANITIZED ? 1 : sizeof lengths / sizeof *lengths); i++) {
        const int64_t n = is_slow() ? shorter[i] : lengths[i],
                      at = 1 + (int64_t)ref_rng_below(h_rng(), 1000);
        const size_t bytes = (size_t)n * 8;
        float *wave = h_malloc(bytes), *got = h_malloc(bytes);
        memset(got, 0, bytes);
        got[2 * at] = 1;
        for (int64_t k = 0; k < n; k++) {
            const double angle = -6.283185307179586476925287 * (double)(k * at % n) / (double)n;
            wave[2 * k] = (float)cos(angle);
            wave[2 * k + 1] = (float)sin(angle);
        }
        trp_buffer x = uploaded(got, (size_t)n * 2), y = h_buffer(world.device, bytes);
        trp_completion done = {0};
        const trp_fft_request r = line(x, y, n, false);
        H_OK(trp_fft(fft, &r, &done));
        H_OK(h_await_any(done));
        h_read(world.device, y, 0, got, bytes);
        H_CHECK(distance(got, wave, (size_t)n * 2) < 4e-6);
        H_OK(trp_buffer_free(world.device, x));
        H_OK(trp_buffer_free(world.device, y));
        free(wave);
        free(got);
    }
    h_close(&world);
}

/* Nothing to transform; nothing to read, but zeros to write. */
static void tensors_of_nothing(void)
{
    float zeros[16] = {0}, got[16];
    open_world();
    trp_buffer y = h_filled(world.device, sizeof got, 0x7fc00000);
    trp_fft_request r = {.rank = 2,
                         .axis_count = 1,
                         .axis = {1},
                         .x = {.type = TRP_C64, .dim = {0, 5}},
                         .y = {.dim = {0, 5}}};
    trp_completion done = {0};
    H_OK(trp_fft(fft, &r, &done)); /* needs no buffers */
    H_OK(h_await_any(done));
    r.axis_count = 2;
    r.axis[1] = 0;
    H_IS(trp_fft(fft, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("n[1]");
    r = (trp_fft_request){
        .rank = 2, .n = {2, 4}, .x = {.type = TRP_C64, .dim = {2, 0}}, .y = {.buffer = y}};
    done = (trp_completion){0};
    H_OK(trp_fft(fft, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, y, 0, got, sizeof got);
    H_SAME(got, zeros, sizeof got);
    h_close(&world);
}

/* Real numbers there and back in three dimensions by a sealed spectrum, which nothing can write. */
static void sealed_spectrum(void)
{
    enum { A = 6, B = 10, C = 30, NUMBERS = A * B * C, HALF = A * B * (C / 2 + 1) };
    float *before = random_numbers(NUMBERS), *after = h_malloc(NUMBERS * sizeof *after);
    open_world();
    trp_buffer x = uploaded(before, NUMBERS), y = h_sealable(world.device, HALF * 8);
    trp_fft_request r = {.kind = TRP_FFT_R2C,
                         .norm = TRP_FFT_ORTHO,
                         .rank = 3,
                         .x = {.buffer = x, .type = TRP_F32, .dim = {A, B, C}},
                         .y = {.buffer = y}};
    trp_completion done = {0};
    H_OK(trp_fft(fft, &r, &done));
    H_OK(h_await_any(done));
    H_OK(trp_buffer_seal(world.device, y, H_LONG));
    r = (trp_fft_request){.kind = TRP_FFT_C2R,
                          .inverse = true,
                          .norm = TRP_FFT_ORTHO,
                          .rank = 3,
                          .x = {.buffer = y, .type = TRP_C64, .dim = {A, B, C / 2 + 1}},
                          .y = {.buffer = x}};
    done = (trp_completion){0};
    H_OK(trp_fft(fft, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, x, 0, after, NUMBERS * sizeof *after);
    H_CHECK(distance(after, before, NUMBERS) < 2e-6);
    r.y.buffer = y;
    H_CHECK(trp_fft(fft, &r, NULL) != TRP_OK);
    h_close(&world);
    free(before);
    free(after);
}

/* A request whose plan is being made is cancelled, and the plan serves the next one. */
static void cancelled_while_planned(void)
{
    const int64_t n = H_SANITIZED || is_slow() ? 10007 : 300007;
    float *x = random_numbers((size_t)n * 2);
    open_world();
    trp_buffer from = uploaded(x, (size_t)n * 2), to = h_buffer(world.device, (uint64_t)n * 8);
    const trp_fft_request there = line(from, to, n, false), back = line(to, to, n, true);
    for (int round = 0; round < 5; round++) {
        trp_completion first = {0}, second = {0}, third = {0};
        H_OK(trp_fft(fft, &there, &first));
        H_OK(trp_cancel(first.future));
        const trp_status status = h_await(first.future, NULL);
        H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED);
        H_OK(trp_fft(fft, &there, &second));
        H_OK(trp_fft(fft, &back, &third));
        H_OK(h_await_any(second));
        H_OK(h_await_any(third));
        H_OK(trp_device_trim(world.device)); /* takes the plans away */
    }
    float *got = h_malloc((size_t)n * 8);
    h_read(world.device, to, 0, got, (uint64_t)n * 8);
    H_CHECK(distance(got, x, (size_t)n * 2) < 4e-6);
    free(got);
    free(x);
    h_close(&world);
}

H_CASES(H_CASE(more_lengths_than_plans), H_CASE(long_lines), H_CASE(tensors_of_nothing),
        H_CASE(sealed_spectrum), H_CASE(cancelled_while_planned))
