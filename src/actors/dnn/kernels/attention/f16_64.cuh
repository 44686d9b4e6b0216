/* Attention of f16 on tensor cores, up to a depth of 64. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_KERNELS(trp_attention_f16_64, f16_64, trp__tensor_cores, TRP_F16)
