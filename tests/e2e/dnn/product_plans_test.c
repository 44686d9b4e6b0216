/* Which of cuDNN and cuBLASLt runs a graph of the dnn actor, on fakes that take what a test says
 * and are as fast as it says; where that is found again; and what becomes of it when cuBLASLt fails
 * or is not there. SPDX-License-Identifier: Apache-2.0 */
#include "support/dnn_bed.h"
#include "support/label.h"

#include <signal.h>

TROUPE_TEST_FAKE_GPU("dnn");

enum { IMAGES = 2, CHANNELS = 16, FILTERS = 24, SIDE = 4, PIXELS = IMAGES * SIDE * SIDE };

/* Graphs. */

enum { X, W, BIAS, Y, OLD, BUFFERS };

static trp_dnn_tensor image(trp_buffer buffer, int64_t n, int64_t c, int64_t h, int64_t w)
{
    trp_dnn_tensor t = {.type = TRP_F16, .rank = 4, .dim = {n, c, h, w}, .buffer = buffer};
    trp_dnn_channels_last(&t);
    return t;
}

/* What is sent: x * w, with 1 added and relu; with an old y added behind that; a product. */
typedef enum graph_kind { ALONE, FUSED, RESIDUAL, PRODUCT_F16, PRODUCT_F32 } graph_kind;

static uint32_t add(trp_dnn_graph_request *r, trp_dnn_tensor t)
{
    ((trp_dnn_tensor *)(uintptr_t)r->tensors)[r->tensor_count] = t;
    return r->tensor_count++;
}

static trp_dnn_node *then(trp_dnn_graph_request *r, trp_dnn_node n)
{
    trp_dnn_node *node = (trp_dnn_node *)(uintptr_t)&r->nodes[r->node_count++];
    *node = n;
    return node;
}

static void make_product(trp_dnn_graph_request *r, trp_dtype type, const trp_buffer at[BUFFERS])
{
    const int64_t width = type == TRP_F32 ? 2 : 1, n = FILTERS / width, k = CHANNELS / width;
    const trp_dnn_tensor a = {.type = type, .rank = 2, .dim = {PIXELS, k}, .buffer = at[X]};
    const trp_dnn_tensor b = {.type = type, .rank = 2, .dim = {k, n}, .buffer = at[W]};
    const trp_dnn_tensor y = {.type = type, .rank = 2, .dim = {PIXELS, n}, .buffer = at[Y]};
    trp_dnn_node *node = then(r, (trp_dnn_node){.kind = TRP_DNN_MATMUL});
    node->a = add(r, a);
    node->b = add(r, b);
    node->y = add(r, y);
}

static void make_conv(trp_dnn_graph_request *r, graph_kind kind, const trp_buffer at[BUFFERS])
{
    const trp_dnn_tensor y = image(at[Y], IMAGES, FILTERS, SIDE, SIDE), none = {0};
    trp_dnn_node *node = then(r, (trp_dnn_node){.kind = TRP_DNN_CONV_FORWARD});
    node->x = add(r, image(at[X], IMAGES, CHANNELS, SIDE, SIDE));
    node->w = add(r, image(at[W], FILTERS, CHANNELS, 1, 1));
    node->y = add(r, kind == ALONE ? y : none);
    if (kind == ALONE)
        return;
    uint32_t sum = node->y;
    node = then(r, (trp_dnn_node){.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = sum});
    node->b = add(r, image(at[BIAS], 1, FILTERS, 1, 1));
    sum = node->y = add(r, none);
    node = then(r, (trp_dnn_node){.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_RELU, .x = sum});
    sum = node->y = add(r, kind == FUSED ? y : none);
    if (kind == FUSED)
        return;
    node = then(r, (trp_dnn_node){.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = sum});
    node->b = add(r, image(at[OLD], IMAGES, FILTERS, SIDE, SIDE));
    node->y = add(r, y);
}

static trp_status send(const db_bed *b, graph_kind kind, const trp_buffer at[BUFFERS],
                       const trp_dnn_options *options, trp_completion *done)
{
    trp_dnn_tensor tensors[16] = {0};
    trp_dnn_node nodes[4];
    trp_dnn_graph_request r = {
        .tensors = tensors, .tensor_count = 1, .nodes = nodes, .options = *options};
    if (kind < PRODUCT_F16)
        make_conv(&r, kind, at);
    else
        make_product(&r, kind == PRODUCT_F16 ? TRP_F16 : TRP_F32, at);
    return trp_dnn_graph(b->dnn, &r, done);
}

/* 16 ones, 17 with the bias, 18 with an old one. Of f32 they are pairs of f16, and not looked at.
 */
static uint16_t expected(graph_kind kind)
{
    return kind == FUSED ? 0x4c40 : kind == RESIDUAL ? 0x4c80 : 0x4c00;
}

static trp_status run(const db_bed *b, graph_kind kind, trp_dnn_options options, trp_dnn_ran *ran,
                      trp_error *error)
{
    const size_t count = PIXELS * FILTERS;
    trp_buffer at[BUFFERS] = {[X] = db_buffer(b, PIXELS * CHANNELS, 0x3c00),
                              [W] = db_buffer(b, FILTERS * CHANNELS, 0x3c00),
                              [BIAS] = db_buffer(b, FILTERS, 0x3c00),
                              [Y] = db_buffer(b, count, 0x7e00),
                              [OLD] = db_buffer(b, count, 0x3c00)};
    uint16_t *got = h_malloc(count * sizeof *got);
    trp_completion done = {0};
    *ran = (trp_dnn_ran){.parts = 99};
    options.ran = ran;
    H_OK(send(b, kind, at, &options, &done));
    trp_status status = h_await(done.future, error);
    h_read(b->k.world.device, at[Y], 0, got, count * sizeof *got);
    for (size_t i = 0; i < count && status == TRP_OK && kind != PRODUCT_F32; i++)
        H_EQUAL(got[i], expected(kind));
    free(got);
    for (int i = 0; i < BUFFERS; i++)
        H_OK(trp_buffer_free(b->k.world.device, at[i]));
    return status;
}

static trp_dnn_ran good(const db_bed *b, graph_kind kind, trp_dnn_options options)
{
    trp_dnn_ran ran;
    trp_error error = {0};
    if (run(b, kind, options, &ran, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s", error.message);
    return ran;
}

static void expect(const trp_dnn_ran *ran, const char *engine, uint32_t parts, bool found)
{
    if (strncmp(ran->engine, engine, strlen(engine)) != 0 || ran->parts != parts ||
        ran->found != found)
        h_fail(__FILE__, __LINE__, "%s, %u parts, %s; expected %s, %u parts, %s", ran->engine,
               ran->parts, ran->found ? "found" : "made", engine, parts, found ? "found" : "made");
}

/* --- which library --- */

static void by_default(void)
{
    static const struct {
        const char *takes;
        graph_kind kind;
        const char *engine;
        uint32_t parts;
    } rows[] = {
        {"all", ALONE, "eng0", 1},           {"all", FUSED, "cublaslt_a64", 1},
        {"all", RESIDUAL, "eng0", 1},        {"all", PRODUCT_F16, "eng0", 1},
        {"all", PRODUCT_F32, "cublaslt", 1}, {"", ALONE, "cublaslt", 1},
        {"", FUSED, "cublaslt", 1},          {"", RESIDUAL, "cublaslt", 2},
        {"", PRODUCT_F16, "cublaslt", 1},    {"", PRODUCT_F32, "cublaslt", 1},
        {"conv", ALONE, "eng0", 1},          {"conv", FUSED, "cublaslt", 1},
        {"conv", RESIDUAL, "eng0", 2},
    };
    db_bed b = db_open(NULL, "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        h_kernels_set(&b.k, "cudnn_takes", rows[i].takes);
        trp_dnn_ran ran = good(&b, rows[i].kind, (trp_dnn_options){.workspace_bytes = 1 << 20 | i});
        expect(&ran, rows[i].engine, rows[i].parts, false);
    }
    db_close(&b);
}

/* --- found again --- */

static void on_disk(void)
{
    db_bed b = db_open(NULL, "all");
    trp_dnn_ran ran = good(&b, FUSED, (trp_dnn_options){0});
    expect(&ran, "cublaslt_a64", 1, false);
    const uint64_t workspace = ran.workspace_bytes;
    for (int i = 0; i < 3; i++) {
        ran = good(&b, FUSED, (trp_dnn_options){0});
        expect(&ran, "cublaslt_a64", 1, true);
        H_EQUAL(ran.workspace_bytes, workspace);
        if (i > 0)
            db_reopen(&b);
    }
    if (h_isolation() == TRP_ISOLATION_PROCESS) { /* a process of its own fails on demand */
        setenv("FAKE_CUBLASLT_FAIL_CHECK", "1", 1);
        db_reopen(&b);
        ran = good(&b, FUSED, (trp_dnn_options){0});
        expect(&ran, "cublaslt_a64", 1, false);
    }
    db_close(&b);
}

/* The next worker goes on where the one before was stopped. */
static void killed(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be killed");
    db_bed b = db_open(NULL, "all");
    trp_dnn_ran ran = good(&b, FUSED, (trp_dnn_options){0});
    for (uint32_t i = 1; i <= 3; i++) {
        kill((pid_t)h_info(b.k.world.device).worker_pid, SIGKILL);
        h_await_incarnation(b.k.world.device, i + 1);
        ran = good(&b, FUSED, (trp_dnn_options){0});
        expect(&ran, "cublaslt_a64", 1, true);
    }
    db_close(&b);
}

/* --- searches --- */

static void set_fast(const db_bed *b, const char *cudnn, const char *cublaslt)
{
    h_kernels_set(&b->k, "fast", cudnn);
    h_kernels_set(&b->k, "fast_cublaslt", cublaslt);
}

/* Both libraries are timed, whichever is the default, and what is fastest is kept. */
static void searched(void)
{
    static const struct {
        graph_kind kind;
        const char *cudnn, *cublaslt, *engine;
    } rows[] = {
        {ALONE, "-1", "66", "cublaslt_a66"},      {ALONE, "2", "-1", "eng2_k2=2"},
        {FUSED, "2", "-1", "eng2_k2=2"},          {FUSED, "-1", "67", "cublaslt_a67"},
        {FUSED, "-1", "-1", "cublaslt_a64"},      {PRODUCT_F16, "-1", "68", "cublaslt_a68"},
        {PRODUCT_F32, "2", "66", "cublaslt_a66"},
    };
    db_bed b = db_open(NULL, "all");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp_dnn_options options = {.workspace_bytes = 1 << 20 | i, .tune = TRP_TUNE_QUICK};
        set_fast(&b, rows[i].cudnn, rows[i].cublaslt);
        trp_dnn_ran ran = good(&b, rows[i].kind, options);
        expect(&ran, rows[i].engine, 1, false);
        H_CHECK(ran.tuned);
        db_reopen(&b);
        options.tune = i % 2 ? TRP_TUNE_QUICK : TRP_TUNE_OFF;
        size_t runs =
            h_kernels_reported(&b.k, "cublaslt_runs") + h_kernels_reported(&b.k, "cudnn_runs");
        ran = good(&b, rows[i].kind, options);
        expect(&ran, rows[i].engine, 1, true);
        H_CHECK(ran.tuned);
        H_EQUAL(h_kernels_reported(&b.k, "cublaslt_runs") + h_kernels_reported(&b.k, "cudnn_runs"),
                runs + 1);
    }
    db_close(&b);
}

/* What is fastest and computes something else is not used. */
static void fast_and_wrong(void)
{
    db_bed b = db_open(NULL, "all");
    set_fast(&b, "-1", "66");
    h_kernels_set(&b.k, "cublaslt_wrong", "66");
    trp_dnn_ran ran = good(&b, ALONE, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    expect(&ran, "eng0", 1, false);
    h_kernels_unset(&b.k, "cublaslt_wrong");
    set_fast(&b, "2", "-1");
    h_kernels_set(&b.k, "cudnn_wrong", "2");
    ran = good(&b, FUSED, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
    expect(&ran, "cublaslt_a64", 1, false);
    db_close(&b);
}

/* --- without it --- */

/* All goes on by cuDNN and kernels of the actor's, and is not kept for those who have it. */
static void missing(void)
{
    const char *path = getenv("TROUPE_CUBLASLT");
    char kept[512];
    H_CHECK(path && strlen(path) < sizeof kept);
    strcpy(kept, path);
    setenv("TROUPE_CUBLASLT", "/nowhere/libcublasLt.so.13", 1);
    db_bed b = db_open(NULL, "all");
    set_fast(&b, "0", "-1");
    for (int i = 0; i < 2; i++) {
        trp_dnn_ran ran = good(&b, FUSED, (trp_dnn_options){0});
        expect(&ran, "eng0", 1, false);
        ran = good(&b, PRODUCT_F32, (trp_dnn_options){0});
        expect(&ran, "eng1", 1, false); /* which does not round its inputs */
        ran = good(&b, ALONE, (trp_dnn_options){.tune = TRP_TUNE_QUICK});
        expect(&ran, "eng0", 1, i == 1);
        db_reopen(&b);
    }
    setenv("TROUPE_CUBLASLT", kept, 1);
    db_reopen(&b);
    trp_dnn_ran ran = good(&b, FUSED, (trp_dnn_options){0});
    expect(&ran, "cublaslt", 1, false);
    ran = good(&b, PRODUCT_F32, (trp_dnn_options){0});
    expect(&ran, "cublaslt", 1, false);
    db_close(&b);
}

/* --- failures --- */

/* An epilogue that cuBLASLt refuses leaves the convolution to it. */
static void without_epilogue(void)
{
    trp_dnn_ran ran;
    trp_error error = {0};
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("the fakes fail in a worker's process");
    setenv("FAKE_CUBLASLT_FAIL_HEURISTIC", "1", 1);
    setenv("FAKE_CUBLASLT_FAIL_RESULT", "15", 1);
    db_bed b = db_open(NULL, "");
    unsetenv("FAKE_CUBLASLT_FAIL_HEURISTIC");
    H_OK(run(&b, FUSED, (trp_dnn_options){0}, &ran, &error));
    expect(&ran, "cublaslt", 2, false);
    db_close(&b);
}

/* Each is told, or another way is gone; the next request succeeds, by the same worker. */
static void failures(void)
{
    static const struct {
        const char *call, *result;
        trp_status status;
        const char *engine; /* of the first request, if it succeeds */
    } rows[] = {
        {"FAKE_CUBLASLT_FAIL_HEURISTIC", "3", TRP_OK, "cublaslt"}, /* memory: tried again */
        {"FAKE_CUBLASLT_FAIL_HEURISTIC", "14", TRP_E_LIBRARY, NULL},
        {"FAKE_CUBLASLT_FAIL_HEURISTIC", "15", TRP_OK, "eng0"},
        {"FAKE_CUBLASLT_FAIL_HEURISTIC", "7", TRP_OK, "eng0"},
        {"FAKE_CUBLASLT_FAIL_MATMUL", "13", TRP_OK, "cublaslt"}, /* its proof tries twice */
        {"FAKE_CUBLASLT_FAIL_MATMUL", "15", TRP_OK, "cublaslt"},
    };
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("the fakes fail in a worker's process, which begins anew for each row");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp_dnn_options options = {.workspace_bytes = 1 << 20 | i};
        trp_dnn_ran ran;
        trp_error error = {0};
        setenv(rows[i].call, "1", 1);
        setenv("FAKE_CUBLASLT_FAIL_RESULT", rows[i].result, 1);
        db_bed b = db_open(NULL, "all");
        unsetenv(rows[i].call);
        H_IS(run(&b, FUSED, options, &ran, &error), rows[i].status);
        if (rows[i].engine)
            expect(&ran, rows[i].engine, 1, false);
        else
            H_CHECK(strstr(error.message, "cublasLt") || strstr(error.message, "cuBLASLt"));
        options.workspace_bytes += 100;
        ran = good(&b, FUSED, options);
        expect(&ran, "cublaslt", 1, false);
        H_EQUAL(h_info(b.k.world.device).incarnation, 1);
        db_close(&b);
    }
}

static const h_case cases[] = {H_CASE(by_default), H_CASE(on_disk),         H_CASE(killed),
                               H_CASE(searched),   H_CASE(missing),         H_CASE(fast_and_wrong),
                               H_CASE(failures),   H_CASE(without_epilogue)};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake() || !getenv("TROUPE_CUDNN"))
        return H_EXIT_SKIPPED;
    return h_kernels_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
