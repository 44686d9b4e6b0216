/* Attention computed in f64, of inputs of any type, up to a depth of 128. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_KERNELS(trp_attention_f64_128, f64_128, trp__simt, double)
