/* Attention computed in f32, of inputs of any type, up to a depth of 64. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_SIMT(f32_64, float)
TRP__ATTENTION_KERNELS(trp_attention_f32_64, float, trp__f32_64_forward, trp__f32_64_backward)
