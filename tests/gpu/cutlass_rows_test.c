/* Every kernel of the catalogue that this device can have: compiled, loaded and run once, on a
 * problem as odd as it takes, and held against float64. One line for each, of which
 * scripts/cutlass_table.py makes docs/cutlass-rows.md. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/gpu.h"
#include "support/reference/matmul_reference.h"
#include "support/label.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass", "TROUPE_TEST_SHARD=5/16");

static h_world world;
static trp_actor *cutlass;

/* What a kernel is tried on: the oddest sizes first. Of operands, A is m x k and B n x k in lines
 * of k, which all kernels read. */
typedef struct problem {
    int m, n, k, batch;
    trp_dtype a, b, d;
    trp_compute compute;
    trp_scale_mode scale_a, scale_b;
    int group; /* of k, of a narrow B; 0: none */
    bool zeros;
    double alpha;
} problem;

static const int sizes[][3] = {
    {387, 275, 317}, {387, 274, 318}, {387, 276, 316}, {387, 280, 312},
    {387, 272, 304}, {388, 272, 304}, {388, 272, 320}, {256, 256, 1024},
};

static trp_dtype one_of(trp_dtype a, trp_dtype b)
{
    return ref_rng_below(h_rng(), 2) ? a : b;
}

static problem first_problem(const gpu_row *r)
{
    const char *in = r->inputs;
    bool has_blocks = strchr(in, '/') != NULL;
    problem p = {.batch = 2};
    if (strstr(in, "i8 or f8") || strstr(in, "i4")) {
        p.a = one_of(TRP_F16, TRP_BF16);
        p.b = strstr(in, "i4") ? TRP_I4 : one_of(TRP_I8, one_of(TRP_F8E4M3, TRP_F8E5M2));
        p.group = r->name[1] == '9' ? (int)one_of(64, 128) : 32 * (int)ref_rng_below(h_rng(), 4);
        p.zeros = p.group && ref_rng_below(h_rng(), 2);
    } else if (strncmp(in, "f16", 3) == 0)
        p.a = p.b = one_of(TRP_F16, TRP_BF16);
    else if (strncmp(in, "f32", 3) == 0)
        p.a = p.b = TRP_F32;
    else if (strncmp(in, "f64", 3) == 0)
        p.a = p.b = TRP_F64;
    else if (strncmp(in, "i8", 2) == 0)
        p.a = p.b = TRP_I8;
    else if (strncmp(in, "f4e2m1", 6) == 0)
        p.a = p.b = TRP_F4E2M1;
    else if (strncmp(in, "f8e4m3", 6) == 0) {
        p.a = one_of(TRP_F8E4M3, TRP_F8E5M2);
        p.b = one_of(TRP_F8E4M3, TRP_F8E5M2);
    } else
        h_fail(__FILE__, __LINE__, "%s: inputs \"%s\"", r->name, in);
    p.d = p.a == TRP_F64 ? TRP_F64 : p.a == TRP_I8 ? TRP_I32 : one_of(TRP_F32, TRP_BF16);
    p.compute = strstr(in, "tf32") ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
    if (strstr(in, "/ 128")) {
        p.scale_a = one_of(0, 1) ? TRP_SCALE_BLOCK_128 : TRP_SCALE_BLOCK_128X128;
        p.scale_b = one_of(0, 1) ? TRP_SCALE_BLOCK_128 : TRP_SCALE_BLOCK_128X128;
        if (strstr(r->name, "pingpong")) /* its tile is not so high */
            p.scale_a = TRP_SCALE_BLOCK_128;
    } else if (has_blocks) {
        p.scale_a = p.scale_b = strstr(in, "/ 32") ? TRP_SCALE_BLOCK_32 : TRP_SCALE_BLOCK_16;
    }
    return p;
}

/* A or B: lines of k. Factors of the batch follow each other, so many for each of it. */
typedef struct side {
    int64_t factors;
    unsigned char *data, *scale;
    double *value; /* with the factors */
    trp_buffer at, scale_at, zero_at;
} side;

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    return b;
}

static void fill_factors(trp_scale_mode mode, unsigned char *out, size_t bytes)
{
    float *f = (float *)(void *)out;
    for (size_t i = 0; mode < TRP_SCALE_BLOCK_128 && i < bytes; i++)
        out[i] = (unsigned char)(mode == TRP_SCALE_BLOCK_16 ? 40 + ref_rng_below(h_rng(), 24)
                                                            : 125 + ref_rng_below(h_rng(), 5));
    for (size_t i = 0; mode >= TRP_SCALE_BLOCK_128 && i < bytes / 4; i++)
        f[i] = (float)(1 + ref_rng_below(h_rng(), 64)) / 32;
}

static side make_side(const problem *p, trp_dtype type, trp_scale_mode mode, int lines)
{
    side s = {0};
    int64_t count = (int64_t)lines * p->k * p->batch;
    size_t bytes = (size_t)count * trp_dtype_bits(type) / 8;
    s.data = h_malloc(bytes);
    s.value = h_malloc((size_t)count * sizeof *s.value);
    if (mode) {
        size_t scale_bytes = (size_t)(ref_scale_bytes(mode, lines, p->k) * p->batch);
        s.factors = ref_scale_bytes(mode, lines, p->k) / (mode < TRP_SCALE_BLOCK_128 ? 1 : 4);
        s.scale = h_malloc(scale_bytes);
        fill_factors(mode, s.scale, scale_bytes);
        s.scale_at = upload(s.scale, scale_bytes);
    }
    for (int64_t i = 0; i < count; i++) {
        ref_element_store(type, s.data, i,
                          type == TRP_I8 || type == TRP_I4
                              ? (double)ref_rng_below(h_rng(), 15) - 7
                              : (double)ref_rng_below(h_rng(), 2001) / 1000 - 1);
        s.value[i] = creal(ref_element_load(type, s.data, i));
        if (mode)
            s.value[i] *=
                ref_scale(mode, s.scale + i / p->k / lines * ref_scale_bytes(mode, lines, p->k),
                          lines, p->k, i / p->k % lines, i % p->k);
    }
    s.at = upload(s.data, bytes);
    return s;
}

/* Factors of groups of a narrow B, and what is added. */
static void add_groups(const problem *p, side *b)
{
    int groups = (p->k + p->group - 1) / p->group, count = groups * p->n * p->batch;
    size_t bytes = (size_t)count * 2;
    unsigned char *zero = h_malloc(bytes);
    b->factors = groups * p->n;
    b->scale = h_malloc(bytes);
    for (int i = 0; i < count; i++) {
        ref_element_store(p->a, b->scale, i, (double)(1 + ref_rng_below(h_rng(), 127)) / 64);
        ref_element_store(p->a, zero, i,
                          p->zeros ? (double)ref_rng_below(h_rng(), 33) / 16 - 1 : 0);
    }
    for (int j = 0; j < p->n * p->batch; j++) { /* lines of all */
        for (int q = 0; q < p->k; q++) {
            int64_t at = j / p->n * b->factors + (int64_t)(q / p->group) * p->n + j % p->n;
            double *x = &b->value[(int64_t)j * p->k + q];
            *x = ref_element_round(p->a, *x * creal(ref_element_load(p->a, b->scale, at)));
            *x = ref_element_round(p->a, *x + creal(ref_element_load(p->a, zero, at)));
        }
    }
    b->scale_at = upload(b->scale, bytes);
    if (p->zeros)
        b->zero_at = upload(zero, bytes);
    free(zero);
}

static void drop_side(side *s)
{
    H_OK(trp_buffer_free(world.device, s->at));
    if (s->scale)
        H_OK(trp_buffer_free(world.device, s->scale_at));
    if (s->zero_at.id)
        H_OK(trp_buffer_free(world.device, s->zero_at));
    free(s->data);
    free(s->scale);
    free(s->value);
}

/* What a kernel's sums may be off by, of the sum of all absolute values. */
static double input_error(const gpu_row *r, const problem *p)
{
    bool fp8 = p->a == TRP_F8E4M3 || p->a == TRP_F8E5M2;
    return p->compute == TRP_COMPUTE_TF32 ? 1e-3
           : strstr(r->name, "_fast")     ? 2e-3
           : p->group                     ? 6e-3   /* weights are rounded once more */
           : fp8 && r->name[1] == '9'     ? 2.5e-4 /* tensor cores add up with 14 bits */
           : p->a == TRP_F64              ? 4e-15
           : p->a == TRP_I8               ? 0
                                          : 3e-6;
}

/* The largest part of what is allowed that a result is off by. D is alpha times the sums. */
static double compare(const gpu_row *r, const problem *p, const side *a, const side *b,
                      const void *d)
{
    const double input = input_error(r, p), rounding = p->d == TRP_BF16 ? 1.0 / 256 : 1e-6;
    double worst = 0;
    for (int l = 0; l < p->batch; l++) {
        for (int i = 0; i < p->m; i++) {
            for (int j = 0; j < p->n; j++) {
                const double *x = &a->value[((int64_t)l * p->m + i) * p->k];
                const double *y = &b->value[((int64_t)l * p->n + j) * p->k];
                double sum = 0, size = 0;
                for (int q = 0; q < p->k; q++) {
                    sum += x[q] * y[q];
                    size += fabs(x[q] * y[q]);
                }
                sum *= p->alpha;
                size *= p->alpha;
                double got = creal(ref_element_load(p->d, d, ((int64_t)l * p->m + i) * p->n + j));
                double bound = input * size +
                               (p->d == TRP_I32 || p->d == TRP_F64 ? 0 : rounding * fabs(sum)) +
                               1e-30;
                double off = fabs(got - sum) / bound;
                if (!(off <= worst)) /* NaN too */
                    worst = off == off ? off : INFINITY;
            }
        }
    }
    return worst;
}

typedef enum outcome { RIGHT, WRONG, NOT_ITS_PROBLEM, NOT_OF_THIS_DEVICE, FAILED } outcome;

/* One problem of a kernel, in D that was poisoned. *off becomes no less. */
static outcome try_problem(const gpu_row *r, const problem *p, double *off, trp_error *error)
{
    size_t bytes = (size_t)p->m * (size_t)p->n * (size_t)p->batch * trp_dtype_bits(p->d) / 8;
    side a = make_side(p, p->a, p->scale_a, p->m), b = make_side(p, p->b, p->scale_b, p->n);
    unsigned char *d = h_malloc(bytes);
    outcome result = FAILED;
    if (p->group)
        add_groups(p, &b);
    h_random_bytes(h_rng(), d, bytes);
    trp_buffer out = upload(d, bytes);
    const trp_cutlass_gemm_request request = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .compute = p->compute,
        .a = {.buffer = a.at,
              .type = p->a,
              .order = TRP_ROW_MAJOR,
              .stride = (int64_t)p->m * p->k,
              .scale = {.buffer = a.scale_at, .mode = p->scale_a, .stride = a.factors}},
        .b = {.buffer = b.at,
              .type = p->b,
              .stride = (int64_t)p->n * p->k,
              .scale = {.buffer = p->scale_b ? b.scale_at : (trp_buffer){0},
                        .mode = p->scale_b,
                        .stride = p->scale_b ? b.factors : 0}},
        .groups = {.size = p->group,
                   .scale = p->group ? b.scale_at : (trp_buffer){0},
                   .zero = b.zero_at,
                   .stride = p->group ? b.factors : 0},
        .d = {.buffer = out, .type = p->d, .order = TRP_ROW_MAJOR, .stride = (int64_t)p->m * p->n},
        .alpha = trp_real(p->alpha),
        .kernel = r->name};
    trp_completion done = {0};
    trp_status status = trp_cutlass_gemm(cutlass, &request, &done);
    if (status == TRP_E_UNSUPPORTED || status == TRP_E_ARGUMENT) {
        *error = *trp_error_last();
        result = strstr(error->message, "is for compute capability") ? NOT_OF_THIS_DEVICE
                                                                     : NOT_ITS_PROBLEM;
    } else if (status == TRP_OK && h_await(done.future, error) == TRP_OK) {
        h_read(world.device, out, 0, d, bytes);
        *off = fmax(*off, compare(r, p, &a, &b, d));
        result = *off <= 1 ? RIGHT : WRONG;
    } else if (status != TRP_OK) {
        *error = *trp_error_last();
    } else if (error->status == TRP_E_DEPENDENCY && trp_cutlass_gemm(cutlass, &request, &done)) {
        *error = *trp_error_last(); /* why it could not be compiled */
    }
    drop_side(&a);
    drop_side(&b);
    H_OK(trp_buffer_free(world.device, out));
    free(d);
    return result;
}

/* Whether the kernel is right, or not of this device; the second time with other addresses and
 * another alpha, for which its parameter is not built again. */
static bool try_row(const gpu_row *r)
{
    problem p = first_problem(r);
    p.alpha = 1;
    outcome result = NOT_ITS_PROBLEM;
    double off = 0;
    trp_error error = {0};
    int64_t began = h_now();
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes && result == NOT_ITS_PROBLEM; i++) {
        const int *size = sizes[i / 2];
        p.m = size[0];
        p.n = size[1];
        p.k = size[2];
        p.batch = i % 2 ? 1 : 2;
        result = try_problem(r, &p, &off, &error);
    }
    if (result == RIGHT) {
        trp_buffer held = h_buffer(world.device, 4 << 20); /* where the first began */
        p.alpha = 3;
        result = try_problem(r, &p, &off, &error);
        H_OK(trp_buffer_free(world.device, held));
    }
    char of[96];
    snprintf(of, sizeof of, "%dx%dx%d%s %s%s%s", p.m, p.n, p.k, p.batch > 1 ? " of 2" : "",
             trp_dtype_name(p.a), p.b == p.a ? "" : "*", p.b == p.a ? "" : trp_dtype_name(p.b));
    double took = (double)(h_now() - began) / 1e9;
    if (result == RIGHT || result == WRONG)
        printf("row %s %s %s %.1f s, %.3f of the bound, %s to %s\n", r->name, r->device,
               result == RIGHT ? "ok" : "WRONG", took, off, of, trp_dtype_name(p.d));
    else if (result != NOT_OF_THIS_DEVICE)
        printf("row %s %s FAILED %.1f s, %s: %.300s\n", r->name, r->device, took, of,
               error.message);
    fflush(stdout);
    return result == RIGHT || result == NOT_OF_THIS_DEVICE;
}

static void all_rows(void)
{
    size_t count, wrong = 0;
    gpu_row *rows = gpu_rows(NULL, &count);
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (size_t i = 0; i < count; i++)
        wrong += !try_row(&rows[i]);
    printf("  %zu kernels tried\n", count);
    h_close(&world);
    free(rows);
    if (wrong > 0)
        h_fail(__FILE__, __LINE__, "%zu kernels are not right", wrong);
}

GPU_CASES(H_CASE(all_rows))
