/* Which pieces of a graph of the dnn actor are products that cuBLASLt gets, as which problems, and
 * what is kept of how it does them: on the fake cuBLASLt, and without any cuDNN. */
#include "actors/dnn/plans/record.h"
#include "actors/dnn/engines/product_cublaslt.h"
#include "dnn_graphs.h"
#include "support/fake_cuda/hooks.h"
#include "support/label.h"

#include <troupe/dnn.h>

#include "support/unit.h"

#include <dlfcn.h>
#include <math.h>

TROUPE_TEST("no tsan", "foreign leaks");

enum { ALLOC_FAILED = 3, NOT_SUPPORTED = 15 };

/* --- convolutions and what is behind them --- */

/* A convolution of images of 4 x 4; behind it, in turn: b a bias, v one number, p one for each
 * pixel, x the bias first; r relu, c clipped, l leaky, g gelu by tanh, e by erf; w a bias that is
 * wider than what is computed. */
typedef struct conv_row {
    const char *what;
    trp_dnn_kind kind;
    trp_dtype x, y;
    const char *behind;
    uint32_t taken; /* nodes */
    int64_t c, k;
    trp_dtype between, bias; /* default: f32 and y's */
    dnn_layout layout;       /* of y; x is channels-last */
    int taps, stride, pad, groups;
    bool tf32;
} conv_row;

#define LAST .layout = DNN_CHANNELS_LAST

static const conv_row convs[] = {
    {"alone", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "", 1, 16, 24, LAST},
    {"to f32", TRP_DNN_CONV_FORWARD, TRP_F16, TRP_F32, "", 1, 16, 24, LAST},
    {"to f16 from bf16", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_F16, "", 0, 16, 24, LAST},
    {"data", TRP_DNN_CONV_BACKWARD_DATA, TRP_F32, TRP_F32, "", 1, 5, 7, LAST},
    {"filter", TRP_DNN_CONV_BACKWARD_FILTER, TRP_F16, TRP_F16, "", 1, 5, 7, LAST},
    {"bias", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "b", 2, 16, 24, LAST},
    {"the bias first", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "x", 2, 16, 24, LAST},
    {"relu", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "r", 2, 16, 24, LAST},
    {"bias, relu", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 3, 16, 24, LAST},
    {"bias, gelu", TRP_DNN_CONV_FORWARD, TRP_F16, TRP_F32, "bg", 3, 16, 24, LAST},
    {"bias, exact gelu", TRP_DNN_CONV_FORWARD, TRP_F16, TRP_F32, "be", 2, 16, 24, LAST},
    {"bias, relu, relu", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "brr", 3, 3, 5, LAST},
    {"relu, bias", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "rb", 2, 3, 5, LAST},
    {"two biases", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "bb", 2, 3, 5, LAST},
    {"clipped", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "c", 1, 3, 5, LAST},
    {"leaky", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "bl", 2, 3, 5, LAST},
    {"a number", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "v", 1, 3, 5, LAST},
    {"pixels", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "p", 1, 3, 5, LAST},
    {"f64", TRP_DNN_CONV_FORWARD, TRP_F64, TRP_F64, "br", 3, 3, 5, LAST, .between = TRP_F64},
    {"gelu of f64", TRP_DNN_CONV_FORWARD, TRP_F64, TRP_F64, "bg", 2, 3, 5, LAST,
     .between = TRP_F64},
    {"relu of bf16", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "r", 2, 16, 24, LAST,
     .between = TRP_BF16},
    {"bias of bf16 sums", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "b", 1, 16, 24, LAST,
     .between = TRP_BF16},
    {"relu of f16 to f32", TRP_DNN_CONV_FORWARD, TRP_F16, TRP_F32, "r", 1, 16, 24, LAST,
     .between = TRP_F16},
    {"bias of f32 to bf16", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 2, 16, 24, LAST,
     .bias = TRP_F32},
    {"odd channels, twice rounded", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 1, 12, 24,
     LAST},
    {"odd channels to f32", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_F32, "br", 3, 12, 25, LAST},
    {"3 x 3", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 0, 16, 24, LAST, .taps = 3, .pad = 1},
    {"stride", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 0, 16, 24, LAST, .stride = 2},
    {"groups", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 0, 16, 24, LAST, .groups = 2},
    {"padding", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 0, 16, 24, LAST, .pad = 1},
    {"rows", TRP_DNN_CONV_FORWARD, TRP_BF16, TRP_BF16, "br", 0, 16, 24, .layout = DNN_ROWS},
};

static uint8_t add_bias(dnn_graph *g, const conv_row *row, char kind)
{
    const trp_dtype type = row->bias ? row->bias : row->y;
    if (kind == 'v')
        return dnn_value(g, type, 2);
    return kind == 'p' ? DNN_BUFFER(type, DNN_CHANNELS_LAST, 2, 1, 4, 4)
                       : DNN_BUFFER(type, DNN_ROWS, 1, row->k, 1, 1);
}

static uint32_t mode_of(char kind)
{
    return strchr("bvpx", kind) ? TRP_DNN_ADD
           : kind == 'g'        ? TRP_DNN_GELU_TANH
           : kind == 'e'        ? TRP_DNN_GELU
                                : TRP_DNN_RELU;
}

static void make_conv(dnn_graph *g, const conv_row *row)
{
    const int taps = row->taps ? row->taps : 1, stride = row->stride ? row->stride : 1;
    const int64_t side = (4 + 2 * row->pad - taps) / stride + 1;
    const trp_dtype compute = row->x == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dtype between = row->between ? row->between : compute;
    const bool forward = row->kind == TRP_DNN_CONV_FORWARD;
    dnn_begin(g);
    g->head.tf32 = row->tf32;
    trp__dnn_node *n = dnn_node(g, row->kind, 0, compute, 2);
    n->stride[0] = n->stride[1] = stride;
    n->pre_pad[0] = n->pre_pad[1] = n->post_pad[0] = n->post_pad[1] = row->pad;
    n->port[TRP__DNN_CONV_X] =
        dnn_image(g, TRP__DNN_BUFFER, row->x, DNN_CHANNELS_LAST, 2, 2, row->c, 4);
    n->port[TRP__DNN_CONV_W] = dnn_image(g, TRP__DNN_BUFFER, row->x, DNN_CHANNELS_LAST, 2, row->k,
                                         row->c / (row->groups ? row->groups : 1), taps);
    bool more = row->behind[0] != '\0';
    n->port[TRP__DNN_CONV_Y] = dnn_image(g, more ? TRP__DNN_VIRTUAL : TRP__DNN_BUFFER,
                                         more ? between : row->y, row->layout, 2, 2, row->k, side);
    assert_true(forward || !more);
    uint8_t current = n->port[TRP__DNN_CONV_Y];
    for (const char *at = row->behind; *at; at++) {
        const uint32_t mode = mode_of(*at);
        uint8_t other = mode == TRP_DNN_ADD ? add_bias(g, row, *at) : DNN_NONE;
        n = dnn_node(g, TRP_DNN_POINTWISE, mode, compute, 0);
        n->parameter[1] = *at == 'c' ? 6 : n->parameter[1];
        n->parameter[2] = *at == 'l' ? 0.1 : 0;
        n->port[TRP__DNN_POINTWISE_X] = *at == 'x' ? other : current;
        n->port[TRP__DNN_POINTWISE_B] = *at == 'x' ? current : other;
        current = n->port[TRP__DNN_POINTWISE_Y] =
            dnn_image(g, at[1] ? TRP__DNN_VIRTUAL : TRP__DNN_BUFFER, at[1] ? between : row->y,
                      row->layout, 2, 2, row->k, side);
    }
}

static void convolutions(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        const conv_row *row = &convs[i];
        dnn_graph g;
        trp__dnn_product p;
        make_conv(&g, row);
        trp__dnn_graph graph = dnn_finish(&g);
        bool taken = trp__dnn_longest_product(&graph, 0, &p);
        if ((taken ? p.count : 0) != row->taken)
            fail_msg("%s: %u nodes, expected %u", row->what, taken ? p.count : 0, row->taken);
        if (taken) {
            bool wants = trp__dnn_prefers_product(&graph, 0, &p);
            assert_int_equal(wants, row->taken > 1);
            assert_int_equal(p.times, 1);
            assert_int_equal(p.problem.batch, 1);
        }
        dnn_end(&g);
    }
}

/* What somebody else reads is not only inside. */
static void read_by_others(void **unused)
{
    (void)unused;
    for (int memory = 0; memory < 2; memory++) {
        const conv_row row = {"", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "br", 0, 8, 8, LAST};
        dnn_graph g;
        trp__dnn_product p;
        make_conv(&g, &row);
        const uint8_t sum = g.node[1].port[TRP__DNN_POINTWISE_Y];
        if (memory) {
            g.tensor[sum].role = TRP__DNN_BUFFER;
            g.tensor[sum].alignment = 16;
        } else {
            trp__dnn_node *n = dnn_node(&g, TRP_DNN_POINTWISE, TRP_DNN_TANH, TRP_F32, 0);
            n->port[TRP__DNN_POINTWISE_X] = sum;
            n->port[TRP__DNN_POINTWISE_Y] =
                dnn_image(&g, TRP__DNN_BUFFER, TRP_F32, DNN_CHANNELS_LAST, 2, 2, 8, 4);
        }
        trp__dnn_graph graph = dnn_finish(&g);
        assert_true(trp__dnn_longest_product(&graph, 0, &p));
        assert_int_equal(p.count, 2);
        dnn_end(&g);
    }
}

/* --- products --- */

static const struct {
    trp_dtype a, b, y;
    bool tf32, taken, preferred;
} types[] = {
    {TRP_F32, TRP_F32, TRP_F32, false, true, true},
    {TRP_F32, TRP_F32, TRP_F32, true, true, false},
    {TRP_F64, TRP_F64, TRP_F64, false, true, true},
    {TRP_F16, TRP_F16, TRP_F16, false, true, false},
    {TRP_BF16, TRP_BF16, TRP_F32, false, true, false},
    {TRP_F32, TRP_F32, TRP_F16, false, false, false},
    {TRP_F16, TRP_BF16, TRP_F32, false, false, false},
    {TRP_F64, TRP_F64, TRP_F32, false, false, false},
    {TRP_F8E4M3, TRP_F8E4M3, TRP_F32, false, false, false},
    {TRP_I8, TRP_I8, TRP_I32, false, false, false},
};

static void types_of_products(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        dnn_graph storage, *g = &storage;
        trp__dnn_product p;
        dnn_begin(g);
        g->head.tf32 = types[i].tf32;
        trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0,
                                    types[i].a == TRP_F64  ? TRP_F64
                                    : types[i].a == TRP_I8 ? TRP_I32
                                                           : TRP_F32,
                                    0);
        n->port[TRP__DNN_MATMUL_A] = DNN_BUFFER(types[i].a, DNN_ROWS, 5, 7);
        n->port[TRP__DNN_MATMUL_B] = DNN_BUFFER(types[i].b, DNN_ROWS, 7, 3);
        n->port[TRP__DNN_MATMUL_Y] = DNN_BUFFER(types[i].y, DNN_ROWS, 5, 3);
        trp__dnn_graph graph = dnn_finish(g);
        bool taken = trp__dnn_longest_product(&graph, 0, &p);
        assert_int_equal(taken, types[i].taken);
        assert_true(!taken || trp__dnn_prefers_product(&graph, 0, &p) == types[i].preferred);
        dnn_end(g);
    }
}

static const struct {
    int64_t a[4], b[4];
    uint32_t rank;
    int64_t batch, times, rows;
} batches[] = {
    {{5, 7}, {7, 3}, 2, 1, 1, 5},
    {{4, 5, 7}, {4, 7, 3}, 3, 4, 1, 5},
    {{2, 3, 5, 7}, {2, 3, 7, 4}, 4, 6, 1, 5},
    {{4, 5, 7}, {1, 7, 3}, 3, 1, 1, 20}, /* one below the other */
    {{2, 4, 5, 7}, {1, 1, 7, 3}, 4, 1, 1, 40},
    {{1, 5, 7}, {4, 7, 3}, 3, 4, 1, 5},
    {{2, 4, 5, 7}, {2, 1, 7, 3}, 4, 2, 1, 20}, /* heads that share B */
    {{2, 1, 5, 7}, {1, 4, 7, 3}, 4, 4, 2, 5},  /* each with each */
    {{2, 1, 5, 7}, {2, 4, 7, 3}, 4, 4, 2, 5},
    {{65, 1, 5, 7}, {65, 66, 7, 3}, 4, 0, 0, 0}, /* too many */
};

static void batches_of_products(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        dnn_graph storage, *g = &storage;
        trp__dnn_product p;
        const uint32_t rank = batches[i].rank;
        int64_t y[4];
        for (uint32_t k = 0; k < rank; k++)
            y[k] = batches[i].a[k] > batches[i].b[k] ? batches[i].a[k] : batches[i].b[k];
        y[rank - 2] = batches[i].a[rank - 2];
        y[rank - 1] = batches[i].b[rank - 1];
        dnn_begin(g);
        trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, TRP_F32, 0);
        n->port[0] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, DNN_ROWS, rank, batches[i].a);
        n->port[1] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, DNN_ROWS, rank, batches[i].b);
        n->port[2] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, DNN_ROWS, rank, y);
        trp__dnn_graph graph = dnn_finish(g);
        bool taken = trp__dnn_longest_product(&graph, 0, &p);
        assert_int_equal(taken, batches[i].times > 0);
        if (taken && (p.problem.batch != batches[i].batch || p.times != batches[i].times ||
                      p.problem.n != batches[i].rows))
            fail_msg("batches[%zu]: %d of %d times %d rows", i, (int)p.times, (int)p.problem.batch,
                     (int)p.problem.n);
        dnn_end(g);
    }
}

/* --- plans and records --- */

static trp__dnn_products products;
static trp__dnn_planner planner = {.products = &products};
static __typeof__(&fake_cublaslt_count) count_objects;
static __typeof__(&fake_cublaslt_fail) fail_calls;

static const conv_row fused = {"", TRP_DNN_CONV_FORWARD, TRP_F32, TRP_F32, "br", 3, 8, 8, LAST};

static trp_status make(dnn_graph *g, trp__dnn_graph *graph, trp__dnn_plan **plan, trp_error *error)
{
    make_conv(g, &fused);
    *graph = dnn_finish(g);
    return trp__dnn_plan_make(&planner, graph, plan, error);
}

static trp__dnn_plan *make_well(dnn_graph *g, trp__dnn_graph *graph)
{
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    if (make(g, graph, &plan, &error) != TRP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(plan->steps, 1);
    assert_int_equal(plan->step[0].way, TRP__DNN_WAY_PRODUCT);
    assert_int_equal(plan->step[0].count, 3);
    assert_int_equal(strncmp(plan->step[0].engine.name, "cublaslt_", 9), 0);
    return plan;
}

static void assert_nothing_left(void)
{
    fake_cublaslt_counts counts = count_objects();
    assert_int_equal(counts.descs + counts.layouts + counts.preferences, 0);
}

/* As bytes and back; damaged, cut, of another version and refused ones are none. */
static void records(void **unused)
{
    (void)unused;
    enum { TEXT = 24 + 80, VERSION_AT = TEXT, ALGO_AT = TEXT + 8 };
    dnn_graph g;
    trp__dnn_graph graph;
    trp__dnn_plan *plan = make_well(&g, &graph), *read = NULL;
    unsigned char *record = NULL;
    size_t size = 0;
    trp_error error;
    assert_int_equal(trp__dnn_record_write(plan, &record, &size, &error), TRP_OK);
    assert_int_equal(size, TEXT + TRP__DNN_PRODUCT_BYTES);
    assert_int_equal(trp__dnn_record_read(record, size, &planner, &graph, &read, &error), TRP_OK);
    assert_string_equal(read->step[0].engine.name, plan->step[0].engine.name);
    assert_int_equal(read->workspace, plan->workspace);
    assert_int_equal(read->step[0].way, TRP__DNN_WAY_PRODUCT);
    trp__dnn_plan_drop(read);
    for (size_t cut = 0; cut < size; cut += 7)
        assert_int_not_equal(trp__dnn_record_read(record, cut, &planner, &graph, &read, &error),
                             TRP_OK);
    const size_t spoilt[] = {4 + 24, VERSION_AT, ALGO_AT, ALGO_AT + 8, ALGO_AT + 32};
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        record[spoilt[i]] ^= 1;
        if (trp__dnn_record_read(record, size, &planner, &graph, &read, &error) == TRP_OK)
            fail_msg("byte %zu does not matter", spoilt[i]);
        record[spoilt[i]] ^= 1;
    }
    fail_calls(FAKE_CUBLASLT_CHECK, 0, 1, NOT_SUPPORTED);
    assert_int_not_equal(trp__dnn_record_read(record, size, &planner, &graph, &read, &error),
                         TRP_OK);
    assert_int_equal(trp__dnn_record_read(record, size, &planner, &graph, &read, &error), TRP_OK);
    trp__dnn_plan_drop(read);
    free(record);
    trp__dnn_plan_drop(plan);
    dnn_end(&g);
    assert_nothing_left();
}

/* The sums that are added up in place are not for graphs that must be deterministic, nor is what
 * needs more workspace than there may be. */
static void options(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t workspace;
        bool deterministic;
        const char *name;
    } rows[] = {
        {UINT64_C(1) << 28, false, "cublaslt_a64_t20_s14_k4"},
        {4096, false, "cublaslt_a65_t23_s15_k2"},
        {4096, true, "cublaslt_a67_t18_s17_k1"},
        {255, false, "cublaslt_a68_t11_s18_k1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dnn_graph g;
        trp__dnn_plan *plan = NULL;
        trp_error error;
        make_conv(&g, &fused);
        g.head.workspace = rows[i].workspace;
        g.head.deterministic = rows[i].deterministic;
        trp__dnn_graph graph = dnn_finish(&g);
        assert_int_equal(trp__dnn_plan_make(&planner, &graph, &plan, &error), TRP_OK);
        assert_string_equal(plan->step[0].engine.name, rows[i].name);
        assert_true(plan->workspace <= rows[i].workspace);
        trp__dnn_plan_drop(plan);
        dnn_end(&g);
    }
    assert_nothing_left();
}

/* What fails is told; the next time it goes well. */
static void failures(void **unused)
{
    (void)unused;
    dnn_graph g;
    trp__dnn_graph graph;
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    fail_calls(FAKE_CUBLASLT_HEURISTIC, 0, 1, ALLOC_FAILED);
    assert_int_equal(make(&g, &graph, &plan, &error), TRP_E_MEMORY);
    assert_non_null(strstr(error.message, "cublasLtMatmulAlgoGetHeuristic"));
    assert_null(plan);
    dnn_end(&g);
    assert_nothing_left();
    trp__dnn_plan_drop(make_well(&g, &graph));
    dnn_end(&g);
    assert_nothing_left();
}

/* All that the heuristic has, each once, and no more than there is room for. */
static void candidates(void **unused)
{
    (void)unused;
    for (uint32_t room = 1; room <= 8; room++) {
        trp__dnn_engine engine[8];
        dnn_graph g;
        trp__dnn_product p;
        uint32_t count;
        trp_error error;
        make_conv(&g, &fused);
        trp__dnn_graph graph = dnn_finish(&g);
        assert_true(trp__dnn_product_of(&graph, 0, 3, &p));
        assert_int_equal(
            trp__dnn_product_engines(&planner, graph.head, &p, room, engine, &count, &error),
            TRP_OK);
        assert_int_equal(count, room < 5 ? room : 5);
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < i; k++)
                assert_string_not_equal(engine[i].name, engine[k].name);
        }
        for (uint32_t i = 0; i < count; i++)
            trp__dnn_product_drop(&engine[i]);
        dnn_end(&g);
    }
    assert_nothing_left();
}

static int find_fakes(void **unused)
{
    (void)unused;
    const trp__cuda *cu;
    const trp__cublaslt *lt;
    trp__cu_context context;
    trp_error error;
    if (trp__cuda_load(&cu, &error) != TRP_OK || cu->cuInit(0) != 0 ||
        cu->cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu->cuCtxSetCurrent(context) != 0 ||
        trp__cublaslt_load(&lt, &error) != TRP_OK)
        return -1;
    void *library = dlopen(trp__cublaslt_path(), RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return -1;
    *(void **)&count_objects = dlsym(library, "fake_cublaslt_count");
    *(void **)&fail_calls = dlsym(library, "fake_cublaslt_fail");
    return count_objects && fail_calls ? 0 : -1;
}

static int close_fakes(void **unused)
{
    (void)unused;
    trp__dnn_products_close(&products);
    return count_objects().handles == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(convolutions),      UNIT(read_by_others),
        UNIT(types_of_products), UNIT(batches_of_products),

        UNIT(records),           UNIT(options),
        UNIT(failures),          UNIT(candidates),
    };
    const char *driver = getenv("TROUPE_FAKE_CUDA"), *library = getenv("TROUPE_FAKE_CUBLASLT");
    if (!driver || !library) {
        fprintf(stderr,
                "TROUPE_FAKE_CUDA and TROUPE_FAKE_CUBLASLT are not set: the fakes' paths\n");
        return 77;
    }
    setenv("TROUPE_CUDA_DRIVER", driver, 1);
    setenv("TROUPE_CUBLASLT", library, 1);
    return cmocka_run_group_tests(tests, find_fakes, close_fakes);
}
