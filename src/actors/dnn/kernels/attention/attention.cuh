/* Fused attention. All passes are written once, over an "engine", which says how a block multiplies
 * tiles in shared memory and which elements of the products a thread holds:
 *
 *   product(s, a, b, used)             s[OWN][WALK] += a[OWN][used] b[WALK][used]^T
 *   weigh(o, s, scratch, b, from, to)  o[OWN][DEPTH] += s[OWN][from..to] b[from..to][DEPTH]
 *
 * A thread holds s at rows row(i) and columns column(j), o at row(i) and depth(c). Lanes that
 * differ in the bits lane_mask(0) to lane_mask(LANE_BITS - 1) hold the rest of a row; a warp owns
 * OWN / 4 rows that follow each other. The forward pass and that to dq own rows and walk columns;
 * that to dk and dv owns columns and walks rows, with scores the other way round.
 *
 * A walked tile is copied while the product before the one that needs it is computed: two tiles, of
 * which one is read while the other is filled, between two barriers. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_ATTENTION_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_ATTENTION_CUH

#include "actors/dnn/kernels/attention/arithmetic.cuh"
#include "actors/dnn/kernels/attention/span.cuh"
#include "actors/dnn/kernels/attention/simt.cuh"
#include "actors/dnn/kernels/attention/tensor_cores.cuh"
#include "actors/dnn/kernels/attention/tiles.cuh"
#include "actors/dnn/kernels/attention/forward.cuh"
#include "actors/dnn/kernels/attention/backward.cuh"

/* The two engines of a variant. */
#define TRP__ATTENTION_ENGINES(name, engine, type)                                                 \
    typedef engine<type, 1, trp__attention_##name##_own, trp__attention_##name##_walk,             \
                   trp__attention_##name##_depth>                                                  \
        trp__##name##_forward;                                                                     \
    typedef engine<type, 2, trp__attention_##name##_own_back, trp__attention_##name##_walk_back,   \
                   trp__attention_##name##_depth>                                                  \
        trp__##name##_backward;
#define TRP__ATTENTION_SIMT(name, type) TRP__ATTENTION_ENGINES(name, trp__simt, type)
#define TRP__ATTENTION_TENSOR_CORES(name, type)                                                    \
    TRP__ATTENTION_ENGINES(name, trp__tensor_cores, type)

/* The kernels of an engine: one for the forward pass, one for the others. */
#define TRP__ATTENTION_KERNELS(name, real, forward, backward)                                      \
    TRP__ENTRY(name##_forward, trp__attention, (TRP__ATTENTION_THREADS),                           \
               trp__attention_forward<forward>)                                                    \
    TRP__ENTRY(name##_rows, trp__attention, (TRP__ATTENTION_THREADS),                              \
               trp__attention_rows<backward>)                                                      \
    TRP__ENTRY(name##_dq, trp__attention, (TRP__ATTENTION_THREADS),                                \
               trp__attention_to_dq<backward>)                                                     \
    TRP__ENTRY(name##_dkv, trp__attention, (TRP__ATTENTION_THREADS),                               \
               trp__attention_to_dkv<backward>)                                                    \
    TRP__ENTRY(name##_dbias, trp__attention, (TRP__ATTENTION_THREADS),                             \
               trp__attention_to_dbias<backward>)                                                  \
    TRP__ENTRY(name##_fold, trp__attention, (TRP__ATTENTION_THREADS), trp__attention_fold<real>)

#endif
