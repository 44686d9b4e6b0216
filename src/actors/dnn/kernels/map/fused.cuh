/* Element-wise programs (map.h) as kernels of their own: what map.cuh interprets, a compiler
 * unrolls here. A generated source (map_source.c) lists the instructions:
 *
 *     TRP__FUSED(float, TRP__MAP_WIDTH, 1)
 *     SLOT(0) SLOT(1)
 *     LOAD(0, 0, TRP_BF16, TRP__MAP_LINEAR)
 *     COMPUTE(TRP_DNN_RELU, 1, s0, s0, s0, 0)
 *     STORE(1, 1, TRP_BF16, TRP__MAP_LINEAR)
 *     END
 *
 * The same functions compute in both, without contraction, so both give the same bits. Sizes are no
 * part of a source, so that one image serves all. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_FUSED_CUH
#define TRP_ACTORS_DNN_KERNELS_MAP_FUSED_CUH

#include "actors/dnn/kernels/map/operands.cuh"

/* A number as an input: the same for all elements. */
template <typename T> struct trp__fused_number {
    T value;
    TRP__DEVICE T operator[](int) const
    {
        return value;
    }
};

template <typename T, int OP> TRP__DEVICE T trp__fused_apply(T x, T w, T t, const T p[3])
{
    const T p0 = p[0];
    (void)p0;
    switch (OP) {
#define TRP__FUSED_CASE(name, expression)                                                          \
    case name:                                                                                     \
        return expression;
        TRP__MAP_OPERATIONS(TRP__FUSED_CASE)
        TRP__MAP_LONG_OPERATIONS(TRP__FUSED_CASE)
#undef TRP__FUSED_CASE
    default: /* SELECT */
        return t != 0 ? x : w;
    }
}

template <typename T, int WIDTH, int OP, typename A, typename B, typename C>
TRP__DEVICE void trp__fused_compute(T *to, const A &a, const B &b, const C &c,
                                    const double *numbers)
{
    const T p[3] = {(T)numbers[0], (T)numbers[1], (T)numbers[2]};
    TRP__UNROLL
    for (int k = 0; k < WIDTH; k++)
        to[k] = trp__fused_apply<T, OP>(a[k], b[k], c[k], p);
}

#define TRP__FUSED(type, width, neighbours)                                                        \
    TRP__GLOBAL(TRP__MAP_THREADS) trp_map_fused(const TRP__CONSTANT trp__map m)                    \
    {                                                                                              \
        typedef type T;                                                                            \
        constexpr int W = width;                                                                   \
        constexpr bool VECTOR = neighbours;                                                        \
        const uint64_t first = (uint64_t)blockIdx.x * TRP__MAP_THREADS * W +                       \
                               (VECTOR ? threadIdx.x * W : threadIdx.x);                           \
        const int here = first >= m.count ? 0 : m.count - first < W ? (int)(m.count - first) : W;  \
        if (here == 0)                                                                             \
            return;
#define SLOT(number) T s##number[W];
#define VALUE(i)     const trp__fused_number<T> n##i = {(T)m.number[i]};
#define LOAD(to, i, type, layout)                                                                  \
    trp__map_load<T, W, VECTOR>(m, m.operand[i], type, layout, first, here, s##to);
#define STORE(from, i, type, layout)                                                               \
    trp__map_store<T, W, VECTOR>(m, m.operand[i], type, layout, first, here, s##from);
#define COMPUTE(op, to, a, b, c, i) trp__fused_compute<T, W, op>(s##to, a, b, c, m.number + i);
#define RANDOM(to, i, layout, seed, offset, parameter, mode)                                       \
    trp__map_random<T, W, VECTOR>(m, i, layout, seed, offset, parameter, mode, first, s##to);
#define ROUND(to, type)                                                                            \
    TRP__UNROLL                                                                                    \
    for (int k = 0; k < W; k++)                                                                    \
        s##to[k] = trp__rounded<T>(type, s##to[k]);
#define END }

#endif
