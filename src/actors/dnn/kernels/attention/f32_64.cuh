/* Attention computed in f32, of inputs of any type, up to a depth of 64. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_KERNELS(trp_attention_f32_64, f32_64, trp__simt, float)
