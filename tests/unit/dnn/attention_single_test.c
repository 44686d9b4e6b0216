/* Attention without a mask is also a single operation of cuDNN's, which PyTorch asks for. For the
 * graph of operations that the dnn actor asks for cuDNN 9.19 has the same machine code, so nothing
 * is lost; should that change, this fails. Skipped for other versions, and where cuDNN is missing.
 */
#include "actors/dnn/cudnn/attention.h"
#include "actors/dnn/plans/record.h"
#include "dnn_graphs.h"
#include "dnn_planner.h"
#include "support/label.h"

#include <troupe/dnn.h>

#include "support/unit.h"

#include <math.h>

TROUPE_TEST("foreign leaks");

enum { VERSION = 919, RANK = 4 }; /* of which it is claimed: 9.19 */

/* What the actor has no use for, of cudnn_graph.h. */
enum {
    SDPA_FORWARD = 41,
    SDPA_Q = 2800,
    SDPA_K = 2801,
    SDPA_V = 2802,
    SDPA_Y = 2803,
    SDPA_STATS = 2804,
    SDPA_SCALE = 2805
};

typedef struct attention {
    int64_t b, h, s, d;
    bool stats;
} attention;

static trp__dnn_planner planner;

/* The actor's. */

static char *text_of(const trp__dnn_engine *engine)
{
    char *text;
    size_t bytes;
    trp_error error;
    assert_int_equal(trp__dnn_engine_write(planner.lib, engine, &text, &bytes, &error), TRP_OK);
    return text;
}

static uint8_t matrices(dnn_graph *g, const attention *a, trp_dtype type, int64_t width)
{
    const int64_t dim[RANK] = {a->b, a->h, a->s, width};
    return dnn_tensor(g, TRP__DNN_BUFFER, type, DNN_ROWS, RANK, dim);
}

static char *plan_of_graph(const attention *a)
{
    static dnn_graph g;
    trp__dnn_plan *plan = NULL;
    trp_error error;
    dnn_begin(&g);
    g.head.workspace = (uint64_t)1 << 30;
    trp__dnn_node *n = dnn_node(&g, TRP_DNN_ATTENTION, TRP_DNN_MASK_NONE, TRP_F32, 0);
    n->spatial = 1;
    n->parameter[0] = 1 / sqrt((double)a->d);
    for (int port = TRP__DNN_ATTENTION_Q; port <= TRP__DNN_ATTENTION_Y; port++)
        n->port[port] = matrices(&g, a, TRP_BF16, a->d);
    if (a->stats)
        n->port[TRP__DNN_ATTENTION_STATS] = matrices(&g, a, TRP_F32, 1);
    trp__dnn_graph graph = dnn_finish(&g);
    assert_int_equal(trp__dnn_plan_make(&planner, &graph, &plan, &error), TRP_OK);
    assert_int_equal(plan->steps, 1);
    char *text = text_of(&plan->step[0].engine);
    printf("%s", plan->step[0].engine.name);
    trp__dnn_plan_drop(plan);
    dnn_end(&g);
    return text;
}

/* The single operation's: the first that the heuristic proposes. */

static trp__cudnn_builder begin(int type, trp_error *error)
{
    return trp__cudnn_begin(planner.lib, (trp__cudnn_descriptor_type)type, error);
}

static trp__cudnn_descriptor finish(trp__cudnn_builder *m)
{
    trp__cudnn_descriptor made;
    if (trp__cudnn_finish(m, &made) != TRP_OK)
        fail_msg("%s", m->error->message);
    return made;
}

static trp__cudnn_descriptor tensor(const int64_t dim[RANK], uint8_t type, int64_t uid, bool value)
{
    const int64_t stride[RANK] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
    trp_error error;
    trp__cudnn_builder m = begin(TRP__CUDNN_BACKEND_TENSOR_DESCRIPTOR, &error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_TENSOR_DATA_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(type));
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_TENSOR_DIMENSIONS, TRP__CUDNN_TYPE_INT64, RANK, dim);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_TENSOR_STRIDES, TRP__CUDNN_TYPE_INT64, RANK, stride);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    trp__cudnn_set_flag(&m, TRP__CUDNN_ATTR_TENSOR_IS_BY_VALUE, value);
    return finish(&m);
}

static trp__cudnn_descriptor operation_graph(const attention *a)
{
    const int64_t matrix[RANK] = {a->b, a->h, a->s, a->d}, line[RANK] = {a->b, a->h, a->s, 1},
                  one[RANK] = {1, 1, 1, 1};
    const struct {
        int name;
        const int64_t *dim;
        uint8_t type;
    } parts[] = {{SDPA_Q, matrix, TRP_BF16}, {SDPA_K, matrix, TRP_BF16},
                 {SDPA_V, matrix, TRP_BF16}, {SDPA_Y, matrix, TRP_BF16},
                 {SDPA_SCALE, one, TRP_F32}, {SDPA_STATS, line, TRP_F32}};
    const size_t count = sizeof parts / sizeof *parts - !a->stats;
    trp__cudnn_descriptor made[sizeof parts / sizeof *parts], operation, graph;
    trp_error error;
    trp__cudnn_builder m = begin(SDPA_FORWARD, &error);
    for (size_t i = 0; i < count; i++) {
        made[i] = tensor(parts[i].dim, parts[i].type, (int64_t)i + 1, parts[i].name == SDPA_SCALE);
        trp__cudnn_set_descriptor(&m, (trp__cudnn_attribute)parts[i].name, made[i]);
    }
    operation = finish(&m);
    m = begin(TRP__CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &error);
    trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    graph = finish(&m);
    trp__cudnn_drop(planner.lib, &operation);
    for (size_t i = 0; i < count; i++)
        trp__cudnn_drop(planner.lib, &made[i]);
    return graph;
}

static char *plan_of_operation(const attention *a)
{
    const trp__cudnn *lib = planner.lib;
    trp__cudnn_descriptor graph = operation_graph(a), heuristics, config;
    trp__dnn_engine engine = {0};
    trp_error error;
    int64_t count;
    trp__cudnn_builder m = begin(TRP__CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &error);
    trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_ENGINEHEUR_MODE, TRP__CUDNN_TYPE_HEUR_MODE,
                        TRP__CUDNN_HEUR_MODE_A);
    trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, planner.device);
    heuristics = finish(&m);
    assert_int_equal(
        lib->cudnnBackendCreateDescriptor(TRP__CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config), 0);
    assert_int_equal(lib->cudnnBackendGetAttribute(heuristics, TRP__CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                                   &config),
                     0);
    assert_true(count > 0);
    m = begin(TRP__CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &error);
    trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, planner.device);
    trp__cudnn_set_descriptor(&m, TRP__CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    engine.plan = finish(&m);
    char *text = text_of(&engine);
    trp__dnn_engine_drop(lib, &engine);
    trp__cudnn_drop(lib, &config);
    trp__cudnn_drop(lib, &heuristics);
    trp__cudnn_drop(lib, &graph);
    return text;
}

/* The value of a key, which is a string. */
static size_t find(const char *text, const char *key, const char **at)
{
    *at = strstr(text, key);
    assert_non_null(*at);
    *at += strlen(key);
    return strcspn(*at, "\"");
}

static void same_code(void **unused)
{
    static const attention all[] = {{4, 16, 8192, 128, false},
                                    {4, 16, 8192, 128, true},
                                    {32, 16, 512, 64, false},
                                    {3, 5, 77, 80, false}};
    static const char *const keys[] = {"\"kernelName\":\"", "\"cubin\":\""};
    (void)unused;
    if (planner.lib->cudnnGetVersion() / 100 != VERSION)
        skip();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *graph = plan_of_graph(&all[i]), *operation = plan_of_operation(&all[i]);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const char *ours, *theirs;
            size_t bytes = find(graph, keys[k], &ours);
            assert_true(bytes > 16);
            assert_int_equal(find(operation, keys[k], &theirs), bytes);
            assert_memory_equal(ours, theirs, bytes);
            printf(", %zu bytes the same", bytes);
        }
        printf("\n");
        free(graph);
        free(operation);
    }
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
    const struct CMUnitTest tests[] = {UNIT(same_code)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
