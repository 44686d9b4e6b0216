#include "unit/fft/fftw_times.h"

#include "actors/fft/host/kernels.h"
#include "base/os/clock.h"

#include <fftw3.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, TOGETHER = 1 << 18 };

/* Two sides of one transform. */
typedef struct race {
    bool wide;
    fftwf_plan narrow_plan;
    fftw_plan wide_plan;
    trp__fft_job job;
} race;

static void run_fftw(race *r)
{
    if (r->wide)
        fftw_execute(r->wide_plan);
    else
        fftwf_execute(r->narrow_plan);
}

static void run_own(race *r)
{
    trp__fft_run(&r->job);
}

static double seconds(race *r, void (*run)(race *r), int times)
{
    const int64_t begin = trp__now_ns();
    for (int i = 0; i < times; i++)
        run(r);
    return (double)(trp__now_ns() - begin) * 1e-9 / times;
}

/* The least times of both sides, taken by turns; returns their ratio. */
static double measure(race *r, const char *name)
{
    double fftw = INFINITY, own = INFINITY;
    run_fftw(r);
    run_own(r);
    const double once = seconds(r, run_fftw, 1);
    const int times = once < 2e-3 ? (int)(2e-3 / (once + 1e-7)) + 1 : 1;
    for (int i = 0; i < ROUNDS; i++) {
        fftw = fmin(fftw, seconds(r, run_fftw, times));
        own = fmin(own, seconds(r, run_own, times));
    }
    printf("%-24s FFTW %10.1f us, own %10.1f us, %5.2f of its speed\n", name, fftw * 1e6, own * 1e6,
           fftw / own);
    return fftw / own;
}

static void make_plans(race *r, int64_t n, int64_t lines, void *x, void *y)
{
    const int length = (int)n, many = (int)lines;
    if (r->wide)
        r->wide_plan = fftw_plan_many_dft(1, &length, many, x, NULL, 1, length, y, NULL, 1, length,
                                          FFTW_FORWARD, FFTW_ESTIMATE);
    else
        r->narrow_plan = fftwf_plan_many_dft(1, &length, many, x, NULL, 1, length, y, NULL, 1,
                                             length, FFTW_FORWARD, FFTW_ESTIMATE);
}

static double compare(int64_t n, int64_t lines, bool wide)
{
    const size_t bytes = (size_t)(n * lines) * (wide ? 16 : 8);
    void *x = fftw_malloc(bytes), *y = fftw_malloc(bytes);
    race r = {.wide = wide};
    trp__fft_plan *plan = NULL;
    const trp__fft_key key = {
        .n = n, .wide = wide, .single = trp__fft_is_single(n, false, wide, lines)};
    char name[48];
    make_plans(&r, n, lines, x, y);
    for (int64_t i = 0; i < 2 * n * lines; i++) {
        if (wide)
            ((double *)x)[i] = (double)rand() / RAND_MAX - 0.5;
        else
            ((float *)x)[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    }
    memset(y, 0, bytes);
    if (trp__fft_plan_make(&key, &plan, NULL) != TRP_OK)
        abort();
    r.job = (trp__fft_job){.plan = plan,
                           .scale = 1,
                           .x = x,
                           .y = y,
                           .x_step = 2,
                           .y_step = 2,
                           .have = n,
                           .others = 1,
                           .other = {{lines, lines, 2 * n, 2 * n}}};
    r.job.scratch = aligned_alloc(TRP__FFT_PAIR_BYTES, trp__fft_scratch_bytes(plan));
    trp__fft_job_settle(&r.job);
    snprintf(name, sizeof name, "%s %lld x %lld", wide ? "f64" : "f32", (long long)n,
             (long long)lines);
    const double ratio = measure(&r, name);
    if (wide)
        fftw_destroy_plan(r.wide_plan);
    else
        fftwf_destroy_plan(r.narrow_plan);
    free(r.job.scratch);
    trp__fft_plan_drop(plan);
    fftw_free(x);
    fftw_free(y);
    return ratio;
}

void fftw_times(int threads)
{
    static const int64_t mixed[] = {48,     60,      100,     105,   240,   1000,
                                    1001,   1155,    3600,    10000, 15015, 44100,
                                    100000, 1000000, 17 * 64, 4099,  10007, 65537};
    enum { POWERS = 19, MIXED = sizeof mixed / sizeof *mixed };
    if (!fftw_init_threads() || !fftwf_init_threads())
        abort();
    fftw_plan_with_nthreads(threads);
    fftwf_plan_with_nthreads(threads);
    for (int wide = 0; wide < 2; wide++) {
        double powers = 0, others = 0;
        for (int i = 0; i < POWERS + MIXED; i++) {
            const int64_t n = i < POWERS ? INT64_C(16) << i : mixed[i - POWERS];
            const int64_t lines = n < TOGETHER ? TOGETHER / n : 1;
            *(i < POWERS ? &powers : &others) += log(compare(n, lines, wide));
        }
        printf("%s, %d threads: %.2f of FFTW's speed for 2^4 to 2^22, %.2f for mixed sizes "
               "(geometric means)\n",
               wide ? "f64" : "f32", threads, exp(powers / POWERS), exp(others / MIXED));
    }
}
