/* Tensors and operations of the fake cuDNN, as nodes that its engines compute. */
#include "support/fake_cuda/cudnn/cudnn.h"

#include <math.h>
#include <string.h>

#define ATTR(name) TRP__CUDNN_ATTR_##name

/* Types and modes. -1: unknown. */

static int dtype_of(int type)
{
    switch (type) {
    case TRP__CUDNN_DATA_FLOAT:
        return TRP_F32;
    case TRP__CUDNN_DATA_DOUBLE:
        return TRP_F64;
    case TRP__CUDNN_DATA_HALF:
        return TRP_F16;
    case TRP__CUDNN_DATA_BFLOAT16:
        return TRP_BF16;
    case TRP__CUDNN_DATA_FP8_E4M3:
        return TRP_F8E4M3;
    case TRP__CUDNN_DATA_FP8_E5M2:
        return TRP_F8E5M2;
    case TRP__CUDNN_DATA_INT8:
        return TRP_I8;
    case TRP__CUDNN_DATA_UINT8:
        return TRP_U8;
    case TRP__CUDNN_DATA_INT32:
        return TRP_I32;
    case TRP__CUDNN_DATA_BOOLEAN:
        return TRP_BOOL;
    default:
        return -1;
    }
}

typedef struct pair {
    int cudnn, ours;
} pair;

static int find(const pair *pairs, size_t count, int cudnn)
{
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].cudnn == cudnn)
            return pairs[i].ours;
    }
    return -1;
}
#define FIND(pairs, cudnn) find(pairs, sizeof(pairs) / sizeof *(pairs), cudnn)

#define PW(cudnn, ours)                                                                            \
    {                                                                                              \
        TRP__CUDNN_POINTWISE_##cudnn, TRP_DNN_##ours                                               \
    }
#define ACTIVATION(cudnn, ours) PW(cudnn##_FWD, ours), PW(cudnn##_BWD, ours)

static const pair pointwise[] = {
    PW(IDENTITY, IDENTITY),
    PW(ADD, ADD),
    PW(SUB, SUB),
    PW(MUL, MUL),
    PW(DIV, DIV),
    PW(MIN, MIN),
    PW(MAX, MAX),
    PW(MOD, MOD),
    PW(POW, POW),
    PW(ADD_SQUARE, ADD_SQUARE),
    PW(ATAN2, ATAN2),
    PW(ABS, ABS),
    PW(CEIL, CEIL),
    PW(FLOOR, FLOOR),
    PW(COS, COS),
    PW(SIN, SIN),
    PW(TAN, TAN),
    PW(EXP, EXP),
    PW(LOG, LOG),
    PW(NEG, NEGATE),
    PW(SQRT, SQRT),
    PW(RSQRT, RSQRT),
    PW(RECIPROCAL, RECIPROCAL),
    PW(ERF, ERF),
    PW(CMP_EQ, EQUAL),
    PW(CMP_NEQ, NOT_EQUAL),
    PW(CMP_GT, GREATER),
    PW(CMP_GE, GREATER_EQUAL),
    PW(CMP_LT, LESS),
    PW(CMP_LE, LESS_EQUAL),
    PW(LOGICAL_AND, AND),
    PW(LOGICAL_OR, OR),
    PW(LOGICAL_NOT, NOT),
    PW(BINARY_SELECT, SELECT),
    ACTIVATION(RELU, RELU),
    ACTIVATION(TANH, TANH),
    ACTIVATION(SIGMOID, SIGMOID),
    ACTIVATION(ELU, ELU),
    ACTIVATION(GELU, GELU),
    ACTIVATION(GELU_APPROX_TANH, GELU_TANH),
    ACTIVATION(SOFTPLUS, SOFTPLUS),
    ACTIVATION(SWISH, SWISH),
};

static const pair reductions[] = {
    {TRP__CUDNN_REDUCE_TENSOR_ADD, TRP_DNN_SUM},
    {TRP__CUDNN_REDUCE_TENSOR_AVG, TRP_DNN_MEAN},
    {TRP__CUDNN_REDUCE_TENSOR_MIN, TRP_DNN_LEAST},
    {TRP__CUDNN_REDUCE_TENSOR_MAX, TRP_DNN_MOST},
    {TRP__CUDNN_REDUCE_TENSOR_AMAX, TRP_DNN_AMAX},
    {TRP__CUDNN_REDUCE_TENSOR_NORM1, TRP_DNN_NORM1},
    {TRP__CUDNN_REDUCE_TENSOR_NORM2, TRP_DNN_NORM2},
    {TRP__CUDNN_REDUCE_TENSOR_MUL, TRP_DNN_PRODUCT},
};

static const pair resamples[] = {
    {TRP__CUDNN_RESAMPLE_MAXPOOL, TRP_DNN_POOL_MAX},
    {TRP__CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING, TRP_DNN_POOL_AVERAGE},
    {TRP__CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING, TRP_DNN_POOL_AVERAGE_PADDED},
};

static const pair norms[] = {
    {TRP__CUDNN_LAYER_NORM, TRP_DNN_LAYER},
    {TRP__CUDNN_BATCH_NORM, TRP_DNN_BATCH},
    {TRP__CUDNN_INSTANCE_NORM, TRP_DNN_INSTANCE},
    {TRP__CUDNN_RMS_NORM, TRP_DNN_RMS},
};

/* Tensors. */

int fake_finalize_tensor(fake_descriptor *d)
{
    const fake_attribute *dims = fake_attribute_of(d, ATTR(TENSOR_DIMENSIONS));
    const fake_attribute *strides = fake_attribute_of(d, ATTR(TENSOR_STRIDES));
    int type = dtype_of(fake_attribute_enum(d, ATTR(TENSOR_DATA_TYPE), -1));
    int64_t alignment = fake_attribute_int(d, ATTR(TENSOR_BYTE_ALIGNMENT), 0);
    bool inside = fake_attribute_int(d, ATTR(TENSOR_IS_VIRTUAL), 0);
    bool value = fake_attribute_int(d, ATTR(TENSOR_IS_BY_VALUE), 0);
    trp__dnn_tensor *t = &d->tensor;
    if (type < 0)
        return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "a tensor's data type");
    if (dims->count != strides->count || dims->count < 3)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "a tensor of %lld dimensions and %lld strides",
                              (long long)dims->count, (long long)strides->count);
    if (alignment < 1 || alignment > 256 || (alignment & (alignment - 1)) != 0 || (inside && value))
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "alignment %lld, or both virtual and a value",
                              (long long)alignment);
    *t = (trp__dnn_tensor){.type = (uint8_t)type,
                           .rank = (uint8_t)dims->count,
                           .role = inside  ? TRP__DNN_VIRTUAL
                                   : value ? TRP__DNN_VALUE
                                           : TRP__DNN_BUFFER,
                           .alignment = (uint32_t)alignment};
    for (int i = 0; i < TRP__DNN_RANK; i++)
        t->dim[i] = 1;
    memcpy(t->dim, dims->values, (size_t)dims->count * sizeof *t->dim);
    memcpy(t->stride, strides->values, (size_t)dims->count * sizeof *t->stride);
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 1 || t->stride[i] < 0)
            return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "dimension %d of a tensor", i);
    }
    if (value && trp__dnn_elements(t) != 1)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "a value of several elements");
    return FAKE_CUDNN_SUCCESS;
}

/* Settings of operations. */

static bool take_spatial(const fake_descriptor *d, int name, int count, int32_t out[])
{
    const fake_attribute *a = fake_attribute_of(d, name);
    for (int i = 0; i < count && a->count == count; i++)
        out[i] = (int32_t)((const int64_t *)a->values)[i];
    return a->count == count;
}

static int take_windows(fake_descriptor *d)
{
    trp__dnn_node *n = &d->node;
    bool conv = d->type == TRP__CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
    int64_t spatial = fake_attribute_int(
        d, conv ? ATTR(CONVOLUTION_SPATIAL_DIMS) : ATTR(RESAMPLE_SPATIAL_DIMS), 0);
    if (spatial < 2 || spatial > TRP__DNN_SPATIAL)
        return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "%lld spatial dimensions",
                              (long long)spatial);
    int k = (int)spatial;
    n->spatial = (uint8_t)k;
    bool good = conv ? take_spatial(d, ATTR(CONVOLUTION_PRE_PADDINGS), k, n->pre_pad) &&
                           take_spatial(d, ATTR(CONVOLUTION_POST_PADDINGS), k, n->post_pad) &&
                           take_spatial(d, ATTR(CONVOLUTION_FILTER_STRIDES), k, n->stride) &&
                           take_spatial(d, ATTR(CONVOLUTION_DILATIONS), k, n->dilation)
                     : take_spatial(d, ATTR(RESAMPLE_PRE_PADDINGS), k, n->pre_pad) &&
                           take_spatial(d, ATTR(RESAMPLE_POST_PADDINGS), k, n->post_pad) &&
                           take_spatial(d, ATTR(RESAMPLE_STRIDES), k, n->stride) &&
                           take_spatial(d, ATTR(RESAMPLE_WINDOW_DIMS), k, n->window);
    for (int i = 0; i < k && good; i++)
        good = n->pre_pad[i] >= 0 && n->post_pad[i] >= 0 && n->stride[i] >= 1 &&
               (conv ? n->dilation[i] : n->window[i]) >= 1;
    return good ? FAKE_CUDNN_SUCCESS
                : fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "paddings, strides, dilations or windows");
}

static void take_parameters(const fake_descriptor *d, trp__dnn_node *n)
{
    if (n->mode == TRP_DNN_RELU) {
        n->parameter[0] = fake_attribute_real(d, ATTR(POINTWISE_RELU_LOWER_CLIP), 0);
        n->parameter[1] = fake_attribute_real(d, ATTR(POINTWISE_RELU_UPPER_CLIP), INFINITY);
        n->parameter[2] = fake_attribute_real(d, ATTR(POINTWISE_RELU_LOWER_CLIP_SLOPE), 0);
    } else if (n->mode == TRP_DNN_ELU) {
        n->parameter[0] = fake_attribute_real(d, ATTR(POINTWISE_ELU_ALPHA), 1);
    } else if (n->mode == TRP_DNN_SOFTPLUS) {
        n->parameter[0] = fake_attribute_real(d, ATTR(POINTWISE_SOFTPLUS_BETA), 1);
    } else if (n->mode == TRP_DNN_SWISH) {
        n->parameter[0] = fake_attribute_real(d, ATTR(POINTWISE_SWISH_BETA), 1);
    }
}

int fake_finalize_how(fake_descriptor *d)
{
    trp__dnn_node *n = &d->node;
    int status = FAKE_CUDNN_SUCCESS, mode = 0, compute;
    switch (d->type) {
    case TRP__CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        compute = fake_attribute_enum(d, ATTR(CONVOLUTION_COMP_TYPE), -1);
        mode = fake_attribute_enum(d, ATTR(CONVOLUTION_CONV_MODE), -1);
        mode = mode == TRP__CUDNN_CONVOLUTION ? 1 : mode == TRP__CUDNN_CROSS_CORRELATION ? 0 : -1;
        status = take_windows(d);
        break;
    case TRP__CUDNN_BACKEND_MATMUL_DESCRIPTOR:
        compute = fake_attribute_enum(d, ATTR(MATMUL_COMP_TYPE), -1);
        break;
    case TRP__CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        compute = fake_attribute_enum(d, ATTR(POINTWISE_MATH_PREC), -1);
        mode = fake_attribute_enum(d, ATTR(POINTWISE_MODE), -1);
        n->kind = mode >= TRP__CUDNN_POINTWISE_RELU_BWD && mode < TRP__CUDNN_POINTWISE_CMP_EQ
                      ? TRP_DNN_POINTWISE_BACKWARD
                      : TRP_DNN_POINTWISE;
        mode = FIND(pointwise, mode);
        break;
    case TRP__CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
        compute = fake_attribute_enum(d, ATTR(REDUCTION_COMP_TYPE), -1);
        mode = FIND(reductions, fake_attribute_enum(d, ATTR(REDUCTION_OPERATOR), -1));
        break;
    default:
        compute = fake_attribute_enum(d, ATTR(RESAMPLE_COMP_TYPE), -1);
        mode = FIND(resamples, fake_attribute_enum(d, ATTR(RESAMPLE_MODE), -1));
        status = take_windows(d);
    }
    compute = dtype_of(compute);
    if (status == FAKE_CUDNN_SUCCESS &&
        (mode < 0 || (compute != TRP_F32 && compute != TRP_F64 && compute != TRP_I32)))
        status = fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "a mode, or what is computed in");
    n->mode = (uint8_t)mode;
    n->compute = (uint8_t)compute;
    if (d->type == TRP__CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        take_parameters(d, n);
    return status;
}

/* Operations. */

static int kind_of(const fake_descriptor *d, const fake_descriptor *how)
{
    switch (d->type) {
    case TRP__CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return TRP_DNN_CONV_FORWARD;
    case TRP__CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return TRP_DNN_CONV_BACKWARD_DATA;
    case TRP__CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return TRP_DNN_CONV_BACKWARD_FILTER;
    case TRP__CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return TRP_DNN_MATMUL;
    case TRP__CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return how->node.kind;
    case TRP__CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return TRP_DNN_REDUCTION;
    case TRP__CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
        return TRP_DNN_RESAMPLE_FORWARD;
    case TRP__CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
        return TRP_DNN_RESAMPLE_BACKWARD;
    case TRP__CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        return fake_attribute_enum(d, ATTR(OPERATION_NORM_FWD_PHASE), -1) ==
                       TRP__CUDNN_NORM_FWD_TRAINING
                   ? TRP_DNN_NORM_TRAINING
                   : TRP_DNN_NORM_INFERENCE;
    case TRP__CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return TRP_DNN_NORM_BACKWARD;
    default:
        return TRP_DNN_STATISTICS;
    }
}

static const fake_descriptor *how_of(const fake_descriptor *d)
{
    static const int names[] = {ATTR(OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
                                ATTR(OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
                                ATTR(OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
                                ATTR(OPERATION_MATMUL_DESC),
                                ATTR(OPERATION_POINTWISE_PW_DESCRIPTOR),
                                ATTR(OPERATION_REDUCTION_DESC),
                                ATTR(OPERATION_RESAMPLE_FWD_DESC),
                                ATTR(OPERATION_RESAMPLE_BWD_DESC)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (fake_attribute_of(d, names[i]))
            return fake_attribute_descriptor(d, names[i]);
    }
    return NULL;
}

/* Checks that alpha is 1 and beta is 0, where an operation has them. */
static bool scales(const fake_descriptor *d)
{
    static const int names[][2] = {
        {ATTR(OPERATION_CONVOLUTION_FORWARD_ALPHA), ATTR(OPERATION_CONVOLUTION_FORWARD_BETA)},
        {ATTR(OPERATION_CONVOLUTION_BWD_DATA_ALPHA), ATTR(OPERATION_CONVOLUTION_BWD_DATA_BETA)},
        {ATTR(OPERATION_CONVOLUTION_BWD_FILTER_ALPHA),
         ATTR(OPERATION_CONVOLUTION_BWD_FILTER_BETA)}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (fake_attribute_real(d, names[i][0], 1) != 1 ||
            fake_attribute_real(d, names[i][1], 0) != 0)
            return true;
    }
    return false;
}

static int mode_of(const fake_descriptor *d, int mode)
{
    int name = d->type == TRP__CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
                   ? ATTR(OPERATION_NORM_FWD_MODE)
               : d->type == TRP__CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR
                   ? ATTR(OPERATION_NORM_BWD_MODE)
                   : 0;
    return name ? FIND(norms, fake_attribute_enum(d, name, -1)) : mode;
}

int fake_finalize_operation(fake_descriptor *d)
{
    const fake_descriptor *how = how_of(d);
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS] = {0};
    if (how)
        d->node = how->node;
    else
        d->node.compute = TRP_F32;
    d->node.kind = (uint8_t)kind_of(d, how);
    int mode = mode_of(d, d->node.mode);
    if (mode < 0 || scales(d))
        return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "a mode, or alpha and beta not 1 and 0");
    d->node.mode = (uint8_t)mode;
    const trp__dnn_kind *kind = trp__dnn_kind_of(d->node.kind);
    for (int i = 0; i < d->attributes; i++) {
        int port = fake_attribute_port(d, &d->attribute[i]);
        if (port < 0)
            continue;
        fake_descriptor *t = *(fake_descriptor **)d->attribute[i].values;
        if (t->type != TRP__CUDNN_BACKEND_TENSOR_DESCRIPTOR || tensor[port] ||
            !kind->port[port].name)
            return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "%s: attribute %d", kind->name,
                                  d->attribute[i].name);
        tensor[port] = &t->tensor;
    }
    return fake_cudnn_check(&d->node, tensor);
}
