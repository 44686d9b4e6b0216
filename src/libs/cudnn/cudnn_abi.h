/* The part of cuDNN's binary interface that Troupe uses: the backend API of cuDNN 9.
 * tests/unit/fakes/cuda_abi_test.c compares every line with NVIDIA's header.
 *
 * A row of constants has the version of cuDNN with whose header it is compared (those after 9.0
 * came later; a library before it refuses them), the name behind CUDNN_ and the prefix that the
 * table's comment shows, and the value.
 *
 * Source: cuDNN documentation, "Graph library". */
#ifndef TRP_LIBS_CUDNN_ABI_H
#define TRP_LIBS_CUDNN_ABI_H

#include "libs/cudnn/cudnn_rnn_abi.h"

typedef void *trp__cudnn_descriptor; /* cudnnBackendDescriptor_t */

/* cudnnStatus_t: TRP__CUDNN_STATUS_SUCCESS */
#define TRP__CUDNN_STATUSES(X)                                                                     \
    X(9_0, SUCCESS, 0)                                                                             \
    X(9_0, BAD_PARAM, 2000)                                                                        \
    X(9_0, NOT_SUPPORTED, 3000)                                                                    \
    X(9_0, INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 4003)                                            \
    X(9_0, INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 4004)                                          \
    X(9_0, EXECUTION_FAILED, 5000)

/* cudnnDataType_t: TRP__CUDNN_DATA_FLOAT */
#define TRP__CUDNN_DATA_TYPES(X)                                                                   \
    X(9_0, FLOAT, 0)                                                                               \
    X(9_0, DOUBLE, 1)                                                                              \
    X(9_0, HALF, 2)                                                                                \
    X(9_0, INT8, 3)                                                                                \
    X(9_0, INT32, 4)                                                                               \
    X(9_0, UINT8, 6)                                                                               \
    X(9_0, BFLOAT16, 9)                                                                            \
    X(9_0, INT64, 10)                                                                              \
    X(9_0, BOOLEAN, 11)                                                                            \
    X(9_0, FP8_E4M3, 12)                                                                           \
    X(9_0, FP8_E5M2, 13)

/* cudnnBackendDescriptorType_t: TRP__CUDNN_BACKEND_TENSOR_DESCRIPTOR */
#define TRP__CUDNN_DESCRIPTORS(X)                                                                  \
    X(9_0, POINTWISE_DESCRIPTOR, 0)                                                                \
    X(9_0, CONVOLUTION_DESCRIPTOR, 1)                                                              \
    X(9_0, ENGINE_DESCRIPTOR, 2)                                                                   \
    X(9_0, ENGINECFG_DESCRIPTOR, 3)                                                                \
    X(9_0, ENGINEHEUR_DESCRIPTOR, 4)                                                               \
    X(9_0, EXECUTION_PLAN_DESCRIPTOR, 5)                                                           \
    X(9_0, KNOB_CHOICE_DESCRIPTOR, 7)                                                              \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)                                           \
    X(9_0, OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11)                                   \
    X(9_0, OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)                                     \
    X(9_0, OPERATION_POINTWISE_DESCRIPTOR, 13)                                                     \
    X(9_0, OPERATION_GEN_STATS_DESCRIPTOR, 14)                                                     \
    X(9_0, OPERATIONGRAPH_DESCRIPTOR, 15)                                                          \
    X(9_0, VARIANT_PACK_DESCRIPTOR, 16)                                                            \
    X(9_0, TENSOR_DESCRIPTOR, 17)                                                                  \
    X(9_0, MATMUL_DESCRIPTOR, 18)                                                                  \
    X(9_0, OPERATION_MATMUL_DESCRIPTOR, 19)                                                        \
    X(9_0, REDUCTION_DESCRIPTOR, 21)                                                               \
    X(9_0, OPERATION_REDUCTION_DESCRIPTOR, 22)                                                     \
    X(9_0, RESAMPLE_DESCRIPTOR, 24)                                                                \
    X(9_0, OPERATION_RESAMPLE_FWD_DESCRIPTOR, 25)                                                  \
    X(9_0, OPERATION_RESAMPLE_BWD_DESCRIPTOR, 26)                                                  \
    X(9_0, OPERATION_NORM_FORWARD_DESCRIPTOR, 29)                                                  \
    X(9_0, OPERATION_NORM_BACKWARD_DESCRIPTOR, 30)                                                 \
    X(9_0, OPERATION_RESHAPE_DESCRIPTOR, 31)                                                       \
    X(9_8, DEVICEPROP_DESCRIPTOR, 38)

/* cudnnBackendAttributeType_t: TRP__CUDNN_TYPE_INT64 */
#define TRP__CUDNN_ATTRIBUTE_TYPES(X)                                                              \
    X(9_0, HANDLE, 0)                                                                              \
    X(9_0, DATA_TYPE, 1)                                                                           \
    X(9_0, BOOLEAN, 2)                                                                             \
    X(9_0, INT64, 3)                                                                               \
    X(9_0, FLOAT, 4)                                                                               \
    X(9_0, DOUBLE, 5)                                                                              \
    X(9_0, VOID_PTR, 6)                                                                            \
    X(9_0, CONVOLUTION_MODE, 7)                                                                    \
    X(9_0, HEUR_MODE, 8)                                                                           \
    X(9_0, KNOB_TYPE, 9)                                                                           \
    X(9_0, NAN_PROPOGATION, 10)                                                                    \
    X(9_0, NUMERICAL_NOTE, 11)                                                                     \
    X(9_0, POINTWISE_MODE, 14)                                                                     \
    X(9_0, BACKEND_DESCRIPTOR, 15)                                                                 \
    X(9_0, GENSTATS_MODE, 16)                                                                      \
    X(9_0, REDUCTION_OPERATOR_TYPE, 18)                                                            \
    X(9_0, RESAMPLE_MODE, 21)                                                                      \
    X(9_0, PADDING_MODE, 22)                                                                       \
    X(9_0, INT32, 23)                                                                              \
    X(9_0, CHAR, 24)                                                                               \
    X(9_0, NORM_MODE, 27)                                                                          \
    X(9_0, NORM_FWD_PHASE, 28)

/* cudnnBackendAttributeName_t: TRP__CUDNN_ATTR_TENSOR_DATA_TYPE */
#define TRP__CUDNN_ATTRIBUTES(X)                                                                   \
    X(9_0, POINTWISE_MODE, 0)                                                                      \
    X(9_0, POINTWISE_MATH_PREC, 1)                                                                 \
    X(9_0, POINTWISE_RELU_LOWER_CLIP, 3)                                                           \
    X(9_0, POINTWISE_RELU_UPPER_CLIP, 4)                                                           \
    X(9_0, POINTWISE_RELU_LOWER_CLIP_SLOPE, 5)                                                     \
    X(9_0, POINTWISE_ELU_ALPHA, 6)                                                                 \
    X(9_0, POINTWISE_SOFTPLUS_BETA, 7)                                                             \
    X(9_0, POINTWISE_SWISH_BETA, 8)                                                                \
    X(9_0, POINTWISE_AXIS, 9)                                                                      \
    X(9_0, CONVOLUTION_COMP_TYPE, 100)                                                             \
    X(9_0, CONVOLUTION_CONV_MODE, 101)                                                             \
    X(9_0, CONVOLUTION_DILATIONS, 102)                                                             \
    X(9_0, CONVOLUTION_FILTER_STRIDES, 103)                                                        \
    X(9_0, CONVOLUTION_POST_PADDINGS, 104)                                                         \
    X(9_0, CONVOLUTION_PRE_PADDINGS, 105)                                                          \
    X(9_0, CONVOLUTION_SPATIAL_DIMS, 106)                                                          \
    X(9_0, ENGINEHEUR_MODE, 200)                                                                   \
    X(9_0, ENGINEHEUR_OPERATION_GRAPH, 201)                                                        \
    X(9_0, ENGINEHEUR_RESULTS, 202)                                                                \
    X(9_8, ENGINEHEUR_DEVICEPROP, 204)                                                             \
    X(9_0, ENGINECFG_ENGINE, 300)                                                                  \
    X(9_0, ENGINECFG_KNOB_CHOICES, 302)                                                            \
    X(9_0, EXECUTION_PLAN_HANDLE, 400)                                                             \
    X(9_0, EXECUTION_PLAN_ENGINE_CONFIG, 401)                                                      \
    X(9_0, EXECUTION_PLAN_WORKSPACE_SIZE, 402)                                                     \
    X(9_0, EXECUTION_PLAN_JSON_REPRESENTATION, 405)                                                \
    X(9_8, EXECUTION_PLAN_DEVICEPROP, 407)                                                         \
    X(9_0, KNOB_CHOICE_KNOB_TYPE, 600)                                                             \
    X(9_0, KNOB_CHOICE_KNOB_VALUE, 601)                                                            \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                                               \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_BETA, 701)                                                \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)                                           \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_W, 703)                                                   \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_X, 704)                                                   \
    X(9_0, OPERATION_CONVOLUTION_FORWARD_Y, 705)                                                   \
    X(9_0, OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)                                              \
    X(9_0, OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                                               \
    X(9_0, OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)                                          \
    X(9_0, OPERATION_CONVOLUTION_BWD_DATA_W, 709)                                                  \
    X(9_0, OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                                                 \
    X(9_0, OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                                                 \
    X(9_0, OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)                                            \
    X(9_0, OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)                                             \
    X(9_0, OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)                                        \
    X(9_0, OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                                               \
    X(9_0, OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                                                \
    X(9_0, OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                                               \
    X(9_0, OPERATION_POINTWISE_PW_DESCRIPTOR, 750)                                                 \
    X(9_0, OPERATION_POINTWISE_XDESC, 751)                                                         \
    X(9_0, OPERATION_POINTWISE_BDESC, 752)                                                         \
    X(9_0, OPERATION_POINTWISE_YDESC, 753)                                                         \
    X(9_0, OPERATION_POINTWISE_DXDESC, 756)                                                        \
    X(9_0, OPERATION_POINTWISE_DYDESC, 757)                                                        \
    X(9_0, OPERATION_POINTWISE_TDESC, 758)                                                         \
    X(9_0, OPERATION_GENSTATS_MODE, 770)                                                           \
    X(9_0, OPERATION_GENSTATS_MATH_PREC, 771)                                                      \
    X(9_0, OPERATION_GENSTATS_XDESC, 772)                                                          \
    X(9_0, OPERATION_GENSTATS_SUMDESC, 773)                                                        \
    X(9_0, OPERATION_GENSTATS_SQSUMDESC, 774)                                                      \
    X(9_0, OPERATIONGRAPH_HANDLE, 800)                                                             \
    X(9_0, OPERATIONGRAPH_OPS, 801)                                                                \
    X(9_0, TENSOR_BYTE_ALIGNMENT, 900)                                                             \
    X(9_0, TENSOR_DATA_TYPE, 901)                                                                  \
    X(9_0, TENSOR_DIMENSIONS, 902)                                                                 \
    X(9_0, TENSOR_STRIDES, 903)                                                                    \
    X(9_0, TENSOR_UNIQUE_ID, 906)                                                                  \
    X(9_0, TENSOR_IS_VIRTUAL, 907)                                                                 \
    X(9_0, TENSOR_IS_BY_VALUE, 908)                                                                \
    X(9_0, VARIANT_PACK_UNIQUE_IDS, 1000)                                                          \
    X(9_0, VARIANT_PACK_DATA_POINTERS, 1001)                                                       \
    X(9_0, VARIANT_PACK_WORKSPACE, 1003)                                                           \
    X(9_0, ENGINE_GLOBAL_INDEX, 1301)                                                              \
    X(9_0, ENGINE_NUMERICAL_NOTE, 1303)                                                            \
    X(9_0, MATMUL_COMP_TYPE, 1500)                                                                 \
    X(9_0, MATMUL_PADDING_VALUE, 1503)                                                             \
    X(9_0, OPERATION_MATMUL_ADESC, 1520)                                                           \
    X(9_0, OPERATION_MATMUL_BDESC, 1521)                                                           \
    X(9_0, OPERATION_MATMUL_CDESC, 1522)                                                           \
    X(9_0, OPERATION_MATMUL_DESC, 1523)                                                            \
    X(9_0, OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, 1525)                                            \
    X(9_0, OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, 1526)                                            \
    X(9_0, OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, 1527)                                            \
    X(9_0, REDUCTION_OPERATOR, 1600)                                                               \
    X(9_0, REDUCTION_COMP_TYPE, 1601)                                                              \
    X(9_19, REDUCTION_IS_DETERMINISTIC, 1602)                                                      \
    X(9_0, OPERATION_REDUCTION_XDESC, 1610)                                                        \
    X(9_0, OPERATION_REDUCTION_YDESC, 1611)                                                        \
    X(9_0, OPERATION_REDUCTION_DESC, 1612)                                                         \
    X(9_0, RESAMPLE_MODE, 1700)                                                                    \
    X(9_0, RESAMPLE_COMP_TYPE, 1701)                                                               \
    X(9_0, RESAMPLE_SPATIAL_DIMS, 1702)                                                            \
    X(9_0, RESAMPLE_POST_PADDINGS, 1703)                                                           \
    X(9_0, RESAMPLE_PRE_PADDINGS, 1704)                                                            \
    X(9_0, RESAMPLE_STRIDES, 1705)                                                                 \
    X(9_0, RESAMPLE_WINDOW_DIMS, 1706)                                                             \
    X(9_0, RESAMPLE_NAN_PROPAGATION, 1707)                                                         \
    X(9_0, RESAMPLE_PADDING_MODE, 1708)                                                            \
    X(9_0, OPERATION_RESAMPLE_FWD_XDESC, 1710)                                                     \
    X(9_0, OPERATION_RESAMPLE_FWD_YDESC, 1711)                                                     \
    X(9_0, OPERATION_RESAMPLE_FWD_IDXDESC, 1712)                                                   \
    X(9_0, OPERATION_RESAMPLE_FWD_DESC, 1716)                                                      \
    X(9_0, OPERATION_RESAMPLE_BWD_DXDESC, 1720)                                                    \
    X(9_0, OPERATION_RESAMPLE_BWD_DYDESC, 1721)                                                    \
    X(9_0, OPERATION_RESAMPLE_BWD_IDXDESC, 1722)                                                   \
    X(9_0, OPERATION_RESAMPLE_BWD_DESC, 1725)                                                      \
    X(9_0, OPERATION_RESAMPLE_BWD_XDESC, 1726)                                                     \
    X(9_0, OPERATION_RESAMPLE_BWD_YDESC, 1727)                                                     \
    X(9_0, OPERATION_NORM_FWD_MODE, 2000)                                                          \
    X(9_0, OPERATION_NORM_FWD_PHASE, 2001)                                                         \
    X(9_0, OPERATION_NORM_FWD_XDESC, 2002)                                                         \
    X(9_0, OPERATION_NORM_FWD_MEAN_DESC, 2003)                                                     \
    X(9_0, OPERATION_NORM_FWD_INV_VARIANCE_DESC, 2004)                                             \
    X(9_0, OPERATION_NORM_FWD_SCALE_DESC, 2005)                                                    \
    X(9_0, OPERATION_NORM_FWD_BIAS_DESC, 2006)                                                     \
    X(9_0, OPERATION_NORM_FWD_EPSILON_DESC, 2007)                                                  \
    X(9_0, OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, 2008)                                           \
    X(9_0, OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, 2009)                                       \
    X(9_0, OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, 2010)                                        \
    X(9_0, OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, 2011)                                      \
    X(9_0, OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, 2012)                                       \
    X(9_0, OPERATION_NORM_FWD_YDESC, 2013)                                                         \
    X(9_0, OPERATION_NORM_BWD_MODE, 2100)                                                          \
    X(9_0, OPERATION_NORM_BWD_XDESC, 2101)                                                         \
    X(9_0, OPERATION_NORM_BWD_MEAN_DESC, 2102)                                                     \
    X(9_0, OPERATION_NORM_BWD_INV_VARIANCE_DESC, 2103)                                             \
    X(9_0, OPERATION_NORM_BWD_DYDESC, 2104)                                                        \
    X(9_0, OPERATION_NORM_BWD_SCALE_DESC, 2105)                                                    \
    X(9_0, OPERATION_NORM_BWD_DSCALE_DESC, 2107)                                                   \
    X(9_0, OPERATION_NORM_BWD_DBIAS_DESC, 2108)                                                    \
    X(9_0, OPERATION_NORM_BWD_DXDESC, 2109)                                                        \
    X(9_0, OPERATION_RESHAPE_XDESC, 2200)                                                          \
    X(9_0, OPERATION_RESHAPE_YDESC, 2201)                                                          \
    X(9_8, DEVICEPROP_HANDLE, 2701)                                                                \
    X(9_8, DEVICEPROP_JSON_REPRESENTATION, 2702)

/* cudnnPointwiseMode_t: TRP__CUDNN_POINTWISE_ADD */
#define TRP__CUDNN_POINTWISES(X)                                                                   \
    X(9_0, ADD, 0)                                                                                 \
    X(9_0, ADD_SQUARE, 5)                                                                          \
    X(9_0, DIV, 6)                                                                                 \
    X(9_0, MAX, 3)                                                                                 \
    X(9_0, MIN, 2)                                                                                 \
    X(9_0, MOD, 7)                                                                                 \
    X(9_0, MUL, 1)                                                                                 \
    X(9_0, POW, 8)                                                                                 \
    X(9_0, SUB, 9)                                                                                 \
    X(9_0, ABS, 10)                                                                                \
    X(9_0, CEIL, 11)                                                                               \
    X(9_0, COS, 12)                                                                                \
    X(9_0, EXP, 13)                                                                                \
    X(9_0, FLOOR, 14)                                                                              \
    X(9_0, LOG, 15)                                                                                \
    X(9_0, NEG, 16)                                                                                \
    X(9_0, RSQRT, 17)                                                                              \
    X(9_0, SIN, 18)                                                                                \
    X(9_0, SQRT, 4)                                                                                \
    X(9_0, TAN, 19)                                                                                \
    X(9_0, ERF, 20)                                                                                \
    X(9_0, IDENTITY, 21)                                                                           \
    X(9_0, RECIPROCAL, 22)                                                                         \
    X(9_0, ATAN2, 23)                                                                              \
    X(9_0, RELU_FWD, 100)                                                                          \
    X(9_0, TANH_FWD, 101)                                                                          \
    X(9_0, SIGMOID_FWD, 102)                                                                       \
    X(9_0, ELU_FWD, 103)                                                                           \
    X(9_0, GELU_FWD, 104)                                                                          \
    X(9_0, SOFTPLUS_FWD, 105)                                                                      \
    X(9_0, SWISH_FWD, 106)                                                                         \
    X(9_0, GELU_APPROX_TANH_FWD, 107)                                                              \
    X(9_0, RELU_BWD, 200)                                                                          \
    X(9_0, TANH_BWD, 201)                                                                          \
    X(9_0, SIGMOID_BWD, 202)                                                                       \
    X(9_0, ELU_BWD, 203)                                                                           \
    X(9_0, GELU_BWD, 204)                                                                          \
    X(9_0, SOFTPLUS_BWD, 205)                                                                      \
    X(9_0, SWISH_BWD, 206)                                                                         \
    X(9_0, GELU_APPROX_TANH_BWD, 207)                                                              \
    X(9_0, CMP_EQ, 300)                                                                            \
    X(9_0, CMP_NEQ, 301)                                                                           \
    X(9_0, CMP_GT, 302)                                                                            \
    X(9_0, CMP_GE, 303)                                                                            \
    X(9_0, CMP_LT, 304)                                                                            \
    X(9_0, CMP_LE, 305)                                                                            \
    X(9_0, LOGICAL_AND, 400)                                                                       \
    X(9_0, LOGICAL_OR, 401)                                                                        \
    X(9_0, LOGICAL_NOT, 402)                                                                       \
    X(9_0, GEN_INDEX, 501)                                                                         \
    X(9_0, BINARY_SELECT, 601)

/* cudnnReduceTensorOp_t: TRP__CUDNN_REDUCE_TENSOR_ADD */
#define TRP__CUDNN_REDUCTIONS(X)                                                                   \
    X(9_0, ADD, 0)                                                                                 \
    X(9_0, MUL, 1)                                                                                 \
    X(9_0, MIN, 2)                                                                                 \
    X(9_0, MAX, 3)                                                                                 \
    X(9_0, AMAX, 4)                                                                                \
    X(9_0, AVG, 5)                                                                                 \
    X(9_0, NORM1, 6)                                                                               \
    X(9_0, NORM2, 7)

/* Modes of other operations, heuristics and numerical notes, from several enumerations:
 * TRP__CUDNN_RESAMPLE_MAXPOOL */
#define TRP__CUDNN_MODES(X)                                                                        \
    X(9_0, CONVOLUTION, 0)                                                                         \
    X(9_0, CROSS_CORRELATION, 1)                                                                   \
    X(9_0, RESAMPLE_AVGPOOL_INCLUDE_PADDING, 2)                                                    \
    X(9_0, RESAMPLE_AVGPOOL_EXCLUDE_PADDING, 4)                                                    \
    X(9_0, RESAMPLE_MAXPOOL, 3)                                                                    \
    X(9_0, PROPAGATE_NAN, 1)                                                                       \
    X(9_0, ZERO_PAD, 0)                                                                            \
    X(9_0, NEG_INF_PAD, 1)                                                                         \
    X(9_0, GENSTATS_SUM_SQSUM, 0)                                                                  \
    X(9_0, LAYER_NORM, 0)                                                                          \
    X(9_0, INSTANCE_NORM, 1)                                                                       \
    X(9_0, BATCH_NORM, 2)                                                                          \
    X(9_0, RMS_NORM, 4)                                                                            \
    X(9_0, NORM_FWD_INFERENCE, 0)                                                                  \
    X(9_0, NORM_FWD_TRAINING, 1)                                                                   \
    X(9_0, HEUR_MODE_A, 3)                                                                         \
    X(9_0, HEUR_MODE_B, 1)                                                                         \
    X(9_0, HEUR_MODE_FALLBACK, 2)                                                                  \
    X(9_0, NUMERICAL_NOTE_TENSOR_CORE, 0)                                                          \
    X(9_0, NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                                                  \
    X(9_0, NUMERICAL_NOTE_NONDETERMINISTIC, 4)

/* int instead of enumerations: functions take values of several tables. */
typedef int trp__cudnn_descriptor_type;
typedef int trp__cudnn_attribute;
typedef int trp__cudnn_attribute_type;

#define TRP__CUDNN_STATUS_ENUMERATOR(since, name, value)    TRP__CUDNN_STATUS_##name = value,
#define TRP__CUDNN_DATA_ENUMERATOR(since, name, value)      TRP__CUDNN_DATA_##name = value,
#define TRP__CUDNN_BACKEND_ENUMERATOR(since, name, value)   TRP__CUDNN_BACKEND_##name = value,
#define TRP__CUDNN_TYPE_ENUMERATOR(since, name, value)      TRP__CUDNN_TYPE_##name = value,
#define TRP__CUDNN_ATTR_ENUMERATOR(since, name, value)      TRP__CUDNN_ATTR_##name = value,
#define TRP__CUDNN_POINTWISE_ENUMERATOR(since, name, value) TRP__CUDNN_POINTWISE_##name = value,
#define TRP__CUDNN_REDUCE_TENSOR_ENUMERATOR(since, name, value)                                    \
    TRP__CUDNN_REDUCE_TENSOR_##name = value,
#define TRP__CUDNN_ENUMERATOR(since, name, value) TRP__CUDNN_##name = value,

enum { TRP__CUDNN_STATUSES(TRP__CUDNN_STATUS_ENUMERATOR) };
enum { TRP__CUDNN_DATA_TYPES(TRP__CUDNN_DATA_ENUMERATOR) };
enum { TRP__CUDNN_DESCRIPTORS(TRP__CUDNN_BACKEND_ENUMERATOR) };
enum { TRP__CUDNN_ATTRIBUTE_TYPES(TRP__CUDNN_TYPE_ENUMERATOR) };
enum { TRP__CUDNN_ATTRIBUTES(TRP__CUDNN_ATTR_ENUMERATOR) };
enum { TRP__CUDNN_POINTWISES(TRP__CUDNN_POINTWISE_ENUMERATOR) };
enum { TRP__CUDNN_REDUCTIONS(TRP__CUDNN_REDUCE_TENSOR_ENUMERATOR) };
enum { TRP__CUDNN_MODES(TRP__CUDNN_ENUMERATOR) };

/* First version (as cudnnGetVersion() returns it) that plans from a device's properties without a
 * handle. */
#define TRP__CUDNN_VERSION_DEVICEPROP 90800u

/* First version known to make sums reproducible on request. */
#define TRP__CUDNN_VERSION_DETERMINISTIC 91900u

/* First version used for attention: earlier ones have known errors in it. */
#define TRP__CUDNN_VERSION_ATTENTION 91600u

/* One row per function: result, exported name, parameters, whether it is required. */
#define TRP__CUDNN_FUNCTIONS(X)                                                                    \
    X(size_t, cudnnGetVersion, (void), true)                                                       \
    X(trp__cudnn_status, cudnnGetProperty, (trp__cuda_property property, int *value), true)        \
    X(const char *, cudnnGetErrorString, (trp__cudnn_status status), true)                         \
    X(void, cudnnGetLastErrorString, (char *message, size_t size), true)                           \
    X(trp__cudnn_status, cudnnCreate, (trp__cudnn_handle * handle), true)                          \
    X(trp__cudnn_status, cudnnDestroy, (trp__cudnn_handle handle), true)                           \
    X(trp__cudnn_status, cudnnSetStream, (trp__cudnn_handle handle, trp__cu_stream stream), true)  \
    X(trp__cudnn_status, cudnnBackendCreateDescriptor,                                             \
      (trp__cudnn_descriptor_type type, trp__cudnn_descriptor * descriptor), true)                 \
    X(trp__cudnn_status, cudnnBackendDestroyDescriptor, (trp__cudnn_descriptor descriptor), true)  \
    X(trp__cudnn_status, cudnnBackendFinalize, (trp__cudnn_descriptor descriptor), true)           \
    X(trp__cudnn_status, cudnnBackendSetAttribute,                                                 \
      (trp__cudnn_descriptor descriptor, trp__cudnn_attribute name,                                \
       trp__cudnn_attribute_type type, int64_t count, const void *values),                         \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnBackendGetAttribute,                                                 \
      (trp__cudnn_descriptor descriptor, trp__cudnn_attribute name,                                \
       trp__cudnn_attribute_type type, int64_t room, int64_t * count, void *values),               \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnBackendExecute,                                                      \
      (trp__cudnn_handle handle, trp__cudnn_descriptor plan, trp__cudnn_descriptor pack), true)

#endif
