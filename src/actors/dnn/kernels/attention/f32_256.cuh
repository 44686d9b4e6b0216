/* Attention computed in f32, of inputs of any type, up to a depth of 256. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_SIMT(f32_256, float)
TRP__ATTENTION_KERNELS(trp_attention_f32_256, float, trp__f32_256_forward, trp__f32_256_backward)
