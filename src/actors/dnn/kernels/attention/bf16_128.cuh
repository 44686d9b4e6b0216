/* Attention of bf16 on tensor cores, up to a depth of 128. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_KERNELS(trp_attention_bf16_128, bf16_128, trp__tensor_cores, TRP_BF16)
