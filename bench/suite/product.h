/* A product on both sides: cuBLASLt called directly, and an actor of Troupe's. */
#ifndef TRP_BENCH_SUITE_PRODUCT_H
#define TRP_BENCH_SUITE_PRODUCT_H

#include "suite.h"

/* m is what a transformer's layer writes for each token, n the tokens: in cuBLAS's column-major
 * terms D = A^T B, with the weights as A. */
typedef struct shape {
    int64_t m, n, k;
} shape;

typedef struct product {
    suite *suite;
    trp_actor *actor;
    raw_product what;
    bool raw, epilogue;
    bool cutlass; /* it is the cutlass actor */
    trp_cutlass_chosen chosen;
    trp_tune tune;
    trp_compute compute;
    uint64_t workspace; /* bytes that an algorithm may have; 0: the actor's default */
    uint32_t next;      /* copy */
    bool fused;         /* gelu(sums + bias) * factors + aux */
    trp_buffer a, b, d, bias, aux, factors;
    trp_epilogue_node node[8];
    void *piece;
} product;

product product_of(suite *s, trp_actor *actor, trp_dtype type, shape x);

uint64_t product_bytes(trp_dtype type, int64_t rows, int64_t columns);

/* A buffer of so many bytes: of the piece again and again, or of NaNs. */
bool product_buffer(product *p, uint64_t bytes, bool filled, trp_buffer *out);

/* The operands of both sides. end(): also after begin() has failed. */
bool product_begin(product *p);
void product_end(product *p);

/* The request for one of the copies; and the same for the cutlass actor, whose matrices have orders
 * and are not transposed. */
trp_matmul_request product_request(const product *p, uint32_t copy);
trp_cutlass_gemm_request product_kernel_request(product *p, const trp_matmul_request *m);

/* The sides: send so many products, and wait. */
bool product_run_raw(void *context, uint64_t count);
bool product_run_troupe(void *context, uint64_t count);

/* The first, alone: makes the plan, with its search if one was asked for. */
bool product_run_first(product *p);

report_row product_row(const suite *s, const char *section, const product *p);

/* All of it. False: it was not measured, which is told. */
bool product_measure(product *p, report_row *row);

/* The geometric mean of Troupe's speed to the raw side's. */
typedef struct mean {
    double logarithms, least;
    int count;
} mean;

void mean_add(mean *sum, const report_row *row);
void mean_show(suite *s, const char *section, const mean *sum, double limit);

#endif
