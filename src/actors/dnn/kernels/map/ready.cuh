/* The kernels of ready.h that load operands; ready_draws.cuh has those that draw. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_READY_CUH
#define TRP_ACTORS_DNN_KERNELS_MAP_READY_CUH

#include "actors/dnn/kernels/map/fused.cuh"
#include "actors/dnn/kernels/common/packs.cuh"
#include "actors/dnn/kernels/map/ready.h"

/* A thread's slots, and its elements of operands, unconverted. */
template <int TYPE> struct trp__ready {
    enum { W = TRP__MAP_WIDTH };
    const trp__map &m;
    uint32_t first;
    int here; /* elements of this thread, at most W */
    trp__pack<TYPE, W> raw[TRP__READY_OPERANDS];
    float slot[TRP__READY_SLOTS][W];

    /* Loads whole runs of operands, all in flight together. */
    TRP__DEVICE void begin(unsigned reads)
    {
        TRP__EACH(i, TRP__READY_OPERANDS) {
            if (reads >> i & 1 && here == W)
                raw[i].load(m.operand[i].at, first, TYPE);
        }
    }
    TRP__DEVICE void load(int to, int i)
    {
        if (here == W) {
            TRP__EACH(k, W)
                slot[to][k] = raw[i].get(k);
        } else {
            TRP__EACH(k, W)
                slot[to][k] =
                    k < here ? trp__load_float<float>(m.operand[i].at, first + k, TYPE) : 0.0F;
        }
    }
    template <int OP> TRP__DEVICE void compute(int to, int a, int b, int c, int parameter)
    {
        trp__fused_compute<float, W, OP>(slot[to], slot[a], slot[b], slot[c],
                                         m.number + parameter);
    }
    TRP__DEVICE void store(int from, int i)
    {
        if (here == W) {
            trp__pack<TYPE, W> y;
            y.set(slot[from]);
            y.store(m.operand[i].at, first, TYPE);
        } else {
            TRP__EACH(k, W) {
                if (k < here)
                    trp__store_float<float>(m.operand[i].at, first + k, TYPE, slot[from][k]);
            }
        }
    }
};

#define TRP__READY_NONE(...)
#define TRP__READY_READS(to, i) | 1u << (i)
#define TRP__READY_LOAD(to, i)  r.load(to, i);
#define TRP__READY_COMPUTE(op, to, a, b, c, parameter)                                             \
    r.template compute<(op)>(to, a, b, c, parameter);
#define TRP__READY_STORE(from, i) r.store(from, i);

#define TRP__READY_KERNEL(name, program, with)                                                     \
    template <int TYPE> TRP__DEVICE void trp__##name(const trp__map &m)                      \
    {                                                                                              \
        const uint32_t first = (blockIdx.x * TRP__MAP_THREADS + threadIdx.x) * TRP__MAP_WIDTH;     \
        if (first >= m.count)                                                                      \
            return;                                                                                \
        const uint32_t left = m.count - first;                                                     \
        trp__ready<TYPE> r = {m, first, left < TRP__MAP_WIDTH ? (int)left : TRP__MAP_WIDTH};       \
        r.begin(0u program(with, TRP__READY_READS, TRP__READY_NONE, TRP__READY_NONE,               \
                           TRP__READY_NONE));                                                      \
        program(with, TRP__READY_LOAD, TRP__READY_COMPUTE, TRP__READY_NONE, TRP__READY_STORE)      \
    }                                                                                              \
    TRP__ENTRY(trp_##name##_f32, trp__map, (TRP__MAP_THREADS), trp__##name<TRP_F32>)               \
    TRP__ENTRY(trp_##name##_bf16, trp__map, (TRP__MAP_THREADS), trp__##name<TRP_BF16>)             \
    TRP__ENTRY(trp_##name##_f16, trp__map, (TRP__MAP_THREADS), trp__##name<TRP_F16>)

/* All kernels of a list. The fake NVRTC of the tests reads `prefix`, with which names begin. */
#define TRP__READY_KERNELS(prefix, programs) programs(TRP__READY_KERNEL)

#endif
