/* Launches of the reference kernel of products. */
#ifndef TRP_MATRIX_REFERENCE_LAUNCH_H
#define TRP_MATRIX_REFERENCE_LAUNCH_H

#include "driver/cuda.h"
#include "matrix/reference/problem.h"

#include <stdbool.h>

/* The name of the kernel, and the embedded source file of its module. */
#define TRP__PRODUCT_KERNEL "trp_product_reference"
#define TRP__PRODUCT_FILE   "matrix/reference/module.cuh"

/* Returns whether the kernel supports a problem. It lacks factors for blocks of 16 or 32 elements,
 * of A and B as of D. */
bool trp__product_takes(const trp__matmul *problem);

/* Returns the number of elements of the output `what`. */
int64_t trp__product_elements(const trp__matmul *g, uint32_t what);

/* Enqueues one launch, whose count is not 0. */
trp_status trp__product_launch_one(const trp__cuda *cu, trp__cu_function function,
                                   const trp__product_launch *launch, trp__cu_stream stream,
                                   trp_error *error);

/* Enqueues the launches for all outputs of a product. */
trp_status trp__product_launch_all(const trp__cuda *cu, trp__cu_function function,
                                   const trp__matmul *problem, void *const at[],
                                   trp__cu_stream stream, trp_error *error);

#endif
