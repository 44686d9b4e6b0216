/* Attention of bf16 on tensor cores, up to a depth of 64. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_TENSOR_CORES(bf16_64, TRP_BF16)
TRP__ATTENTION_KERNELS(trp_attention_bf16_64, float, trp__bf16_64_forward, trp__bf16_64_backward)
