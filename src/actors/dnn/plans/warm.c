#include "actors/dnn/plans/warm.h"

#include "actors/dnn/engines/engines.h"

#include <troupe/dnn.h>

#include <string.h>

enum { X, W, Y, TENSORS };

/* A graph in its memory layout. */
typedef struct sample {
    trp__dnn_head head;
    trp__dnn_tensor tensor[TENSORS];
    trp__dnn_node node;
    double value[TENSORS];
    uint8_t access[TENSORS];
} sample;

_Static_assert(offsetof(sample, value) == sizeof(trp__dnn_head) +
                                              TENSORS * sizeof(trp__dnn_tensor) +
                                              sizeof(trp__dnn_node),
               "as trp__dnn_graph_at() has it");

static trp__dnn_tensor channels_last(int64_t n, int64_t c, int64_t size)
{
    return (trp__dnn_tensor){.type = TRP_BF16,
                             .rank = 4,
                             .role = TRP__DNN_BUFFER,
                             .alignment = 16,
                             .dim = {n, c, size, size, 1, 1, 1, 1},
                             .stride = {c * size * size, 1, c * size, c}};
}

static void make_sample(sample *s)
{
    *s = (sample){.head = {.tensors = TENSORS, .nodes = 1, .workspace = UINT64_C(64) << 20},
                  .tensor = {[X] = channels_last(1, 64, 16),
                             [W] = channels_last(64, 64, 3),
                             [Y] = channels_last(1, 64, 16)},
                  .node = {.kind = TRP_DNN_CONV_FORWARD,
                           .compute = TRP_F32,
                           .spatial = 2,
                           .pre_pad = {1, 1},
                           .post_pad = {1, 1},
                           .stride = {1, 1},
                           .dilation = {1, 1}}};
    memset(s->node.port, TRP__DNN_NO_PORT, sizeof s->node.port);
    s->node.port[TRP__DNN_CONV_X] = X;
    s->node.port[TRP__DNN_CONV_W] = W;
    s->node.port[TRP__DNN_CONV_Y] = Y;
    s->tensor[Y].written = true;
}

static bool ask_heuristic(const trp__dnn_planner *planner, const trp__dnn_graph *graph)
{
    const trp__dnn_part part = {graph, 0, 1};
    trp__dnn_engine engine = {0};
    trp_error ignored;
    uint32_t count = 0;
    if (trp__dnn_engines(planner, &part, 1, &engine, &count, &ignored) != TRP_OK)
        return false;
    trp__dnn_engine_drop(planner->lib, &engine);
    return true;
}

bool trp__dnn_warm_up(const trp__dnn_planner *planner, const trp__tuning_site *site,
                      trp__store *store, const atomic_bool *wanted)
{
    sample s;
    trp__key key;
    trp__dnn_plan *plan = NULL;
    trp_error ignored;
    make_sample(&s);
    const trp__dnn_graph graph = trp__dnn_graph_at(&s);
    trp__dnn_record_key(site, &graph, &key);
    const bool known = trp__dnn_record_find(store, &key, planner, &graph, &plan);
    const bool good = (known && atomic_load(wanted)) || ask_heuristic(planner, &graph);
    if (!known && good && store && trp__dnn_plan_make(planner, &graph, &plan, &ignored) == TRP_OK)
        trp__dnn_record_keep(store, &key, plan);
    trp__key_end(&key);
    trp__dnn_plan_drop(plan);
    return good;
}
