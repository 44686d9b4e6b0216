/* NaN and infinities in products: what blas.h and matmul.h say of alpha 0 and of epilogues.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"
#include "support/harness.h"

#include <math.h>
#include <string.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { M = 5, N = 3, K = 4 };

static h_world world;

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static trp_buffer put(trp_dtype type, size_t count, const double *v, size_t values)
{
    const size_t bytes = count * trp_dtype_bits(type) / 8;
    unsigned char *data = h_malloc(bytes);
    trp_buffer buffer = h_buffer(world.device, bytes);
    for (size_t i = 0; i < count; i++)
        dr_store(type, data, (int64_t)i, v[i % values]);
    h_write(world.device, buffer, 0, data, bytes);
    free(data);
    return buffer;
}

static void expect(const char *what, trp_dtype type, trp_buffer buffer, size_t count,
                   const double *want, size_t values, double bound)
{
    unsigned char data[4 * M * N * 8];
    H_CHECK(count * 8 <= sizeof data);
    h_read(world.device, buffer, 0, data, count * trp_dtype_bits(type) / 8);
    for (size_t i = 0; i < count; i++) {
        const double got = dr_load(type, data, (int64_t)i), w = want[i % values];
        if (isnan(w) ? !isnan(got) : got != w && !(fabs(got - w) <= bound * fabs(w)))
            h_fail(__FILE__, __LINE__, "%s, %s, element %zu: got %.9g, expected %.9g", what,
                   trp_dtype_name(type), i, got, w);
    }
}

/* C = beta C, whatever A and B hold; they may even be lost, or too small for f16's values. */
static void alpha_of_zero(void)
{
    static const struct {
        trp_dtype type, type_c;
    } rows[] = {{TRP_F64, TRP_F64}, {TRP_F32, TRP_F32},  {TRP_F16, TRP_F16}, {TRP_BF16, TRP_BF16},
                {TRP_F16, TRP_F32}, {TRP_BF16, TRP_F32}, {TRP_I8, TRP_F32},  {TRP_I8, TRP_I32}};
    world = h_open(NULL);
    trp_actor *blas = h_actor(world.device, "blas");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int beta = 0; beta < 3; beta++) {
            const double nan[] = {NAN, INFINITY, 1, -INFINITY}, c[] = {2, -4, 8};
            const double whole[] = {0, 1, -2},
                         want[] = {2 * whole[beta], -4 * whole[beta], 8 * whole[beta]};
            trp_completion done = {0};
            trp_gemm_request r = {.type = rows[i].type,
                                  .type_c = rows[i].type_c,
                                  .trans_a = TRP_T,
                                  .m = M,
                                  .n = N,
                                  .k = K,
                                  .alpha = trp_real(0),
                                  .beta = trp_real(whole[beta]),
                                  .a = put(rows[i].type, M * K, nan, 4),
                                  .b = put(rows[i].type, K * N, nan, 4),
                                  .c = put(rows[i].type_c, M * N, c, 3)};
            H_OK(trp_gemm(blas, &r, &done));
            H_OK(h_await_any(done));
            expect("alpha 0", rows[i].type_c, r.c, M * N, want, 3, 0);
            r.lda = 1; /* they are checked all the same */
            H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("lda");
            H_OK(trp_buffer_free(world.device, r.a));
            H_OK(trp_buffer_free(world.device, r.b));
            H_OK(trp_buffer_free(world.device, r.c));
        }
    }
    h_close(&world);
}

/* D = activation(A B) of one column of A and a B of 1. */
static void epilogues(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    static const double a[M] = {NAN, INFINITY, -INFINITY, -2, 0.5};
    static const struct {
        const char *name;
        trp_activation activation;
        double want[M];
    } rows[] = {
        {"none", TRP_ACTIVATION_NONE, {NAN, INFINITY, -INFINITY, -2, 0.5}},
        {"relu", TRP_ACTIVATION_RELU, {NAN, INFINITY, 0, 0, 0.5}},
        {"gelu", TRP_ACTIVATION_GELU, {NAN, INFINITY, 0, -0.04540231, 0.34571401}},
        {"silu", TRP_ACTIVATION_SILU, {NAN, INFINITY, 0, -0.23840584, 0.31122967}},
    };
    world = h_open(NULL);
    trp_actor *matmul = h_actor(world.device, "matmul");
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            const double one = 1, poison = 77, half = 0.5, c[] = {4, NAN, 6, 8, 10};
            const double scaled[] = {2, NAN, 3, 4, 5};
            trp_completion done = {0};
            trp_matmul_ran ran = {0};
            trp_matmul_request r = {
                .m = M, .n = 1, .k = 1, .activation = rows[i].activation, .ran = &ran};
            if (h_is_cuda() && rows[i].activation != TRP_ACTIVATION_NONE)
                continue; /* the library's own */
            r.a = (trp_matmul_matrix){.type = types[t], .buffer = put(types[t], M, a, M)};
            r.b = (trp_matmul_matrix){.type = types[t], .buffer = put(types[t], 1, &one, 1)};
            r.d = (trp_matmul_matrix){.type = types[t], .buffer = put(types[t], M, &poison, 1)};
            H_OK(trp_matmul(matmul, &r, &done));
            H_OK(h_await_any(done));
            H_CHECK(h_is_cuda() ? ran.algorithm[0] != '\0'
                                : strcmp(ran.algorithm, "host") == 0 && !ran.proven);
            expect(rows[i].name, types[t], r.d.buffer, M, rows[i].want, M,
                   types[t] == TRP_BF16  ? 0x1p-7
                   : types[t] == TRP_F16 ? 0x1p-9
                                         : 1e-6);
            r.c = (trp_matmul_matrix){.type = types[t], .buffer = put(types[t], M, c, M)};
            r.alpha = trp_real(0); /* then A and B have no part in it */
            r.beta = trp_real(half);
            r.activation = TRP_ACTIVATION_NONE;
            if (!h_is_cuda()) {
                H_OK(trp_matmul(matmul, &r, &done));
                H_OK(h_await_any(done));
                expect("alpha 0", types[t], r.d.buffer, M, scaled, M, 0);
            }
            H_OK(trp_buffer_free(world.device, r.a.buffer));
            H_OK(trp_buffer_free(world.device, r.b.buffer));
            H_OK(trp_buffer_free(world.device, r.c.buffer));
            H_OK(trp_buffer_free(world.device, r.d.buffer));
        }
    }
    h_close(&world);
}

/* D = activation(beta C + bias), where A and B are not looked at: k is 0, or alpha is 0 with beta 1
 * and C apart; also where D is a vector, and in a batch. */
static void products_of_nothing(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16, TRP_I8, TRP_C64};
    static const int64_t sides[][2] = {{M, N}, {M, 1}, {1, M}};
    const double c[] = {2, -4, 8}, poison = 77;
    world = h_open(NULL);
    trp_actor *matmul = h_actor(world.device, "matmul");
    for (size_t i = 0; i < COUNT_OF(types) * COUNT_OF(sides) * 16; i++) {
        const trp_dtype type = types[i / 48], type_d = type == TRP_I8 ? TRP_I32 : type;
        const int64_t m = sides[i % 3][0], n = sides[i % 3][1], count = m * n;
        const bool empty = i / 3 & 1, in_place = i / 6 & 1, batch = i / 12 & 1,
                   relu = (i / 24 & 1) && type != TRP_I8 && type != TRP_C64;
        const double factor = empty && batch ? 2 : 1, nan = type == TRP_I8 ? 77 : NAN;
        const size_t elements = (size_t)(count * (batch ? 2 : 1)),
                     parts = elements * (type == TRP_C64 ? 2 : 1);
        const trp_dtype part = type == TRP_C64 ? TRP_F32 : type_d;
        double want[3];
        trp_completion done = {0};
        trp_matmul_request r = {.m = m,
                                .n = n,
                                .k = empty ? 0 : K,
                                .batch = batch ? 2 : 1,
                                .alpha = trp_real(empty ? 3 : 0),
                                .beta = trp_real(factor),
                                .activation = relu ? TRP_ACTIVATION_RELU : TRP_ACTIVATION_NONE};
        if (!empty && in_place && !relu)
            continue; /* then D is as it should be anyhow */
        r.a = (trp_matmul_matrix){.type = type, .stride = m * K};
        r.b = (trp_matmul_matrix){.type = type, .stride = n * K};
        r.c =
            (trp_matmul_matrix){.type = type_d, .stride = count, .buffer = put(part, parts, c, 3)};
        r.d = in_place ? r.c
                       : (trp_matmul_matrix){.type = type_d,
                                             .stride = count,
                                             .buffer = put(part, parts, &poison, 1)};
        if (type == TRP_I8) /* as a GPU takes them */
            r.trans_a = TRP_T;
        if (!empty) {
            const trp_dtype in = type == TRP_C64 ? TRP_F32 : type;
            r.a.buffer = put(in, (size_t)(4 * m * K), &nan, 1);
            r.b.buffer = put(in, (size_t)(4 * n * K), &nan, 1);
        }
        if (h_is_cuda() && !empty && (m != 1 && n != 1))
            continue; /* the library may read A and B then */
        for (int j = 0; j < 3; j++)
            want[j] = relu && c[j] < 0 ? 0 : factor * c[j];
        H_OK(trp_matmul(matmul, &r, &done));
        const trp_status status = h_await_any(done);
        if (h_is_cuda() && type == TRP_I8 && status == TRP_E_UNSUPPORTED)
            continue; /* it has none of these sizes */
        H_OK(status);
        expect(empty ? "k 0" : "alpha 0, beta 1", part, r.d.buffer, parts, want, 3, 0);
    }
    h_close(&world);
}

/* Sums over an input of no elements are 0. */
static void gradients_of_nothing(void)
{
    const double poison = 77, zero = 0;
    world = h_open(NULL);
    trp_actor *matmul = h_actor(world.device, "matmul");
    for (int i = 0; i < 2; i++) {
        trp_completion done = {0};
        trp_matmul_request r = {
            .m = M,
            .n = N,
            .gradient_of = i ? TRP_BIAS_GRADIENT_B : TRP_BIAS_GRADIENT_A,
            .a.type = TRP_F32,
            .d.buffer = put(TRP_F32, M * N, &poison, 1),
            .gradient.buffer = put(TRP_F32, M, &poison, 1),
        };
        H_OK(trp_matmul(matmul, &r, &done));
        H_OK(h_await_any(done));
        expect("D", TRP_F32, r.d.buffer, M * N, &zero, 1, 0);
        expect("the gradient", TRP_F32, r.gradient.buffer, i ? N : M, &zero, 1, 0);
    }
    h_close(&world);
}

H_CASES(H_CASE(products_of_nothing), H_CASE(gradients_of_nothing), H_CASE(alpha_of_zero),
        H_CASE(epilogues))
