/* Computes products of lower/product.h by cuBLASLt, with the plans of the matmul actor, or by own
 * kernels. */
#ifndef TRP_ACTORS_DNN_ENGINES_PRODUCT_CUBLASLT_H
#define TRP_ACTORS_DNN_ENGINES_PRODUCT_CUBLASLT_H

#include "actors/dnn/engines/engines.h"
#include "actors/dnn/engines/product_multiply.h"
#include "actors/dnn/lower/product.h"
#include "matrix/plan.h"

/* The library of an actor, opened when the first product is planned. Zero-initialised. */
typedef struct trp__dnn_products {
    trp__matmul_planner planner; /* only library and handle are set */
} trp__dnn_products;

/* Closes the library when no plan is left. */
void trp__dnn_products_close(trp__dnn_products *products);

/* Creates up to `room` engines for a product that satisfy the graph's head, the best by the
 * library's heuristic first. Returns TRP_E_MISSING if cuBLASLt is missing or unusable,
 * TRP_E_UNSUPPORTED if it has no algorithm, or its other errors. */
trp_status trp__dnn_product_engines(const trp__dnn_planner *planner, const trp__dnn_head *head,
                                    const trp__dnn_product *product, uint32_t room,
                                    trp__dnn_engine out[], uint32_t *count, trp_error *error);

/* Creates the engine of the kernel in product_multiply.h; returns the number of engines, 0 or 1. */
uint32_t trp__dnn_product_own_engine(const trp__dnn_planner *planner,
                                     const trp__dnn_product *product, trp__dnn_engine *out);

/* Tells whether an engine is that of the own kernel, and whether one may exist for the same
 * product. */
bool trp__dnn_product_is_own(const trp__dnn_engine *engine);
bool trp__dnn_product_has_own(const trp__dnn_engine *engine);

void trp__dnn_product_drop(trp__dnn_engine *engine);

/* Bytes from which the same engine is recreated with the same version of the library, like the text
 * of trp__dnn_engine_write(). */
enum { TRP__DNN_PRODUCT_BYTES = 72 };
void trp__dnn_product_write(const trp__dnn_engine *engine,
                            unsigned char out[TRP__DNN_PRODUCT_BYTES]);
trp_status trp__dnn_product_read(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                 const void *bytes, size_t size, trp__dnn_engine *out,
                                 trp_error *error);

/* Enqueues a product. Its modules belong to the launching thread. */
trp_status trp__dnn_product_launch(const trp__dnn_engine *engine, const trp__kernel_launch *launch,
                                   trp_error *error);

#endif
