/* Attention computed in f32, of inputs of any type. */
#include "actors/dnn/kernels/attention.cuh"

#define TRP__ATTENTION_ROW(name, depth, own, walk, own_back, walk_back)                            \
    typedef trp__simt<float, 1, own, walk, depth> trp__##name##_forward;                           \
    typedef trp__simt<float, 2, own_back, walk_back, depth> trp__##name##_backward;
TRP__ATTENTION_TILES_F32(TRP__ATTENTION_ROW)
#undef TRP__ATTENTION_ROW

TRP__ATTENTION_KERNELS(trp_attention_f32_64, float, trp__f32_64_forward, trp__f32_64_backward)
TRP__ATTENTION_KERNELS(trp_attention_f32_128, float, trp__f32_128_forward, trp__f32_128_backward)
TRP__ATTENTION_KERNELS(trp_attention_f32_256, float, trp__f32_256_forward, trp__f32_256_backward)
