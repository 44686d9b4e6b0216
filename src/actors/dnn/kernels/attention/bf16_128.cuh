/* Attention of bf16 on tensor cores, up to a depth of 128. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_TENSOR_CORES(bf16_128, TRP_BF16)
TRP__ATTENTION_KERNELS(trp_attention_bf16_128, float, trp__bf16_128_forward, trp__bf16_128_backward)
