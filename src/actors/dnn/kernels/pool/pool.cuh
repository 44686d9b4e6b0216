#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_CUH

#include "actors/dnn/kernels/pool/pool_planes.cuh"
#include "actors/dnn/kernels/pool/pool_typed.cuh"

/* All of a type and so many channels of a thread. */
#define TRP__POOL_KERNELS(name, TYPE, V)                                                           \
    TRP__GLOBAL(TRP__POOL_THREADS) name##_forward(const TRP__CONSTANT trp__pool p)                 \
    {                                                                                              \
        trp__pool_forward_typed<TYPE, V>(p);                                                       \
    }                                                                                              \
    TRP__GLOBAL(TRP__POOL_THREADS) name##_back(const TRP__CONSTANT trp__pool p)                    \
    {                                                                                              \
        trp__pool_backward_typed<TYPE, V>(p);                                                      \
    }
#define TRP__POOL_STRIP_KERNELS(name, TYPE)                                                        \
    TRP__GLOBAL(TRP__POOL_THREADS) name##_back(const TRP__CONSTANT trp__pool p)                    \
    {                                                                                              \
        trp__pool_backward_strip<TYPE>(p);                                                         \
    }

#define TRP__POOL_PLANES(name, ...)                                                                \
    TRP__GLOBAL(TRP__POOL_THREADS) name(const TRP__CONSTANT trp__pool p)                           \
    {                                                                                              \
        trp__pool_forward_planes<__VA_ARGS__>(p);                                                  \
    }
#define TRP__POOL_PLANES_KERNELS(name, TYPE)                                                       \
    TRP__POOL_PLANES(name##_max_3_1, TYPE, 3, 1, true)                                             \
    TRP__POOL_PLANES(name##_max_3_2, TYPE, 3, 2, true)                                             \
    TRP__POOL_PLANES(name##_max_2_2, TYPE, 2, 2, true)                                             \
    TRP__POOL_PLANES(name##_mean_3_1, TYPE, 3, 1, false)                                           \
    TRP__POOL_PLANES(name##_mean_3_2, TYPE, 3, 2, false)                                           \
    TRP__POOL_PLANES(name##_mean_2_2, TYPE, 2, 2, false)

TRP__POOL_KERNELS(trp_pool_typed_f32_1, TRP_F32, 1)
TRP__POOL_KERNELS(trp_pool_typed_bf16_1, TRP_BF16, 1)
TRP__POOL_KERNELS(trp_pool_typed_f16_1, TRP_F16, 1)
TRP__POOL_KERNELS(trp_pool_typed_f32_4, TRP_F32, 4)
TRP__POOL_KERNELS(trp_pool_typed_bf16_8, TRP_BF16, 8)
TRP__POOL_KERNELS(trp_pool_typed_f16_8, TRP_F16, 8)
TRP__POOL_PLANES_KERNELS(trp_pool_planes_f32, TRP_F32)
TRP__POOL_PLANES_KERNELS(trp_pool_planes_bf16, TRP_BF16)
TRP__POOL_PLANES_KERNELS(trp_pool_planes_f16, TRP_F16)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_f32, TRP_F32)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_bf16, TRP_BF16)
TRP__POOL_STRIP_KERNELS(trp_pool_strip_f16, TRP_F16)

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_f32_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward<float, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f32_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<float, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f32_4(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<float, 4>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f32_8(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<float, 8>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_back_f32_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_backward<float, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_f64_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward<double, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_warp_f64_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_forward_warp<double, 1>(p);
}

TRP__GLOBAL(TRP__POOL_THREADS) trp_pool_back_f64_1(const TRP__CONSTANT trp__pool p)
{
    trp__pool_backward<double, 1>(p);
}

#endif
