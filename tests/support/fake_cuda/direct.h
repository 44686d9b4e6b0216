/* The dnn actor's own kernels, compiled as C: the fake driver launches them, and the engines of the
 * fake cuDNN compute with them. */
#ifndef TESTS_FAKE_CUDA_DIRECT_H
#define TESTS_FAKE_CUDA_DIRECT_H

#include "support/fake_cuda/hooks.h"

#include "actors/dnn/reference/node.h"

/* A row for each kernel, in the order in which a node launches them: its name after "trp_direct_",
 * the first and the last kind of node that it is for, and the tensor for each element of which it
 * has a thread or a block, or another count. */
#define FAKE_FIRST(first, ...) first
#define FAKE_DIRECT_KERNELS(X)                                                                     \
    X(conv_forward, CONV_FORWARD, CONV_FORWARD, TRP__DNN_CONV_Y)                                   \
    X(conv_backward_data, CONV_BACKWARD_DATA, CONV_BACKWARD_DATA, TRP__DNN_CONV_X)                 \
    X(conv_backward_filter, CONV_BACKWARD_FILTER, CONV_BACKWARD_FILTER, TRP__DNN_CONV_W)           \
    X(matmul, MATMUL, MATMUL, TRP__DNN_MATMUL_Y)                                                   \
    X(pointwise, POINTWISE, POINTWISE, TRP__DNN_POINTWISE_Y)                                       \
    X(gradient, POINTWISE_BACKWARD, POINTWISE_BACKWARD, TRP__DNN_GRADIENT_DX)                      \
    X(reduction, REDUCTION, REDUCTION, TRP__DNN_REDUCTION_Y)                                       \
    X(pool, RESAMPLE_FORWARD, RESAMPLE_FORWARD, TRP__DNN_RESAMPLE_Y)                               \
    X(pool_backward, RESAMPLE_BACKWARD, RESAMPLE_BACKWARD, TRP__DNN_RESAMPLE_X)                    \
    X(norm, NORM_TRAINING, NORM_INFERENCE, TRP__DIRECT_STATISTICS)                                 \
    X(norm_backward, NORM_BACKWARD, NORM_BACKWARD, TRP__DIRECT_STATISTICS)                         \
    X(norm_backward_scale, NORM_BACKWARD, NORM_BACKWARD, TRP__DNN_NORM_DSCALE)                     \
    X(statistics, STATISTICS, STATISTICS, TRP__DNN_STATISTICS_SUM)                                 \
    X(attention, ATTENTION, ATTENTION, TRP__DIRECT_STATISTICS)                                     \
    X(attention_backward_q, ATTENTION_BACKWARD, ATTENTION_BACKWARD, TRP__DIRECT_STATISTICS)        \
    X(attention_backward_kv, ATTENTION_BACKWARD, ATTENTION_BACKWARD, TRP__DNN_ATTENTION_K)         \
    X(attention_backward_bias, ATTENTION_BACKWARD, ATTENTION_BACKWARD, TRP__DNN_ATTENTION_DBIAS)   \
    X(move, CONCATENATE, RESHAPE, TRP__DNN_MOVE_Y)                                                 \
    X(paged_load, PAGED_LOAD, PAGED_LOAD, TRP__DNN_PAGED_Y)                                        \
    X(random, RANDOM, RANDOM, TRP__DNN_RANDOM_Y)                                                   \
    X(quantize, BLOCK_SCALE_QUANTIZE, BLOCK_SCALE_QUANTIZE, TRP__DNN_BLOCKS_SCALE)                 \
    X(dequantize, BLOCK_SCALE_DEQUANTIZE, BLOCK_SCALE_DEQUANTIZE, TRP__DNN_BLOCKS_Y)               \
    TRP__TRAIN_KERNELS(X)

/* Declares the kernels as the driver launches them. */
#define FAKE_DIRECT_DECLARE(name, kind, ...) void fake_direct_##name(const uint64_t *parameter);
FAKE_DIRECT_KERNELS(FAKE_DIRECT_DECLARE)
#undef FAKE_DIRECT_DECLARE

/* Runs all kernels of a node whose at[] are addresses of the processor; sets the fields that only
 * kernels need. */
FAKE_API void fake_direct_run(trp__direct *d);

/* Returns the bytes from the first to the end of the last element of a tensor. */
FAKE_API size_t fake_direct_bytes(const trp__dnn_tensor *t);

#endif
