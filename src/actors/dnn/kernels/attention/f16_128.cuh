/* Attention of f16 on tensor cores, up to a depth of 128. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_TENSOR_CORES(f16_128, TRP_F16)
TRP__ATTENTION_KERNELS(trp_attention_f16_128, float, trp__f16_128_forward, trp__f16_128_backward)
