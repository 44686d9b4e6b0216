/* Algorithms of cuBLASLt's serve only after they were proven, on a fake cuBLASLt of which a test
 * says what is wrong: that is rejected, the next serves, and whoever sent the request sees nothing
 * of it. SPDX-License-Identifier: Apache-2.0 */
#include "support/kernels.h"
#include "support/label.h"

#include <troupe/matmul.h>

#include <string.h>

TROUPE_TEST_FAKE_GPU("no tsan");

enum {
    M = 5,
    N = 7,
    K = 3,
    PROOF_RUNS = 4, /* of an algorithm that is good: two passes of two runs */
    WRONG_RUNS = 2, /* the first pass is the last */
};

typedef struct bed {
    h_kernels k;
    trp_actor *matmul;
    trp_device_options options;
    trp_tune tune;
    bool alphas; /* alpha is a vector */
} bed;

static void enter(bed *b)
{
    b->k.world = h_open(&b->options);
    b->matmul = h_actor(b->k.world.device, "matmul");
}

static void reenter(bed *b)
{
    h_close(&b->k.world);
    enter(b);
}

/* D = A B of f32, all ones, which must be right. Returns how it was computed. */
static trp_matmul_ran product(const bed *b, int64_t m)
{
    enum { MOST = 64 };
    trp_device *device = b->k.world.device;
    float in[MOST], out[MOST];
    for (int i = 0; i < MOST; i++)
        in[i] = 1;
    const trp_buffer a = h_buffer(device, sizeof in), d = h_buffer(device, sizeof out);
    h_write(device, a, 0, in, sizeof in);
    trp_completion done = {0};
    trp_matmul_ran ran = {0};
    const trp_matmul_request r = {.m = m,
                                  .n = N,
                                  .k = K,
                                  .alphas.buffer = b->alphas ? a : (trp_buffer){0},
                                  .a = {.type = TRP_F32, .buffer = a},
                                  .b = {.type = TRP_F32, .buffer = a},
                                  .d = {.type = TRP_F32, .buffer = d},
                                  .tune = b->tune,
                                  .ran = &ran};
    H_OK(trp_matmul(b->matmul, &r, &done));
    H_OK(h_await_any(done));
    h_read(device, d, 0, out, (size_t)(m * N) * sizeof *out);
    for (int i = 0; i < m * N; i++)
        H_CHECK(out[i] == K);
    H_OK(trp_buffer_free(device, a));
    H_OK(trp_buffer_free(device, d));
    return ran;
}

static size_t runs(const bed *b)
{
    return h_kernels_reported(&b->k, "cublaslt_runs");
}

/* With the reference in the cache, as on a machine that has a pack. */
static bed open_bed(void)
{
    bed b = {.options = h_options()};
    b.options.standby = TRP_STANDBY_OFF;
    h_kernels_make_folder(&b.k);
    enter(&b);
    product(&b, 1);
    H_EQUAL(runs(&b), PROOF_RUNS + 1);
    return b;
}

static void close_bed(bed *b)
{
    h_kernels_close(&b->k);
}

/* A good algorithm runs no more often than a proof takes, and once for the request. */
static void good(void)
{
    bed b = open_bed();
    const size_t before = runs(&b);
    product(&b, M);
    H_EQUAL(runs(&b), before + PROOF_RUNS + 1);
    H_CHECK(product(&b, M).proven); /* as planned */
    H_EQUAL(runs(&b), before + PROOF_RUNS + 2);
    close_bed(&b);
}

/* The first is rejected and the second serves; another process knows it without a proof, and what
 * was wrong stays rejected. */
static void wrong(void)
{
    bed b = open_bed();
    const size_t before = runs(&b);
    h_kernels_set(&b.k, "cublaslt_wrong", "64");
    product(&b, M);
    H_EQUAL(runs(&b), before + WRONG_RUNS + PROOF_RUNS + 1);
    h_kernels_unset(&b.k, "cublaslt_wrong");
    reenter(&b);
    product(&b, M);
    H_EQUAL(runs(&b), before + WRONG_RUNS + PROOF_RUNS + 2);
    close_bed(&b);
}

/* What a search finds is proven too: the fastest does not serve if it is wrong. */
static void searched(void)
{
    bed b = open_bed();
    h_kernels_set(&b.k, "fast_cublaslt", "66");
    b.tune = TRP_TUNE_QUICK;
    H_CHECK(product(&b, M).proven);
    h_kernels_set(&b.k, "cublaslt_wrong", "66");
    const trp_matmul_ran ran = product(&b, M + 1);
    H_CHECK(ran.proven);
    H_CHECK(strncmp(ran.algorithm, "cublaslt_a66_", 13) != 0);
    close_bed(&b);
}

/* Where no algorithm is right, the reference serves. */
static void all_wrong(void)
{
    bed b = open_bed();
    h_kernels_set(&b.k, "cublaslt_wrong", "64,65,66,67,68");
    product(&b, M);
    const size_t before = runs(&b);
    const trp_matmul_ran ran = product(&b, M);
    H_EQUAL(runs(&b), before);
    H_CHECK(ran.proven && strcmp(ran.algorithm, "reference") == 0);
    b.alphas = true; /* another problem, of which all are rejected too */
    H_CHECK(strcmp(product(&b, M).algorithm, "reference") == 0);
    close_bed(&b);
}

/* Without proofs what is proposed serves; a rejection that is known counts all the same. */
static void off(void)
{
    bed b = open_bed();
    b.options.proof = TRP_PROOF_OFF;
    reenter(&b);
    size_t before = runs(&b);
    const trp_matmul_ran ran = product(&b, M);
    H_EQUAL(runs(&b), before + 1);
    H_CHECK(!ran.proven && strncmp(ran.algorithm, "cublaslt_", 9) == 0);
    b.options.proof = TRP_PROOF_ON;
    reenter(&b);
    h_kernels_set(&b.k, "cublaslt_wrong", "64");
    product(&b, M);
    b.options.proof = TRP_PROOF_OFF;
    reenter(&b);
    product(&b, M);
    close_bed(&b);
}

/* The first request waits for the compile of the reference: no algorithm serves meanwhile. */
static void compiled_first(void)
{
    bed b = {.options = h_options()};
    b.options.standby = TRP_STANDBY_OFF;
    h_kernels_make_folder(&b.k);
    h_kernels_set(&b.k, "compile_ms", "300");
    enter(&b);
    product(&b, 1);
    H_EQUAL(runs(&b), PROOF_RUNS + 1);
    close_bed(&b);
}

/* Where there is no reference nothing can be proven. */
static void no_reference(void)
{
    bed b = {.options = h_options()};
    h_kernels_make_folder(&b.k);
    h_kernels_set(&b.k, "compile_fails", "x.cu(1): error: no such luck\n");
    enter(&b);
    for (int i = 0; i < 3; i++)
        H_CHECK(!product(&b, M).proven);
    H_EQUAL(runs(&b), 3);
    close_bed(&b);
}

H_KERNEL_CASES(H_CASE(good), H_CASE(wrong), H_CASE(searched), H_CASE(all_wrong), H_CASE(off),
               H_CASE(compiled_first), H_CASE(no_reference))
