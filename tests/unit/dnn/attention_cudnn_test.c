/* Attention as cuDNN's operation graphs, planned for an H200 that need not be there: what models
 * have must be taken, as one, by an engine that never has the scores in memory. Skipped where cuDNN
 * is missing, or is too old to plan without a device. */
#include "actors/dnn/cudnn/attention.h"
#include "actors/dnn/reference/launch.h"
#include "actors/dnn/plans/record.h"
#include "dnn_graphs.h"
#include "dnn_planner.h"
#include "support/label.h"

#include <troupe/dnn.h>

#include "support/unit.h"

#include <math.h>

TROUPE_TEST("long", "no sanitizer");

static trp__dnn_planner planner;
static trp__kernel_modules direct = {.target = "sm_90"}; /* planner.modules at times */

typedef enum extra {
    BIAS = 1,         /* 1 x h x s_q x s_kv */
    SLOPES = 2,       /* ALiBi */
    LENGTHS = 4,      /* of batches */
    INFERENCE = 8,    /* no stats */
    INTERLEAVED = 16, /* b, s, h, d in memory */
    REPEATED = 32,    /* deterministic */
    DBIAS = 64,
    TURNED = 128, /* columns first */
    DROPOUT = 256,
} extra;

typedef struct attention {
    const char *name;
    int64_t b, h, h_kv, s_q, s_kv, d, d_v;
    trp_dtype type;
    trp_dnn_mask mask;
    int32_t window;
    unsigned extras;
    const char *forward, *backward; /* NULL: taken; why it is not */
} attention;

/* What lies as the library does not take it is copied, by kernels that this planner does not have.
 */
/* clang-format off */
static const attention all[] = {
    {"8192 causal", 4, 16, 16, 8192, 8192, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, 0, NULL, NULL},
    {"plain", 2, 8, 8, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_NONE, 0, 0, NULL, NULL},
    {"inference", 2, 8, 8, 512, 512, 64, 64, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, INFERENCE, NULL, NULL},
    {"interleaved", 2, 8, 8, 1024, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, INTERLEAVED, NULL, NULL},
    {"grouped", 2, 32, 8, 2048, 2048, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, INTERLEAVED, NULL, NULL},
    {"one head of keys", 2, 8, 1, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_NONE, 0, 0, NULL, NULL},
    {"lengths", 4, 8, 8, 1024, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_NONE, 0, LENGTHS, NULL, NULL},
    {"causal lengths", 4, 8, 2, 1024, 1024, 64, 64, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, LENGTHS, NULL, NULL},
    {"bias", 2, 8, 8, 512, 512, 64, 64, TRP_BF16, TRP_DNN_MASK_NONE, 0, BIAS, NULL, NULL},
    {"causal bias", 2, 8, 8, 512, 512, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, BIAS, NULL, NULL},
    {"bias and its gradient", 2, 8, 8, 512, 512, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, BIAS | DBIAS, NULL, NULL},
    {"slopes", 2, 8, 8, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_CAUSAL, 0, SLOPES, NULL, NULL},
    {"window", 2, 8, 8, 4096, 4096, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 512, 0, NULL, NULL},
    {"window without mask", 2, 8, 8, 1024, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_NONE, 128, 0, NULL, NULL},
    {"bottom right", 2, 8, 8, 512, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, NULL, NULL},
    {"bottom right window", 2, 8, 8, 512, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 128, 0, NULL, NULL},
    {"bottom right lengths", 2, 8, 8, 512, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 0, LENGTHS, NULL, NULL},
    {"bottom right window lengths", 2, 8, 8, 512, 1024, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 128, LENGTHS, NULL, NULL},
    {"odd sizes", 3, 5, 5, 77, 333, 80, 80, TRP_F16, TRP_DNN_MASK_CAUSAL, 0, 0, NULL, NULL},
    {"wide keys", 2, 4, 4, 512, 512, 192, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, 0, NULL, NULL},
    {"256", 2, 4, 4, 512, 512, 256, 256, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, 0, NULL, NULL},
    {"one row", 8, 16, 4, 1, 4096, 128, 128, TRP_BF16, TRP_DNN_MASK_NONE, 0, LENGTHS | INFERENCE, NULL, NULL},
    {"deterministic", 2, 8, 8, 512, 512, 128, 128, TRP_BF16, TRP_DNN_MASK_CAUSAL, 0, REPEATED, NULL, NULL},
    {"f32", 2, 8, 8, 512, 512, 64, 64, TRP_F32, TRP_DNN_MASK_NONE, 0, 0, "other types", "other types"},
    {"depth of 60", 2, 8, 8, 512, 512, 60, 64, TRP_F16, TRP_DNN_MASK_NONE, 0, 0, "multiple of 8", "multiple of 8"},
    {"dropout", 2, 8, 8, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_NONE, 0, DROPOUT, "dropout", "dropout"},
    {"columns first", 2, 8, 8, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_NONE, 0, TURNED, "no other kernel", "no other kernel"},
    {"slopes without mask", 2, 8, 8, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_NONE, 0, SLOPES, "slopes", "slopes"},
    {"low with bias", 2, 8, 8, 512, 512, 64, 64, TRP_F16, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 0, BIAS, "bias", "bias"},
    {"more rows", 2, 8, 8, 512, 256, 64, 64, TRP_F16, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, "more rows", "more rows"},
};
/* clang-format on */

static uint8_t matrices(dnn_graph *g, const attention *a, trp_dtype type, int64_t heads, int64_t s,
                        int64_t d)
{
    const int64_t dim[] = {a->b, heads, s, d};
    uint8_t number = dnn_tensor(g, TRP__DNN_BUFFER, type, DNN_ROWS, 4, dim);
    trp__dnn_tensor *t = &g->tensor[number];
    if (d > 1 && (a->extras & INTERLEAVED)) {
        t->stride[1] = d;
        t->stride[2] = d * heads;
    } else if (d > 1 && (a->extras & TURNED)) {
        t->stride[2] = 1;
        t->stride[3] = s;
    }
    return number;
}

static void make(dnn_graph *g, const attention *a, bool backward)
{
    dnn_begin(g);
    g->head.deterministic = (a->extras & REPEATED) != 0;
    g->head.workspace = (uint64_t)1 << 30;
    trp__dnn_node *n =
        dnn_node(g, backward ? TRP_DNN_ATTENTION_BACKWARD : TRP_DNN_ATTENTION, a->mask, TRP_F32, 0);
    n->spatial = 1;
    n->window[0] = a->window;
    n->parameter[0] = 1 / sqrt((double)a->d);
    n->parameter[1] = a->extras & DROPOUT ? 0.1 : 0;
    n->port[TRP__DNN_ATTENTION_Q] = matrices(g, a, a->type, a->h, a->s_q, a->d);
    n->port[TRP__DNN_ATTENTION_K] = matrices(g, a, a->type, a->h_kv, a->s_kv, a->d);
    n->port[TRP__DNN_ATTENTION_V] = matrices(g, a, a->type, a->h_kv, a->s_kv, a->d_v);
    n->port[TRP__DNN_ATTENTION_Y] = matrices(g, a, a->type, a->h, a->s_q, a->d_v);
    if (backward || !(a->extras & INFERENCE))
        n->port[TRP__DNN_ATTENTION_STATS] = matrices(g, a, TRP_F32, a->h, a->s_q, 1);
    if (a->extras & BIAS)
        n->port[TRP__DNN_ATTENTION_BIAS] = DNN_BUFFER(a->type, DNN_ROWS, 1, a->h, a->s_q, a->s_kv);
    if (a->extras & SLOPES)
        n->port[TRP__DNN_ATTENTION_SLOPES] = DNN_BUFFER(TRP_F32, DNN_ROWS, 1, a->h, 1, 1);
    if (a->extras & LENGTHS) {
        n->port[TRP__DNN_ATTENTION_SEQ_Q] = DNN_BUFFER(TRP_I32, DNN_ROWS, a->b, 1, 1, 1);
        n->port[TRP__DNN_ATTENTION_SEQ_KV] = DNN_BUFFER(TRP_I32, DNN_ROWS, a->b, 1, 1, 1);
    }
    if (!backward)
        return;
    n->port[TRP__DNN_ATTENTION_DY] = matrices(g, a, a->type, a->h, a->s_q, a->d_v);
    n->port[TRP__DNN_ATTENTION_DQ] = matrices(g, a, a->type, a->h, a->s_q, a->d);
    n->port[TRP__DNN_ATTENTION_DK] = matrices(g, a, a->type, a->h_kv, a->s_kv, a->d);
    n->port[TRP__DNN_ATTENTION_DV] = matrices(g, a, a->type, a->h_kv, a->s_kv, a->d_v);
    if (a->extras & DBIAS)
        n->port[TRP__DNN_ATTENTION_DBIAS] = DNN_BUFFER(a->type, DNN_ROWS, 1, a->h, a->s_q, a->s_kv);
}

/* By the name of its kernel, which is in the plan as text; and it has no room for all scores. Those
 * that are told to give the same bits, or to write dbias, keep gradients of scores. */
static void check_fused(const attention *a, bool backward, const trp__dnn_plan *plan)
{
    const bool keeps = backward && (a->extras & (REPEATED | DBIAS));
    const uint64_t scores = (uint64_t)(a->b * a->h * a->s_q * a->s_kv) * 2;
    char *text;
    size_t bytes;
    trp_error error;
    assert_int_equal(plan->steps, 1);
    const uint8_t masked =
        plan->lowered.graph.node[plan->step[0].first].port[TRP__DNN_ATTENTION_MASKED];
    if (masked != TRP__DNN_NO_PORT) {
        float value;
        memcpy(&value, plan->value[masked], sizeof value);
        assert_true(value == -INFINITY);
    }
    assert_int_equal(
        trp__dnn_engine_write(planner.lib, &plan->step[0].engine, &text, &bytes, &error), TRP_OK);
    assert_non_null(strstr(text, backward ? "flash_bprop" : "flash_fprop"));
    free(text);
    if (a->s_q > 1)
        assert_true(plan->workspace < scores + (keeps ? 4096 : 0));
}

/* What the library refuses is done by a kernel of ours, a fast one up to a depth of 256; or copies
 * are, and attention by it. */
static void check_direct(const attention *a, const trp__dnn_graph *graph)
{
    const trp__dnn_way way = a->extras & TURNED ? TRP__DNN_WAY_ENGINE
                             : a->d > 256       ? TRP__DNN_WAY_DIRECT
                                                : TRP__DNN_WAY_KERNEL;
    trp__dnn_plan *plan = NULL;
    trp_error error;
    planner.modules = &direct;
    assert_int_equal(trp__dnn_plan_make(&planner, graph, &plan, &error), TRP_OK);
    planner.modules = NULL;
    for (uint32_t i = 0; i < plan->steps; i++) {
        bool copy = !trp__dnn_is_attention(&plan->lowered.graph.node[plan->step[i].first]);
        assert_int_equal(plan->step[i].way, copy ? TRP__DNN_WAY_KERNEL : way);
    }
    trp__dnn_plan_drop(plan);
}

static void try_one(const attention *a, bool backward)
{
    static dnn_graph g;
    const char *refusal = backward ? a->backward : a->forward;
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    make(&g, a, backward);
    trp__dnn_graph graph = dnn_finish(&g);
    trp_status status = trp__dnn_plan_make(&planner, &graph, &plan, &error);
    printf("%-28s %-8s ", a->name, backward ? "backward" : "forward");
    if (status == TRP_OK)
        printf("%s, workspace %llu, between %llu\n", plan->step[0].engine.name,
               (unsigned long long)plan->workspace, (unsigned long long)plan->between);
    else
        printf("refused: %s\n", error.message);
    fflush(stdout);
    assert_int_equal(status, refusal ? TRP_E_UNSUPPORTED : TRP_OK);
    if (refusal)
        assert_non_null(strstr(error.message, refusal));
    else
        check_fused(a, backward, plan);
    trp__dnn_plan_drop(plan);
    if (refusal)
        check_direct(a, &graph);
    dnn_end(&g);
}

/* Between two other nodes it is a piece of its own; and a plan is the same made from its record. */
static void in_a_graph(void **unused)
{
    static dnn_graph storage, *const g = &storage;
    trp__dnn_plan *plan = NULL, *read = NULL;
    unsigned char *record = NULL;
    size_t size = 0;
    trp_error error;
    (void)unused;
    if (planner.lib->cudnnGetVersion() < TRP__CUDNN_VERSION_ATTENTION)
        skip();
    make(g, &all[1], true);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_MUL, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = g->node[0].port[TRP__DNN_ATTENTION_DY];
    n->port[TRP__DNN_POINTWISE_B] = dnn_value(g, TRP_F32, 2);
    n->port[TRP__DNN_POINTWISE_Y] = DNN_VIRTUAL(TRP_F16, DNN_ROWS, 2, 8, 512, 64);
    g->node[0].port[TRP__DNN_ATTENTION_DY] = n->port[TRP__DNN_POINTWISE_Y];
    trp__dnn_node first = g->node[1];
    g->node[1] = g->node[0];
    g->node[0] = first;
    n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_IDENTITY, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = g->node[1].port[TRP__DNN_ATTENTION_DQ];
    n->port[TRP__DNN_POINTWISE_Y] = DNN_BUFFER(TRP_F32, DNN_ROWS, 2, 8, 512, 64);
    trp__dnn_graph graph = dnn_finish(g);
    assert_int_equal(trp__dnn_plan_make(&planner, &graph, &plan, &error), TRP_OK);
    assert_int_equal(plan->steps, 3);
    assert_int_equal(trp__dnn_record_write(plan, &record, &size, &error), TRP_OK);
    assert_int_equal(trp__dnn_record_read(record, size, &planner, &graph, &read, &error), TRP_OK);
    assert_int_equal(read->between, plan->between);
    assert_memory_equal(read->offset, plan->offset, sizeof read->offset);
    assert_string_equal(read->step[1].engine.name, plan->step[1].engine.name);
    free(record);
    trp__dnn_plan_drop(read);
    trp__dnn_plan_drop(plan);
    dnn_end(g);
}

/* Keys and values from pages are gathered by kernels of ours, and attention to them is cuDNN's. */
static void from_pages(void **unused)
{
    static dnn_graph storage, *const g = &storage;
    static const uint8_t ports[] = {TRP__DNN_ATTENTION_K, TRP__DNN_ATTENTION_V};
    trp__dnn_plan *plan = NULL;
    trp_error error;
    (void)unused;
    if (planner.lib->cudnnGetVersion() < TRP__CUDNN_VERSION_ATTENTION)
        skip();
    const attention a = {
        "pages", 8,   16, 4, 1, 4096, 128, 128, TRP_BF16, TRP_DNN_MASK_NONE, 0, LENGTHS | INFERENCE,
        NULL,    NULL};
    make(g, &a, false);
    trp__dnn_node node = g->node[0];
    g->head.nodes = 0;
    for (int i = 0; i < 2; i++) {
        trp__dnn_node *n = dnn_node(g, TRP_DNN_PAGED_LOAD, 0, TRP_F32, 0);
        n->port[TRP__DNN_PAGED_X] = DNN_BUFFER(TRP_BF16, DNN_ROWS, 2048, 4, 16, 128);
        n->port[TRP__DNN_PAGED_TABLE] = DNN_BUFFER(TRP_I32, DNN_ROWS, 8, 1, 256, 1);
        n->port[TRP__DNN_PAGED_SEQ_KV] = node.port[TRP__DNN_ATTENTION_SEQ_KV];
        n->port[TRP__DNN_PAGED_Y] = DNN_VIRTUAL(TRP_BF16, DNN_ROWS, 8, 4, 4096, 128);
        g->tensor[node.port[ports[i]]].role = TRP__DNN_VIRTUAL;
        node.port[ports[i]] = n->port[TRP__DNN_PAGED_Y];
    }
    *dnn_node(g, TRP_DNN_ATTENTION, 0, TRP_F32, 0) = node;
    trp__dnn_graph graph = dnn_finish(g);
    planner.modules = &direct;
    const trp_status status = trp__dnn_plan_make(&planner, &graph, &plan, &error);
    planner.modules = NULL;
    assert_int_equal(status, TRP_OK);
    assert_int_equal(plan->steps, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(plan->step[i].way, i < 2 ? TRP__DNN_WAY_DIRECT : TRP__DNN_WAY_ENGINE);
    assert_int_equal(plan->between, 2 * 8 * 4 * 4096 * 128 * 2);
    trp__dnn_plan_drop(plan);
    dnn_end(g);
}

static void planned(void **unused)
{
    (void)unused;
    if (planner.lib->cudnnGetVersion() < TRP__CUDNN_VERSION_ATTENTION)
        skip();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (i % 5 != 0 && !getenv("TROUPE_TEST_ALL")) /* each takes a second or more */
            continue;
        try_one(&all[i], false);
        try_one(&all[i], true);
    }
}

static int set_up(void **unused)
{
    (void)unused;
    dnn_planner_open(&planner);
    for (int i = 0; i < TRP__KERNEL_MODULE_COUNT; i++) /* nothing runs: any image will do */
        direct.module[i].image = calloc(1, 1);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    dnn_planner_close(&planner);
    for (int i = 0; i < TRP__KERNEL_MODULE_COUNT; i++)
        free(direct.module[i].image);
    return 0;
}

int main(int count, char **argument)
{
    const struct CMUnitTest tests[] = {UNIT(planned), UNIT(in_a_graph), UNIT(from_pages)};
    if (count > 1)
        cmocka_set_test_filter(argument[1]);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
