/* Products of lower/product.h that kernels of ours do on tensor cores, to f32's accuracy: those of
 * f32 for which cuBLASLt has multiply-adds alone (kernels/multiply/multiply.h). */
#ifndef TRP_ACTORS_DNN_ENGINES_PRODUCT_MULTIPLY_H
#define TRP_ACTORS_DNN_ENGINES_PRODUCT_MULTIPLY_H

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/multiply/multiply.h"
#include "actors/dnn/lower/product.h"

#define TRP__DNN_MULTIPLY_NAME "multiply_tf32x3"

typedef struct trp__dnn_multiply {
    trp__multiply p; /* of the whole product, without addresses and tiles */
    int32_t processors;
    int32_t columns, batch; /* tiles of columns, and products of a batch, that are done at a time */
    uint64_t part_bytes;    /* of the workspace, for parts of shared tiles */
    /* Of the modules that it was launched with last. */
    trp__kernel_modules *modules;
    trp__cu_function split, multiply, finish;
} trp__dnn_multiply;

/* Whether it is large enough, and of types and epilogues that the kernels have. */
bool trp__dnn_multiply_takes(const trp__matmul *problem);

/* Makes a plan for a product that it takes. `workspace` gets the bytes that it needs. False: the
 * modules' device is none for it, the workspace is too small, or no image of the kernels is there,
 * of which none is compiled here. */
bool trp__dnn_multiply_plan(trp__kernel_modules *modules, const trp__dnn_product *product,
                            trp__dnn_multiply *out, uint64_t *workspace);

/* Enqueues one product of matrices that are in these places. */
trp_status trp__dnn_multiply_launch(trp__dnn_multiply *plan, const trp__kernel_launch *launch,
                                    void *const at[TRP__MATMUL_OPERANDS], trp_error *error);

#endif
