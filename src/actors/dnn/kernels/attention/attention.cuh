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

#define TRP__ATTENTION_ENTRY(kernel, ...)                                                          \
    TRP__ENTRY(kernel, trp__attention, (TRP__ATTENTION_THREADS), __VA_ARGS__)
/* The kernels of a variant: an engine for the forward pass, and one for the others. */
#define TRP__ATTENTION_KERNELS(kernel, name, engine, type)                                         \
    typedef engine<type, 1, trp__attention_##name##_own, trp__attention_##name##_walk,             \
                   trp__attention_##name##_depth>                                                  \
        trp__##name##_forward;                                                                     \
    typedef engine<type, 2, trp__attention_##name##_own_back, trp__attention_##name##_walk_back,   \
                   trp__attention_##name##_depth>                                                  \
        trp__##name##_backward;                                                                    \
    TRP__ATTENTION_ENTRY(kernel##_forward, trp__attention_forward<trp__##name##_forward>)          \
    TRP__ATTENTION_ENTRY(kernel##_rows, trp__attention_rows<trp__##name##_backward>)               \
    TRP__ATTENTION_ENTRY(kernel##_dq, trp__attention_to_dq<trp__##name##_backward>)                \
    TRP__ATTENTION_ENTRY(kernel##_dkv, trp__attention_to_dkv<trp__##name##_backward>)              \
    TRP__ATTENTION_ENTRY(kernel##_dbias, trp__attention_to_dbias<trp__##name##_backward>)          \
    TRP__ATTENTION_ENTRY(kernel##_fold, trp__attention_fold<trp__##name##_forward::T>)

#endif
