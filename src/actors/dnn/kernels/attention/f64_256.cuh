/* Attention computed in f64, of inputs of any type, up to a depth of 256. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_KERNELS(trp_attention_f64_256, f64_256, trp__simt, double)
