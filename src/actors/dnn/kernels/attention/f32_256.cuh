/* Attention computed in f32, of inputs of any type, up to a depth of 256. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_KERNELS(trp_attention_f32_256, f32_256, trp__simt, float)
