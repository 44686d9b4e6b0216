/* Searching among kernels of grouped products and of convolutions, on fakes whose kernels are as
 * fast as a test says. What is the same for products is in cutlass_tune_test.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/conv_problem.h"
#include "support/kernels.h"
#include "support/label.h"

#include <signal.h>

TROUPE_TEST_FAKE_GPU("cutlass");

/* --- grouped products --- */

enum { GROUPS = 4, SPARE = 3 /* rows behind the last */ };

typedef struct groups {
    trp_cutlass_grouping grouping; /* OF_M, BY_TABLE or BY_VALUE */
    int m[GROUPS], n, k;
    bool in_place; /* C, which is added */
    const char *kernel;
    trp_cutlass_chosen chosen;
    int rows;
    int16_t *a, *b, *d; /* as numbers; d: before */
    trp_buffer buffer[4];
    trp_completion done;
} groups;

static const groups usual = {
    .grouping = TRP_CUTLASS_GROUPS_OF_M, .m = {9, 0, 14, 17}, .n = 40, .k = 16};

static trp_buffer make_numbers(const h_kernels *k, int16_t **out, size_t count, bool wide)
{
    int16_t *numbers = h_malloc(count * sizeof *numbers);
    uint32_t *bits = h_malloc(count * sizeof *bits);
    uint16_t *narrow = (uint16_t *)bits;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int16_t)((int)ref_rng_below(h_rng(), 17) - 8);
        float value = numbers[i];
        uint32_t all;
        memcpy(&all, &value, sizeof all);
        if (wide)
            bits[i] = all;
        else
            narrow[i] = (uint16_t)(all >> 16);
    }
    size_t bytes = count * (wide ? 4 : 2);
    trp_buffer buffer = h_buffer(k->world.device, bytes);
    h_write(k->world.device, buffer, 0, bits, bytes);
    free(bits);
    *out = numbers;
    return buffer;
}

static void make_groups(const h_kernels *k, groups *g)
{
    size_t n = (size_t)g->n, depth = (size_t)g->k;
    g->rows = SPARE;
    for (int i = 0; i < GROUPS; i++)
        g->rows += g->m[i];
    g->buffer[0] = make_numbers(k, &g->a, (size_t)g->rows * depth, false);
    g->buffer[1] = make_numbers(k, &g->b, GROUPS * n * depth, false);
    g->buffer[2] = make_numbers(k, &g->d, (size_t)g->rows * n, true);
}

static void set_table(const h_kernels *k, groups *g, trp_cutlass_group row[GROUPS])
{
    int32_t end[GROUPS];
    int begin = 0;
    for (int i = 0; i < GROUPS; i++) {
        row[i] = (trp_cutlass_group){.m = g->m[i],
                                     .n = g->n,
                                     .k = g->k,
                                     .a = begin * g->k,
                                     .b = i * g->n * g->k,
                                     .d = begin * g->n};
        end[i] = begin += g->m[i];
    }
    bool ends = g->grouping == TRP_CUTLASS_GROUPS_OF_M;
    size_t bytes = ends ? sizeof end : GROUPS * sizeof *row;
    g->buffer[3] = h_buffer(k->world.device, bytes);
    h_write(k->world.device, g->buffer[3], 0, ends ? (void *)end : (void *)row, bytes);
}

static trp_status send_groups(const h_kernels *k, groups *g, trp_tune tune)
{
    bool value = g->grouping == TRP_CUTLASS_GROUPS_BY_VALUE;
    bool cut = g->grouping == TRP_CUTLASS_GROUPS_OF_M;
    trp_cutlass_group row[GROUPS];
    make_groups(k, g);
    set_table(k, g, row);
    trp_cutlass_grouped_gemm_request r = {
        .groups = GROUPS,
        .grouping = g->grouping,
        .m = value ? 0 : g->rows,
        .n = value ? 0 : g->n,
        .k = value ? 0 : g->k,
        .a = {.buffer = g->buffer[0], .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = g->buffer[1], .stride = cut ? g->n * g->k : 0},
        .d = {.buffer = g->buffer[2], .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .alignment = value ? 0 : 16,
        .kernel = g->kernel,
        .tune = tune,
        .chosen = &g->chosen};
    if (value)
        r.group = row;
    else
        r.table = g->buffer[3];
    if (g->in_place) {
        r.beta = trp_real(1);
        r.c = r.d;
    }
    g->done = (trp_completion){0};
    return trp_cutlass_grouped_gemm(k->cutlass, &r, &g->done);
}

static int sum_of(const groups *g, int group, int row, int column)
{
    int sum = g->in_place ? g->d[row * g->n + column] : 0;
    for (int x = 0; x < g->k; x++)
        sum += g->a[row * g->k + x] * g->b[(group * g->n + column) * g->k + x];
    return sum;
}

/* And that what is behind the last group is as it was. */
static void check_groups(const h_kernels *k, const groups *g)
{
    size_t bytes = (size_t)g->rows * (size_t)g->n * 4;
    float *d = h_malloc(bytes);
    int group = 0, end = g->m[0];
    h_read(k->world.device, g->buffer[2], 0, d, bytes);
    for (int i = 0; i < g->rows; i++) {
        while (group < GROUPS && i >= end)
            end += ++group < GROUPS ? g->m[group] : 0;
        for (int j = 0; j < g->n; j++) {
            int at = i * g->n + j, want = group < GROUPS ? sum_of(g, group, i, j) : g->d[at];
            if (d[at] != (float)want)
                h_fail(__FILE__, __LINE__, "%s, grouping %d: D[%d][%d] is %.9g, expected %d",
                       g->chosen.kernel, (int)g->grouping, i, j, (double)d[at], want);
        }
    }
    free(d);
}

static void free_groups(const h_kernels *k, groups *g)
{
    for (int i = 0; i < 4; i++)
        H_OK(trp_buffer_free(k->world.device, g->buffer[i]));
    free(g->a);
    free(g->b);
    free(g->d);
}

static trp_cutlass_chosen run_groups(const h_kernels *k, groups g, trp_tune tune)
{
    trp_error error = {0};
    trp_status status = send_groups(k, &g, tune);
    if (status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", trp_error_last()->message);
    if (h_await(g.done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
    H_IS(trp_await(g.done.future, 0, NULL), TRP_E_STALE); /* once */
    check_groups(k, &g);
    free_groups(k, &g);
    return g.chosen;
}

/* What is found counts for all whose sizes can be the same, wherever the cuts are, and for no
 * others. */
static void groups_quick(void)
{
    groups other = usual;
    h_kernels k = h_kernels_open(NULL);
    trp_cutlass_chosen c = run_groups(&k, usual, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    h_kernels_set(&k, "fast", "128x64");
    c = run_groups(&k, usual, TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, true, NULL);
    h_kernels_check_last(&k, "128x64");
    size_t runs = h_kernels_reported(&k, "ran");
    H_CHECK(runs > 20);
    trp_actor_destroy(k.cutlass);
    k.cutlass = h_actor(k.world.device, "cutlass");
    for (int i = 0; i < 3; i++) {
        c = run_groups(&k, other, i % 2 ? TRP_TUNE_QUICK : TRP_TUNE_OFF);
        h_kernels_expect(&c, true, false, NULL);
        H_CHECK(strstr(c.kernel, "grouped_half_128x64") != NULL);
        other.m[0] -= 3;
        other.m[1] += 3;
    }
    H_EQUAL(h_kernels_reported(&k, "ran"), runs + 3);
    other.m[0] += GROUPS; /* another mean */
    c = run_groups(&k, other, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    other = usual;
    other.grouping = TRP_CUTLASS_GROUPS_BY_VALUE;
    c = run_groups(&k, other, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* Of a kernel by name its orders of tiles. */
static void groups_full(void)
{
    groups g = usual;
    h_kernels k = h_kernels_open(NULL);
    g.kernel = "s90_grouped_half_64x64x64_1x1_pingpong";
    h_kernels_set(&k, "fast", "64x64_s4_r2");
    trp_cutlass_chosen c = run_groups(&k, g, TRP_TUNE_QUICK);
    h_kernels_expect(&c, true, false, g.kernel); /* there is nothing to search */
    c = run_groups(&k, g, TRP_TUNE_FULL);
    h_kernels_expect(&c, true, true, g.kernel);
    h_kernels_check_last(&k, "64x64_s4_r2");
    H_EQUAL(h_kernels_reported(&k, "compiles"), 1);
    c = run_groups(&k, g, TRP_TUNE_OFF);
    h_kernels_check_last(&k, "64x64_s4_r2");
    g.kernel = NULL;
    h_kernels_set(&k, "fast", "64x128_s8_r2");
    c = run_groups(&k, g, TRP_TUNE_FULL);
    h_kernels_expect(&c, false, true, NULL);
    h_kernels_check_last(&k, "64x128_s8_r2");
    c = run_groups(&k, g, TRP_TUNE_OFF);
    h_kernels_expect(&c, true, false, "s90_grouped_half_64x128x64_1x1_pingpong");
    h_kernels_check_last(&k, "64x128_s8_r2");
    h_kernels_close(&k);
}

/* However groups are told, with C in D's place and without: D is as after one run. */
static void groups_written(void)
{
    static const trp_cutlass_grouping groupings[] = {
        TRP_CUTLASS_GROUPS_OF_M, TRP_CUTLASS_GROUPS_BY_TABLE, TRP_CUTLASS_GROUPS_BY_VALUE};
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "64x128_s4_r2");
    for (int i = 0; i < 6; i++) {
        groups g = usual;
        g.grouping = groupings[i / 2];
        g.in_place = i % 2;
        for (int tune = TRP_TUNE_QUICK; tune <= TRP_TUNE_FULL; tune++) {
            trp_cutlass_chosen c = run_groups(&k, g, (trp_tune)tune);
            H_CHECK(c.searching);
        }
        h_kernels_check_last(&k, "64x128_s4_r2");
        trp_cutlass_chosen c = run_groups(&k, g, TRP_TUNE_OFF);
        H_CHECK(c.tuned && !c.searching);
        h_kernels_check_last(&k, "64x128_s4_r2");
    }
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* As many by value as there may be, with all that a full search takes along: ones times ones. */
static void groups_many(void)
{
    enum { MANY = TRP_CUTLASS_GROUPS_BY_VALUE_MAX, N = 8, K = 8 };
    static trp_cutlass_group row[MANY];
    static float d[MANY * N];
    trp_completion done = {0};
    trp_cutlass_chosen chosen;
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "none"); /* so that each is measured by a few runs */
    trp_buffer a = h_buffer(k.world.device, MANY * K * 2), b = h_buffer(k.world.device, N * K * 2),
               out = h_buffer(k.world.device, sizeof d);
    h_fill(k.world.device, a, 0x3f803f80);
    h_fill(k.world.device, b, 0x3f803f80);
    for (int i = 0; i < MANY; i++)
        row[i] = (trp_cutlass_group){.m = 1, .n = N, .k = K, .a = i * K, .d = i * N};
    const trp_cutlass_grouped_gemm_request r = {
        .groups = MANY,
        .a = {.buffer = a, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = b},
        .d = {.buffer = out, .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .group = row,
        .tune = TRP_TUNE_FULL,
        .chosen = &chosen};
    H_OK(trp_cutlass_grouped_gemm(k.cutlass, &r, &done));
    H_OK(h_await(done.future, NULL));
    H_CHECK(chosen.searching);
    h_read(k.world.device, out, 0, d, sizeof d);
    for (int i = 0; i < MANY * N; i++)
        H_CHECK(d[i] == K);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* The worker dies in the middle of a search: the request runs, once, and D is right. */
static void groups_killed(void)
{
    groups g = usual;
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "128x64");
    h_kernels_set(&k, "run_ms", "10");
    H_OK(send_groups(&k, &g, TRP_TUNE_QUICK));
    h_kernels_await(&k, "ran", 7);
    kill((pid_t)h_info(k.world.device).worker_pid, SIGKILL);
    h_kernels_unset(&k, "run_ms");
    H_OK(h_await(g.done.future, NULL));
    H_IS(trp_await(g.done.future, 0, NULL), TRP_E_STALE);
    check_groups(&k, &g);
    free_groups(&k, &g);
    H_EQUAL(h_info(k.world.device).restarts, 1);
    h_kernels_close(&k);
}

/* --- convolutions --- */

static cv_problem conv_of(trp_conv_operation operation)
{
    cv_problem p = {.operation = operation,
                    .dims = 2,
                    .images = 1,
                    .channels = 64,
                    .filters = 16,
                    .groups = 1,
                    .input = {3, 2},
                    .filter = {1, 2},
                    .pad = {0, 1},
                    .pad_after = {1, 1},
                    .stride = {1, 1},
                    .dilation = {1, 1},
                    .alpha = 1,
                    .packed = true,
                    .unit = 16};
    for (int i = 0; i < CV_TENSORS; i++)
        p.tensor[i].type = i == CV_A || i == CV_B ? TRP_BF16 : TRP_F32;
    cv_set_output(&p);
    return p;
}

static trp_cutlass_chosen run_conv(const h_kernels *k, cv_problem p, trp_tune tune)
{
    p.tune = tune;
    cv_make(k->world.device, &p);
    trp_status status = cv_send(k->cutlass, &p);
    if (status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", trp_error_last()->message);
    cv_check(k->world.device, &p);
    return p.chosen;
}

/* As groups_quick(); where pads differ it is another problem, though its product is the same. */
static void conv_quick(void)
{
    cv_problem other = conv_of(TRP_CONV_FPROP);
    h_kernels k = h_kernels_open(NULL);
    trp_cutlass_chosen c = run_conv(&k, other, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    h_kernels_set(&k, "fast", "64x128");
    c = run_conv(&k, other, TRP_TUNE_QUICK);
    h_kernels_expect(&c, false, true, NULL);
    h_kernels_check_last(&k, "64x128");
    size_t runs = h_kernels_reported(&k, "ran");
    H_CHECK(runs > 20);
    trp_actor_destroy(k.cutlass);
    k.cutlass = h_actor(k.world.device, "cutlass");
    c = run_conv(&k, other, TRP_TUNE_OFF);
    h_kernels_expect(&c, true, false, NULL);
    H_EQUAL(h_kernels_reported(&k, "ran"), runs + 1);
    other.pad[1] = other.pad_after[1] = 0;
    other.input[1] += 2;
    cv_set_output(&other);
    c = run_conv(&k, other, TRP_TUNE_OFF);
    h_kernels_expect(&c, false, false, NULL);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* Each operation, with a tree that stores and adds up, C in D's place and without. */
static void conv_written(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "64x64_s2_r1");
    for (int i = 0; i < 12; i++) {
        cv_problem p = conv_of((trp_conv_operation)(i % 3));
        p.tree = i / 3 % 2;
        p.in_place = i / 6;
        p.images = 1 + (size_t)i / 3;
        p.beta = p.in_place ? 2 : 0;
        bool full = i % 4 == 0; /* each operation */
        if (full) /* of one kernel: what it finds must not hang on the machine's load */
            p.kernel = "s90_conv_half_64x64x64_1x1_pingpong";
        trp_cutlass_chosen c = run_conv(&k, p, full ? TRP_TUNE_FULL : TRP_TUNE_QUICK);
        H_CHECK(c.searching && !c.tuned);
        if (full)
            h_kernels_check_last(&k, "64x64_s2_r1");
        c = run_conv(&k, p, TRP_TUNE_OFF);
        H_CHECK(c.tuned && !c.searching);
        if (full)
            h_kernels_check_last(&k, "64x64_s2_r1");
    }
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* The sums of a gradient by the filter, in other parts than the estimate's. */
static void conv_parts(void)
{
    cv_problem p = conv_of(TRP_CONV_WGRAD);
    h_kernels k = h_kernels_open(NULL);
    p.kernel = "s90_conv_half_128x128x64_1x1_streamk";
    p.images = 64; /* a product of 8 x 64 x 576 */
    p.filters = 8;
    p.filter[1] = 1;
    p.pad[1] = 1;
    p.pad_after[1] = 0;
    cv_set_output(&p);
    h_kernels_set(&k, "fast", "128x128_s1_r0_k2_2");
    trp_cutlass_chosen c = run_conv(&k, p, TRP_TUNE_FULL);
    h_kernels_expect(&c, false, true, p.kernel);
    h_kernels_check_last(&k, "128x128_s1_r0_k2_2");
    h_kernels_set(&k, "fast", "64x64");
    c = run_conv(&k, p, TRP_TUNE_OFF);
    h_kernels_expect(&c, true, false, p.kernel);
    h_kernels_check_last(&k, "128x128_s1_r0_k2_2");
    h_kernels_close(&k);
}

/* Any. */
static void conv_any(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "none");
    for (int i = 0; i < 9; i++) {
        cv_problem p = conv_of((trp_conv_operation)(i % 3));
        p.channels = 1 + cv_below(20);
        p.filters = 1 + cv_below(20);
        p.groups = 1;
        p.images = 1 + cv_below(3);
        p.stride[0] = 1 + cv_below(2);
        p.tree = cv_below(2);
        p.in_place = cv_below(2);
        p.packed = cv_below(2);
        p.unit = 1;
        p.beta = p.in_place ? -1 : 0;
        cv_set_output(&p);
        for (int again = 0; again < 2; again++)
            run_conv(&k, p, TRP_TUNE_QUICK);
    }
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* --- both --- */

static void wrong_values(void)
{
    const trp_cutlass_conv_request conv = {.tune = (trp_tune)3};
    groups g = usual;
    h_kernels k = h_kernels_open(NULL);
    H_IS(send_groups(&k, &g, (trp_tune)3), TRP_E_ARGUMENT);
    H_SAYS("tune: expected TRP_TUNE_OFF, _QUICK or _FULL");
    free_groups(&k, &g);
    H_IS(trp_cutlass_conv(k.cutlass, &conv, NULL), TRP_E_ARGUMENT);
    H_SAYS("tune: expected TRP_TUNE_OFF, _QUICK or _FULL");
    h_kernels_close(&k);
}

H_KERNEL_CASES(H_CASE(groups_quick), H_CASE(groups_full), H_CASE(groups_written),
               H_CASE(groups_killed), H_CASE(groups_many), H_CASE(conv_quick), H_CASE(conv_written),
               H_CASE(conv_parts), H_CASE(conv_any), H_CASE(wrong_values))
