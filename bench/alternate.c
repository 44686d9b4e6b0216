/* Measures dependent requests that alternate between two actors against the same requests grouped
 * by actor: the cost of a change of actor. A GPU itself takes longer to go from one kernel to
 * another than to repeat one, so the convolution is also compared with the two libraries called by
 * turns in one stream. */
#include "bench/dnn/raw_dnn.h"
#include "bench/raw/lt.h"
#include "bench/suite/filled.h"
#include "bench/suite/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { M = 256, N = 384, K = 128, COUNT = 64 };

/* The operation that follows a product; on the host, Troupe's threads compute GELU and oneDNN the
 * others, of which the convolution takes longest. */
typedef enum follower { GELU, SOFTMAX, CONVOLUTION, LAYERS } follower;

/* The convolution reads the product as CHANNELS images of SIDE x SIDE elements. */
enum { CHANNELS = 24, SIDE = 64 };

static const char *const names[LAYERS] = {
    [GELU] = "matmul, gelu", [SOFTMAX] = "matmul, softmax", [CONVOLUTION] = "matmul, convolution"};

typedef struct pair {
    suite *suite;
    trp_actor *matmul, *dnn;
    follower what;
    trp_buffer a, b, c, y; /* c = a b, y = follower(c) */
    trp_dnn_ran *ran;      /* of a layer that is not softmax; NULL: not asked for */
} pair;

static bool send_product(const pair *p)
{
    const trp_matmul_request r = {
        .header = {.wait_ns = TRP_FOREVER},
        .m = M,
        .n = N,
        .k = K,
        .a = {.buffer = p->a, .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .b = {.buffer = p->b, .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .d = {.buffer = p->c, .type = TRP_F32, .order = TRP_ROW_MAJOR},
    };
    return suite_check(p->suite, trp_matmul(p->matmul, &r, NULL), "trp_matmul");
}

static trp_dnn_tensor rows(trp_buffer buffer)
{
    return (trp_dnn_tensor){.type = TRP_F32, .rank = 2, .dim = {M, N}, .buffer = buffer};
}

static trp_dnn_tensor images(trp_buffer buffer)
{
    return (trp_dnn_tensor){
        .type = TRP_F32, .rank = 4, .dim = {1, CHANNELS, SIDE, SIDE}, .buffer = buffer};
}

static bool send_layer(const pair *p)
{
    if (p->what == SOFTMAX) {
        const trp_softmax_request r = {
            .header.wait_ns = TRP_FOREVER, .axis = 1, .x = rows(p->c), .y = rows(p->y)};
        return suite_check(p->suite, trp_softmax_forward(p->dnn, &r, NULL), "trp_softmax_forward");
    }
    const bool conv = p->what == CONVOLUTION;
    const trp_dnn_tensor filter = {
        .type = TRP_F32, .rank = 4, .dim = {CHANNELS, CHANNELS, 3, 3}, .buffer = p->b};
    const trp_dnn_tensor tensor[] = {
        {0}, conv ? images(p->c) : rows(p->c), conv ? images(p->y) : rows(p->y), filter};
    const trp_dnn_node gelu = {
        .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_GELU_TANH, .x = 1, .y = 2};
    const trp_dnn_node convolution = {.kind = TRP_DNN_CONV_FORWARD,
                                      .x = 1,
                                      .w = 3,
                                      .y = 2,
                                      .pre_pad = {1, 1},
                                      .post_pad = {1, 1}};
    const trp_dnn_graph_request r = {.header.wait_ns = TRP_FOREVER,
                                     .tensors = tensor,
                                     .tensor_count = conv ? 4 : 3,
                                     .nodes = conv ? &convolution : &gelu,
                                     .node_count = 1,
                                     .options.ran = p->ran};
    return suite_check(p->suite, trp_dnn_graph(p->dnn, &r, NULL), "trp_dnn_graph");
}

/* Runs all products, then all followers. */
static bool apart(void *context, uint64_t count)
{
    const pair *p = context;
    bool good = true;
    for (uint64_t i = 0; i < count && good; i++)
        good = send_product(p);
    good = good && suite_drain(p->suite, TRP_FOREVER);
    for (uint64_t i = 0; i < count && good; i++)
        good = send_layer(p);
    return good && suite_drain(p->suite, TRP_FOREVER);
}

/* Alternates: each follower reads the result of the product before it, and the next product
 * overwrites that result.
 */
static bool alternating(void *context, uint64_t count)
{
    const pair *p = context;
    bool good = true;
    for (uint64_t i = 0; i < count && good; i++)
        good = send_product(p) && send_layer(p);
    return good && suite_drain(p->suite, TRP_FOREVER);
}

/* cuBLASLt and cuDNN in one stream, the fastest algorithm and engine that they propose. */
typedef struct libraries {
    raw_dnn dnn;
    raw_lt lt;
    raw_conv conv;
} libraries;

static bool libraries_begin(libraries *l, suite *s, const void *piece)
{
    const raw_product product = {
        .type = TRP_F32, .type_d = TRP_F32, .m = N, .n = M, .k = K, .copies = 1, .best = true};
    *l = (libraries){.conv = {.what = {1, CHANNELS, CHANNELS, SIDE, 3, 1, 1, 1},
                              .f32 = true,
                              .piece = piece,
                              .best = true}};
    if (raw_dnn_open(&l->dnn, s->raw->error) != TRP_OK)
        return false;
    l->lt = (raw_lt){.cu = l->dnn.cu, .stream = l->dnn.stream, .error = s->raw->error};
    if (!raw_lt_begin(&l->lt, &product, piece, FILLED_PIECE) || !raw_conv_begin(&l->dnn, &l->conv))
        return false;
    l->conv.at[RAW_CONV_X] = (void *)(uintptr_t)l->lt.d;
    return true;
}

static void libraries_end(libraries *l)
{
    raw_conv_end(&l->dnn, &l->conv);
    if (l->lt.cu)
        raw_lt_close(&l->lt);
    raw_dnn_close(&l->dnn);
}

static bool libraries_by_turns(void *context, uint64_t count)
{
    libraries *l = context;
    bool good = true;
    for (uint64_t i = 0; i < count && good; i++)
        good = raw_lt_run(&l->lt, 1) && raw_conv_send(&l->dnn, &l->conv);
    return good && raw_conv_run(&l->dnn, &l->conv, 0);
}

static void measure_beside_libraries(pair *p, const stats_plan *plan, const void *piece,
                                     report_row row)
{
    libraries l;
    row.raw = "cublasLtMatmul, cudnnBackendExecute";
    snprintf(row.name, sizeof row.name, "the libraries, convolution");
    if (libraries_begin(&l, p->suite, piece)) {
        suite_measure(p->suite, plan, (stats_side){.run = libraries_by_turns, .context = &l},
                      (stats_side){.run = alternating, .context = p}, &row);
        trp_dnn_ran ran = {0};
        p->ran = &ran;
        if (alternating(p, 1))
            printf("  %s; cuDNN's %s\n", ran.engine, l.conv.plan->step[0].engine.name);
        p->ran = NULL;
    } else {
        suite_fail(p->suite, row.name);
    }
    libraries_end(&l);
}

static void measure(suite *s, follower what)
{
    unsigned char *piece = malloc(FILLED_PIECE);
    const stats_plan plan = {.blocks = s->quick ? 4 : 16, .count = COUNT, .warm = 8};
    pair p = {.suite = s, .what = what};
    report_row row = {.raw = "each actor by itself", .unit = "us", .scale = 1e-3};
    snprintf(row.name, sizeof row.name, "%s", names[what]);
    p.matmul = suite_actor(s, "matmul");
    p.dnn = p.matmul ? suite_actor(s, "dnn") : NULL;
    bool made = p.dnn && piece;
    if (made) {
        filled_piece(TRP_BF16, piece, s->seed); /* read as f32 these are small numbers too */
        made = filled_buffer(s, piece, sizeof(float) * M * K, &p.a) &&
               filled_buffer(s, piece, sizeof(float) * K * N, &p.b) &&
               filled_buffer(s, NULL, sizeof(float) * M * N, &p.c) &&
               filled_buffer(s, NULL, sizeof(float) * M * N, &p.y);
        if (!made)
            suite_fail(s, row.name);
    }
    suite_bound(s, &row, REPORT_RATIO_AT_MOST, suite_on_gpu(s) ? 1.1 : 1.25);
    if (made)
        suite_measure(s, &plan, (stats_side){.run = apart, .context = &p},
                      (stats_side){.run = alternating, .context = &p}, &row);
    if (made && what == CONVOLUTION && suite_on_gpu(s))
        measure_beside_libraries(&p, &plan, piece, row);
    const trp_buffer all[] = {p.a, p.b, p.c, p.y};
    suite_free(s, all, sizeof all / sizeof *all);
    trp_actor_destroy(p.dnn);
    trp_actor_destroy(p.matmul);
    free(piece);
}

void suite_alternate(suite *s)
{
    report_section(s->report, "Dependent requests that alternate between two actors",
                   "a product of 256 x 384 x 128 in f32, then a layer on its result, a pair each; "
                   "raw: all products, then all layers, through Troupe; for the convolution also "
                   "the libraries by turns in one stream");
    for (follower what = 0; what < LAYERS; what++)
        measure(s, what);
}
