/* One product on the fake cuBLASLt, described and multiplied as the test wants, and compared with a
 * plain loop. Inputs are small numbers of which every format here has the exact value, as have all
 * their sums: so results are compared bit by bit, but for gelu. */
#ifndef TESTS_UNIT_FAKES_FAKE_CUBLASLT_PRODUCT_H
#define TESTS_UNIT_FAKES_FAKE_CUBLASLT_PRODUCT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "driver/cuda.h"
#include "libs/cublaslt/cublaslt.h"
#include "support/reference/reference.h"

#include <complex.h>

#define T(name)  TRP__CUBLASLT_##name
#define OK(call) assert_int_equal(call, 0)

/* What an epilogue consists of. */
enum { RELU = 2, BIAS = 4, DRELU = 8, BGRAD = 16, GELU = 32, DGELU = 64, AUX = 128 };
enum { BGRADA = 256, BGRADB = 512 };

typedef double _Complex number;

/* What all products use, after lt_open(). */
extern const trp__cuda *lt_cu;
extern const trp__cublaslt *lt_api;
extern trp__cublaslt_handle lt_handle;
extern trp__cu_stream lt_stream;
extern ref_rng lt_rng;

/* Opens the driver, the library, a context, a stream and a handle. */
void lt_open(void);

/* An array on the device and what was last put there. */
typedef struct vector {
    int type;
    size_t length;
    void *host;
    trp__cu_address at;
} vector;

/* One product: what is described, and its operands. What is not set is the usual. */
typedef struct product {
    int compute, scale, types[4]; /* of A, B, C, D */
    int trans_a, trans_b, order, batch;
    int64_t m, n, k;
    uint32_t epilogue;
    number alpha, beta;
    int a_mode, b_mode, aux_type, pointer_mode;
    bool tensor_scales, d_scale;
    /* filled in by lt_set_up() */
    trp__cublaslt_desc desc;
    trp__cublaslt_layout layout[4];
    int64_t rows[4], columns[4], ld[4], stride[4];
    vector x[4], bias, aux, a_factors, b_factors, d_factor, amax, aux_amax, scalars;
    int64_t aux_ld;
    unsigned char *c_before, *d_before, *aux_before;
} product;

/* f32, 32 x 20 x 48, alpha 2, beta -1. */
product lt_usual(void);
/* The same with A of e4m3, B of e5m2, C of bf16 and this type of D. */
product lt_usual_f8(int d);

/* Makes operands and descriptors of what is described, and gives them back. */
void lt_set_up(product *p);
void lt_take_down(product *p);

#define SET(p, name, type, value)                                                                  \
    OK(lt_api->cublasLtMatmulDescSetAttribute((p)->desc, T(MATMUL_DESC_##name), &(type){value},    \
                                              sizeof(type)))

/* The heuristic, with what the preference's attributes are to be. */
int lt_ask(const product *p, uint64_t workspace, uint32_t alignment, int requested,
           trp__cublaslt_result *results, int *found);

/* Multiplies, with A so many bytes further, and waits. */
int lt_multiply(product *p, const trp__cublaslt_algo *algo, trp__cu_address workspace, size_t bytes,
                size_t a_offset);

/* All of that, with the heuristic's first algorithm, and every result compared. */
void lt_check_product(product p);

#endif
