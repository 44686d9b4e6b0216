/* The table of ops.c for one instruction set. */
#ifndef TRP_ACTORS_DNN_HOST_ARRAYS_OPS_TABLE_H
#define TRP_ACTORS_DNN_HOST_ARRAYS_OPS_TABLE_H

#include "actors/dnn/host/arrays/ops.h"

enum { TRP__CHAIN_MODES = 64, TRP__CHAIN_REDUCTIONS = 16, TRP__CHAIN_PARTS = 16 };

/* A loop, or NULL if absent. `p`: the node's parameters. */
typedef void trp__chain_loop(const double *p, const trp__chain_arrays *a);

typedef struct trp__chain_table {
    trp__chain_loop *f32[TRP__CHAIN_MODES], *f64[TRP__CHAIN_MODES];
    trp__chain_loop *relu_gradient_f32;
    /* Reduces every 16th element of x from the first on to the first part, and so on. */
    void (*parts[TRP__CHAIN_REDUCTIONS])(const float *x, int64_t count,
                                         double out[TRP__CHAIN_PARTS]);
    void (*widen_i32[2])(const int32_t *from, void *to, int64_t count); /* f32, f64 */
    bool (*are_finite)(const float *x, int64_t count);
    void (*round_bf16)(float *x, int64_t count);
} trp__chain_table;

extern const trp__chain_table trp__chain_table_avx2; /* if the compiler supports AVX2 */

#endif
