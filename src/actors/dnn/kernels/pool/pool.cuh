#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_CUH

#include "actors/dnn/kernels/pool/pool_planes.cuh"
#include "actors/dnn/kernels/pool/pool_typed.cuh"

/* The kernels of one type, with V channels a thread. */
#define TRP__POOL_KERNELS(name, TYPE, V)                                                           \
    TRP__ENTRY(name##_forward, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_typed<TYPE, V>)   \
    TRP__ENTRY(name##_back, trp__pool, (TRP__POOL_THREADS), trp__pool_backward_typed<TYPE, V>)
#define TRP__POOL_STRIP_KERNELS(name, TYPE)                                                        \
    TRP__ENTRY(name##_back, trp__pool, (TRP__POOL_THREADS), trp__pool_backward_strip<TYPE>)

#define TRP__POOL_PLANES(name, ...)                                                                \
    TRP__ENTRY(name, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_planes<__VA_ARGS__>)
/* The kernels of maxima and means of one window, with EACH columns a thread. */
#define TRP__POOL_WINDOW(name, TYPE, EACH, WIDTH, STRIDE)                                          \
    TRP__POOL_PLANES(name##_max_##WIDTH##_##STRIDE, TYPE, WIDTH, STRIDE, true, EACH)               \
    TRP__POOL_PLANES(name##_mean_##WIDTH##_##STRIDE, TYPE, WIDTH, STRIDE, false, EACH)
#define TRP__POOL_WINDOW_KERNELS(name, TYPE, EACH)                                                 \
    TRP__POOL_WINDOW(name, TYPE, EACH, 2, 2)                                                       \
    TRP__POOL_WINDOW(name, TYPE, EACH, 3, 1)                                                       \
    TRP__POOL_WINDOW(name, TYPE, EACH, 3, 2)                                                       \
    TRP__POOL_WINDOW(name, TYPE, EACH, 5, 1)                                                       \
    TRP__POOL_WINDOW(name, TYPE, EACH, 7, 1)                                                       \
    TRP__POOL_WINDOW(name, TYPE, EACH, 9, 1)                                                       \
    TRP__POOL_WINDOW(name, TYPE, EACH, 13, 1)
#define TRP__POOL_PLACES_KERNELS(name, TYPE)                                                       \
    TRP__POOL_PLANES(name##_2_2, TYPE, 2, 2, true, 0)                                              \
    TRP__POOL_PLANES(name##_3_1, TYPE, 3, 1, true, 0)                                              \
    TRP__POOL_PLANES(name##_3_2, TYPE, 3, 2, true, 0)                                              \
    TRP__POOL_PLANES(name##_5_1, TYPE, 5, 1, true, 0)                                              \
    TRP__POOL_PLANES(name##_7_1, TYPE, 7, 1, true, 0)                                              \
    TRP__POOL_PLANES(name##_9_1, TYPE, 9, 1, true, 0)

#define TRP__POOL_WHOLE_KERNELS(name, TYPE)                                                        \
    TRP__ENTRY(name##_max, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_whole<TYPE, true>)    \
    TRP__ENTRY(name##_mean, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_whole<TYPE, false>)

TRP__POOL_KERNELS(trp_pool_typed_f32_1, TRP_F32, 1)
TRP__POOL_KERNELS(trp_pool_typed_bf16_1, TRP_BF16, 1)
TRP__POOL_KERNELS(trp_pool_typed_f16_1, TRP_F16, 1)
TRP__POOL_KERNELS(trp_pool_typed_f32_4, TRP_F32, 4)
TRP__POOL_KERNELS(trp_pool_typed_bf16_8, TRP_BF16, 8)
TRP__POOL_KERNELS(trp_pool_typed_f16_8, TRP_F16, 8)
TRP__POOL_WINDOW_KERNELS(trp_pool_planes_f32, TRP_F32, 1)
TRP__POOL_WINDOW_KERNELS(trp_pool_planes_bf16, TRP_BF16, 1)
TRP__POOL_WINDOW_KERNELS(trp_pool_planes_f16, TRP_F16, 1)
TRP__POOL_WINDOW_KERNELS(trp_pool_words_bf16, TRP_BF16, 2)
TRP__POOL_WINDOW_KERNELS(trp_pool_words_f16, TRP_F16, 2)
TRP__POOL_PLACES_KERNELS(trp_pool_places_f32, TRP_F32)
TRP__POOL_PLACES_KERNELS(trp_pool_places_bf16, TRP_BF16)
TRP__POOL_PLACES_KERNELS(trp_pool_places_f16, TRP_F16)
TRP__POOL_WHOLE_KERNELS(trp_pool_whole_f32, TRP_F32)
TRP__POOL_WHOLE_KERNELS(trp_pool_whole_bf16, TRP_BF16)
TRP__POOL_WHOLE_KERNELS(trp_pool_whole_f16, TRP_F16)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_f32, TRP_F32)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_bf16, TRP_BF16)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_f16, TRP_F16)

TRP__ENTRY(trp_pool_f32_1, trp__pool, (TRP__POOL_THREADS), trp__pool_forward<float, 1>)
TRP__ENTRY(trp_pool_warp_f32_1, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_warp<float, 1>)
TRP__ENTRY(trp_pool_warp_f32_4, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_warp<float, 4>)
TRP__ENTRY(trp_pool_warp_f32_8, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_warp<float, 8>)
TRP__ENTRY(trp_pool_back_f32_1, trp__pool, (TRP__POOL_THREADS), trp__pool_backward<float, 1>)
TRP__ENTRY(trp_pool_f64_1, trp__pool, (TRP__POOL_THREADS), trp__pool_forward<double, 1>)
TRP__ENTRY(trp_pool_warp_f64_1, trp__pool, (TRP__POOL_THREADS), trp__pool_forward_warp<double, 1>)
TRP__ENTRY(trp_pool_back_f64_1, trp__pool, (TRP__POOL_THREADS), trp__pool_backward<double, 1>)

#endif
