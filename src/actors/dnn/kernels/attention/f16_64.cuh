/* Attention of f16 on tensor cores, up to a depth of 64. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_TENSOR_CORES(f16_64, TRP_F16)
TRP__ATTENTION_KERNELS(trp_attention_f16_64, float, trp__f16_64_forward, trp__f16_64_backward)
