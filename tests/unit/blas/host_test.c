/* The blas actor on the host, from the request to the numbers: random products of all types,
 * orders, transposes, strides and batches against a float64 reference, with poisoned outputs and
 * guards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "actors/blas/blas.h"
#include "actors/blas/blas_wire.h"
#include "backend/host/host_backend.h"
#include "support/reference/reference.h"
#include "worker/actor.h"

#include <troupe/troupe.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    trp_dtype type;
    ref_dtype ref;
} types[] = {{TRP_F64, REF_F64}, {TRP_F32, REF_F32}, {TRP_F16, REF_F16}, {TRP_BF16, REF_BF16}};

static trp__instance instance;
static ref_rng rng;

/* The three operands; buffer number i + 1 is array[i]. */
typedef struct operands {
    unsigned char *array[3];
    size_t bytes[3];
} operands;

static operands now;

static trp_status acquire(trp__pack *pack, const char *name, trp_buffer buffer, trp__access *access,
                          uint64_t *bytes)
{
    (void)pack;
    (void)name;
    access->slot = (uint32_t)buffer.id - 1;
    *bytes = now.bytes[access->slot];
    return TRP_OK;
}

static trp_status send(const trp_gemm_request *r)
{
    trp__record record = {.op = TRP_OP_GEMM};
    trp_error error = {0};
    trp__pack pack = {
        .record = &record, .error = &error, .backend = TRP_BACKEND_HOST, .acquire = acquire};
    trp__job job;
    trp_status status = trp__blas_class.ops[0].pack(&pack, &r->header);
    trp__job_begin(&job, &record);
    for (uint32_t i = 0; i < record.access_count; i++)
        job.api.access[i].address = now.array[record.access[i].slot] + record.access[i].offset;
    if (status == TRP_OK)
        status = trp__blas_host.handle(&instance.api, &job.api, &error);
    if (status != TRP_OK)
        print_message("%s\n", error.message);
    trp__host_drain(instance.stream);
    return status;
}

/* Allocates one operand: random where it has elements, NaN elsewhere. `out` has NaNs only. */
static void make(int index, ref_matrix *x, size_t rows, size_t columns, size_t batch, bool out)
{
    size_t size = ref_dtype_size(x->dtype);
    size_t elements = ref_matrix_span(x, rows, columns, batch) + ref_rng_below(&rng, 5);
    now.bytes[index] = (elements + 1) * size;
    now.array[index] = malloc(now.bytes[index]);
    assert_non_null(now.array[index]);
    ref_poison(now.array[index], now.bytes[index]);
    x->data = now.array[index];
    for (size_t l = 0; l < batch && !out; l++) {
        for (size_t j = 0; j < columns; j++)
            ref_fill_uniform(x->dtype,
                             now.array[index] + (x->offset + l * x->stride + j * x->ld) * size,
                             rows, &rng);
    }
}

static void release(void)
{
    for (int i = 0; i < 3; i++) {
        free(now.array[i]);
        now.array[i] = NULL;
    }
}

typedef struct shape {
    size_t m, n, k, batch;
    bool row_major, trans_a, trans_b;
    double alpha, beta;
} shape;

/* In row-major order the arrays hold the transposed matrices, column by column: the reference
 * computes op(B)' op(A)'. */
static void check_one(size_t type, const shape *s)
{
    ref_dtype dtype = types[type].ref;
    size_t size = ref_dtype_size(dtype);
    bool swap = s->row_major;
    size_t a_rows = s->trans_a != swap ? s->k : s->m, a_columns = s->trans_a != swap ? s->m : s->k;
    size_t b_rows = s->trans_b != swap ? s->n : s->k, b_columns = s->trans_b != swap ? s->k : s->n;
    size_t c_rows = swap ? s->n : s->m, c_columns = swap ? s->m : s->n;
    ref_matrix a = {.dtype = dtype, .offset = ref_rng_below(&rng, 4)};
    ref_matrix b = {.dtype = dtype, .offset = ref_rng_below(&rng, 4)};
    ref_matrix c = {.dtype = dtype, .offset = ref_rng_below(&rng, 4)};
    a.ld = a_rows + ref_rng_below(&rng, 3);
    b.ld = b_rows + ref_rng_below(&rng, 3);
    c.ld = c_rows + ref_rng_below(&rng, 3);
    a.stride = ref_rng_below(&rng, 2) ? a.ld * a_columns + ref_rng_below(&rng, 3) : 0;
    b.stride = b.ld * b_columns;
    c.stride = c.ld * c_columns + ref_rng_below(&rng, 3);
    if (s->batch > 1 && ref_rng_below(&rng, 3) == 0) { /* side by side */
        c.stride = c_rows + ref_rng_below(&rng, 2);
        c.ld = c.stride * s->batch;
    }
    make(0, &a, a_rows, a_columns, s->batch, false);
    make(1, &b, b_rows, b_columns, s->batch, false);
    make(2, &c, c_rows, c_columns, s->batch, s->beta == 0);

    ref_gemm_problem problem = {.m = c_rows,
                                .n = c_columns,
                                .k = s->k,
                                .batch = s->batch,
                                .alpha = s->alpha,
                                .beta = s->beta,
                                .transpose_a = swap ? s->trans_b : s->trans_a,
                                .transpose_b = swap ? s->trans_a : s->trans_b,
                                .a = swap ? b : a,
                                .b = swap ? a : b,
                                .c = c};
    double *expected = malloc(s->m * s->n * s->batch * sizeof *expected);
    unsigned char *before = malloc(now.bytes[2]);
    assert_non_null(expected);
    assert_non_null(before);
    memcpy(before, now.array[2], now.bytes[2]);
    ref_gemm(&problem, expected);

    trp_gemm_request r = {.header.op = TRP_OP_GEMM,
                          .type = types[type].type,
                          .order = swap ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                          .trans_a = s->trans_a ? TRP_T : TRP_N,
                          .trans_b = s->trans_b ? TRP_T : TRP_N,
                          .m = (int64_t)s->m,
                          .n = (int64_t)s->n,
                          .k = (int64_t)s->k,
                          .batch = (int64_t)s->batch,
                          .alpha = trp_real(s->alpha),
                          .beta = trp_real(s->beta),
                          .a = {1},
                          .b = {2},
                          .c = {3},
                          .a_offset = a.offset * size,
                          .b_offset = b.offset * size,
                          .c_offset = c.offset * size,
                          .lda = (int64_t)a.ld,
                          .ldb = (int64_t)b.ld,
                          .ldc = (int64_t)c.ld,
                          .a_stride = (int64_t)a.stride,
                          .b_stride = (int64_t)b.stride,
                          .c_stride = (int64_t)c.stride};
    assert_int_equal(send(&r), TRP_OK);

    double got = ref_relative_error(&c, c_rows, c_columns, s->batch, expected);
    double worst = ref_worst_error(&c, c_rows, c_columns, s->batch, expected);
    double allowed =
        ref_gemm_tolerance(dtype, s->k, false) *
        ref_gemm_cancellation(s->k, s->alpha, s->beta, expected, s->m * s->n * s->batch);
    size_t bad = 0;
    if (!(got <= allowed && worst <= allowed * REF_WORST_FACTOR))
        fail_msg("%s %s%s%s m %zu n %zu k %zu batch %zu alpha %g beta %g: error %g, worst %g, "
                 "allowed %g",
                 ref_dtype_name(dtype), swap ? "row-major " : "", s->trans_a ? "T" : "N",
                 s->trans_b ? "T" : "N", s->m, s->n, s->k, s->batch, s->alpha, s->beta, got, worst,
                 allowed);
    if (!ref_guards_intact(before, now.array[2], now.bytes[2], &c, c_rows, c_columns, s->batch,
                           &bad))
        fail_msg("byte %zu of C is none of the result's and was changed", bad);
    free(before);
    free(expected);
    release();
}

static void random_products(void **state)
{
    static const double alphas[] = {1, 1, -0.5, 0};
    static const double betas[] = {0, 0, 1, -2};
    (void)state;
    for (int i = 0; i < 600; i++) {
        shape s = {
            .m = 1 + ref_rng_below(&rng, 40),
            .n = 1 + ref_rng_below(&rng, 40),
            .k = ref_rng_below(&rng, 8) ? 1 + ref_rng_below(&rng, 60) : 0,
            .batch = 1 + ref_rng_below(&rng, 2) * ref_rng_below(&rng, 4),
            .row_major = ref_rng_below(&rng, 2),
            .trans_a = ref_rng_below(&rng, 2),
            .trans_b = ref_rng_below(&rng, 2),
            .alpha = alphas[ref_rng_below(&rng, 4)],
            .beta = betas[ref_rng_below(&rng, 4)],
        };
        check_one((size_t)i % 4, &s);
    }
}

/* Past the size of a tile in every direction. */
static void products_of_several_tiles(void **state)
{
    (void)state;
    for (size_t type = 2; type < 4; type++) {
        for (int i = 0; i < 3; i++) {
            shape s = {.m = i == 0 ? 1100 : 30,
                       .n = i == 1 ? 1100 : 30,
                       .k = i == 2 ? 2100 : 30,
                       .batch = 1,
                       .trans_a = type == 2,
                       .trans_b = i == 1,
                       .alpha = 0.5,
                       .beta = type == 2 ? 1 : 0};
            check_one(type, &s);
        }
    }
}

/* BLAS's rule: with alpha 0 the NaNs of A don't reach C. */
static void zero_alpha_reads_nothing(void **state)
{
    (void)state;
    for (size_t type = 0; type < 4; type++) {
        size_t size = ref_dtype_size(types[type].ref);
        trp_gemm_request r = {.header.op = TRP_OP_GEMM,
                              .type = types[type].type,
                              .m = 4,
                              .n = 4,
                              .k = 4,
                              .alpha = trp_real(0),
                              .beta = trp_real(2),
                              .a = {1},
                              .b = {2},
                              .c = {3}};
        for (int i = 0; i < 3; i++) {
            now.bytes[i] = 16 * size;
            now.array[i] = malloc(now.bytes[i]);
            assert_non_null(now.array[i]);
            ref_poison(now.array[i], now.bytes[i]);
        }
        for (size_t i = 0; i < 16; i++)
            ref_store(types[type].ref, now.array[2], i, 3);
        assert_int_equal(send(&r), TRP_OK);
        for (size_t i = 0; i < 16; i++)
            assert_true(ref_load(types[type].ref, now.array[2], i) == 6);
        release();
    }
}

static void too_large_for_the_library(void **state)
{
    (void)state;
    trp_gemm_request r = {.header.op = TRP_OP_GEMM,
                          .type = TRP_F32,
                          .m = INT64_C(1) << 31,
                          .n = 1,
                          .k = 1,
                          .a = {1},
                          .b = {2},
                          .c = {3}};
    for (int i = 0; i < 3; i++)
        now.bytes[i] = UINT64_C(1) << 40; /* nothing is touched */
    assert_int_equal(send(&r), TRP_E_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products),
        cmocka_unit_test(products_of_several_tiles),
        cmocka_unit_test(zero_alpha_reads_nothing),
        cmocka_unit_test(too_large_for_the_library),
    };
    trp_error error = {0};
    int result = 1;
    ref_rng_init(&rng, ref_seed());
    instance.backend = &trp__host_backend;
    instance.api.state = calloc(1, trp__blas_host.state_bytes);
    if (!instance.api.state || trp__host_backend.open(0, &instance.accel, &error) != TRP_OK ||
        trp__host_backend.stream_create(instance.accel, &instance.stream, &error) != TRP_OK)
        return 1;
    trp__instance_begin(&instance, TRP_BACKEND_HOST, 0, 1);
    trp_status status = trp__blas_host.init(&instance.api, &error);
    if (status == TRP_OK) {
        result = cmocka_run_group_tests(tests, NULL, NULL);
        trp__blas_host.stop(&instance.api);
    } else {
        fprintf(stderr, "%s\n", error.message);
        result = status == TRP_E_MISSING ? 77 : 1;
    }
    trp__host_backend.stream_destroy(instance.stream);
    trp__host_backend.close(instance.accel);
    free(instance.api.state);
    return result;
}
