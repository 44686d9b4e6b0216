/* Attention computed in f64, of inputs of any type. */
#include "actors/dnn/kernels/attention.cuh"

#define TRP__ATTENTION_ROW(name, depth, own, walk, own_back, walk_back)                            \
    typedef trp__simt<double, 1, own, walk, depth> trp__##name##_forward;                           \
    typedef trp__simt<double, 2, own_back, walk_back, depth> trp__##name##_backward;
TRP__ATTENTION_TILES_F64(TRP__ATTENTION_ROW)
#undef TRP__ATTENTION_ROW

TRP__ATTENTION_KERNELS(trp_attention_f64_64, double, trp__f64_64_forward, trp__f64_64_backward)
TRP__ATTENTION_KERNELS(trp_attention_f64_128, double, trp__f64_128_forward, trp__f64_128_backward)
TRP__ATTENTION_KERNELS(trp_attention_f64_256, double, trp__f64_256_forward, trp__f64_256_backward)
