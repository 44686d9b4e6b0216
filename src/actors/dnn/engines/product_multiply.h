/* Computes products of lower/product.h by own kernels on tensor cores to f32's accuracy: f32
 * products for which cuBLASLt has only multiply-adds (kernels/multiply/multiply.h). */
#ifndef TRP_ACTORS_DNN_ENGINES_PRODUCT_MULTIPLY_H
#define TRP_ACTORS_DNN_ENGINES_PRODUCT_MULTIPLY_H

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/multiply/multiply.h"
#include "actors/dnn/lower/product.h"

#define TRP__DNN_MULTIPLY_NAME "multiply_tf32x3"

typedef struct trp__dnn_multiply {
    trp__multiply p; /* of the whole product, without addresses and tiles */
    int32_t processors;
    int32_t columns, batch; /* tiles of columns and products of a batch per launch */
    uint64_t part_bytes;    /* part of the workspace for shared tiles */
    /* Kernels of the modules of the last launch. */
    trp__kernel_modules *modules;
    trp__cu_function split, multiply, finish;
} trp__dnn_multiply;

/* Tells whether a product is large enough and has types and an epilogue that the kernels
 * support. */
bool trp__dnn_multiply_takes(const trp__matmul *problem);

/* Creates a plan for such a product; stores the required bytes in `workspace`. Returns false if the
 * modules' device is unsuitable, the workspace is too small, or no image of the kernels exists; it
 * compiles none. */
bool trp__dnn_multiply_plan(trp__kernel_modules *modules, const trp__dnn_product *product,
                            trp__dnn_multiply *out, uint64_t *workspace);

/* Enqueues one product of matrices at these addresses. */
trp_status trp__dnn_multiply_launch(trp__dnn_multiply *plan, const trp__kernel_launch *launch,
                                    void *const at[TRP__MATMUL_OPERANDS], trp_error *error);

#endif
