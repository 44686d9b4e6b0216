/* Plans of the dnn actor on GPUs: records of them, what they are found by, nodes over nothing, what
 * is refused and why. With cuDNN, but without a GPU: see dnn_planner.h. */
#include "actors/dnn/plans/record.h"
#include "actors/dnn/plans/warm.h"
#include "dnn_graphs.h"
#include "dnn_planner.h"
#include "support/folder.h"
#include "support/label.h"

#include <troupe/dnn.h>

#include "support/unit.h"

#include <math.h>

TROUPE_TEST("long", "no tsan", "foreign leaks");

static trp__dnn_planner planner;

static const trp__tuning_site site = {.gpu = "NVIDIA H200, 132 multiprocessors",
                                      .target = "sm_90",
                                      .driver = "for CUDA 13.0",
                                      .library = "cuDNN 9.19.0"};

/* Convolution, bias, relu; then maxima, which the library does not take with them. */
static void chain(dnn_graph *g)
{
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_CONV_FORWARD, 0, TRP_F32, 2);
    uint8_t x = dnn_image(g, TRP__DNN_BUFFER, TRP_BF16, DNN_ROWS, 2, 4, 64, 16);
    uint8_t w = dnn_image(g, TRP__DNN_BUFFER, TRP_BF16, DNN_ROWS, 2, 32, 64, 1);
    uint8_t y = dnn_image(g, TRP__DNN_VIRTUAL, TRP_F32, DNN_ROWS, 2, 4, 32, 16);
    memcpy(n->port, (uint8_t[]){x, w, y}, 3);
    n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_RELU, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = y;
    n->port[TRP__DNN_POINTWISE_Y] =
        dnn_image(g, TRP__DNN_VIRTUAL, TRP_BF16, DNN_ROWS, 2, 4, 32, 16);
    y = n->port[TRP__DNN_POINTWISE_Y];
    n = dnn_node(g, TRP_DNN_RESAMPLE_FORWARD, TRP_DNN_POOL_MAX, TRP_F32, 2);
    n->window[0] = n->window[1] = n->stride[0] = n->stride[1] = 2;
    n->port[TRP__DNN_RESAMPLE_X] = y;
    n->port[TRP__DNN_RESAMPLE_Y] = dnn_image(g, TRP__DNN_BUFFER, TRP_BF16, DNN_ROWS, 2, 4, 32, 8);
}

static trp__dnn_plan *make(const trp__dnn_graph *graph)
{
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    if (trp__dnn_plan_make(&planner, graph, &plan, &error) != TRP_OK)
        fail_msg("%s", error.message);
    return plan;
}

/* --- records --- */

static void assert_same(const trp__dnn_plan *a, const trp__dnn_plan *b)
{
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->workspace, b->workspace);
    assert_int_equal(a->between, b->between);
    assert_memory_equal(a->offset, b->offset, sizeof a->offset);
    for (uint32_t i = 0; i < a->steps; i++) {
        assert_int_equal(a->step[i].first, b->step[i].first);
        assert_int_equal(a->step[i].count, b->step[i].count);
        assert_int_equal(a->step[i].tensors, b->step[i].tensors);
        assert_string_equal(a->step[i].engine.name, b->step[i].engine.name);
        assert_non_null(b->step[i].engine.plan);
    }
}

static void bytes(void **unused)
{
    (void)unused;
    dnn_graph g;
    trp__dnn_plan *read = NULL;
    unsigned char *record = NULL;
    size_t size = 0;
    trp_error error;
    chain(&g);
    trp__dnn_graph graph = dnn_finish(&g);
    trp__dnn_plan *plan = make(&graph);
    plan->tune = TRP_TUNE_QUICK;
    plan->step[0].best_us = 1.5f;
    assert_int_equal(trp__dnn_record_write(plan, &record, &size, &error), TRP_OK);
    assert_int_equal(trp__dnn_record_read(record, size, &planner, &graph, &read, &error), TRP_OK);
    assert_same(plan, read);
    assert_true(read->found);
    assert_int_equal(read->tune, TRP_TUNE_QUICK);
    assert_true(read->step[0].best_us == 1.5f);
    trp__dnn_plan_drop(read);
    for (size_t cut = 0; cut < size; cut += cut < 200 ? 7 : size / 5)
        assert_int_not_equal(trp__dnn_record_read(record, cut, &planner, &graph, &read, &error),
                             TRP_OK);
    for (size_t at = 0; at < 40; at++) { /* refused, or what does no harm */
        record[at] ^= 0x81;
        if (trp__dnn_record_read(record, size, &planner, &graph, &read, &error) == TRP_OK)
            trp__dnn_plan_drop(read);
        record[at] ^= 0x81;
    }
    free(record);
    trp__dnn_plan_drop(plan);
    dnn_end(&g);
}

/* The library's start: its heuristic is asked for the sample if there is no record of it, and where
 * nobody waits. */

static int questions;
static trp__cudnn_status (*create)(trp__cudnn_descriptor_type type, trp__cudnn_descriptor *out);

static trp__cudnn_status count_questions(trp__cudnn_descriptor_type type,
                                         trp__cudnn_descriptor *out)
{
    questions += type == TRP__CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
    return create(type, out);
}

static int asked(const trp__dnn_planner *p, trp__store *store, bool waits)
{
    const atomic_bool wanted = waits;
    questions = 0;
    assert_true(trp__dnn_warm_up(p, &site, store, &wanted));
    return questions;
}

static void started(void **unused)
{
    char folder[256];
    trp__store *store = NULL;
    trp_error error;
    trp__cudnn lib = *planner.lib;
    trp__dnn_planner counted = planner;
    (void)unused;
    create = lib.cudnnBackendCreateDescriptor;
    lib.cudnnBackendCreateDescriptor = count_questions;
    counted.lib = &lib;
    h_folder_make(folder, sizeof folder, "dnn-warm");
    assert_int_equal(
        trp__store_open(&(trp__store_options){.folder = folder, .packs = ""}, &store, &error),
        TRP_OK);
    assert_int_not_equal(asked(&counted, NULL, true), 0);
    assert_int_not_equal(asked(&counted, store, true), 0);
    assert_int_equal(asked(&counted, store, true), 0); /* there is a record now */
    assert_int_not_equal(asked(&counted, store, false), 0);
    trp__store_close(store);
    h_folder_remove(folder);
}

static void kept(void **unused)
{
    (void)unused;
    char folder[256];
    trp__store *store = NULL;
    trp__dnn_plan *found = NULL;
    trp_error error;
    trp__key key;
    dnn_graph g;
    h_folder_make(folder, sizeof folder, "dnn-plan");
    assert_int_equal(
        trp__store_open(&(trp__store_options){.folder = folder, .packs = ""}, &store, &error),
        TRP_OK);
    chain(&g);
    trp__dnn_graph graph = dnn_finish(&g);
    trp__dnn_plan *plan = make(&graph);
    trp__dnn_record_key(&site, &graph, &key);
    assert_false(trp__dnn_record_find(store, &key, &planner, &graph, &found));
    trp__dnn_record_keep(store, &key, plan);
    assert_true(trp__dnn_record_find(store, &key, &planner, &graph, &found));
    assert_same(plan, found);
    trp__dnn_plan_drop(found);
    trp__key_end(&key);
    ((trp__dnn_head *)g.bytes)->deterministic = 1; /* another graph */
    trp__dnn_record_key(&site, &graph, &key);
    assert_false(trp__dnn_record_find(store, &key, &planner, &graph, &found));
    trp__key_end(&key);
    trp__dnn_plan_drop(plan);
    trp__store_close(store);
    h_folder_remove(folder);
    dnn_end(&g);
}

static void words(void **unused)
{
    (void)unused;
    char text[128];
    dnn_graph g;
    chain(&g);
    trp__dnn_graph graph = dnn_finish(&g);
    trp__dnn_graph_text(&graph, text, sizeof text);
    assert_string_equal(text, "conv_forward 4x64x16x16 bf16, relu, resample_forward");
    dnn_end(&g);
}

/* --- what plans are found by --- */

static void compared(void **unused)
{
    (void)unused;
    dnn_graph g;
    chain(&g);
    trp__dnn_graph graph = dnn_finish(&g);
    trp__dnn_plan *plan = make(&graph);
    trp__dnn_head *head = g.bytes;
    trp__dnn_tensor *tensor = (trp__dnn_tensor *)(head + 1);
    assert_true(trp__dnn_same_graph(plan->key, graph.head));
    head->tune = TRP_TUNE_FULL;
    assert_true(trp__dnn_same_graph(plan->key, graph.head));
    head->tf32 = 1;
    assert_false(trp__dnn_same_graph(plan->key, graph.head));
    head->tf32 = 0;
    tensor[0].stride[0]++;
    assert_false(trp__dnn_same_graph(plan->key, graph.head));
    trp__dnn_plan_drop(plan);
    dnn_end(&g);
}

/* --- nothing --- */

static void over_nothing(void **unused)
{
    (void)unused;
    static const struct {
        int64_t m, k;
        uint32_t steps;
    } cases[] = {{8, 0, 1}, {0, 8, 0}, {0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        dnn_graph storage, *g = &storage;
        dnn_begin(g);
        trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, TRP_F32, 0);
        n->port[0] = DNN_BUFFER(TRP_F16, DNN_ROWS, cases[i].m, cases[i].k);
        n->port[1] = DNN_BUFFER(TRP_F16, DNN_ROWS, cases[i].k, 16);
        n->port[2] = DNN_BUFFER(TRP_F16, DNN_ROWS, cases[i].m, 16);
        trp__dnn_graph graph = dnn_finish(g);
        trp__dnn_plan *plan = make(&graph);
        assert_int_equal(plan->steps, cases[i].steps);
        assert_true(plan->steps == 0 || !plan->step[0].engine.plan);
        trp__dnn_plan_drop(plan);
        dnn_end(g);
    }
}

/* --- refusals --- */

static void refuse(dnn_graph *g, const char *a, const char *b)
{
    trp__dnn_graph graph = dnn_finish(g);
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    assert_int_equal(trp__dnn_plan_make(&planner, &graph, &plan, &error), TRP_E_UNSUPPORTED);
    assert_null(plan);
    if (!strstr(error.message, a) || !strstr(error.message, b))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", error.message, a, b);
    dnn_end(g);
}

static void refusals(void **unused)
{
    (void)unused;
    dnn_graph storage, *g = &storage;
    dnn_begin(g); /* not without tf32 */
    trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, TRP_F32, 0);
    n->port[0] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 64);
    n->port[1] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 64);
    n->port[2] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 64);
    refuse(g, "matmul", "round f32 (tf32 is not set)");
    dnn_begin(g); /* the largest of nothing */
    n = dnn_node(g, TRP_DNN_REDUCTION, TRP_DNN_MOST, TRP_F32, 0);
    n->port[0] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 0);
    n->port[1] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 1);
    refuse(g, "reduction", "no other kernel");
    dnn_begin(g); /* a kind that the library has not */
    n = dnn_node(g, TRP_DNN_REDUCTION, TRP_DNN_PRODUCT, TRP_F32, 0);
    n->port[0] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 8);
    n->port[1] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 1);
    refuse(g, "reduction", "no engine");
}

/* --- options --- */

static void workspace(void **unused)
{
    (void)unused;
    static const uint64_t most[] = {UINT64_C(1) << 20, UINT64_C(256) << 20};
    for (int i = 0; i < 2; i++) {
        dnn_graph g;
        chain(&g);
        g.head.workspace = most[i];
        trp__dnn_graph graph = dnn_finish(&g);
        trp__dnn_plan *plan = make(&graph);
        assert_true(plan->workspace <= most[i]);
        trp__dnn_plan_drop(plan);
        dnn_end(&g);
    }
}

/* A convolution of rows to f32 needs some. */
static void no_workspace(void **unused)
{
    (void)unused;
    dnn_graph g;
    chain(&g);
    g.head.workspace = 0;
    refuse(&g, "conv_forward", "need more workspace");
}

static void heuristics(void **unused)
{
    (void)unused;
    for (uint8_t mode = 0; mode <= TRP_DNN_HEURISTIC_FALLBACK; mode++) {
        dnn_graph g;
        chain(&g);
        g.head.heuristic = mode;
        g.head.deterministic = 1;
        trp__dnn_graph graph = dnn_finish(&g);
        trp__dnn_plan_drop(make(&graph));
        dnn_end(&g);
    }
}

/* Values of requests, and those that a graph is given when it is lowered. */
static void values(void **unused)
{
    (void)unused;
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_MUL, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = DNN_BUFFER(TRP_F16, DNN_ROWS, 64, 96);
    n->port[TRP__DNN_POINTWISE_B] = dnn_value(g, TRP_F16, 0.5);
    uint8_t y = n->port[TRP__DNN_POINTWISE_Y] = DNN_VIRTUAL(TRP_F32, DNN_ROWS, 64, 96);
    n = dnn_node(g, TRP_DNN_REDUCTION, TRP_DNN_SUM, TRP_F32, 0);
    n->port[0] = y;
    n->port[1] = DNN_BUFFER(TRP_F32, DNN_ROWS, 64, 1);
    trp__dnn_graph graph = dnn_finish(g);
    trp__dnn_plan *plan = make(&graph);
    for (int i = 0; i < 2; i++) {
        uint16_t half;
        trp__dnn_plan_set_values(plan, &graph);
        memcpy(&half, plan->value[1], sizeof half);
        assert_int_equal(half, i ? 0x4000 : 0x3800);
        ((double *)(uintptr_t)graph.value)[1] = 2;
    }
    trp__dnn_plan_drop(plan);
    dnn_end(g);
}

static int set_up(void **unused)
{
    (void)unused;
    dnn_planner_open(&planner);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    dnn_planner_close(&planner);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(bytes),        UNIT(started),      UNIT(kept),     UNIT(words),
        UNIT(compared),     UNIT(over_nothing), UNIT(refusals), UNIT(workspace),
        UNIT(no_workspace), UNIT(heuristics),   UNIT(values),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
