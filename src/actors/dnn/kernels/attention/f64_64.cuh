/* Attention computed in f64, of inputs of any type, up to a depth of 64. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_SIMT(f64_64, double)
TRP__ATTENTION_KERNELS(trp_attention_f64_64, double, trp__f64_64_forward, trp__f64_64_backward)
