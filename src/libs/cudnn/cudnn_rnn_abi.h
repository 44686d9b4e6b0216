/* The part of cuDNN's binary interface for recurrent networks: functions of the legacy API, while
 * everything else uses the backend API. tests/unit/fakes/cuda_abi_test.c compares every line with
 * NVIDIA's header.
 *
 * Source: cuDNN documentation, "cudnn_adv library" and "cudnn_ops library". */
#ifndef TRP_LIBS_CUDNN_RNN_ABI_H
#define TRP_LIBS_CUDNN_RNN_ABI_H

#include "driver/cuda_abi.h"

#include <stdint.h>

typedef struct trp__cudnn_opaque *trp__cudnn_handle;
typedef struct trp__cudnn_rnn_opaque *trp__cudnn_rnn;
typedef struct trp__cudnn_rnn_data_opaque *trp__cudnn_rnn_data;
typedef struct trp__cudnn_tensor_opaque *trp__cudnn_tensor;
typedef struct trp__cudnn_dropout_opaque *trp__cudnn_dropout;

/* Values of several enumerations: TRP__CUDNN_RNN_RELU. Rows are those of TRP__CUDNN_MODES. */
#define TRP__CUDNN_RNN_MODES(X)                                                                    \
    X(9_0, RNN_ALGO_STANDARD, 0)                                                                   \
    X(9_0, RNN_ALGO_PERSIST_STATIC, 1)                                                             \
    X(9_0, RNN_RELU, 0)                                                                            \
    X(9_0, RNN_TANH, 1)                                                                            \
    X(9_0, LSTM, 2)                                                                                \
    X(9_0, GRU, 3)                                                                                 \
    X(9_0, RNN_NO_BIAS, 0)                                                                         \
    X(9_0, RNN_DOUBLE_BIAS, 2)                                                                     \
    X(9_0, UNIDIRECTIONAL, 0)                                                                      \
    X(9_0, BIDIRECTIONAL, 1)                                                                       \
    X(9_0, LINEAR_INPUT, 0)                                                                        \
    X(9_0, FWD_MODE_INFERENCE, 0)                                                                  \
    X(9_0, FWD_MODE_TRAINING, 1)                                                                   \
    X(9_0, RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 0)                                                  \
    X(9_0, RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, 2)                                                \
    X(9_0, RNN_PADDED_IO_ENABLED, 1)                                                               \
    X(9_0, WGRAD_MODE_ADD, 0)                                                                      \
    X(9_0, DEFAULT_MATH, 0)                                                                        \
    X(9_0, TENSOR_OP_MATH, 1)                                                                      \
    X(9_0, FMA_MATH, 3)

#define TRP__CUDNN_RNN_ENUMERATOR(since, name, value) TRP__CUDNN_##name = value,
enum { TRP__CUDNN_RNN_MODES(TRP__CUDNN_RNN_ENUMERATOR) };

/* Aliases for enumerations in the functions below. */
typedef int trp__cudnn_status;
typedef int trp__cudnn_data_type;
typedef int trp__cudnn_math_type;
typedef int trp__cudnn_rnn_algo;
typedef int trp__cudnn_rnn_mode;
typedef int trp__cudnn_rnn_bias;
typedef int trp__cudnn_direction;
typedef int trp__cudnn_rnn_input;
typedef int trp__cudnn_rnn_layout;
typedef int trp__cudnn_forward_mode;
typedef int trp__cudnn_wgrad_mode;

/* Rows as those of TRP__CUDNN_FUNCTIONS. */
#define TRP__CUDNN_RNN_FUNCTIONS(X)                                                                \
    X(trp__cudnn_status, cudnnCreateTensorDescriptor, (trp__cudnn_tensor * tensor), true)          \
    X(trp__cudnn_status, cudnnDestroyTensorDescriptor, (trp__cudnn_tensor tensor), true)           \
    X(trp__cudnn_status, cudnnSetTensorNdDescriptor,                                               \
      (trp__cudnn_tensor tensor, trp__cudnn_data_type type, int rank, const int dims[],            \
       const int strides[]),                                                                       \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnCreateDropoutDescriptor, (trp__cudnn_dropout * dropout), true)       \
    X(trp__cudnn_status, cudnnDestroyDropoutDescriptor, (trp__cudnn_dropout dropout), true)        \
    X(trp__cudnn_status, cudnnDropoutGetStatesSize, (trp__cudnn_handle handle, size_t * bytes),    \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnSetDropoutDescriptor,                                                \
      (trp__cudnn_dropout dropout, trp__cudnn_handle handle, float probability, void *states,      \
       size_t bytes, unsigned long long seed),                                                     \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnRestoreDropoutDescriptor,                                            \
      (trp__cudnn_dropout dropout, trp__cudnn_handle handle, float probability, void *states,      \
       size_t bytes, unsigned long long seed),                                                     \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnCreateRNNDescriptor, (trp__cudnn_rnn * rnn), true)                   \
    X(trp__cudnn_status, cudnnDestroyRNNDescriptor, (trp__cudnn_rnn rnn), true)                    \
    X(trp__cudnn_status, cudnnSetRNNDescriptor_v8,                                                 \
      (trp__cudnn_rnn rnn, trp__cudnn_rnn_algo algo, trp__cudnn_rnn_mode mode,                     \
       trp__cudnn_rnn_bias bias, trp__cudnn_direction direction, trp__cudnn_rnn_input input,       \
       trp__cudnn_data_type type, trp__cudnn_data_type compute, trp__cudnn_math_type math,         \
       int32_t input_size, int32_t hidden_size, int32_t projection_size, int32_t layers,           \
       trp__cudnn_dropout dropout, uint32_t flags),                                                \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnCreateRNNDataDescriptor, (trp__cudnn_rnn_data * data), true)         \
    X(trp__cudnn_status, cudnnDestroyRNNDataDescriptor, (trp__cudnn_rnn_data data), true)          \
    X(trp__cudnn_status, cudnnSetRNNDataDescriptor,                                                \
      (trp__cudnn_rnn_data data, trp__cudnn_data_type type, trp__cudnn_rnn_layout layout,          \
       int steps, int batch, int elements, const int lengths[], void *padding),                    \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnGetRNNTempSpaceSizes,                                                \
      (trp__cudnn_handle handle, trp__cudnn_rnn rnn, trp__cudnn_forward_mode mode,                 \
       trp__cudnn_rnn_data x, size_t * workspace, size_t * reserve),                               \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnGetRNNWeightSpaceSize,                                               \
      (trp__cudnn_handle handle, trp__cudnn_rnn rnn, size_t * bytes), true)                        \
    X(trp__cudnn_status, cudnnGetRNNWeightParams,                                                  \
      (trp__cudnn_handle handle, trp__cudnn_rnn rnn, int32_t layer, size_t bytes,                  \
       const void *weights, int32_t which, trp__cudnn_tensor matrix, void **matrix_at,             \
       trp__cudnn_tensor bias, void **bias_at),                                                    \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnRNNForward,                                                          \
      (trp__cudnn_handle handle, trp__cudnn_rnn rnn, trp__cudnn_forward_mode mode,                 \
       const int32_t device_lengths[], trp__cudnn_rnn_data x_type, const void *x,                  \
       trp__cudnn_rnn_data y_type, void *y, trp__cudnn_tensor h_type, const void *h0, void *h1,    \
       trp__cudnn_tensor c_type, const void *c0, void *c1, size_t weight_bytes,                    \
       const void *weights, size_t workspace_bytes, void *workspace, size_t reserve_bytes,         \
       void *reserve),                                                                             \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnRNNBackwardData_v8,                                                  \
      (trp__cudnn_handle handle, trp__cudnn_rnn rnn, const int32_t device_lengths[],               \
       trp__cudnn_rnn_data y_type, const void *y, const void *dy, trp__cudnn_rnn_data x_type,      \
       void *dx, trp__cudnn_tensor h_type, const void *h0, const void *dh1, void *dh0,             \
       trp__cudnn_tensor c_type, const void *c0, const void *dc1, void *dc0, size_t weight_bytes,  \
       const void *weights, size_t workspace_bytes, void *workspace, size_t reserve_bytes,         \
       void *reserve),                                                                             \
      true)                                                                                        \
    X(trp__cudnn_status, cudnnRNNBackwardWeights_v8,                                               \
      (trp__cudnn_handle handle, trp__cudnn_rnn rnn, trp__cudnn_wgrad_mode mode,                   \
       const int32_t device_lengths[], trp__cudnn_rnn_data x_type, const void *x,                  \
       trp__cudnn_tensor h_type, const void *h0, trp__cudnn_rnn_data y_type, const void *y,        \
       size_t weight_bytes, void *dw, size_t workspace_bytes, void *workspace,                     \
       size_t reserve_bytes, void *reserve),                                                       \
      true)

#endif
