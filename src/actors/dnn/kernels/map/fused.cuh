/* Element-wise programs (map.h) as kernels of their own: a compiler unrolls the instructions that
 * map.cuh interprets. A generated source (map.c) lists them:
 *
 *     TRP__FUSED(float, TRP__MAP_WIDTH, 1, 1, 2)
 *     SLOT(0) SLOT(1)
 *     READ(0, TRP_BF16, TRP__MAP_LINEAR)
 *     LOAD(0, 0)
 *     COMPUTE(TRP_DNN_RELU, 1, s0, s0, s0, 0)
 *     STORE(1, 1, TRP_BF16, TRP__MAP_LINEAR)
 *     END
 *
 * The same functions compute in both, without contraction, so both give the same bits. The
 * number of dimensions is part of a source, sizes are not, so that one image serves all. */
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

/* A number as an input of each pack of a thread. */
template <typename T> struct trp__fused_numbers {
    T value;
    TRP__DEVICE trp__fused_number<T> operator[](int) const
    {
        return {value};
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
    TRP__EACH(k, WIDTH)
        to[k] = trp__fused_apply<T, OP>(a[k], b[k], c[k], p);
}

/* Begins a program. With `neighbours` a thread runs it on packs of W neighbouring elements: on DEEP
 * packs at a time where the block has so many, with no branch between their loads, so that all are
 * in flight together. The packs of a thread are as many packs apart as a block has threads. The
 * last block runs the elements that do not fill a pack, one by one. */
#define TRP__FUSED(type, width, neighbours, rank, deep)                                            \
    typedef type T;                                                                                \
    enum { trp__fused_width = width, trp__fused_vector = neighbours, trp__fused_deep = deep };     \
    enum { trp__fused_rank = rank };                                                               \
    template <int W, int DEEP, bool VECTOR>                                                        \
    TRP__DEVICE void trp__fused_run(const trp__map &m, uint64_t first)                             \
    {
#define TRP__FUSED_DEEP(action)                                                                    \
    TRP__UNROLL                                                                                    \
    for (int d = 0; d < DEEP; d++) {                                                               \
        const uint64_t from = first + (uint64_t)(d * TRP__MAP_THREADS * W);                        \
        (void)from;                                                                                \
        action;                                                                                    \
    }
#define SLOT(number) T s##number[DEEP][W];
#define VALUE(i)     const trp__fused_numbers<T> n##i = {(T)m.number[i]};
#define READ(i, type, layout)                                                                      \
    T r##i[DEEP][W];                                                                               \
    TRP__FUSED_DEEP((trp__map_load<T, W, VECTOR>(m, m.operand[i], type, layout, trp__fused_rank,   \
                                                 from, W, r##i[d])))
#define LOAD(to, i)                                                                                \
    TRP__FUSED_DEEP(TRP__UNROLL for (int k = 0; k < W; k++) s##to[d][k] = r##i[d][k])
#define STORE(from_slot, i, type, layout)                                                          \
    TRP__FUSED_DEEP((trp__map_store<T, W, VECTOR>(m, m.operand[i], type, layout, trp__fused_rank,  \
                                                  from, W, s##from_slot[d])))
#define COMPUTE(op, to, a, b, c, i)                                                                \
    TRP__FUSED_DEEP((trp__fused_compute<T, W, op>(s##to[d], a[d], b[d], c[d], m.number + i)))
#define RANDOM(to, i, layout, seed, offset, parameter, mode)                                       \
    TRP__FUSED_DEEP((trp__map_random<T, W, VECTOR>(m, i, layout, seed, offset, parameter, mode,    \
                                                   trp__fused_rank, from, s##to[d])))
#define ROUND(to, type)                                                                            \
    TRP__FUSED_DEEP(TRP__UNROLL for (int k = 0; k < W; k++) s##to[d][k] =                          \
                        trp__rounded<T>(type, s##to[d][k]))
#define END                                                                                        \
    }                                                                                              \
    TRP__GLOBAL(TRP__MAP_THREADS) trp_map_fused(const TRP__CONSTANT trp__map m)                    \
    {                                                                                              \
        constexpr int W = trp__fused_width, DEEP = trp__fused_deep;                                \
        if (!trp__fused_vector) {                                                                  \
            trp__fused_run<W, 1, false>(m, (uint64_t)blockIdx.x * TRP__MAP_THREADS * W +           \
                                               threadIdx.x);                                       \
            return;                                                                                \
        }                                                                                          \
        const uint32_t packs = m.count / W;                                                        \
        uint32_t pack = blockIdx.x * (TRP__MAP_THREADS * DEEP) + threadIdx.x;                      \
        if (DEEP > 1 && pack + (DEEP - 1) * TRP__MAP_THREADS < packs) {                            \
            trp__fused_run<W, DEEP, true>(m, (uint64_t)pack * W);                                  \
        } else {                                                                                   \
            TRP__ROLLED                                                                            \
            for (int d = 0; d < DEEP && pack < packs; d++, pack += TRP__MAP_THREADS)               \
                trp__fused_run<W, 1, true>(m, (uint64_t)pack * W);                                 \
        }                                                                                          \
        if (blockIdx.x == gridDim.x - 1 && threadIdx.x < m.count % W)                              \
            trp__fused_run<1, 1, false>(m, (uint64_t)packs * W + threadIdx.x);                     \
    }

#endif
