/* Products of lower/product.h by cuBLASLt, with the plans of the matmul actor, or by kernels of
 * ours. */
#ifndef TRP_ACTORS_DNN_ENGINES_PRODUCT_CUBLASLT_H
#define TRP_ACTORS_DNN_ENGINES_PRODUCT_CUBLASLT_H

#include "actors/dnn/engines/engines.h"
#include "actors/dnn/engines/product_multiply.h"
#include "actors/dnn/lower/product.h"
#include "matrix/plan.h"

/* The library as one actor has it, opened when a product is planned first. Zero-initialised. */
typedef struct trp__dnn_products {
    trp__matmul_planner planner; /* of which only library and handle are there */
} trp__dnn_products;

/* When no plan is left. */
void trp__dnn_products_close(trp__dnn_products *products);

/* Makes up to `room` engines for a product, the best by the library's heuristic first, that keep to
 * what the graph's head demands. TRP_E_MISSING: there is no cuBLASLt, or it can't be used;
 * TRP_E_UNSUPPORTED: it has no algorithm; its other errors. */
trp_status trp__dnn_product_engines(const trp__dnn_planner *planner, const trp__dnn_head *head,
                                    const trp__dnn_product *product, uint32_t room,
                                    trp__dnn_engine out[], uint32_t *count, trp_error *error);

/* The one of the kernel of product_multiply.h; returns how many there are, 0 or 1. */
uint32_t trp__dnn_product_own_engine(const trp__dnn_planner *planner,
                                     const trp__dnn_product *product, trp__dnn_engine *out);

/* Whether an engine for a product is that one; whether there may be one for the same. */
bool trp__dnn_product_is_own(const trp__dnn_engine *engine);
bool trp__dnn_product_has_own(const trp__dnn_engine *engine);

void trp__dnn_product_drop(trp__dnn_engine *engine);

/* What the same engine is made from again, with the same version of the library, like that of
 * trp__dnn_engine_write(). */
enum { TRP__DNN_PRODUCT_BYTES = 72 };
void trp__dnn_product_write(const trp__dnn_engine *engine,
                            unsigned char out[TRP__DNN_PRODUCT_BYTES]);
trp_status trp__dnn_product_read(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                 const void *bytes, size_t size, trp__dnn_engine *out,
                                 trp_error *error);

/* Enqueues it. Its modules are those of the thread that launches. */
trp_status trp__dnn_product_launch(const trp__dnn_engine *engine, const trp__kernel_launch *launch,
                                   trp_error *error);

#endif
