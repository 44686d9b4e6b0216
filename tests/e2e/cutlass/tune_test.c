/* Searching among kernels of the cutlass actor, on fakes whose kernels are as fast as a test says:
 * what is found, kept and used, and that what requests compute is right all the while.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/folder.h"
#include "support/kernels.h"
#include "support/label.h"

#include <signal.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("cutlass");

/* Of this one a quick search tries tiles of 64x64 (of both families), 128x64 and 64x128. */
static const h_product usual = {.m = 24, .n = 40, .k = 16};

static h_product with_k(int k)
{
    h_product p = usual;
    p.k = k;
    return p;
}

/* Sends it and waits; what was chosen. */
static trp_cutlass_chosen run(const h_kernels *k, h_product p, trp_tune tune)
{
    trp_error error = {0};
    p.tune = tune;
    h_product_make(k, &p);
    H_OK(h_product_send(k, &p));
    if (h_await(p.done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
    H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE); /* once */
    h_product_check(k, &p);
    h_product_free(k, &p);
    return p.chosen;
}

/* The one that searches runs what it has found, those after it too, on this actor and the next. */
static void quick(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "128x64");
    trp_cutlass_chosen c = run(&k, usual, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    H_EQUAL(h_kernels_reported(&k, "runs"), 1);
    c = run(&k, usual, TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, true, NULL);
    h_kernels_check_last(&k, "128x64");
    H_EQUAL(h_kernels_reported(&k, "compiles"), 4);
    size_t runs = h_kernels_reported(&k, "runs");
    H_CHECK(runs > 20);
    for (int i = 0; i < 3; i++) {
        c = run(&k, usual, i % 2 ? TRP_TUNE_QUICK : TRP_TUNE_OFF);
        h_kernels_expect(&c, true, false, "s80_half_128x64x32_a8");
        H_CHECK(c.ready);
    }
    H_EQUAL(h_kernels_reported(&k, "runs"), runs + 3);
    trp_actor_destroy(k.cutlass);
    k.cutlass = h_actor(k.world.device, "cutlass");
    c = run(&k, usual, TRP_TUNE_OFF);
    h_kernels_expect(&c, true, false, "s80_half_128x64x32_a8");
    c = run(&k, with_k(24), TRP_TUNE_OFF); /* another problem */
    h_kernels_expect(&c, false, false, NULL);
    H_EQUAL(h_kernels_reported(&k, "runs"), runs + 5);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* A full search tries settings; what a quick one has found it begins with. */
static void full(void)
{
    const h_product p = with_k(32);
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "128x64");
    run(&k, p, TRP_TUNE_QUICK);
    h_kernels_set(&k, "fast", "64x128_s4_r2");
    trp_cutlass_chosen c = run(&k, p, TRP_TUNE_FULL);
    h_kernels_expect(&c, true, true, "s80_half_128x64x32_a8");
    h_kernels_check_last(&k, "64x128_s4_r2");
    size_t runs = h_kernels_reported(&k, "runs");
    for (int i = TRP_TUNE_OFF; i <= TRP_TUNE_FULL; i++) {
        c = run(&k, p, (trp_tune)i);
        h_kernels_expect(&c, true, false, NULL);
        h_kernels_check_last(&k, "64x128_s4_r2");
    }
    H_EQUAL(h_kernels_reported(&k, "runs"), runs + 3);
    h_kernels_close(&k);
}

/* Of a kernel by name its settings alone, which say nothing of the choice among all. */
static void named(void)
{
    h_product p = with_k(40);
    p.kernel = "s90_half_64x64x64_1x1_pingpong";
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "64x64_s2_r1");
    trp_cutlass_chosen c = run(&k, p, TRP_TUNE_QUICK);
    h_kernels_expect(&c, true, false, p.kernel);
    H_EQUAL(h_kernels_reported(&k, "runs"), 1);
    c = run(&k, p, TRP_TUNE_FULL);
    h_kernels_expect(&c, true, true, p.kernel);
    h_kernels_check_last(&k, "64x64_s2_r1");
    size_t runs = h_kernels_reported(&k, "runs");
    run(&k, p, TRP_TUNE_OFF);
    h_kernels_check_last(&k, "64x64_s2_r1");
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    H_EQUAL(h_kernels_reported(&k, "runs"), runs + 1);
    c = run(&k, with_k(40), TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    h_kernels_close(&k);
}

/* Where all are alike the first stays. */
static void all_alike(void)
{
    const h_product p = with_k(48);
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "run_ms", "2");
    trp_cutlass_chosen first = run(&k, p, TRP_TUNE_OFF), c = run(&k, p, TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, true, first.kernel);
    c = run(&k, p, TRP_TUNE_OFF);
    H_CHECK(c.tuned);
    h_kernels_close(&k);
}

/* What is not a record, or one of something else, is as none. */
static void damaged_records(void)
{
    const char *cache = getenv("TROUPE_CACHE_DIR");
    char path[600], names[600];
    const h_product p = with_k(56);
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "64x128");
    run(&k, p, TRP_TUNE_QUICK);
    trp_actor_destroy(k.cutlass);
    snprintf(names, sizeof names, "find %s -type f -size -4k -newer %s/fast", cache, k.folder);
    FILE *list = popen(names, "r");
    H_CHECK(list != NULL);
    int flipped = 0;
    while (fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = '\0';
        if (h_file_size(path) > 200)
            h_file_flip(path, h_file_size(path) - 70), flipped++;
    }
    pclose(list);
    H_CHECK(flipped > 0);
    k.cutlass = h_actor(k.world.device, "cutlass");
    trp_cutlass_chosen c = run(&k, p, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    c = run(&k, p, TRP_TUNE_QUICK); /* and it is found again */
    h_kernels_expect(&c, false, true, NULL);
    c = run(&k, p, TRP_TUNE_OFF);
    h_kernels_expect(&c, true, false, NULL);
    h_kernels_check_last(&k, "64x128");
    h_kernels_close(&k);
}

/* C in D's place, a matrix that is stored and sums that are added up: each as after one run. */
static void what_is_written(void)
{
    enum { M = 16, N = 24, K = 8, NONE = 0, SUM, SCALED, TOTAL, STORED, ROWS, ROOT, COUNT };
    static const trp_tune tunes[] = {TRP_TUNE_QUICK, TRP_TUNE_FULL, TRP_TUNE_OFF};
    h_kernels k = h_kernels_open(NULL);
    trp_device *device = k.world.device;
    uint16_t one[M * K];
    float c[M * N], d[M * N], stored[M * N], sums[M];
    h_kernels_set(&k, "fast", "64x128");
    for (int i = 0; i < M * K; i++)
        one[i] = 0x3f80;
    trp_buffer a = h_buffer(device, sizeof one), b = h_buffer(device, K * N * 2),
               in = h_buffer(device, sizeof c), out = h_buffer(device, sizeof c),
               rows = h_buffer(device, sizeof sums);
    h_write(device, a, 0, one, sizeof one);
    h_fill(device, b, 0x3f803f80);
    for (int i = 0; i < 3; i++) {
        trp_completion done = {0};
        const trp_epilogue_node nodes[COUNT] = {
            [SUM] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
            [SCALED] = {.kind = TRP_EPILOGUE_C},
            [TOTAL] = {.kind = TRP_EPILOGUE_BINARY, .input = {SUM, SCALED}},
            [STORED] = {.kind = TRP_EPILOGUE_AUX_STORE,
                        .input = {TOTAL},
                        .buffer = out,
                        .order = TRP_ROW_MAJOR},
            [ROWS] = {.kind = TRP_EPILOGUE_REDUCE_ROWS, .input = {TOTAL}, .buffer = rows},
            [ROOT] = {.kind = TRP_EPILOGUE_D, .input = {TOTAL}},
        };
        const trp_cutlass_gemm_request r = {
            .m = M,
            .n = N,
            .k = K,
            .a = {.buffer = a, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
            .b = {.buffer = b},
            .c = {.buffer = in, .order = TRP_ROW_MAJOR},
            .d = {.buffer = in, .type = TRP_F32, .order = TRP_ROW_MAJOR},
            .epilogue = nodes,
            .epilogue_count = COUNT,
            .tune = tunes[i]};
        for (int j = 0; j < M * N; j++)
            c[j] = (float)j;
        h_write(device, in, 0, c, sizeof c);
        h_fill(device, out, 0x7fc00000);
        h_fill(device, rows, 0x7fc00000);
        H_OK(trp_cutlass_gemm(k.cutlass, &r, &done));
        H_OK(h_await(done.future, NULL));
        h_read(device, in, 0, d, sizeof d);
        h_read(device, out, 0, stored, sizeof stored);
        h_read(device, rows, 0, sums, sizeof sums);
        for (int row = 0; row < M; row++) {
            float sum = 0;
            for (int j = row * N; j < (row + 1) * N; j++) {
                H_CHECK(d[j] == c[j] + K && stored[j] == d[j]);
                sum += d[j];
            }
            H_CHECK(sums[row] == sum);
        }
        h_kernels_check_last(&k, "64x128");
    }
    H_EQUAL(h_info(device).incarnation, 1);
    h_kernels_close(&k);
}

/* The worker dies in the middle of a search: the request runs, once, and the next one searches. */
static void killed(void)
{
    h_product p = with_k(64);
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "64x128");
    h_kernels_set(&k, "run_ms", "10");
    p.tune = TRP_TUNE_QUICK;
    h_product_make(&k, &p);
    H_OK(h_product_send(&k, &p));
    h_kernels_await(&k, "runs", 7);
    kill((pid_t)h_info(k.world.device).worker_pid, SIGKILL);
    h_kernels_unset(&k, "run_ms");
    H_OK(h_await(p.done.future, NULL));
    H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE);
    h_product_check(&k, &p);
    h_product_free(&k, &p);
    H_EQUAL(h_info(k.world.device).restarts, 1);
    trp_cutlass_chosen c = run(&k, with_k(64), TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, true, NULL);
    c = run(&k, with_k(64), TRP_TUNE_OFF);
    h_kernels_expect(&c, true, false, NULL);
    h_kernels_check_last(&k, "64x128");
    h_kernels_close(&k);
}

/* Cancelled before it begins it ends at once; later it runs. */
static void cancelled(void)
{
    h_product p = with_k(72), other = with_k(80);
    h_kernels k = h_kernels_open(NULL);
    p.tune = other.tune = TRP_TUNE_QUICK;
    h_product_make(&k, &p);
    h_product_make(&k, &other);
    h_kernels_set(&k, "compile_ms", "100000");
    H_OK(h_product_send(&k, &p));
    h_kernels_await(&k, "compiles", 1);
    H_OK(trp_cancel(p.done.future));
    H_IS(h_await(p.done.future, NULL), TRP_E_CANCELLED);
    h_kernels_unset(&k, "compile_ms");
    h_kernels_set(&k, "run_ms", "5");
    H_OK(h_product_send(&k, &other));
    h_kernels_await(&k, "runs", 5);
    H_OK(trp_cancel(other.done.future));
    H_OK(h_await(other.done.future, NULL));
    h_product_check(&k, &other);
    h_product_free(&k, &p);
    h_product_free(&k, &other);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* Searches under a deadline; `runs` is how often kernels ran. False if this machine, with all else
 * that it does, could not run the request in that time. */
static bool searched_within(int64_t deadline_ns, h_product p, size_t *runs)
{
    trp_error error = {0};
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "run_ms", "60");
    p.tune = TRP_TUNE_FULL;
    p.deadline_ns = (uint64_t)deadline_ns;
    h_product_make(&k, &p);
    H_OK(h_product_send(&k, &p));
    trp_status status = h_await(p.done.future, &error);
    bool hung = status == TRP_E_FAULT && error.fault == TRP_FAULT_HANG;
    if (!hung) {
        H_IS(status, TRP_OK);
        h_product_check(&k, &p);
        h_kernels_expect(&p.chosen, false, true, NULL);
    }
    bool in_time = !hung && h_info(k.world.device).incarnation == 1; /* it may have run again */
    *runs = h_kernels_reported(&k, "runs");
    h_product_free(&k, &p);
    h_kernels_close(&k);
    return in_time;
}

/* A search takes a quarter of the deadline. */
static void deadline(void)
{
    const int64_t first_ns = 12 * H_SEC;
    int64_t deadline_ns = first_ns;
    size_t runs;
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    for (int k = 88; !searched_within(deadline_ns, with_k(k), &runs); k += 160) {
        deadline_ns *= 4;
        H_CHECK(deadline_ns < 60 * H_SEC);
    }
    H_CHECK(deadline_ns > first_ns || runs < 100);
}

/* A kernel that faults: its request ends, once, and the program goes on. */
static void faults(void)
{
    h_product p = with_k(96);
    trp_error error = {0};
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    h_kernels k = h_kernels_open(NULL);
    run(&k, p, TRP_TUNE_OFF);
    h_kernels_set(&k, "run_traps", "1");
    p.tune = TRP_TUNE_QUICK;
    H_IS(h_product_run(&k, p, &error), TRP_E_FAULT);
    h_kernels_unset(&k, "run_traps");
    run(&k, with_k(96), TRP_TUNE_QUICK);
    h_kernels_close(&k);
}

/* What can't be compiled is left out; with FALLBACK the next kernel takes the place of the best. */
static void not_compiled(void)
{
    h_product p = with_k(104);
    h_kernels k = h_kernels_open(NULL);
    p.kernel = "s80_half_64x64x32_a1";
    run(&k, p, TRP_TUNE_OFF);
    h_kernels_set(&k, "compile_fails", "x(1): error: no\n");
    p.kernel = NULL;
    p.first = TRP_CUTLASS_FIRST_FALLBACK;
    while (h_kernels_reported(&k, "compiles") < 6) { /* one finds that the one before has failed */
        trp_cutlass_chosen failed = run(&k, p, TRP_TUNE_OFF);
        H_CHECK(failed.fallback && strcmp(failed.kernel, "s80_half_64x64x32_a1") == 0);
    }
    h_kernels_unset(&k, "compile_fails");
    size_t compiles = h_kernels_reported(&k, "compiles");
    trp_cutlass_chosen c;
    do
        c = run(&k, p, TRP_TUNE_OFF);
    while (c.fallback);
    H_CHECK(strcmp(c.kernel, "s80_half_64x64x32_a1") != 0);
    H_CHECK(h_kernels_reported(&k, "compiles") <=
            compiles + 3); /* two may still have been on their way */
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* With FALLBACK a search waits until all kernels are there, and requests do not. */
static void fallback(void)
{
    h_product p = with_k(112);
    h_kernels k = h_kernels_open(NULL);
    p.kernel = "s80_half_64x64x32_a1";
    run(&k, p, TRP_TUNE_OFF);
    h_kernels_set(&k, "fast", "64x128");
    h_kernels_set(&k, "compile_ms", "100000");
    p.kernel = NULL;
    p.first = TRP_CUTLASS_FIRST_FALLBACK;
    trp_cutlass_chosen c = run(&k, p, TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, false, "s80_half_64x64x32_a1");
    H_CHECK(c.fallback);
    h_kernels_unset(&k, "compile_ms");
    while (!c.searching)
        c = run(&k, p, TRP_TUNE_QUICK);
    c = run(&k, p, TRP_TUNE_QUICK);
    h_kernels_expect(&c, true, false, NULL);
    h_kernels_check_last(&k, "64x128");
    h_kernels_close(&k);
}

/* Without a folder the worker alone knows what it has found, for those who ask it. */
static void without_a_folder(void)
{
    setenv("TROUPE_CACHE_DIR", "", 1);
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "128x64");
    trp_cutlass_chosen c = run(&k, usual, TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, true, NULL);
    size_t runs = h_kernels_reported(&k, "runs");
    for (int i = 0; i < 3; i++) {
        c = run(&k, usual, TRP_TUNE_QUICK);
        h_kernels_expect(&c, false, true, NULL);
        h_kernels_check_last(&k, "128x64");
    }
    H_EQUAL(h_kernels_reported(&k, "runs"), runs + 3);
    c = run(&k, usual, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    h_kernels_close(&k);
}

static void wrong_values(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_product p = usual;
    p.tune = (trp_tune)3;
    h_product_make(&k, &p);
    H_IS(h_product_send(&k, &p), TRP_E_ARGUMENT);
    H_SAYS("tune: expected TRP_TUNE_OFF, _QUICK or _FULL");
    h_product_free(&k, &p);
    h_kernels_close(&k);
}

H_KERNEL_CASES(H_CASE(quick), H_CASE(full), H_CASE(named), H_CASE(all_alike),
               H_CASE(damaged_records), H_CASE(what_is_written), H_CASE(killed), H_CASE(cancelled),
               H_CASE(deadline), H_CASE(faults), H_CASE(not_compiled), H_CASE(fallback),
               H_CASE(without_a_folder), H_CASE(wrong_values))
