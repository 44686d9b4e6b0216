/* Plans of cuFFT serve only after they were proven, on a fake cuFFT of which a test says what is
 * wrong, can't be made or is not launched: the next way serves, and whoever sent the request sees
 * nothing of it. SPDX-License-Identifier: Apache-2.0 */
#include "support/kernels.h"
#include "support/label.h"

#include <troupe/fft.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

TROUPE_TEST_FAKE_GPU("no tsan");

enum {
    A = 4,
    B = 6,
    C = 10,
    NUMBERS = A * B * C,
    HALF = A * B * (C / 2 + 1),
    PROOF_RUNS = 4, /* of a plan that is good: two passes of two runs */
};

typedef struct bed {
    h_kernels k;
    trp_actor *fft;
    trp_device_options options;
} bed;

static void enter(bed *b)
{
    b->k.world = h_open(&b->options);
    b->fft = h_actor(b->k.world.device, "fft");
}

static void reenter(bed *b)
{
    h_close(&b->k.world);
    enter(b);
}

static bed open_bed(void)
{
    bed b = {.options = h_options()};
    b.options.standby = TRP_STANDBY_OFF;
    h_kernels_make_folder(&b.k);
    enter(&b);
    return b;
}

static void close_bed(bed *b)
{
    h_kernels_close(&b->k);
}

static size_t runs(const bed *b)
{
    return h_kernels_reported(&b->k, "cufft_runs");
}

static size_t plans(const bed *b)
{
    return h_kernels_reported(&b->k, "cufft_plans");
}

static void await(const bed *b, const trp_fft_request *r)
{
    trp_completion done = {0};
    H_OK(trp_fft(b->fft, r, &done));
    H_OK(h_await_any(done));
}

static trp_buffer upload(const bed *b, const float *x, size_t count)
{
    trp_buffer buffer = h_buffer(b->k.world.device, count * sizeof *x);
    h_write(b->k.world.device, buffer, 0, x, count * sizeof *x);
    return buffer;
}

static void expect(const bed *b, trp_buffer buffer, const float *x, size_t count)
{
    float got[2 * NUMBERS];
    h_read(b->k.world.device, buffer, 0, got, count * sizeof *got);
    for (size_t i = 0; i < count; i++)
        H_CHECK(fabsf(got[i] - x[i]) < 1e-5F);
}

static void fill(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
}

/* Complex numbers there and back along all three axes; `in_place`: back where they are. */
static void go_complex(const bed *b, bool in_place)
{
    float x[2 * NUMBERS];
    fill(x, 2 * NUMBERS);
    const trp_buffer from = upload(b, x, 2 * NUMBERS), to = h_buffer(b->k.world.device, sizeof x);
    trp_fft_request r = {
        .rank = 3, .x = {.buffer = from, .type = TRP_C64, .dim = {A, B, C}}, .y = {.buffer = to}};
    await(b, &r);
    r.inverse = true;
    r.x.buffer = to;
    r.y.buffer = in_place ? to : from;
    await(b, &r);
    expect(b, r.y.buffer, x, 2 * NUMBERS);
    if (!in_place)
        return;
    expect(b, from, x, 2 * NUMBERS);
}

/* Real numbers there and back by half a spectrum, which C2R must not change. */
static void go_real(const bed *b)
{
    float x[NUMBERS], spectrum[2 * HALF];
    fill(x, NUMBERS);
    const trp_buffer from = upload(b, x, NUMBERS),
                     half = h_buffer(b->k.world.device, sizeof spectrum);
    trp_fft_request r = {.kind = TRP_FFT_R2C,
                         .rank = 3,
                         .x = {.buffer = from, .type = TRP_F32, .dim = {A, B, C}},
                         .y = {.buffer = half}};
    await(b, &r);
    h_read(b->k.world.device, half, 0, spectrum, sizeof spectrum);
    r = (trp_fft_request){.kind = TRP_FFT_C2R,
                          .inverse = true,
                          .rank = 3,
                          .x = {.buffer = half, .type = TRP_C64, .dim = {A, B, C / 2 + 1}},
                          .y = {.buffer = from}};
    await(b, &r);
    expect(b, from, x, NUMBERS);
    float after[2 * HALF];
    h_read(b->k.world.device, half, 0, after, sizeof after);
    H_SAME(after, spectrum, sizeof after);
}

static void go_all(const bed *b)
{
    go_complex(b, false);
    go_complex(b, true);
    go_real(b);
}

/* One plan of three axes a request, which is made and proven once. */
static void good(void)
{
    bed b = open_bed();
    const size_t warm = plans(&b);
    go_complex(&b, false);
    H_EQUAL(plans(&b), warm + 2);
    H_EQUAL(runs(&b), 2 * (PROOF_RUNS + 1));
    go_complex(&b, false);
    H_EQUAL(plans(&b), warm + 2);
    H_EQUAL(runs(&b), 2 * (PROOF_RUNS + 2));
    go_all(&b);
    close_bed(&b);
}

/* The plan of three axes is rejected, plans of one serve; another process knows it without a proof.
 */
static void wrong(void)
{
    bed b = open_bed();
    h_kernels_set(&b.k, "cufft_wrong", "3");
    go_all(&b);
    size_t before = runs(&b);
    go_complex(&b, false);
    const size_t each = runs(&b) - before;
    H_EQUAL(each, 2 * (1 + A + 1)); /* the middle axis is one call for each of the first */
    h_kernels_unset(&b.k, "cufft_wrong");
    reenter(&b);
    before = runs(&b);
    go_complex(&b, false);
    H_EQUAL(runs(&b), before + each);
    go_all(&b);
    close_bed(&b);
}

/* No plan is right: plain sums serve. */
static void all_wrong(void)
{
    bed b = open_bed();
    h_kernels_set(&b.k, "cufft_wrong", "1,2,3");
    go_all(&b);
    const size_t before = runs(&b);
    go_all(&b);
    H_EQUAL(runs(&b), before);
    close_bed(&b);
}

/* A plan can't be made: no restart of the actor, the next way serves. */
static void plan_fails(void)
{
    bed b = open_bed();
    h_kernels_set(&b.k, "cufft_plans_fail", "3");
    go_all(&b);
    const size_t before = plans(&b);
    go_all(&b);
    H_EQUAL(plans(&b), before);
    h_kernels_set(&b.k, "cufft_plans_fail", "1,2,3");
    H_OK(trp_device_trim(b.k.world.device));
    go_all(&b);
    close_bed(&b);
}

/* A proven plan is not launched any more: the request goes on by the next way. */
static void run_fails(void)
{
    bed b = open_bed();
    go_all(&b);
    h_kernels_set(&b.k, "cufft_runs_fail", "3");
    go_all(&b);
    h_kernels_set(&b.k, "cufft_runs_fail", "1,3");
    go_complex(&b, false);
    go_real(&b);
    close_bed(&b);
}

/* Without proofs plans serve as they are; without kernels, those requests that need no copy. */
static void no_kernels(void)
{
    bed b = {.options = h_options()};
    float x[2 * NUMBERS];
    fill(x, 2 * NUMBERS);
    h_kernels_make_folder(&b.k);
    h_kernels_set(&b.k, "compile_fails", "x.cu(1): error: no such luck\n");
    enter(&b);
    const trp_buffer from = upload(&b, x, 2 * NUMBERS);
    trp_fft_request r = {.rank = 3,
                         .x = {.buffer = from, .type = TRP_C64, .dim = {A, B, C}},
                         .y = {.buffer = h_buffer(b.k.world.device, sizeof x)}};
    await(&b, &r);
    r.n[0] = A + 1;
    r.y.buffer = h_buffer(b.k.world.device, sizeof x * 2);
    for (int i = 0; i < 2; i++) {
        trp_completion done = {0};
        H_OK(trp_fft(b.fft, &r, &done));
        H_CHECK(h_await_any(done) != TRP_OK);
    }
    r.n[0] = A;
    await(&b, &r);
    close_bed(&b);
}

/* A standby that can't know a verdict, since no folder has it, makes a plan once, and lets it be.
 */
static void standby(void)
{
    bed b = {.options = h_options()};
    setenv("TROUPE_CACHE_DIR", "", 1);
    b.options.standby = TRP_STANDBY_ON;
    h_kernels_make_folder(&b.k);
    enter(&b);
    go_complex(&b, false);
    h_kernels_await(&b.k, "cufft_plans", 2 * (1 + 2)); /* of each worker, the first is its own */
    for (int i = 0; i < 50; i++)
        go_complex(&b, false);
    H_EQUAL(plans(&b), 2 * (1 + 2));
    close_bed(&b);
}

H_KERNEL_CASES(H_CASE(good), H_CASE(wrong), H_CASE(all_wrong), H_CASE(plan_fails),
               H_CASE(run_fails), H_CASE(no_kernels), H_CASE(standby))
