/* Descriptors of the fake cuDNN: the attributes of each type, and their values. */
#include "support/fake_cuda/cudnn/cudnn.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0xde5c, MANY = 1 << 20 };

/* An attribute of a type of descriptors; a tensor of an operation has a port. */
typedef struct row {
    int descriptor, name, type;
    int least, most; /* number of values; least 0: optional */
    int port;
} row;

#define NONE -1
#define IN(d, a, type, least, most)                                                                \
    {                                                                                              \
        TRP__CUDNN_BACKEND_##d##_DESCRIPTOR, TRP__CUDNN_ATTR_##a, TRP__CUDNN_TYPE_##type, least,   \
            most, NONE                                                                             \
    }
#define OP(d, a, least, port)                                                                      \
    {                                                                                              \
        TRP__CUDNN_BACKEND_OPERATION_##d##_DESCRIPTOR, TRP__CUDNN_ATTR_OPERATION_##a,              \
            TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR, least, 1, TRP__DNN_##port                          \
    }
#define SET(d, a, type)   IN(OPERATION_##d, OPERATION_##a, type, 1, 1)
#define HOW(d, a)         SET(d, a, BACKEND_DESCRIPTOR)
#define REAL(d, a, least) IN(d, a, FLOAT, least, 1), IN(d, a, DOUBLE, least, 1)

static const row rows[] = {
    IN(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1),
    IN(TENSOR, TENSOR_DIMENSIONS, INT64, 1, TRP__DNN_RANK),
    IN(TENSOR, TENSOR_STRIDES, INT64, 1, TRP__DNN_RANK),
    IN(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1),
    IN(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1),
    IN(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 0, 1),
    IN(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 0, 1),
    /* Settings of operations. */
    IN(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 1),
    IN(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 1),
    IN(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 1),
    IN(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 1, TRP__DNN_SPATIAL),
    IN(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 1, TRP__DNN_SPATIAL),
    IN(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 1, TRP__DNN_SPATIAL),
    IN(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 1, TRP__DNN_SPATIAL),
    IN(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, 1),
    IN(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 1),
    IN(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 1),
    REAL(POINTWISE, POINTWISE_RELU_LOWER_CLIP, 0),
    REAL(POINTWISE, POINTWISE_RELU_UPPER_CLIP, 0),
    REAL(POINTWISE, POINTWISE_RELU_LOWER_CLIP_SLOPE, 0),
    REAL(POINTWISE, POINTWISE_ELU_ALPHA, 0),
    REAL(POINTWISE, POINTWISE_SOFTPLUS_BETA, 0),
    REAL(POINTWISE, POINTWISE_SWISH_BETA, 0),
    IN(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, 1),
    IN(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, 1),
    IN(REDUCTION, REDUCTION_IS_DETERMINISTIC, BOOLEAN, 0, 1),
    IN(RESAMPLE, RESAMPLE_MODE, RESAMPLE_MODE, 1, 1),
    IN(RESAMPLE, RESAMPLE_COMP_TYPE, DATA_TYPE, 1, 1),
    IN(RESAMPLE, RESAMPLE_NAN_PROPAGATION, NAN_PROPOGATION, 1, 1),
    IN(RESAMPLE, RESAMPLE_PADDING_MODE, PADDING_MODE, 1, 1),
    IN(RESAMPLE, RESAMPLE_SPATIAL_DIMS, INT64, 1, 1),
    IN(RESAMPLE, RESAMPLE_PRE_PADDINGS, INT64, 1, TRP__DNN_SPATIAL),
    IN(RESAMPLE, RESAMPLE_POST_PADDINGS, INT64, 1, TRP__DNN_SPATIAL),
    IN(RESAMPLE, RESAMPLE_STRIDES, INT64, 1, TRP__DNN_SPATIAL),
    IN(RESAMPLE, RESAMPLE_WINDOW_DIMS, INT64, 1, TRP__DNN_SPATIAL),
    /* Operations. */
    HOW(CONVOLUTION_FORWARD, CONVOLUTION_FORWARD_CONV_DESC),
    REAL(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_ALPHA, 1),
    REAL(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_BETA, 1),
    OP(CONVOLUTION_FORWARD, CONVOLUTION_FORWARD_X, 1, CONV_X),
    OP(CONVOLUTION_FORWARD, CONVOLUTION_FORWARD_W, 1, CONV_W),
    OP(CONVOLUTION_FORWARD, CONVOLUTION_FORWARD_Y, 1, CONV_Y),
    HOW(CONVOLUTION_BACKWARD_DATA, CONVOLUTION_BWD_DATA_CONV_DESC),
    REAL(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1),
    REAL(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_BETA, 1),
    OP(CONVOLUTION_BACKWARD_DATA, CONVOLUTION_BWD_DATA_DX, 1, CONV_X),
    OP(CONVOLUTION_BACKWARD_DATA, CONVOLUTION_BWD_DATA_W, 1, CONV_W),
    OP(CONVOLUTION_BACKWARD_DATA, CONVOLUTION_BWD_DATA_DY, 1, CONV_Y),
    HOW(CONVOLUTION_BACKWARD_FILTER, CONVOLUTION_BWD_FILTER_CONV_DESC),
    REAL(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1),
    REAL(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_BETA, 1),
    OP(CONVOLUTION_BACKWARD_FILTER, CONVOLUTION_BWD_FILTER_X, 1, CONV_X),
    OP(CONVOLUTION_BACKWARD_FILTER, CONVOLUTION_BWD_FILTER_DW, 1, CONV_W),
    OP(CONVOLUTION_BACKWARD_FILTER, CONVOLUTION_BWD_FILTER_DY, 1, CONV_Y),
    HOW(MATMUL, MATMUL_DESC),
    OP(MATMUL, MATMUL_ADESC, 1, MATMUL_A),
    OP(MATMUL, MATMUL_BDESC, 1, MATMUL_B),
    OP(MATMUL, MATMUL_CDESC, 1, MATMUL_Y),
    HOW(POINTWISE, POINTWISE_PW_DESCRIPTOR),
    OP(POINTWISE, POINTWISE_XDESC, 1, POINTWISE_X),
    OP(POINTWISE, POINTWISE_BDESC, 0, POINTWISE_B),
    OP(POINTWISE, POINTWISE_TDESC, 0, POINTWISE_T),
    OP(POINTWISE, POINTWISE_YDESC, 0, POINTWISE_Y),
    OP(POINTWISE, POINTWISE_DYDESC, 0, GRADIENT_DY),
    OP(POINTWISE, POINTWISE_DXDESC, 0, GRADIENT_DX),
    HOW(REDUCTION, REDUCTION_DESC),
    OP(REDUCTION, REDUCTION_XDESC, 1, REDUCTION_X),
    OP(REDUCTION, REDUCTION_YDESC, 1, REDUCTION_Y),
    HOW(RESAMPLE_FWD, RESAMPLE_FWD_DESC),
    OP(RESAMPLE_FWD, RESAMPLE_FWD_XDESC, 1, RESAMPLE_X),
    OP(RESAMPLE_FWD, RESAMPLE_FWD_YDESC, 1, RESAMPLE_Y),
    OP(RESAMPLE_FWD, RESAMPLE_FWD_IDXDESC, 0, RESAMPLE_INDEX),
    HOW(RESAMPLE_BWD, RESAMPLE_BWD_DESC),
    OP(RESAMPLE_BWD, RESAMPLE_BWD_DXDESC, 1, RESAMPLE_X),
    OP(RESAMPLE_BWD, RESAMPLE_BWD_DYDESC, 1, RESAMPLE_Y),
    OP(RESAMPLE_BWD, RESAMPLE_BWD_IDXDESC, 0, RESAMPLE_INDEX),
    OP(RESAMPLE_BWD, RESAMPLE_BWD_XDESC, 0, RESAMPLE_OLD_X),
    OP(RESAMPLE_BWD, RESAMPLE_BWD_YDESC, 0, RESAMPLE_OLD_Y),
    SET(NORM_FORWARD, NORM_FWD_MODE, NORM_MODE),
    SET(NORM_FORWARD, NORM_FWD_PHASE, NORM_FWD_PHASE),
    OP(NORM_FORWARD, NORM_FWD_XDESC, 1, NORM_X),
    OP(NORM_FORWARD, NORM_FWD_SCALE_DESC, 1, NORM_SCALE),
    OP(NORM_FORWARD, NORM_FWD_MEAN_DESC, 0, NORM_MEAN),
    OP(NORM_FORWARD, NORM_FWD_INV_VARIANCE_DESC, 0, NORM_INV_VARIANCE),
    OP(NORM_FORWARD, NORM_FWD_BIAS_DESC, 0, NORM_BIAS),
    OP(NORM_FORWARD, NORM_FWD_EPSILON_DESC, 0, NORM_EPSILON),
    OP(NORM_FORWARD, NORM_FWD_YDESC, 1, NORM_Y),
    OP(NORM_FORWARD, NORM_FWD_INPUT_RUNNING_MEAN_DESC, 0, NORM_RUNNING_MEAN),
    OP(NORM_FORWARD, NORM_FWD_INPUT_RUNNING_VAR_DESC, 0, NORM_RUNNING_VARIANCE),
    OP(NORM_FORWARD, NORM_FWD_EXP_AVG_FACTOR_DESC, 0, NORM_AVERAGE_FACTOR),
    OP(NORM_FORWARD, NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, 0, NORM_NEW_RUNNING_MEAN),
    OP(NORM_FORWARD, NORM_FWD_OUTPUT_RUNNING_VAR_DESC, 0, NORM_NEW_RUNNING_VARIANCE),
    SET(NORM_BACKWARD, NORM_BWD_MODE, NORM_MODE),
    OP(NORM_BACKWARD, NORM_BWD_XDESC, 1, NORM_X),
    OP(NORM_BACKWARD, NORM_BWD_SCALE_DESC, 1, NORM_SCALE),
    OP(NORM_BACKWARD, NORM_BWD_MEAN_DESC, 0, NORM_MEAN),
    OP(NORM_BACKWARD, NORM_BWD_INV_VARIANCE_DESC, 1, NORM_INV_VARIANCE),
    OP(NORM_BACKWARD, NORM_BWD_DBIAS_DESC, 0, NORM_BIAS),
    OP(NORM_BACKWARD, NORM_BWD_DYDESC, 1, NORM_Y),
    OP(NORM_BACKWARD, NORM_BWD_DXDESC, 1, NORM_DX),
    OP(NORM_BACKWARD, NORM_BWD_DSCALE_DESC, 1, NORM_DSCALE),
    SET(GEN_STATS, GENSTATS_MODE, GENSTATS_MODE),
    SET(GEN_STATS, GENSTATS_MATH_PREC, DATA_TYPE),
    OP(GEN_STATS, GENSTATS_XDESC, 1, STATISTICS_X),
    OP(GEN_STATS, GENSTATS_SUMDESC, 1, STATISTICS_SUM),
    OP(GEN_STATS, GENSTATS_SQSUMDESC, 1, STATISTICS_SQUARE_SUM),
    /* Graphs, and descriptors derived from them. */
    IN(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 0, 1),
    IN(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, TRP__DNN_LOWERED_NODES),
    IN(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, 1),
    IN(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1),
    IN(ENGINEHEUR, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 0, 1),
    IN(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 0, 1),
    IN(EXECUTION_PLAN, EXECUTION_PLAN_DEVICEPROP, BACKEND_DESCRIPTOR, 0, 1),
    IN(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 0, 1),
    IN(EXECUTION_PLAN, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, 0, MANY),
    IN(DEVICEPROP, DEVICEPROP_HANDLE, HANDLE, 1, 1),
    IN(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 1, TRP__DNN_LOWERED_TENSORS),
    IN(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 1, TRP__DNN_LOWERED_TENSORS),
    IN(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1),
};

static size_t size_of(int type)
{
    switch (type) {
    case TRP__CUDNN_TYPE_BOOLEAN:
    case TRP__CUDNN_TYPE_CHAR:
        return 1;
    case TRP__CUDNN_TYPE_INT64:
    case TRP__CUDNN_TYPE_DOUBLE:
    case TRP__CUDNN_TYPE_HANDLE:
    case TRP__CUDNN_TYPE_VOID_PTR:
    case TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default: /* enumerators, int32 and float */
        return 4;
    }
}

static const row *find_row(int descriptor, int name, int type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].descriptor == descriptor && rows[i].name == name &&
            (type < 0 || rows[i].type == type))
            return &rows[i];
    }
    return NULL;
}

fake_descriptor *fake_descriptor_at(trp__cudnn_descriptor descriptor, int type)
{
    fake_descriptor *d = descriptor;
    return d && d->magic == MAGIC && (type < 0 || d->type == type) ? d : NULL;
}

const fake_attribute *fake_attribute_of(const fake_descriptor *d, int name)
{
    for (int i = 0; i < d->attributes; i++) {
        if (d->attribute[i].name == name)
            return &d->attribute[i];
    }
    return NULL;
}

int64_t fake_attribute_int(const fake_descriptor *d, int name, int64_t preset)
{
    const fake_attribute *a = fake_attribute_of(d, name);
    int64_t value = preset;
    if (a && a->type == TRP__CUDNN_TYPE_BOOLEAN)
        value = *(const bool *)a->values;
    else if (a)
        memcpy(&value, a->values, sizeof value);
    return value;
}

int fake_attribute_enum(const fake_descriptor *d, int name, int preset)
{
    const fake_attribute *a = fake_attribute_of(d, name);
    return a ? *(const int *)a->values : preset;
}

double fake_attribute_real(const fake_descriptor *d, int name, double preset)
{
    const fake_attribute *a = fake_attribute_of(d, name);
    return !a                                  ? preset
           : a->type == TRP__CUDNN_TYPE_DOUBLE ? *(const double *)a->values
                                               : (double)*(const float *)a->values;
}

fake_descriptor *fake_attribute_descriptor(const fake_descriptor *d, int name)
{
    const fake_attribute *a = fake_attribute_of(d, name);
    return a ? *(fake_descriptor *const *)a->values : NULL;
}

int fake_attribute_port(const fake_descriptor *d, const fake_attribute *a)
{
    return find_row(d->type, a->name, a->type)->port;
}

bool fake_descriptor_take(fake_descriptor *d, const fake_cudnn_graph *graph)
{
    if (!d->graph)
        d->graph = malloc(sizeof *d->graph);
    if (d->graph)
        *d->graph = *graph;
    return d->graph;
}

/* Calls. */

static void release(fake_descriptor *d);

static void clear_attribute(fake_attribute *a)
{
    for (int64_t i = 0; i < a->count && a->type == TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR; i++)
        release(((fake_descriptor **)a->values)[i]);
    free(a->values);
}

static void release(fake_descriptor *d)
{
    if (atomic_fetch_sub(&d->references, 1) > 1)
        return;
    for (int i = 0; i < d->attributes; i++)
        clear_attribute(&d->attribute[i]);
    d->magic = 0;
    free(d->graph);
    free(d->value);
    free(d);
    fake_cudnn_count(-1);
}

trp__cudnn_status cudnnBackendCreateDescriptor(trp__cudnn_descriptor_type type,
                                               trp__cudnn_descriptor *out)
{
    int status = fake_cudnn_called();
    if (status)
        return status;
    fake_descriptor *d = calloc(1, sizeof *d);
    if (!d)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    d->magic = MAGIC;
    d->type = type;
    atomic_init(&d->references, 1);
    fake_cudnn_count(1);
    *out = d;
    return FAKE_CUDNN_SUCCESS;
}

trp__cudnn_status cudnnBackendDestroyDescriptor(trp__cudnn_descriptor descriptor)
{
    fake_descriptor *d = fake_descriptor_at(descriptor, -1);
    if (!d)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no descriptor");
    release(d);
    return FAKE_CUDNN_SUCCESS;
}

/* A descriptor must be finalised before it becomes an attribute of another, which holds a reference
 * then. */
static bool hold_all(const fake_attribute *a)
{
    for (int64_t i = 0; i < a->count; i++) {
        fake_descriptor *d = fake_descriptor_at(((void **)a->values)[i], -1);
        if (!d || !d->final)
            return false;
    }
    for (int64_t i = 0; i < a->count; i++)
        atomic_fetch_add(&((fake_descriptor **)a->values)[i]->references, 1);
    return true;
}

trp__cudnn_status cudnnBackendSetAttribute(trp__cudnn_descriptor descriptor,
                                           trp__cudnn_attribute name,
                                           trp__cudnn_attribute_type type, int64_t count,
                                           const void *values)
{
    int status = fake_cudnn_called();
    if (status)
        return status;
    fake_descriptor *d = fake_descriptor_at(descriptor, -1);
    const row *r = d ? find_row(d->type, name, type) : NULL;
    if (!r)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "attribute %d of type %d: no such thing", name,
                              type);
    if (d->final || fake_attribute_of(d, name) || d->attributes == FAKE_ATTRIBUTES)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "attribute %d: set again, or too late", name);
    if (!values || count < 1 || count > r->most)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "attribute %d: %lld values", name,
                              (long long)count);
    size_t bytes = (size_t)count * size_of(type);
    fake_attribute a = {.name = name, .type = type, .count = count, .values = malloc(bytes + 1)};
    if (!a.values)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    memcpy(a.values, values, bytes);
    ((char *)a.values)[bytes] = '\0'; /* terminates a text */
    if (type == TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR && !hold_all(&a)) {
        free(a.values);
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM_NOT_FINALIZED,
                              "attribute %d: a descriptor that is not finalized", name);
    }
    d->attribute[d->attributes++] = a;
    return FAKE_CUDNN_SUCCESS;
}

static int check_needed(const fake_descriptor *d)
{
    bool known = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].descriptor != d->type)
            continue;
        known = true;
        if (rows[i].least > 0 && !fake_attribute_of(d, rows[i].name))
            return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "attribute %d is not set", rows[i].name);
    }
    return known ? FAKE_CUDNN_SUCCESS
                 : fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "descriptors of type %d are not made",
                                  d->type);
}

static int finalize(fake_descriptor *d)
{
    switch (d->type) {
    case TRP__CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return fake_finalize_tensor(d);
    case TRP__CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    case TRP__CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case TRP__CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case TRP__CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    case TRP__CUDNN_BACKEND_RESAMPLE_DESCRIPTOR:
        return fake_finalize_how(d);
    case TRP__CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return fake_finalize_graph(d);
    case TRP__CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return fake_finalize_heuristics(d);
    case TRP__CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return fake_finalize_plan(d);
    case TRP__CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return fake_finalize_pack(d);
    case TRP__CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
        return FAKE_CUDNN_SUCCESS;
    default:
        return fake_finalize_operation(d);
    }
}

trp__cudnn_status cudnnBackendFinalize(trp__cudnn_descriptor descriptor)
{
    int status = fake_cudnn_called();
    fake_descriptor *d = fake_descriptor_at(descriptor, -1);
    if (status)
        return status;
    if (!d || d->final)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no descriptor, or a finalized one");
    status = check_needed(d);
    if (status == FAKE_CUDNN_SUCCESS)
        status = finalize(d);
    d->final = status == FAKE_CUDNN_SUCCESS;
    return status;
}
