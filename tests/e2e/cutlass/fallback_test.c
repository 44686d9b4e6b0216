/* Products of the cutlass actor by cuBLASLt, as long as no kernel is there, on the fakes of both.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/kernels.h"
#include "support/label.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("cutlass");

static const h_product usual = {.m = 24, .n = 40, .k = 16, .first = TRP_CUTLASS_FIRST_FALLBACK};

static trp_cutlass_chosen run(const h_kernels *k, h_product p)
{
    trp_error error = {0};
    h_product_make(k, &p);
    H_OK(h_product_send(k, &p));
    if (h_await(p.done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s: %s", p.chosen.kernel, error.message);
    H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE); /* once */
    h_product_check(k, &p);
    h_product_free(k, &p);
    return p.chosen;
}

static bool by_cublaslt(const trp_cutlass_chosen *c)
{
    bool it = strcmp(c->kernel, "cublaslt") == 0;
    H_CHECK(!it || (c->fallback && c->ready && !c->tuned && !c->searching));
    return it;
}

/* From the first request on, until the kernel is compiled; then the kernel. */
static void products(void)
{
    h_kernels k = h_kernels_open(NULL);
    trp_cutlass_chosen c;
    h_kernels_set(&k, "compile_ms", "100000");
    for (int i = 0; i < 20; i++) {
        h_product p = usual;
        p.m = 1 + (int)ref_rng_below(h_rng(), 40);
        p.n = 8 * (1 + (int)ref_rng_below(h_rng(), 8));
        p.k = 16 + 8 * (int)ref_rng_below(h_rng(), 8);
        c = run(&k, p);
        H_CHECK(by_cublaslt(&c));
    }
    H_EQUAL(h_kernels_reported(&k, "runs"), 0);
    c = run(&k, usual);
    H_CHECK(by_cublaslt(&c));
    h_kernels_unset(&k, "compile_ms");
    do
        c = run(&k, usual);
    while (by_cublaslt(&c));
    H_CHECK(c.ready);
    while (c.fallback) /* another kernel was faster to be there */
        c = run(&k, usual);
    H_CHECK(h_kernels_reported(&k, "runs") > 0);
    trp_device_trim(k.world.device);
    c = run(&k, usual);
    H_CHECK(!by_cublaslt(&c));
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

typedef struct kind {
    trp_dtype type, d;
    trp_order order;
    bool in_place;
    int64_t batch;
} kind;

static void fill(trp_device *device, trp_buffer buffer, trp_dtype type, double value)
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == TRP_F64) {
        double all[1024];
        for (int i = 0; i < 1024; i++)
            all[i] = value;
        h_write(device, buffer, 0, all, sizeof all);
        return;
    }
    if (type != TRP_F32)
        bits = type == TRP_BF16 ? (bits >> 16) * 0x10001u
                                : (value == 1   ? 0x3c003c00u
                                   : value == 2 ? 0x40004000u
                                                : 0u);
    h_fill(device, buffer, bits);
}

static double number(trp_dtype type, const void *data, size_t i)
{
    uint32_t bits = type == TRP_F32 ? ((const uint32_t *)data)[i] : 0;
    float f;
    if (type == TRP_F64)
        return ((const double *)data)[i];
    if (type == TRP_F16) { /* small integers */
        uint16_t half = ((const uint16_t *)data)[i];
        bits = ((uint32_t)(half >> 10) + 112) << 23 | (uint32_t)(half & 0x3ff) << 13;
    }
    if (type == TRP_BF16)
        bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Types, orders, batches, and C in D's place: ones times ones, k of them, twice, and 3 C. */
static void kinds(void)
{
    enum { M = 8, N = 16, K = 8 };
    static const kind all[] = {{TRP_F64, TRP_F64, TRP_ROW_MAJOR, true, 1},
                               {TRP_F32, TRP_F32, TRP_COL_MAJOR, false, 2},
                               {TRP_F16, TRP_F16, TRP_ROW_MAJOR, true, 1},
                               {TRP_F16, TRP_F32, TRP_COL_MAJOR, true, 3},
                               {TRP_BF16, TRP_BF16, TRP_ROW_MAJOR, false, 1},
                               {TRP_BF16, TRP_F32, TRP_COL_MAJOR, false, 1}};
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "compile_ms", "100000");
    trp_buffer a = h_buffer(k.world.device, 8192), b = h_buffer(k.world.device, 8192),
               c = h_buffer(k.world.device, 8192), d = h_buffer(k.world.device, 8192);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const kind *x = &all[i];
        double out[1024];
        trp_completion done = {0};
        trp_cutlass_chosen chosen = {0};
        fill(k.world.device, a, x->type, 1);
        fill(k.world.device, b, x->type, 1);
        fill(k.world.device, c, x->d, 2);
        fill(k.world.device, d, x->d, 2);
        trp_cutlass_gemm_request r = {
            .m = M,
            .n = N,
            .k = K,
            .batch = x->batch,
            .a = {.buffer = a, .type = x->type, .order = TRP_ROW_MAJOR, .stride = M * K},
            .b = {.buffer = b, .stride = K * N},
            .c = {.buffer = x->in_place ? d : c, .order = x->order, .stride = M * N},
            .d = {.buffer = d, .type = x->d, .order = x->order, .stride = M * N},
            .alpha = trp_real(2),
            .beta = trp_real(3),
            .first = TRP_CUTLASS_FIRST_FALLBACK,
            .chosen = &chosen};
        H_OK(trp_cutlass_gemm(k.cutlass, &r, &done));
        H_CHECK(by_cublaslt(&chosen));
        H_OK(h_await(done.future, NULL));
        h_read(k.world.device, d, 0, out, 8192);
        for (size_t j = 0; j < (size_t)x->batch * M * N; j++) {
            if (number(x->d, out, j) != 2 * K + 3 * 2)
                h_fail(__FILE__, __LINE__, "%s to %s: element %zu is %g, expected %d",
                       trp_dtype_name(x->type), trp_dtype_name(x->d), j, number(x->d, out, j),
                       2 * K + 3 * 2);
        }
    }
    H_EQUAL(h_kernels_reported(&k, "runs"), 0);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* What it can't do, does not say so of, or was not asked for waits for a kernel. */
static void others(void)
{
    enum { NONE, SUM, COUNT };
    const trp_epilogue_node nodes[COUNT] = {[SUM] = {.kind = TRP_EPILOGUE_ACCUMULATOR}};
    h_kernels k = h_kernels_open(NULL);
    trp_buffer a = h_buffer(k.world.device, 4096), b = h_buffer(k.world.device, 4096),
               d = h_buffer(k.world.device, 4096);
    h_fill(k.world.device, a, 0);
    h_fill(k.world.device, b, 0);
    for (int i = 0; i < 5; i++) {
        trp_completion done = {0};
        trp_cutlass_chosen chosen = {0};
        trp_cutlass_gemm_request r = {
            .m = 16,
            .n = 16,
            .k = 16 * (1 + i),
            .a = {.buffer = a, .type = i == 3 ? TRP_I8 : TRP_BF16, .order = TRP_ROW_MAJOR},
            .b = {.buffer = b},
            .d = {.buffer = d, .order = TRP_ROW_MAJOR},
            .first = i == 0 ? TRP_CUTLASS_FIRST_WAIT : TRP_CUTLASS_FIRST_FALLBACK,
            .chosen = &chosen};
        if (i == 1)
            r.kernel = "s80_half_64x64x32_a1";
        if (i == 4) {
            r.a.order = TRP_COL_MAJOR; /* another kernel */
            r.alpha = trp_real(0);     /* not by it: it would not look at A and B */
        }
        if (i == 2) {
            r.epilogue = nodes;
            r.epilogue_count = COUNT;
            r.d.type = TRP_F16;
        }
        H_OK(trp_cutlass_gemm(k.cutlass, &r, &done));
        H_CHECK(!by_cublaslt(&chosen) && !chosen.fallback);
        H_OK(h_await(done.future, NULL));
    }
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

/* Without the library requests wait for the kernel. */
static void missing(void)
{
    setenv("TROUPE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    h_kernels k = h_kernels_open(NULL);
    trp_cutlass_chosen c = run(&k, usual);
    H_CHECK(!by_cublaslt(&c) && !c.fallback && !c.ready);
    H_EQUAL(h_kernels_reported(&k, "runs"), 1);
    h_kernels_close(&k);
}

static void copy_beginning(const char *from, const char *to, size_t bytes)
{
    char *part = calloc(1, bytes);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    H_CHECK(part && in && out && fread(part, 1, bytes, in) == bytes &&
            fwrite(part, 1, bytes, out) == bytes);
    fclose(in);
    H_EQUAL(fclose(out), 0);
    free(part);
}

/* Nor do they fail where its file is cut off. */
static void cut_off(void)
{
    const char *library = getenv("TROUPE_CUBLASLT");
    char path[] = "/tmp/troupe-cut-off-XXXXXX";
    const int fd = mkstemp(path);
    H_CHECK(fd >= 0 && library);
    close(fd);
    copy_beginning(library, path, 4096);
    setenv("TROUPE_CUBLASLT", path, 1);
    h_kernels k = h_kernels_open(NULL);
    trp_cutlass_chosen c = run(&k, usual);
    H_CHECK(!by_cublaslt(&c) && !c.fallback && !c.ready);
    h_kernels_close(&k);
    unlink(path);
}

/* What is said of a C that is not there is not looked at, whatever computes. */
static void no_c(void)
{
    h_kernels k = h_kernels_open(NULL);
    trp_buffer all = h_buffer(k.world.device, 4096), d = h_buffer(k.world.device, 4096);
    trp_completion done = {0};
    trp_cutlass_chosen chosen = {0};
    h_fill(k.world.device, all, 0);
    h_kernels_set(&k, "compile_ms", "100000");
    const trp_cutlass_gemm_request r = {
        .m = 16,
        .n = 16,
        .k = 16,
        .a = {.buffer = all, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = all},
        .c = {.type = TRP_F64},
        .d = {.buffer = d},
        .first = TRP_CUTLASS_FIRST_FALLBACK,
        .chosen = &chosen};
    H_OK(trp_cutlass_gemm(k.cutlass, &r, &done));
    H_CHECK(by_cublaslt(&chosen));
    H_OK(h_await(done.future, NULL));
    h_kernels_close(&k);
}

/* The worker dies with such a request in flight: the next one does it again. */
static void killed(void)
{
    h_product p = usual;
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "compile_ms", "100000");
    run(&k, usual);
    h_product_make(&k, &p);
    H_OK(h_product_send(&k, &p));
    H_CHECK(by_cublaslt(&p.chosen));
    h_kernels_unset(&k, "compile_ms");
    kill((pid_t)h_info(k.world.device).worker_pid, SIGKILL);
    H_OK(h_await(p.done.future, NULL));
    h_product_check(&k, &p);
    h_product_free(&k, &p);
    run(&k, usual);
    H_EQUAL(h_info(k.world.device).restarts, 1);
    h_kernels_close(&k);
}

/* With a search that waits for its kernels. */
static void searching(void)
{
    h_product p = usual;
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "fast", "128x64");
    h_kernels_set(&k, "compile_ms", "100000");
    p.tune = TRP_TUNE_QUICK;
    trp_cutlass_chosen c = run(&k, p);
    H_CHECK(by_cublaslt(&c));
    h_kernels_unset(&k, "compile_ms");
    do
        c = run(&k, p);
    while (!c.searching);
    h_kernels_check_last(&k, "128x64");
    c = run(&k, usual);
    h_kernels_expect(&c, true, false, "s80_half_128x64x32_a8");
    h_kernels_close(&k);
}

H_KERNEL_CASES(H_CASE(products), H_CASE(kinds), H_CASE(others), H_CASE(missing), H_CASE(cut_off),
               H_CASE(no_c), H_CASE(killed), H_CASE(searching))
