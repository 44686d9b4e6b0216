/* Properties of the kinds of nodes, and the layout of a graph in memory. */
#include "actors/dnn/graph/graph.h"

#include "actors/dnn/graph/train_op.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define IN  TRP__PORT_IN
#define MAY TRP__PORT_MAY
#define OUT TRP__PORT_OUT
#define GET TRP__PORT_GET

static const trp__dnn_kind kinds[] = {
    [TRP_DNN_CONV_FORWARD] =
        {.name = "conv_forward",
         .port = {[TRP__DNN_CONV_X] = IN(x), [TRP__DNN_CONV_W] = IN(w), [TRP__DNN_CONV_Y] = OUT(y)},
         .geometry = true},
    [TRP_DNN_CONV_BACKWARD_DATA] =
        {.name = "conv_backward_data",
         .port =
             {[TRP__DNN_CONV_X] = OUT(dx), [TRP__DNN_CONV_W] = IN(w), [TRP__DNN_CONV_Y] = IN(dy)},
         .geometry = true},
    [TRP_DNN_CONV_BACKWARD_FILTER] =
        {.name = "conv_backward_filter",
         .port =
             {[TRP__DNN_CONV_X] = IN(x), [TRP__DNN_CONV_W] = OUT(dw), [TRP__DNN_CONV_Y] = IN(dy)},
         .geometry = true},
    [TRP_DNN_MATMUL] = {.name = "matmul",
                        .port = {[TRP__DNN_MATMUL_A] = IN(a),
                                 [TRP__DNN_MATMUL_B] = IN(b),
                                 [TRP__DNN_MATMUL_Y] = OUT(y)}},
    [TRP_DNN_POINTWISE] = {.name = "pointwise",
                           .port = {[TRP__DNN_POINTWISE_X] = IN(x),
                                    [TRP__DNN_POINTWISE_B] = MAY(b),
                                    [TRP__DNN_POINTWISE_T] = MAY(t),
                                    [TRP__DNN_POINTWISE_Y] = OUT(y)}},
    [TRP_DNN_POINTWISE_BACKWARD] = {.name = "pointwise_backward",
                                    .port = {[TRP__DNN_GRADIENT_X] = IN(x),
                                             [TRP__DNN_GRADIENT_DY] = IN(dy),
                                             [TRP__DNN_GRADIENT_DX] = OUT(dx)}},
    [TRP_DNN_REDUCTION] =
        {.name = "reduction",
         .port = {[TRP__DNN_REDUCTION_X] = IN(x), [TRP__DNN_REDUCTION_Y] = OUT(y)}},
    [TRP_DNN_RESAMPLE_FORWARD] = {.name = "resample_forward",
                                  .port =
                                      {[TRP__DNN_RESAMPLE_X] = IN(x),
                                       [TRP__DNN_RESAMPLE_Y] = OUT(y),
                                       [TRP__DNN_RESAMPLE_INDEX] = GET(index)},
                                  .geometry = true},
    [TRP_DNN_RESAMPLE_BACKWARD] = {.name = "resample_backward",
                                   .port = {[TRP__DNN_RESAMPLE_X] = OUT(dx),
                                            [TRP__DNN_RESAMPLE_Y] = IN(dy),
                                            [TRP__DNN_RESAMPLE_INDEX] = MAY(index),
                                            [TRP__DNN_RESAMPLE_OLD_X] = MAY(x),
                                            [TRP__DNN_RESAMPLE_OLD_Y] = MAY(y)},
                                   .geometry = true},
    [TRP_DNN_NORM_TRAINING] =
        {.name = "norm_training",
         .port = {[TRP__DNN_NORM_X] = IN(x),
                  [TRP__DNN_NORM_SCALE] = IN(scale),
                  [TRP__DNN_NORM_MEAN] = GET(mean),
                  [TRP__DNN_NORM_INV_VARIANCE] = OUT(inv_variance),
                  [TRP__DNN_NORM_BIAS] = MAY(bias),
                  [TRP__DNN_NORM_EPSILON] = IN(epsilon),
                  [TRP__DNN_NORM_Y] = OUT(y),
                  [TRP__DNN_NORM_RUNNING_MEAN] = MAY(running_mean),
                  [TRP__DNN_NORM_RUNNING_VARIANCE] = MAY(running_variance),
                  [TRP__DNN_NORM_AVERAGE_FACTOR] = MAY(average_factor),
                  [TRP__DNN_NORM_NEW_RUNNING_MEAN] = GET(new_running_mean),
                  [TRP__DNN_NORM_NEW_RUNNING_VARIANCE] = GET(new_running_variance)}},
    [TRP_DNN_NORM_INFERENCE] = {.name = "norm_inference",
                                .port = {[TRP__DNN_NORM_X] = IN(x),
                                         [TRP__DNN_NORM_SCALE] = IN(scale),
                                         [TRP__DNN_NORM_MEAN] = MAY(mean),
                                         [TRP__DNN_NORM_INV_VARIANCE] = MAY(inv_variance),
                                         [TRP__DNN_NORM_BIAS] = MAY(bias),
                                         [TRP__DNN_NORM_EPSILON] = MAY(epsilon),
                                         [TRP__DNN_NORM_Y] = OUT(y)}},
    [TRP_DNN_NORM_BACKWARD] = {.name = "norm_backward",
                               .port =
                                   {[TRP__DNN_NORM_X] = IN(x),
                                    [TRP__DNN_NORM_SCALE] = IN(scale),
                                    [TRP__DNN_NORM_MEAN] = MAY(mean),
                                    [TRP__DNN_NORM_INV_VARIANCE] = IN(inv_variance),
                                    [TRP__DNN_NORM_BIAS] = GET(dbias),
                                    [TRP__DNN_NORM_Y] = IN(dy),
                                    [TRP__DNN_NORM_DX] = OUT(dx),
                                    [TRP__DNN_NORM_DSCALE] = OUT(dscale)}},
    [TRP_DNN_STATISTICS] = {.name = "statistics",
                            .port = {[TRP__DNN_STATISTICS_X] = IN(x),
                                     [TRP__DNN_STATISTICS_SUM] = OUT(sum),
                                     [TRP__DNN_STATISTICS_SQUARE_SUM] = OUT(square_sum)}},
    [TRP_DNN_ATTENTION] = {.name = "attention",
                           .port = {[TRP__DNN_ATTENTION_Q] = IN(q),
                                    [TRP__DNN_ATTENTION_K] = IN(k),
                                    [TRP__DNN_ATTENTION_V] = IN(v),
                                    [TRP__DNN_ATTENTION_Y] = OUT(y),
                                    [TRP__DNN_ATTENTION_STATS] = GET(stats),
                                    [TRP__DNN_ATTENTION_BIAS] = MAY(bias),
                                    [TRP__DNN_ATTENTION_SLOPES] = MAY(slopes),
                                    [TRP__DNN_ATTENTION_SEQ_Q] = MAY(seq_q),
                                    [TRP__DNN_ATTENTION_SEQ_KV] = MAY(seq_kv),
                                    [TRP__DNN_ATTENTION_SEED] = MAY(seed),
                                    [TRP__DNN_ATTENTION_OFFSET] = MAY(offset)}},
    [TRP_DNN_ATTENTION_BACKWARD] = {.name = "attention_backward",
                                    .port =
                                        {[TRP__DNN_ATTENTION_Q] = IN(q),
                                         [TRP__DNN_ATTENTION_K] = IN(k),
                                         [TRP__DNN_ATTENTION_V] = IN(v),
                                         [TRP__DNN_ATTENTION_Y] = IN(y),
                                         [TRP__DNN_ATTENTION_STATS] = IN(stats),
                                         [TRP__DNN_ATTENTION_BIAS] = MAY(bias),
                                         [TRP__DNN_ATTENTION_SLOPES] = MAY(slopes),
                                         [TRP__DNN_ATTENTION_SEQ_Q] = MAY(seq_q),
                                         [TRP__DNN_ATTENTION_SEQ_KV] = MAY(seq_kv),
                                         [TRP__DNN_ATTENTION_DY] = IN(dy),
                                         [TRP__DNN_ATTENTION_DQ] = OUT(dq),
                                         [TRP__DNN_ATTENTION_DK] = OUT(dk),
                                         [TRP__DNN_ATTENTION_DV] = OUT(dv),
                                         [TRP__DNN_ATTENTION_DBIAS] = GET(dbias),
                                         [TRP__DNN_ATTENTION_SEED] = MAY(seed),
                                         [TRP__DNN_ATTENTION_OFFSET] = MAY(offset)}},
    [TRP_DNN_CONCATENATE] = {.name = "concatenate",
                             .port = {IN(part[0]), MAY(part[1]), MAY(part[2]), MAY(part[3]),
                                      MAY(part[4]), MAY(part[5]), MAY(part[6]),
                                      MAY(part[7]), [TRP__DNN_MOVE_Y] = OUT(y)}},
    [TRP_DNN_SLICE] = {.name = "slice",
                       .port = {[TRP__DNN_MOVE_X] = IN(x), [TRP__DNN_MOVE_Y] = OUT(y)}},
    [TRP_DNN_TRANSPOSE] = {.name = "transpose",
                           .port = {[TRP__DNN_MOVE_X] = IN(x), [TRP__DNN_MOVE_Y] = OUT(y)}},
    [TRP_DNN_RESHAPE] = {.name = "reshape",
                         .port = {[TRP__DNN_MOVE_X] = IN(x), [TRP__DNN_MOVE_Y] = OUT(y)}},
    [TRP_DNN_RANDOM] = {.name = "random",
                        .port = {[TRP__DNN_RANDOM_SEED] = IN(seed),
                                 [TRP__DNN_RANDOM_OFFSET] = MAY(offset),
                                 [TRP__DNN_RANDOM_Y] = OUT(y)}},
    [TRP_DNN_PAGED_LOAD] = {.name = "paged_load",
                            .port = {[TRP__DNN_PAGED_X] = IN(x),
                                     [TRP__DNN_PAGED_TABLE] = IN(table),
                                     [TRP__DNN_PAGED_SEQ_KV] = IN(seq_kv),
                                     [TRP__DNN_PAGED_Y] = OUT(y)}},
    [TRP_DNN_BLOCK_SCALE_QUANTIZE] = {.name = "block_scale_quantize",
                                      .port = {[TRP__DNN_BLOCKS_X] = IN(x),
                                               [TRP__DNN_BLOCKS_SCALE] = OUT(scale),
                                               [TRP__DNN_BLOCKS_Y] = OUT(y)}},
    [TRP_DNN_BLOCK_SCALE_DEQUANTIZE] = {.name = "block_scale_dequantize",
                                        .port = {[TRP__DNN_BLOCKS_X] = IN(x),
                                                 [TRP__DNN_BLOCKS_SCALE] = IN(scale),
                                                 [TRP__DNN_BLOCKS_Y] = OUT(y)}},
};

static const struct {
    const char *name;
    uint32_t inputs;
} pointwise[] = {
    [TRP_DNN_IDENTITY] = {"identity", 1},
    [TRP_DNN_ADD] = {"add", 2},
    [TRP_DNN_SUB] = {"sub", 2},
    [TRP_DNN_MUL] = {"mul", 2},
    [TRP_DNN_DIV] = {"div", 2},
    [TRP_DNN_MIN] = {"min", 2},
    [TRP_DNN_MAX] = {"max", 2},
    [TRP_DNN_MOD] = {"mod", 2},
    [TRP_DNN_POW] = {"pow", 2},
    [TRP_DNN_ADD_SQUARE] = {"add_square", 2},
    [TRP_DNN_ATAN2] = {"atan2", 2},
    [TRP_DNN_ABS] = {"abs", 1},
    [TRP_DNN_CEIL] = {"ceil", 1},
    [TRP_DNN_FLOOR] = {"floor", 1},
    [TRP_DNN_COS] = {"cos", 1},
    [TRP_DNN_SIN] = {"sin", 1},
    [TRP_DNN_TAN] = {"tan", 1},
    [TRP_DNN_EXP] = {"exp", 1},
    [TRP_DNN_LOG] = {"log", 1},
    [TRP_DNN_NEGATE] = {"negate", 1},
    [TRP_DNN_SQRT] = {"sqrt", 1},
    [TRP_DNN_RSQRT] = {"rsqrt", 1},
    [TRP_DNN_RECIPROCAL] = {"reciprocal", 1},
    [TRP_DNN_ERF] = {"erf", 1},
    [TRP_DNN_EQUAL] = {"equal", 2},
    [TRP_DNN_NOT_EQUAL] = {"not_equal", 2},
    [TRP_DNN_GREATER] = {"greater", 2},
    [TRP_DNN_GREATER_EQUAL] = {"greater_equal", 2},
    [TRP_DNN_LESS] = {"less", 2},
    [TRP_DNN_LESS_EQUAL] = {"less_equal", 2},
    [TRP_DNN_AND] = {"and", 2},
    [TRP_DNN_OR] = {"or", 2},
    [TRP_DNN_NOT] = {"not", 1},
    [TRP_DNN_SELECT] = {"select", 3},
    [TRP_DNN_RELU] = {"relu", 1},
    [TRP_DNN_TANH] = {"tanh", 1},
    [TRP_DNN_SIGMOID] = {"sigmoid", 1},
    [TRP_DNN_ELU] = {"elu", 1},
    [TRP_DNN_GELU] = {"gelu", 1},
    [TRP_DNN_GELU_TANH] = {"gelu_tanh", 1},
    [TRP_DNN_SOFTPLUS] = {"softplus", 1},
    [TRP_DNN_SWISH] = {"swish", 1},
};

const trp__dnn_kind *trp__dnn_kind_of(uint32_t kind)
{
    if (trp__dnn_is_training(kind))
        return &trp__train_op_of(kind)->kind;
    return kind < COUNT_OF(kinds) && kinds[kind].name ? &kinds[kind] : NULL;
}

bool trp__dnn_in_place(uint32_t kind, int read, int written)
{
    static const struct {
        uint8_t kind, read, written;
    } pairs[] = {
        {TRP_DNN_POINTWISE, TRP__DNN_POINTWISE_X, TRP__DNN_POINTWISE_Y},
        {TRP_DNN_POINTWISE, TRP__DNN_POINTWISE_B, TRP__DNN_POINTWISE_Y},
        {TRP_DNN_POINTWISE, TRP__DNN_POINTWISE_T, TRP__DNN_POINTWISE_Y},
        {TRP_DNN_POINTWISE_BACKWARD, TRP__DNN_GRADIENT_X, TRP__DNN_GRADIENT_DX},
        {TRP_DNN_POINTWISE_BACKWARD, TRP__DNN_GRADIENT_DY, TRP__DNN_GRADIENT_DX},
        {TRP_DNN_SCATTER_ADD, TRP__GATHER_BEFORE, TRP__GATHER_WHOLE},
        {TRP_DNN_CROSS_ENTROPY, TRP__LOSS_X, TRP__LOSS_DX},
        {TRP_DNN_LOSS, TRP__LOSS_X, TRP__LOSS_DX},
        {TRP_DNN_ROTARY, TRP__ROTARY_X, TRP__ROTARY_Y},
        {TRP_DNN_ROTARY_BACKWARD, TRP__ROTARY_X, TRP__ROTARY_Y},
        {TRP_DNN_OPTIMIZER, TRP__OPT_W, TRP__OPT_NEW_W},
        {TRP_DNN_OPTIMIZER, TRP__OPT_MOMENT, TRP__OPT_NEW_MOMENT},
        {TRP_DNN_OPTIMIZER, TRP__OPT_MOMENT + 1, TRP__OPT_NEW_MOMENT + 1},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        if (pairs[i].kind == kind && pairs[i].read == read && pairs[i].written == written)
            return true;
    }
    return false;
}

uint32_t trp__dnn_pointwise_inputs(uint32_t mode)
{
    return mode < COUNT_OF(pointwise) ? pointwise[mode].inputs : 0;
}

const char *trp__dnn_pointwise_name(uint32_t mode)
{
    return mode < COUNT_OF(pointwise) ? pointwise[mode].name : "unknown";
}

int64_t trp__dnn_elements(const trp__dnn_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->dim[i];
    return count;
}

int64_t trp__dnn_extent(const trp__dnn_tensor *t)
{
    int64_t last = 0;
    if (trp__dnn_elements(t) == 0)
        return 0;
    for (int i = 0; i < t->rank; i++)
        last += (t->dim[i] - 1) * t->stride[i];
    return last + 1;
}

size_t trp__dnn_key_bytes(const trp__dnn_head *head)
{
    return sizeof *head + head->tensors * sizeof(trp__dnn_tensor) +
           head->nodes * sizeof(trp__dnn_node);
}

size_t trp__dnn_bytes(const trp__dnn_head *head)
{
    return trp__dnn_key_bytes(head) + head->tensors * (sizeof(double) + sizeof(uint8_t));
}

trp__dnn_graph trp__dnn_graph_at(const void *bytes)
{
    const trp__dnn_head *head = bytes;
    const trp__dnn_tensor *tensor = (const trp__dnn_tensor *)(head + 1);
    const trp__dnn_node *node = (const trp__dnn_node *)(tensor + head->tensors);
    const double *value = (const double *)(node + head->nodes);
    return (trp__dnn_graph){.head = head,
                            .tensor = tensor,
                            .node = node,
                            .value = value,
                            .access = (const uint8_t *)(value + head->tensors)};
}
