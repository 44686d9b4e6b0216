/* How the dnn actor comes by its plans, on a fake cuDNN that takes what a test says and is as fast
 * as it says: which engines are used, what is found again and where, and that what requests compute
 * is right all the while. SPDX-License-Identifier: Apache-2.0 */
#include "support/dnn_bed.h"
#include "support/label.h"

#include <signal.h>

TROUPE_TEST_FAKE_GPU("dnn");

/* Without a standby, which would plan something at its start while plans are counted, and without
 * proofs, which would run engines while runs are counted: dnn_proofs_test.c is about those. */
static db_bed open_bed(const char *takes)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    options.proof = TRP_PROOF_OFF;
    return db_open(&options, takes);
}

static size_t reported(const db_bed *b, const char *name)
{
    return h_kernels_reported(&b->k, name);
}

/* Graphs. */

static trp_dnn_ran conv(const db_bed *b, int64_t n, trp_dnn_options options)
{
    trp_dnn_ran ran;
    trp_error error = {0};
    trp_status status = db_conv(b, n, options, &ran, &error);
    if (status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
    return ran;
}

static void expect(const trp_dnn_ran *ran, const char *engine, uint32_t parts, bool found,
                   uint64_t workspace)
{
    if (strcmp(ran->engine, engine) != 0 || ran->parts != parts || ran->found != found ||
        ran->workspace_bytes != workspace)
        h_fail(__FILE__, __LINE__,
               "%s, %u parts, %s, workspace %llu; expected %s, %u parts, %s, workspace %llu",
               ran->engine, ran->parts, ran->found ? "found" : "made",
               (unsigned long long)ran->workspace_bytes, engine, parts, found ? "found" : "made",
               (unsigned long long)workspace);
}

/* y = x * v, f32, of `n` elements. */
static trp_dnn_ran scale(const db_bed *b, int64_t n, double v)
{
    trp_dnn_ran ran = {.parts = 99};
    trp_completion done = {0};
    float *data = h_malloc((size_t)n * sizeof *data);
    const size_t bytes = (size_t)n * sizeof *data;
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)i;
    trp_buffer x = h_buffer(b->k.world.device, bytes), y = h_buffer(b->k.world.device, bytes);
    h_write(b->k.world.device, x, 0, data, bytes);
    const trp_dnn_tensor tensors[] = {{0},
                                      {.type = TRP_F32, .rank = 1, .dim = {n}, .buffer = x},
                                      {.value = trp_real(v)},
                                      {.type = TRP_F32, .rank = 1, .dim = {n}, .buffer = y}};
    const trp_dnn_node node = {
        .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = 1, .b = 2, .y = 3};
    const trp_dnn_graph_request r = {.tensors = tensors,
                                     .tensor_count = 4,
                                     .nodes = &node,
                                     .node_count = 1,
                                     .options = {.ran = &ran}};
    H_OK(trp_dnn_graph(b->dnn, &r, &done));
    H_OK(h_await_any(done));
    h_read(b->k.world.device, y, 0, data, bytes);
    for (int64_t i = 0; i < n; i++)
        H_CHECK(data[i] == (float)((double)i * v));
    free(data);
    H_OK(trp_buffer_free(b->k.world.device, x));
    H_OK(trp_buffer_free(b->k.world.device, y));
    return ran;
}

/* --- which engine --- */

/* What the library takes it does, as far as that goes; the rest are kernels of the actor's. */
static void parts(void)
{
    static const struct {
        const char *takes, *engine;
        uint32_t parts;
        uint64_t workspace;
    } rows[] = {
        {"", "direct", 2, 0},          {"conv", "eng0_k2=0", 2, 4096},
        {"pointwise", "direct", 2, 0}, /* element-wise nodes alone are ours */
        {"all", "eng0_k2=0", 1, 4096}, {"conv,pointwise", "eng0_k2=0", 1, 4096},
    };
    db_bed b = open_bed("");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        h_kernels_set(&b.k, "cudnn_takes", rows[i].takes);
        trp_dnn_ran ran = conv(&b, (int64_t)i + 1, (trp_dnn_options){0});
        expect(&ran, rows[i].engine, rows[i].parts, false, rows[i].workspace);
    }
    H_EQUAL(reported(&b, "cudnn_runs"), 3);
    H_EQUAL(reported(&b, "compiles"), 2); /* the reference kernels, and the element-wise ones */
    db_close(&b);
}

/* Engines that the options forbid are left out, in each order of the heuristics. */
static void options(void)
{
    static const struct {
        trp_dnn_options options;
        const char *engine;
        uint64_t workspace;
    } rows[] = {
        {{0}, "eng0_k2=0", 4096},
        {{.workspace_bytes = 1024}, "eng1_k2=1", 1000},
        {{.workspace_bytes = 999}, "eng2_k2=2", 0},
        {{.heuristic = TRP_DNN_HEURISTIC_B}, "eng3_k2=3", 64},
        {{.heuristic = TRP_DNN_HEURISTIC_B, .deterministic = true}, "eng2_k2=2", 0},
        {{.heuristic = TRP_DNN_HEURISTIC_FALLBACK}, "eng2_k2=2", 0},
    };
    db_bed b = open_bed("all");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp_dnn_ran ran = conv(&b, 1, rows[i].options);
        expect(&ran, rows[i].engine, 1, false, rows[i].workspace);
    }
    db_close(&b);
}

/* --- found again --- */

/* By the same graph with other buffers and values, but not by another one. */
static void in_memory(void)
{
    db_bed b = open_bed("all");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 1, false, 4096);
    size_t plans = reported(&b, "cudnn_plans");
    for (int i = 0; i < 3; i++) {
        ran = conv(&b, 1, (trp_dnn_options){0});
        expect(&ran, "eng0_k2=0", 1, true, 4096);
    }
    H_EQUAL(reported(&b, "cudnn_plans"), plans);
    H_EQUAL(reported(&b, "cudnn_runs"), 4);
    ran = conv(&b, 2, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 1, false, 4096);
    ran = scale(&b, 5, 2);
    H_CHECK(!ran.found);
    for (int i = 0; i < 4; i++) {
        ran = scale(&b, 5, 0.5 * i);
        H_CHECK(ran.found && strncmp(ran.engine, "map_", 4) == 0);
    }
    db_close(&b);
}

/* By another process, engines by their texts, kernels of the actor's by their image. */
static void on_disk(void)
{
    db_bed b = open_bed("conv");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 2, false, 4096);
    size_t plans = reported(&b, "cudnn_plans");
    H_EQUAL(reported(&b, "cudnn_reads"), 0);
    h_kernels_set(&b.k, "cudnn_takes", "");
    for (int i = 1; i <= 2; i++) {
        db_reopen(&b);
        ran = conv(&b, 1, (trp_dnn_options){0});
        expect(&ran, "eng0_k2=0", 2, true, 4096);
        H_EQUAL(reported(&b, "cudnn_reads"), 2 * i); /* and the one of the worker's start */
    }
    H_EQUAL(reported(&b, "cudnn_plans"), plans);
    H_EQUAL(reported(&b, "compiles"), 1);
    ran = conv(&b, 2, (trp_dnn_options){0});
    expect(&ran, "direct", 2, false, 0);
    db_close(&b);
}

/* What the library does not read any more is made again. */
static void not_read(void)
{
    db_bed b = open_bed("all");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){0});
    h_kernels_set(&b.k, "cudnn_reads_fail", "1");
    db_reopen(&b);
    ran = conv(&b, 1, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 1, false, 4096);
    H_EQUAL(reported(&b, "cudnn_reads"), 2);
    h_kernels_unset(&b.k, "cudnn_reads_fail");
    db_reopen(&b);
    ran = conv(&b, 1, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 1, true, 4096);
    db_close(&b);
}

/* Nothing is kept on disk, and of plans in memory those that were used last. */
static void least_recently_used(void)
{
    enum { PLANS = 1024 };
    setenv("TROUPE_CACHE_DIR", "", 1);
    db_bed b = open_bed("all");
    trp_dnn_ran ran;
    for (int i = 1; i <= PLANS; i++) {
        ran = scale(&b, i, 3);
        H_CHECK(!ran.found);
    }
    ran = scale(&b, 1, 3);
    H_CHECK(ran.found);
    ran = scale(&b, PLANS + 1, 3); /* in the place of 2 */
    H_CHECK(!ran.found);
    ran = scale(&b, 1, 3);
    H_CHECK(ran.found);
    ran = scale(&b, 2, 3);
    H_CHECK(!ran.found);
    ran = scale(&b, PLANS, 3);
    H_CHECK(ran.found);
    db_close(&b);
}

/* The next worker finds what the one before has kept. Each may have planned something of its own at
 * its start, before the first request. */
static void killed(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be killed");
    db_bed b = open_bed("all");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){0});
    size_t plans = reported(&b, "cudnn_plans");
    for (uint32_t i = 1; i <= 3; i++) {
        kill((pid_t)h_info(b.k.world.device).worker_pid, SIGKILL);
        h_await_incarnation(b.k.world.device, i + 1);
        ran = conv(&b, 1, (trp_dnn_options){0});
        expect(&ran, "eng0_k2=0", 1, true, 4096);
        H_CHECK(reported(&b, "cudnn_plans") >= plans && reported(&b, "cudnn_plans") <= plans + i);
    }
    H_EQUAL(h_info(b.k.world.device).restarts, 3);
    db_close(&b);
}

/* --- searches --- */

static void check_tuned(const trp_dnn_ran *ran, const char *engine, bool found)
{
    if (strcmp(ran->engine, engine) != 0 || !ran->tuned || ran->found != found)
        h_fail(__FILE__, __LINE__, "%s, %s, %s; expected %s, tuned, %s", ran->engine,
               ran->tuned ? "tuned" : "not tuned", ran->found ? "found" : "made", engine,
               found ? "found" : "made");
}

/* The fastest is used from then on, by all. */
static void quick(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "fast", "2");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 1, false, 4096);
    H_CHECK(!ran.tuned);
    size_t runs = reported(&b, "cudnn_runs");
    ran = conv(&b, 1, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    check_tuned(&ran, "eng2_k2=2", false);
    H_EQUAL(ran.workspace_bytes, 0);
    H_CHECK(reported(&b, "cudnn_runs") > runs + 20);
    runs = reported(&b, "cudnn_runs");
    ran = conv(&b, 1, (trp_dnn_options){0});
    check_tuned(&ran, "eng2_k2=2", true);
    db_reopen(&b);
    ran = conv(&b, 1, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    check_tuned(&ran, "eng2_k2=2", true);
    H_EQUAL(reported(&b, "cudnn_runs"), runs + 2);
    ran = conv(&b, 1, (trp_dnn_options){.tune = TRP_TUNE_FULL}); /* goes on */
    check_tuned(&ran, "eng2_k2=2", false);
    H_CHECK(reported(&b, "cudnn_runs") > runs + 20);
    db_close(&b);
}

/* Of a graph in parts each part by itself; kernels of the actor's have nothing to choose. */
static void quick_in_parts(void)
{
    db_bed b = open_bed("conv");
    h_kernels_set(&b.k, "fast", "1");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    check_tuned(&ran, "eng1_k2=1", false);
    H_EQUAL(ran.parts, 2);
    H_EQUAL(ran.workspace_bytes, 1000);
    h_kernels_set(&b.k, "cudnn_takes", "");
    ran = conv(&b, 2, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    check_tuned(&ran, "direct", false);
    db_close(&b);
}

/* Where all are alike the first stays. */
static void all_alike(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "fast", "-1");
    trp_dnn_ran ran =
        conv(&b, 1, (trp_dnn_options){.tune = TRP_TUNE_QUICK, .heuristic = TRP_DNN_HEURISTIC_B});
    check_tuned(&ran, "eng3_k2=3", false);
    db_close(&b);
}

/* What is fastest and computes something else is not used. */
static void fast_and_wrong(void)
{
    db_bed b = open_bed("all");
    h_kernels_set(&b.k, "fast", "2");
    h_kernels_set(&b.k, "cudnn_wrong", "2");
    trp_dnn_ran ran = conv(&b, 1, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    check_tuned(&ran, "eng0_k2=0", false);
    db_close(&b);
}

/* --- what can't be --- */

/* Without a compiler there are no kernels of the actor's; what the library takes goes on. */
static void no_compiler(void)
{
    trp_dnn_ran ran;
    trp_error error = {0};
    db_bed b = open_bed("");
    h_kernels_set(&b.k, "compile_fails", "x.cu(1): error: no such luck\n");
    H_IS(db_conv(&b, 1, (trp_dnn_options){0}, &ran, &error), TRP_E_LIBRARY);
    H_CHECK(strstr(error.message, "no such luck"));
    h_kernels_set(&b.k, "cudnn_takes", "all");
    ran = conv(&b, 1, (trp_dnn_options){0});
    expect(&ran, "eng0_k2=0", 1, false, 4096);
    h_kernels_set(&b.k, "cudnn_takes", "");
    h_kernels_unset(&b.k, "compile_fails");
    ran = conv(&b, 2, (trp_dnn_options){0});
    expect(&ran, "direct", 2, false, 0);
    H_EQUAL(h_info(b.k.world.device).incarnation, 1);
    db_close(&b);
}

static const h_case cases[] = {
    H_CASE(parts),     H_CASE(options),        H_CASE(in_memory),
    H_CASE(on_disk),   H_CASE(not_read),       H_CASE(least_recently_used),
    H_CASE(killed),    H_CASE(quick),          H_CASE(quick_in_parts),
    H_CASE(all_alike), H_CASE(fast_and_wrong), H_CASE(no_compiler)};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake() || !getenv("TROUPE_CUDNN"))
        return H_EXIT_SKIPPED;
    return h_kernels_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
