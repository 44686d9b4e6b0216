/* Measures a product on both sides: direct calls of cuBLASLt and an actor. */
#ifndef TRP_BENCH_SUITE_PRODUCT_H
#define TRP_BENCH_SUITE_PRODUCT_H

#include "suite.h"

/* The size of a product: m features that a transformer layer writes per token, n tokens, sums over
 * k. In cuBLAS's column-major terms D = A^T B with the weights as A. */
typedef struct shape {
    int64_t m, n, k;
} shape;

typedef struct product {
    suite *suite;
    trp_actor *actor;
    raw_product what;
    bool raw, epilogue;
    bool cutlass; /* `actor` is the cutlass actor */
    trp_cutlass_chosen chosen;
    trp_tune tune;
    trp_compute compute;
    uint64_t workspace; /* largest workspace in bytes; 0: the actor's default */
    uint32_t next;      /* index of the copy to use next */
    bool fused;         /* gelu(sums + bias) * factors + aux */
    trp_buffer a, b, d, bias, aux, factors;
    trp_epilogue_node node[8];
    void *piece;
} product;

product product_of(suite *s, trp_actor *actor, trp_dtype type, shape x);

/* Prepares the operands of both sides. Call product_end() also after a failed product_begin(). */
bool product_begin(product *p);
void product_end(product *p);

/* Returns the request for one of the copies, for the matmul actor and for the cutlass actor, whose
 * matrices have orders instead of transposes. */
trp_matmul_request product_request(const product *p, uint32_t copy);
trp_cutlass_gemm_request product_kernel_request(product *p, const trp_matmul_request *m);

/* Send `count` products and wait: the sides of stats_compare(). */
bool product_run_raw(void *context, uint64_t count);
bool product_run_troupe(void *context, uint64_t count);

/* Runs the first product alone, which creates the plan, with a search if requested. */
bool product_run_first(product *p);

report_row product_row(const suite *s, const product *p);

/* Prepares, measures and releases a product. Returns false after it has reported the failure. */
bool product_measure(product *p, report_row *row);

/* The geometric mean of the ratios of Troupe's speed to the raw side's. */
typedef struct mean {
    double logarithms, least;
    int count;
} mean;

void mean_add(mean *sum, const report_row *row);
void mean_show(suite *s, const mean *sum, double limit);

#endif
