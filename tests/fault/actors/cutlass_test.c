/* Kernels of the cutlass actor when workers die: what was compiled is there on the next one, what
 * was not is compiled by it, and each request ends once. On fakes of the driver and the compilers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/kernels.h"
#include "support/label.h"

#include <signal.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass", "FAKE_CUDA_REPORT_MS=1");

static const h_product usual = {.m = 24, .n = 40, .k = 16};

static void kill_worker(const h_kernels *k)
{
    kill((pid_t)h_info(k->world.device).worker_pid, SIGKILL);
}

static void run(const h_kernels *k, h_product p)
{
    trp_error error = {0};
    trp_status status = h_product_run(k, p, &error);
    if (status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
}

/* The worker is killed when a file of the fakes has its first line, in the middle of what takes so
 * long. The request runs again, and all that it needs: a compile too, if its end was not told yet.
 */
static void killed_at(const char *file, const char *slow, size_t least, size_t most)
{
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual;
    h_product_make(&k, &p);
    h_kernels_set(&k, slow, "100000");
    H_OK(h_product_send(&k, &p));
    h_kernels_await(&k, file, 1);
    kill_worker(&k);
    h_kernels_unset(&k, slow);
    H_OK(h_await(p.done.future, NULL));
    H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE);
    h_product_check(&k, &p);
    h_product_free(&k, &p);
    run(&k, usual);
    size_t compiles = h_kernels_reported(&k, "compiles");
    H_CHECK(compiles >= least && compiles <= most);
    H_EQUAL(h_info(k.world.device).restarts, 1);
    h_kernels_close(&k);
}

static void killed_in_a_compile(void)
{
    killed_at("compiles", "compile_ms", 2, 2);
}

static void killed_while_it_is_built(void)
{
    /* The builder has a stream of its own, which does not wait until the compile has been told. */
    killed_at("builds", "build_ms", 1, 2);
}

static void killed_while_it_runs(void)
{
    killed_at("runs", "run_ms", 1, 1);
}

/* Killed at any time, with many in flight. */
static void killed_often(void)
{
    enum { COUNT = 120 };
    h_kernels k = h_kernels_open(NULL);
    h_product *p = h_malloc(COUNT * sizeof *p);
    h_kernels_set(&k, "workspace", "10000");
    h_kernels_set(&k, "compile_ms", "20");
    for (int i = 0; i < COUNT; i++) {
        p[i] = (h_product){.m = 8 * (1 + (int)ref_rng_below(h_rng(), 4)),
                           .n = 8 * (1 + (int)ref_rng_below(h_rng(), 4)),
                           .k = 8 * (1 + (int)ref_rng_below(h_rng(), 4)),
                           .kernel =
                               i % 3 ? "s90_half_64x64x64_1x1_pingpong" : "s80_half_64x64x64_a8"};
        h_product_make(&k, &p[i]);
        H_OK(h_product_send(&k, &p[i]));
        if (i % 30 == 29) {
            h_sleep((int64_t)ref_rng_below(h_rng(), 30) * H_MS);
            kill_worker(&k);
            h_await_incarnation(k.world.device, (uint32_t)(2 + i / 30));
        }
    }
    for (int i = 0; i < COUNT; i++) {
        trp_error error = {0};
        if (h_await(p[i].done.future, &error) != TRP_OK)
            h_fail(__FILE__, __LINE__, "product %d: %s", i, error.message);
        h_product_check(&k, &p[i]);
        h_product_free(&k, &p[i]);
    }
    H_CHECK(h_kernels_reported(&k, "compiles") <= 2 + COUNT / 30);
    free(p);
    h_kernels_close(&k);
}

/* A fault on the device costs the request that it came from. */
static void trap_at(const char *what, const char *text)
{
    h_kernels k = h_kernels_open(NULL);
    trp_error error = {0};
    run(&k, usual);
    h_kernels_set(&k, what, text);
    h_product p = {.m = 32, .n = 32, .k = 32};
    H_IS(h_product_run(&k, p, &error), TRP_E_FAULT);
    H_EQUAL(error.fault, TRP_FAULT_GPU);
    h_kernels_unset(&k, what);
    run(&k, usual);
    run(&k, p);
    H_CHECK(h_kernels_reported(&k, "compiles") <= 2);
    H_CHECK(h_info(k.world.device).restarts >= 1);
    h_kernels_close(&k);
}

static void kernel_traps(void)
{
    trap_at("run_traps", "1");
}

static void builder_traps(void)
{
    trap_at("build", "trap");
}

/* What does not end is ended when its deadline has come. */
static void hangs_at(const char *what)
{
    h_kernels k = h_kernels_open(NULL);
    trp_error error = {0};
    h_product p = {.m = 32, .n = 32, .k = 32, .deadline_ns = 200 * (uint64_t)H_MS};
    run(&k, usual);
    h_kernels_set(&k, what, "10000000");
    H_IS(h_product_run(&k, p, &error), TRP_E_FAULT);
    H_EQUAL(error.fault, TRP_FAULT_HANG);
    h_kernels_unset(&k, what);
    p.deadline_ns = 0;
    run(&k, p);
    run(&k, usual);
    h_kernels_close(&k);
}

static void kernel_hangs(void)
{
    hangs_at("run_ms");
}

static void builder_hangs(void)
{
    hangs_at("build_ms");
}

/* --- every call to the driver fails once --- */

enum { CALLS = 130, SIDE = 32 };

typedef struct outcome {
    int opened, made, succeeded;
} outcome;

/* A product of matrices that are 1 everywhere; true if all went well. */
static bool product_of_ones(trp_device *device, trp_actor *cutlass, trp_tune tune)
{
    uint16_t ones[SIDE * SIDE];
    float got[SIDE * SIDE];
    trp_buffer in = h_buffer(device, sizeof ones), out = h_buffer(device, sizeof got);
    trp_completion done[3] = {{0}};
    trp_status sent[3];
    bool right = true;
    for (int i = 0; i < SIDE * SIDE; i++)
        ones[i] = 0x3f80;
    sent[0] = trp_write(device, in, 0, ones, sizeof ones, &done[0]);
    const trp_cutlass_gemm_request r = {
        .m = SIDE,
        .n = SIDE,
        .k = SIDE,
        .a = {.buffer = in, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = in},
        .d = {.buffer = out, .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .tune = tune};
    sent[1] = trp_cutlass_gemm(cutlass, &r, &done[1]);
    sent[2] = trp_read(device, out, 0, got, sizeof got, &done[2]);
    for (int i = 0; i < 3; i++) {
        trp_error error = {0};
        trp_status status = sent[i];
        if (status == TRP_OK)
            status = h_await(done[i].future, &error);
        else
            error = *trp_error_last();
        H_CHECK(status == TRP_OK || error.message[0] != '\0');
        right = right && status == TRP_OK;
    }
    for (int i = 0; right && i < SIDE * SIDE; i++)
        H_CHECK(got[i] == SIDE);
    return right;
}

static void fail_call(trp_system *system, int call, trp_tune tune, outcome *o)
{
    char number[16];
    trp_device *device = NULL;
    trp_actor *cutlass = NULL;
    trp_device_options options = h_options();
    options.restart_budget = 3;
    snprintf(number, sizeof number, "%d", call);
    setenv("FAKE_CUDA_FAIL_CALL", number, 1); /* read by the workers, for this process has begun */
    if (trp_device_open(system, &options, &device) != TRP_OK)
        return;
    o->opened++;
    if (trp_actor_create(device, &(trp_actor_options){.kind = "cutlass"}, &cutlass) == TRP_OK) {
        o->made++;
        o->succeeded += product_of_ones(device, cutlass, tune);
    }
    trp_device_close(device);
}

static void each_call_gives(const char *result)
{
    outcome o = {0};
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "workspace", "5000");
    setenv("FAKE_CUDA_FAIL_RESULT", result, 1);
    for (int call = 1; call <= CALLS; call++)
        fail_call(k.world.system, call, TRP_TUNE_OFF, &o);
    unsetenv("FAKE_CUDA_FAIL_RESULT");
    int before = o.succeeded; /* how many calls one takes depends on how often it looks */
    fail_call(k.world.system, 0, TRP_TUNE_OFF, &o);
    unsetenv("FAKE_CUDA_FAIL_CALL");
    H_EQUAL(o.succeeded, before + 1);
    printf("  of %d: %d opened, %d made actors, %d products succeeded\n", CALLS, o.opened, o.made,
           o.succeeded);
    H_CHECK(o.opened > 0 && o.opened < CALLS && o.made > 0 && o.made < o.opened && o.succeeded > 0);
    h_kernels_close(&k);
}

static void out_of_memory(void)
{
    each_call_gives("2");
}

/* A result after which the worker is replaced. */
static void illegal_address(void)
{
    each_call_gives("700");
}

/* Of a search, which makes many more calls, some; without a folder for what it finds. A kernel that
 * can't be run is left out, and the request computes. */
static void searches_fail(void)
{
    enum { FIRST = 90, LAST = 390, STEP = 5 };
    outcome o = {0};
    h_kernels k = h_kernels_open(NULL);
    setenv("FAKE_CUDA_FAIL_RESULT", "2", 1);
    for (int call = FIRST; call <= LAST; call += STEP)
        fail_call(k.world.system, call, TRP_TUNE_QUICK, &o);
    unsetenv("FAKE_CUDA_FAIL_RESULT");
    fail_call(k.world.system, 0, TRP_TUNE_QUICK, &o);
    unsetenv("FAKE_CUDA_FAIL_CALL");
    printf("  %d opened, %d products succeeded\n", o.opened, o.succeeded);
    H_CHECK(o.succeeded > (LAST - FIRST) / STEP / 2);
    h_kernels_close(&k);
}

static const h_case cases[] = {H_CASE(killed_in_a_compile),  H_CASE(killed_while_it_is_built),
                               H_CASE(killed_while_it_runs), H_CASE(killed_often),
                               H_CASE(kernel_traps),         H_CASE(builder_traps),
                               H_CASE(kernel_hangs),         H_CASE(builder_hangs),
                               H_CASE(out_of_memory),        H_CASE(illegal_address),
                               H_CASE(searches_fail)};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake() || h_isolation() != TRP_ISOLATION_PROCESS)
        return H_EXIT_SKIPPED;
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
