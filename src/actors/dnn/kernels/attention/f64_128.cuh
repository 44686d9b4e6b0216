/* Attention computed in f64, of inputs of any type, up to a depth of 128. */
#include "actors/dnn/kernels/attention/attention.cuh"

TRP__ATTENTION_SIMT(f64_128, double)
TRP__ATTENTION_KERNELS(trp_attention_f64_128, double, trp__f64_128_forward, trp__f64_128_backward)
