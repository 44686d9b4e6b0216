#include "actors/dnn/warm.h"

#include "actors/dnn/engines.h"

#include <troupe/dnn.h>

enum { X, W, Y, TENSORS };

static trp__dnn_tensor channels_last(int64_t n, int64_t c, int64_t size)
{
    return (trp__dnn_tensor){.type = TRP_BF16,
                             .rank = 4,
                             .role = TRP__DNN_BUFFER,
                             .alignment = 16,
                             .dim = {n, c, size, size, 1, 1, 1, 1},
                             .stride = {c * size * size, 1, c * size, c}};
}

bool trp__dnn_warm_up(const trp__dnn_planner *planner)
{
    static const double value[TENSORS];
    static const uint8_t access[TENSORS];
    trp__dnn_head head = {.tensors = TENSORS, .nodes = 1, .workspace = UINT64_C(64) << 20};
    trp__dnn_tensor tensor[TENSORS] = {[X] = channels_last(1, 64, 16),
                                       [W] = channels_last(64, 64, 3),
                                       [Y] = channels_last(1, 64, 16)};
    trp__dnn_node node = {.kind = TRP_DNN_CONV_FORWARD,
                          .compute = TRP_F32,
                          .spatial = 2,
                          .pre_pad = {1, 1},
                          .post_pad = {1, 1},
                          .stride = {1, 1},
                          .dilation = {1, 1}};
    const trp__dnn_graph graph = {&head, tensor, &node, value, access};
    const trp__dnn_part part = {&graph, 0, 1};
    trp__dnn_engine engine = {0};
    trp_error ignored;
    uint32_t count = 0;
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        node.port[i] = TRP__DNN_NO_PORT;
    node.port[TRP__DNN_CONV_X] = X;
    node.port[TRP__DNN_CONV_W] = W;
    node.port[TRP__DNN_CONV_Y] = Y;
    tensor[Y].written = true;
    if (trp__dnn_engines(planner, &part, 1, &engine, &count, &ignored) != TRP_OK)
        return false;
    trp__dnn_engine_drop(planner->lib, &engine);
    return true;
}
