#include "actors/dnn/cudnn/operations.h"

#include "actors/dnn/cudnn/descriptors.h"

#include <troupe/dnn.h>

#include <math.h>

/* The library's operation for each kind: its descriptor, the attribute of its mode descriptor (0:
 * none), and those of its ports. */

typedef struct row {
    trp__cudnn_descriptor_type type;
    trp__cudnn_attribute how;
    trp__cudnn_attribute port[TRP__DNN_PORTS];
} row;

#define OP(name) TRP__CUDNN_ATTR_OPERATION_##name

static const row rows[] = {
    [TRP_DNN_CONV_FORWARD] = {TRP__CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                              OP(CONVOLUTION_FORWARD_CONV_DESC),
                              {[TRP__DNN_CONV_X] = OP(CONVOLUTION_FORWARD_X),
                               [TRP__DNN_CONV_W] = OP(CONVOLUTION_FORWARD_W),
                               [TRP__DNN_CONV_Y] = OP(CONVOLUTION_FORWARD_Y)}},
    [TRP_DNN_CONV_BACKWARD_DATA] =
        {TRP__CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         OP(CONVOLUTION_BWD_DATA_CONV_DESC),
         {[TRP__DNN_CONV_X] = OP(CONVOLUTION_BWD_DATA_DX),
          [TRP__DNN_CONV_W] = OP(CONVOLUTION_BWD_DATA_W),
          [TRP__DNN_CONV_Y] = OP(CONVOLUTION_BWD_DATA_DY)}},
    [TRP_DNN_CONV_BACKWARD_FILTER] =
        {TRP__CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         OP(CONVOLUTION_BWD_FILTER_CONV_DESC),
         {[TRP__DNN_CONV_X] = OP(CONVOLUTION_BWD_FILTER_X),
          [TRP__DNN_CONV_W] = OP(CONVOLUTION_BWD_FILTER_DW),
          [TRP__DNN_CONV_Y] = OP(CONVOLUTION_BWD_FILTER_DY)}},
    [TRP_DNN_MATMUL] = {TRP__CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                        OP(MATMUL_DESC),
                        {[TRP__DNN_MATMUL_A] = OP(MATMUL_ADESC),
                         [TRP__DNN_MATMUL_B] = OP(MATMUL_BDESC),
                         [TRP__DNN_MATMUL_Y] = OP(MATMUL_CDESC)}},
    [TRP_DNN_POINTWISE] = {TRP__CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                           OP(POINTWISE_PW_DESCRIPTOR),
                           {[TRP__DNN_POINTWISE_X] = OP(POINTWISE_XDESC),
                            [TRP__DNN_POINTWISE_B] = OP(POINTWISE_BDESC),
                            [TRP__DNN_POINTWISE_T] = OP(POINTWISE_TDESC),
                            [TRP__DNN_POINTWISE_Y] = OP(POINTWISE_YDESC)}},
    [TRP_DNN_POINTWISE_BACKWARD] = {TRP__CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                                    OP(POINTWISE_PW_DESCRIPTOR),
                                    {[TRP__DNN_GRADIENT_X] = OP(POINTWISE_XDESC),
                                     [TRP__DNN_GRADIENT_DY] = OP(POINTWISE_DYDESC),
                                     [TRP__DNN_GRADIENT_DX] = OP(POINTWISE_DXDESC)}},
    [TRP_DNN_REDUCTION] = {TRP__CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                           OP(REDUCTION_DESC),
                           {[TRP__DNN_REDUCTION_X] = OP(REDUCTION_XDESC),
                            [TRP__DNN_REDUCTION_Y] = OP(REDUCTION_YDESC)}},
    [TRP_DNN_RESAMPLE_FORWARD] = {TRP__CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
                                  OP(RESAMPLE_FWD_DESC),
                                  {[TRP__DNN_RESAMPLE_X] = OP(RESAMPLE_FWD_XDESC),
                                   [TRP__DNN_RESAMPLE_Y] = OP(RESAMPLE_FWD_YDESC),
                                   [TRP__DNN_RESAMPLE_INDEX] = OP(RESAMPLE_FWD_IDXDESC)}},
    [TRP_DNN_RESAMPLE_BACKWARD] = {TRP__CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
                                   OP(RESAMPLE_BWD_DESC),
                                   {[TRP__DNN_RESAMPLE_X] = OP(RESAMPLE_BWD_DXDESC),
                                    [TRP__DNN_RESAMPLE_Y] = OP(RESAMPLE_BWD_DYDESC),
                                    [TRP__DNN_RESAMPLE_INDEX] = OP(RESAMPLE_BWD_IDXDESC),
                                    [TRP__DNN_RESAMPLE_OLD_X] = OP(RESAMPLE_BWD_XDESC),
                                    [TRP__DNN_RESAMPLE_OLD_Y] = OP(RESAMPLE_BWD_YDESC)}},
    [TRP_DNN_NORM_TRAINING] =
        {TRP__CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
         0,
         {[TRP__DNN_NORM_X] = OP(NORM_FWD_XDESC),
          [TRP__DNN_NORM_SCALE] = OP(NORM_FWD_SCALE_DESC),
          [TRP__DNN_NORM_MEAN] = OP(NORM_FWD_MEAN_DESC),
          [TRP__DNN_NORM_INV_VARIANCE] = OP(NORM_FWD_INV_VARIANCE_DESC),
          [TRP__DNN_NORM_BIAS] = OP(NORM_FWD_BIAS_DESC),
          [TRP__DNN_NORM_EPSILON] = OP(NORM_FWD_EPSILON_DESC),
          [TRP__DNN_NORM_Y] = OP(NORM_FWD_YDESC),
          [TRP__DNN_NORM_RUNNING_MEAN] = OP(NORM_FWD_INPUT_RUNNING_MEAN_DESC),
          [TRP__DNN_NORM_RUNNING_VARIANCE] = OP(NORM_FWD_INPUT_RUNNING_VAR_DESC),
          [TRP__DNN_NORM_AVERAGE_FACTOR] = OP(NORM_FWD_EXP_AVG_FACTOR_DESC),
          [TRP__DNN_NORM_NEW_RUNNING_MEAN] = OP(NORM_FWD_OUTPUT_RUNNING_MEAN_DESC),
          [TRP__DNN_NORM_NEW_RUNNING_VARIANCE] = OP(NORM_FWD_OUTPUT_RUNNING_VAR_DESC)}},
    [TRP_DNN_NORM_INFERENCE] = {TRP__CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
                                0,
                                {[TRP__DNN_NORM_X] = OP(NORM_FWD_XDESC),
                                 [TRP__DNN_NORM_SCALE] = OP(NORM_FWD_SCALE_DESC),
                                 [TRP__DNN_NORM_MEAN] = OP(NORM_FWD_MEAN_DESC),
                                 [TRP__DNN_NORM_INV_VARIANCE] = OP(NORM_FWD_INV_VARIANCE_DESC),
                                 [TRP__DNN_NORM_BIAS] = OP(NORM_FWD_BIAS_DESC),
                                 [TRP__DNN_NORM_EPSILON] = OP(NORM_FWD_EPSILON_DESC),
                                 [TRP__DNN_NORM_Y] = OP(NORM_FWD_YDESC)}},
    [TRP_DNN_NORM_BACKWARD] = {TRP__CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
                               0,
                               {[TRP__DNN_NORM_X] = OP(NORM_BWD_XDESC),
                                [TRP__DNN_NORM_SCALE] = OP(NORM_BWD_SCALE_DESC),
                                [TRP__DNN_NORM_MEAN] = OP(NORM_BWD_MEAN_DESC),
                                [TRP__DNN_NORM_INV_VARIANCE] = OP(NORM_BWD_INV_VARIANCE_DESC),
                                [TRP__DNN_NORM_BIAS] = OP(NORM_BWD_DBIAS_DESC),
                                [TRP__DNN_NORM_Y] = OP(NORM_BWD_DYDESC),
                                [TRP__DNN_NORM_DX] = OP(NORM_BWD_DXDESC),
                                [TRP__DNN_NORM_DSCALE] = OP(NORM_BWD_DSCALE_DESC)}},
    [TRP_DNN_STATISTICS] = {TRP__CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
                            0,
                            {[TRP__DNN_STATISTICS_X] = OP(GENSTATS_XDESC),
                             [TRP__DNN_STATISTICS_SUM] = OP(GENSTATS_SUMDESC),
                             [TRP__DNN_STATISTICS_SQUARE_SUM] = OP(GENSTATS_SQSUMDESC)}},
};

#define PW(name) TRP__CUDNN_POINTWISE_##name

static const int16_t pointwise[] = {
    [TRP_DNN_IDENTITY] = PW(IDENTITY),
    [TRP_DNN_ADD] = PW(ADD),
    [TRP_DNN_SUB] = PW(SUB),
    [TRP_DNN_MUL] = PW(MUL),
    [TRP_DNN_DIV] = PW(DIV),
    [TRP_DNN_MIN] = PW(MIN),
    [TRP_DNN_MAX] = PW(MAX),
    [TRP_DNN_MOD] = PW(MOD),
    [TRP_DNN_POW] = PW(POW),
    [TRP_DNN_ADD_SQUARE] = PW(ADD_SQUARE),
    [TRP_DNN_ATAN2] = PW(ATAN2),
    [TRP_DNN_ABS] = PW(ABS),
    [TRP_DNN_CEIL] = PW(CEIL),
    [TRP_DNN_FLOOR] = PW(FLOOR),
    [TRP_DNN_COS] = PW(COS),
    [TRP_DNN_SIN] = PW(SIN),
    [TRP_DNN_TAN] = PW(TAN),
    [TRP_DNN_EXP] = PW(EXP),
    [TRP_DNN_LOG] = PW(LOG),
    [TRP_DNN_NEGATE] = PW(NEG),
    [TRP_DNN_SQRT] = PW(SQRT),
    [TRP_DNN_RSQRT] = PW(RSQRT),
    [TRP_DNN_RECIPROCAL] = PW(RECIPROCAL),
    [TRP_DNN_ERF] = PW(ERF),
    [TRP_DNN_EQUAL] = PW(CMP_EQ),
    [TRP_DNN_NOT_EQUAL] = PW(CMP_NEQ),
    [TRP_DNN_GREATER] = PW(CMP_GT),
    [TRP_DNN_GREATER_EQUAL] = PW(CMP_GE),
    [TRP_DNN_LESS] = PW(CMP_LT),
    [TRP_DNN_LESS_EQUAL] = PW(CMP_LE),
    [TRP_DNN_AND] = PW(LOGICAL_AND),
    [TRP_DNN_OR] = PW(LOGICAL_OR),
    [TRP_DNN_NOT] = PW(LOGICAL_NOT),
    [TRP_DNN_SELECT] = PW(BINARY_SELECT),
    [TRP_DNN_RELU] = PW(RELU_FWD),
    [TRP_DNN_TANH] = PW(TANH_FWD),
    [TRP_DNN_SIGMOID] = PW(SIGMOID_FWD),
    [TRP_DNN_ELU] = PW(ELU_FWD),
    [TRP_DNN_GELU] = PW(GELU_FWD),
    [TRP_DNN_GELU_TANH] = PW(GELU_APPROX_TANH_FWD),
    [TRP_DNN_SOFTPLUS] = PW(SOFTPLUS_FWD),
    [TRP_DNN_SWISH] = PW(SWISH_FWD),
};

static const int16_t gradients[] = {
    [TRP_DNN_RELU] = PW(RELU_BWD),         [TRP_DNN_TANH] = PW(TANH_BWD),
    [TRP_DNN_SIGMOID] = PW(SIGMOID_BWD),   [TRP_DNN_ELU] = PW(ELU_BWD),
    [TRP_DNN_GELU] = PW(GELU_BWD),         [TRP_DNN_GELU_TANH] = PW(GELU_APPROX_TANH_BWD),
    [TRP_DNN_SOFTPLUS] = PW(SOFTPLUS_BWD), [TRP_DNN_SWISH] = PW(SWISH_BWD),
};

static const int16_t reductions[] = {
    [TRP_DNN_SUM] = TRP__CUDNN_REDUCE_TENSOR_ADD,
    [TRP_DNN_MEAN] = TRP__CUDNN_REDUCE_TENSOR_AVG,
    [TRP_DNN_LEAST] = TRP__CUDNN_REDUCE_TENSOR_MIN,
    [TRP_DNN_MOST] = TRP__CUDNN_REDUCE_TENSOR_MAX,
    [TRP_DNN_AMAX] = TRP__CUDNN_REDUCE_TENSOR_AMAX,
    [TRP_DNN_NORM1] = TRP__CUDNN_REDUCE_TENSOR_NORM1,
    [TRP_DNN_NORM2] = TRP__CUDNN_REDUCE_TENSOR_NORM2,
    [TRP_DNN_PRODUCT] = TRP__CUDNN_REDUCE_TENSOR_MUL,
};

static const int16_t resamples[] = {
    [TRP_DNN_POOL_MAX] = TRP__CUDNN_RESAMPLE_MAXPOOL,
    [TRP_DNN_POOL_AVERAGE] = TRP__CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING,
    [TRP_DNN_POOL_AVERAGE_PADDED] = TRP__CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING,
};

static const int16_t norms[] = {
    [TRP_DNN_LAYER] = TRP__CUDNN_LAYER_NORM,
    [TRP_DNN_BATCH] = TRP__CUDNN_BATCH_NORM,
    [TRP_DNN_INSTANCE] = TRP__CUDNN_INSTANCE_NORM,
    [TRP_DNN_RMS] = TRP__CUDNN_RMS_NORM,
};

/* Sets spatial parameters, with an additional first one if the library gets a dimension more. */
static void set_spatial(trp__cudnn_builder *m, trp__cudnn_attribute name, const trp__dnn_node *node,
                        const int32_t numbers[], int64_t neutral)
{
    int64_t values[TRP__DNN_SPATIAL + 1];
    uint32_t count = 0;
    if (node->spatial == 1)
        values[count++] = neutral;
    for (uint32_t i = 0; i < node->spatial; i++)
        values[count++] = numbers[i];
    trp__cudnn_set(m, name, TRP__CUDNN_TYPE_INT64, count, values);
}

static int64_t spatial_of(const trp__dnn_node *node)
{
    return node->spatial == 1 ? 2 : node->spatial;
}

static trp_status make_convolution(const trp__cudnn *lib, const trp__dnn_node *node,
                                   trp__cudnn_descriptor *out, trp_error *error)
{
    trp__cudnn_builder m = trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_CONVOLUTION_COMP_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(node->compute));
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_CONVOLUTION_CONV_MODE, TRP__CUDNN_TYPE_CONVOLUTION_MODE,
                        node->mode ? TRP__CUDNN_CONVOLUTION : TRP__CUDNN_CROSS_CORRELATION);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, spatial_of(node));
    set_spatial(&m, TRP__CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, node, node->pre_pad, 0);
    set_spatial(&m, TRP__CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, node, node->post_pad, 0);
    set_spatial(&m, TRP__CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, node, node->stride, 1);
    set_spatial(&m, TRP__CUDNN_ATTR_CONVOLUTION_DILATIONS, node, node->dilation, 1);
    return trp__cudnn_finish(&m, out);
}

static trp_status make_matmul(const trp__cudnn *lib, const trp__dnn_node *node,
                              trp__cudnn_descriptor *out, trp_error *error)
{
    trp__cudnn_builder m = trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_MATMUL_DESCRIPTOR, error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_MATMUL_COMP_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(node->compute));
    return trp__cudnn_finish(&m, out);
}

static void set_parameters(trp__cudnn_builder *m, const trp__dnn_node *node)
{
    bool wide = node->compute == TRP_F64;
    const double *p = node->parameter;
    if (node->mode == TRP_DNN_RELU) {
        trp__cudnn_set_real(m, TRP__CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, wide, p[0]);
        if (isfinite(p[1]))
            trp__cudnn_set_real(m, TRP__CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, wide, p[1]);
        trp__cudnn_set_real(m, TRP__CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, wide, p[2]);
    } else if (node->mode == TRP_DNN_ELU) {
        trp__cudnn_set_real(m, TRP__CUDNN_ATTR_POINTWISE_ELU_ALPHA, wide, p[0]);
    } else if (node->mode == TRP_DNN_SOFTPLUS) {
        trp__cudnn_set_real(m, TRP__CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, wide, p[0]);
    } else if (node->mode == TRP_DNN_SWISH) {
        trp__cudnn_set_real(m, TRP__CUDNN_ATTR_POINTWISE_SWISH_BETA, wide, p[0]);
    }
}

static trp_status make_pointwise(const trp__cudnn *lib, const trp__dnn_node *node,
                                 trp__cudnn_descriptor *out, trp_error *error)
{
    const int16_t *modes = node->kind == TRP_DNN_POINTWISE ? pointwise : gradients;
    trp__cudnn_builder m = trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_POINTWISE_DESCRIPTOR, error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_POINTWISE_MODE, TRP__CUDNN_TYPE_POINTWISE_MODE,
                        modes[node->mode]);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_POINTWISE_MATH_PREC, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(node->compute));
    set_parameters(&m, node);
    return trp__cudnn_finish(&m, out);
}

/* Older versions have no such attribute; the notes of engines are checked instead. */
static trp_status make_reduction(const trp__cudnn *lib, const trp__dnn_node *node,
                                 bool deterministic, trp__cudnn_descriptor *out, trp_error *error)
{
    trp__cudnn_builder m = trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_REDUCTION_DESCRIPTOR, error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_REDUCTION_OPERATOR,
                        TRP__CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, reductions[node->mode]);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_REDUCTION_COMP_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(node->compute));
    if (deterministic && lib->cudnnGetVersion() >= TRP__CUDNN_VERSION_DETERMINISTIC)
        trp__cudnn_set_flag(&m, TRP__CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, true);
    return trp__cudnn_finish(&m, out);
}

static trp_status make_resample(const trp__cudnn *lib, const trp__dnn_node *node,
                                trp__cudnn_descriptor *out, trp_error *error)
{
    bool most = node->mode == TRP_DNN_POOL_MAX;
    trp__cudnn_builder m = trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, error);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_RESAMPLE_MODE, TRP__CUDNN_TYPE_RESAMPLE_MODE,
                        resamples[node->mode]);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_RESAMPLE_COMP_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(node->compute));
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION,
                        TRP__CUDNN_TYPE_NAN_PROPOGATION, TRP__CUDNN_PROPAGATE_NAN);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_RESAMPLE_PADDING_MODE, TRP__CUDNN_TYPE_PADDING_MODE,
                        most ? TRP__CUDNN_NEG_INF_PAD : TRP__CUDNN_ZERO_PAD);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, spatial_of(node));
    set_spatial(&m, TRP__CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, node, node->pre_pad, 0);
    set_spatial(&m, TRP__CUDNN_ATTR_RESAMPLE_POST_PADDINGS, node, node->post_pad, 0);
    set_spatial(&m, TRP__CUDNN_ATTR_RESAMPLE_STRIDES, node, node->stride, 1);
    set_spatial(&m, TRP__CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, node, node->window, 1);
    return trp__cudnn_finish(&m, out);
}

/* Creates the mode descriptor; *out is NULL for kinds that have none. */
static trp_status make_how(const trp__cudnn *lib, const trp__dnn_node *node, bool deterministic,
                           trp__cudnn_descriptor *out, trp_error *error)
{
    switch (node->kind) {
    case TRP_DNN_CONV_FORWARD:
    case TRP_DNN_CONV_BACKWARD_DATA:
    case TRP_DNN_CONV_BACKWARD_FILTER:
        return make_convolution(lib, node, out, error);
    case TRP_DNN_MATMUL:
        return make_matmul(lib, node, out, error);
    case TRP_DNN_POINTWISE:
    case TRP_DNN_POINTWISE_BACKWARD:
        return make_pointwise(lib, node, out, error);
    case TRP_DNN_REDUCTION:
        return make_reduction(lib, node, deterministic, out, error);
    case TRP_DNN_RESAMPLE_FORWARD:
    case TRP_DNN_RESAMPLE_BACKWARD:
        return make_resample(lib, node, out, error);
    default:
        *out = NULL;
        return TRP_OK;
    }
}

static void set_scaling(trp__cudnn_builder *m, const trp__dnn_node *node)
{
    static const trp__cudnn_attribute names[][2] = {
        [TRP_DNN_CONV_FORWARD] = {OP(CONVOLUTION_FORWARD_ALPHA), OP(CONVOLUTION_FORWARD_BETA)},
        [TRP_DNN_CONV_BACKWARD_DATA] = {OP(CONVOLUTION_BWD_DATA_ALPHA),
                                        OP(CONVOLUTION_BWD_DATA_BETA)},
        [TRP_DNN_CONV_BACKWARD_FILTER] = {OP(CONVOLUTION_BWD_FILTER_ALPHA),
                                          OP(CONVOLUTION_BWD_FILTER_BETA)},
    };
    bool wide = node->compute == TRP_F64;
    trp__cudnn_set_real(m, names[node->kind][0], wide, 1);
    trp__cudnn_set_real(m, names[node->kind][1], wide, 0);
}

/* Sets an operation's attributes other than tensors and the mode descriptor. */
static void set_rest(trp__cudnn_builder *m, const trp__dnn_node *node)
{
    switch (node->kind) {
    case TRP_DNN_CONV_FORWARD:
    case TRP_DNN_CONV_BACKWARD_DATA:
    case TRP_DNN_CONV_BACKWARD_FILTER:
        set_scaling(m, node);
        break;
    case TRP_DNN_NORM_TRAINING:
    case TRP_DNN_NORM_INFERENCE:
        trp__cudnn_set_enum(m, OP(NORM_FWD_MODE), TRP__CUDNN_TYPE_NORM_MODE, norms[node->mode]);
        trp__cudnn_set_enum(m, OP(NORM_FWD_PHASE), TRP__CUDNN_TYPE_NORM_FWD_PHASE,
                            node->kind == TRP_DNN_NORM_TRAINING ? TRP__CUDNN_NORM_FWD_TRAINING
                                                                : TRP__CUDNN_NORM_FWD_INFERENCE);
        break;
    case TRP_DNN_NORM_BACKWARD:
        trp__cudnn_set_enum(m, OP(NORM_BWD_MODE), TRP__CUDNN_TYPE_NORM_MODE, norms[node->mode]);
        break;
    case TRP_DNN_STATISTICS:
        trp__cudnn_set_enum(m, OP(GENSTATS_MODE), TRP__CUDNN_TYPE_GENSTATS_MODE,
                            TRP__CUDNN_GENSTATS_SUM_SQSUM);
        trp__cudnn_set_enum(m, OP(GENSTATS_MATH_PREC), TRP__CUDNN_TYPE_DATA_TYPE,
                            trp__dnn_cudnn_type(node->compute));
        break;
    default:
        break;
    }
}

trp_status trp__dnn_operation(const trp__cudnn *lib, const trp__dnn_node *node, bool deterministic,
                              const trp__cudnn_descriptor tensor[], trp__cudnn_descriptor *out,
                              trp_error *error)
{
    const row *r = &rows[node->kind];
    trp__cudnn_descriptor how = NULL;
    trp_status status = make_how(lib, node, deterministic, &how, error);
    if (status != TRP_OK)
        return status;
    trp__cudnn_builder m = trp__cudnn_begin(lib, r->type, error);
    if (how)
        trp__cudnn_set_descriptor(&m, r->how, how);
    for (uint32_t i = 0; i < TRP__DNN_PORTS; i++) {
        if (node->port[i] != TRP__DNN_NO_PORT && r->port[i])
            trp__cudnn_set_descriptor(&m, r->port[i], tensor[node->port[i]]);
    }
    set_rest(&m, node);
    status = trp__cudnn_finish(&m, out);
    trp__cudnn_drop(lib, &how);
    return status;
}
