/* The cutlass actor: products whose A and B have factors for blocks, held against float64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/harness.h"
#include "support/reference/matmul_reference.h"

#include <complex.h>
#include <math.h>
#include <string.h>

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

static h_world world;
static trp_actor *cutlass;
static trp_tune tune; /* of all products */

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* A or B, `batch` of them: lines of k elements that follow each other, and their factors. */
typedef struct side {
    trp_dtype type;
    trp_scale_mode mode;
    int64_t lines, k, batch;
    int64_t stride; /* factors from one of the batch to the next; 0: they are the same */
    unsigned char *data, *scale;
    double *value; /* of all elements, with their factors */
    trp_buffer at, scale_at;
} side;

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    return b;
}

static side make_side(trp_dtype type, trp_scale_mode mode, int64_t lines, int64_t k, int64_t batch)
{
    side s = {.type = type, .mode = mode, .lines = lines, .k = k, .batch = batch};
    const int64_t unit = mode >= TRP_SCALE_BLOCK_128 ? 4 : 1, one = ref_scale_bytes(mode, lines, k);
    size_t bytes = (size_t)(batch * lines * k) * trp_dtype_bits(type) / 8;
    s.stride = batch > 1 && below(3) ? (one / unit + 15) / 16 * 16 + 16 * (int64_t)below(2) : 0;
    size_t scale_bytes = (size_t)(one + (batch - 1) * s.stride * unit);
    s.data = h_malloc(bytes);
    s.scale = h_malloc(scale_bytes);
    for (int64_t i = 0; i < batch * lines * k; i++)
        ref_element_store(type, s.data, i, (double)below(2001) / 500 - 2);
    for (size_t i = 0; i < scale_bytes; i++)
        s.scale[i] = mode == TRP_SCALE_BLOCK_16 ? (unsigned char)(40 + below(24))
                                                : (unsigned char)(125 + below(5));
    if (mode >= TRP_SCALE_BLOCK_128) {
        float *f = (float *)(void *)s.scale;
        for (size_t i = 0; i < scale_bytes / 4; i++)
            f[i] = (float)(1 + below(64)) / 32;
    }
    s.value = h_malloc((size_t)(batch * lines * k) * sizeof *s.value);
    for (int64_t i = 0; i < batch * lines * k; i++)
        s.value[i] = creal(ref_element_load(type, s.data, i)) *
                     ref_scale(mode, s.scale + i / k / lines * s.stride * unit, lines, k,
                               i / k % lines, i % k);
    s.at = upload(s.data, bytes);
    s.scale_at = upload(s.scale, scale_bytes);
    return s;
}

static void drop(side *s)
{
    H_OK(trp_buffer_free(world.device, s->at));
    H_OK(trp_buffer_free(world.device, s->scale_at));
    free(s->data);
    free(s->scale);
    free(s->value);
}

static trp_matmul_matrix matrix_of(const side *s, trp_order order)
{
    return (trp_matmul_matrix){
        .buffer = s->at,
        .type = s->type,
        .order = order,
        .ld = s->k,
        .stride = s->lines * s->k,
        .scale = {.buffer = s->scale_at, .mode = s->mode, .stride = s->stride}};
}

/* D = 2 sums of each of the batch, in f32, poisoned before. */
static void check_batch(trp_dtype type_a, trp_dtype type_b, trp_scale_mode mode_a,
                        trp_scale_mode mode_b, int64_t m, int64_t n, int64_t k, bool by_row,
                        int64_t batch)
{
    side a = make_side(type_a, mode_a, m, k, batch), b = make_side(type_b, mode_b, n, k, batch);
    const size_t bytes = (size_t)(batch * m * n) * sizeof(float);
    float *d = h_malloc(bytes);
    h_random_bytes(h_rng(), d, bytes);
    trp_buffer out = upload(d, bytes);
    trp_cutlass_chosen chosen;
    const trp_cutlass_gemm_request r = {.m = m,
                                        .n = n,
                                        .k = k,
                                        .batch = batch,
                                        .a = matrix_of(&a, TRP_ROW_MAJOR),
                                        .b = matrix_of(&b, TRP_COL_MAJOR),
                                        .d = {.buffer = out,
                                              .type = TRP_F32,
                                              .order = by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                                              .stride = m * n},
                                        .alpha = trp_real(2),
                                        .tune = tune,
                                        .chosen = &chosen};
    trp_completion done = {0};
    H_OK(trp_cutlass_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    H_CHECK(!h_is_cuda() || chosen.searching == (tune != TRP_TUNE_OFF));
    h_read(world.device, out, 0, d, bytes);
    for (int64_t i = 0; i < batch * m; i++) { /* rows of all */
        const int64_t l = i / m;
        const float *of_l = d + l * m * n;
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            double got = (double)of_l[by_row ? i % m * n + j : j * m + i % m];
            for (int64_t p = 0; p < k; p++) {
                double one = a.value[i * k + p] * b.value[(l * n + j) * k + p];
                sum += one;
                size += fabs(one);
            }
            if (!(fabs(got - 2 * sum) <= 2e-6 * size + 1e-30))
                h_fail(__FILE__, __LINE__,
                       "%s (mode %d) x %s (mode %d), %lld x %lld x %lld, number %lld: "
                       "D[%lld][%lld] is %.9g, expected %.9g",
                       trp_dtype_name(type_a), (int)mode_a, trp_dtype_name(type_b), (int)mode_b,
                       (long long)m, (long long)n, (long long)k, (long long)l, (long long)(i % m),
                       (long long)j, got, 2 * sum);
        }
    }
    drop(&a);
    drop(&b);
    H_OK(trp_buffer_free(world.device, out));
    free(d);
}

static void check_product(trp_dtype type_a, trp_dtype type_b, trp_scale_mode mode_a,
                          trp_scale_mode mode_b, int64_t m, int64_t n, int64_t k, bool by_row)
{
    check_batch(type_a, type_b, mode_a, mode_b, m, n, k, by_row, 1);
}

static trp_dtype fp8(void)
{
    return below(2) ? TRP_F8E4M3 : TRP_F8E5M2;
}

/* What 9.0 has kernels for: lines of A and B at multiples of 16 bytes, those with factors of their
 * own in fours, D's lines at multiples of 16 bytes. */
static void blocks_of_128(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int i = 0; i < 12; i++) {
        trp_scale_mode a = i & 1 ? TRP_SCALE_BLOCK_128 : TRP_SCALE_BLOCK_128X128;
        trp_scale_mode b = i & 2 ? TRP_SCALE_BLOCK_128 : TRP_SCALE_BLOCK_128X128;
        check_product(fp8(), fp8(), a, b, 4 * (1 + (int64_t)below(40)),
                      4 * (1 + (int64_t)below(70)), 16 * (1 + (int64_t)below(36)), i & 4);
        check_batch(fp8(), fp8(), a, b, 4 * (1 + (int64_t)below(40)), 4 * (1 + (int64_t)below(40)),
                    16 * (1 + (int64_t)below(20)), i & 4, 2 + (int64_t)below(3));
    }
    h_close(&world);
}

/* The host has no such limits, and has the factors of Blackwell too. */
static void on_the_host(void)
{
    if (h_is_cuda())
        return;
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int i = 0; i < 12; i++) {
        int64_t m = 1 + (int64_t)below(150), n = 1 + (int64_t)below(150);
        int64_t k = 2 + 2 * (int64_t)below(200);
        check_product(fp8(), fp8(), TRP_SCALE_BLOCK_128, TRP_SCALE_BLOCK_128X128, m, n, k + i % 2,
                      i & 1);
        check_product(fp8(), fp8(), TRP_SCALE_BLOCK_32, TRP_SCALE_BLOCK_32, m, n, k + i % 2, i & 1);
        check_product(TRP_F4E2M1, TRP_F4E2M1, TRP_SCALE_BLOCK_16, TRP_SCALE_BLOCK_16, m, n, k,
                      i & 1);
        check_batch(fp8(), fp8(), TRP_SCALE_BLOCK_32, TRP_SCALE_BLOCK_32, 1 + (int64_t)below(140),
                    1 + (int64_t)below(40), k, i & 1, 3);
        check_batch(TRP_F4E2M1, TRP_F4E2M1, TRP_SCALE_BLOCK_16, TRP_SCALE_BLOCK_16,
                    1 + (int64_t)below(40), 1 + (int64_t)below(140), k, i & 1, 2);
    }
    h_close(&world);
}

/* What is timed reads the factors too. */
static void searched(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    tune = TRP_TUNE_FULL;
    check_product(fp8(), fp8(), TRP_SCALE_BLOCK_128, TRP_SCALE_BLOCK_128X128, 36, 52, 160, true);
    check_product(fp8(), fp8(), TRP_SCALE_BLOCK_128X128, TRP_SCALE_BLOCK_128, 36, 52, 160, true);
    tune = TRP_TUNE_OFF;
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static trp_cutlass_gemm_request right(trp_buffer any)
{
    return (trp_cutlass_gemm_request){
        .m = 16,
        .n = 16,
        .k = 128,
        .a = {.buffer = any,
              .type = TRP_F8E4M3,
              .order = TRP_ROW_MAJOR,
              .scale = {.buffer = any, .mode = TRP_SCALE_BLOCK_128}},
        .b = {.buffer = any, .scale = {.buffer = any, .mode = TRP_SCALE_BLOCK_128X128}}};
}

static void refuse(const trp_cutlass_gemm_request *r, trp_status status, const char *word)
{
    trp_completion done = {0};
    H_IS(trp_cutlass_gemm(cutlass, r, &done), status);
    H_SAYS(word);
}

#define REFUSE(change, status, word)                                                               \
    do {                                                                                           \
        trp_cutlass_gemm_request r = right(any);                                                   \
        r.d.buffer = out;                                                                          \
        change;                                                                                    \
        refuse(&r, status, word);                                                                  \
    } while (0)

static void refused(void)
{
    trp_completion done = {0};
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    trp_buffer any = h_buffer(world.device, 4096), out = h_buffer(world.device, 4096);
    trp_cutlass_gemm_request first = right(any);
    first.d.buffer = out;
    H_OK(trp_cutlass_gemm(cutlass, &first, &done));
    H_OK(h_await_any(done));
    REFUSE(r.a.scale.mode = TRP_SCALE_VECTOR, TRP_E_UNSUPPORTED, "a.scale: expected none, or");
    REFUSE(r.a.scale.mode = (trp_scale_mode)6, TRP_E_ARGUMENT, "a.scale.mode: expected a trp_sc");
    REFUSE(r.b.scale.mode = (trp_scale_mode)-1, TRP_E_ARGUMENT, "b.scale.mode: expected");
    REFUSE(r.b.scale.buffer.id = 0, TRP_E_ARGUMENT, "b.scale.buffer: expected one with mode 5");
    REFUSE(r.a.scale = (trp_scale){0}, TRP_E_UNSUPPORTED, "a.scale: expected factors of as many");
    REFUSE(r.b.scale = (trp_scale){0}, TRP_E_UNSUPPORTED, "b.scale: expected factors of as many");
    REFUSE(r.b.scale.mode = TRP_SCALE_BLOCK_32, TRP_E_UNSUPPORTED, "got mode 4 and 3");
    REFUSE(r.b.scale.mode = TRP_SCALE_BLOCK_16, TRP_E_UNSUPPORTED,
           "b.scale: factors of mode 2 for a matrix of type f8e4m3");
    REFUSE(r.a.type = TRP_BF16, TRP_E_UNSUPPORTED, "a.scale: factors of mode 4 for a matrix of");
    REFUSE(r.a.type = TRP_I8, TRP_E_UNSUPPORTED, "a.scale: factors of mode 4 for a matrix of");
    REFUSE(r.a.scale.offset = 2, TRP_E_ARGUMENT, "a.scale.offset: expected a multiple of 4, got 2");
    REFUSE(r.a.scale.offset = 4080, TRP_E_ARGUMENT, "a.scale");
    REFUSE((r.batch = 2, r.d.stride = 256, r.a.scale.stride = -4), TRP_E_ARGUMENT,
           "a.scale.stride: expected 0 to 2^31 - 1, got -4");
    REFUSE((r.batch = 2, r.d.stride = 256, r.b.scale.stride = INT64_C(1) << 31), TRP_E_ARGUMENT,
           "b.scale.stride: expected 0 to 2^31 - 1, got 2147483648");
    REFUSE((r.batch = 2, r.d.stride = 256, r.a.scale.mode = TRP_SCALE_BLOCK_32,
            r.a.scale.stride = 520),
           TRP_E_ARGUMENT, "a.scale.stride: expected 0 to 2^31 - 1, a multiple of 16, got 520");
    REFUSE((r.batch = 2, r.d.stride = 256, r.a.scale.stride = 1020), TRP_E_ARGUMENT, "a.scale");
    REFUSE((r.batch = 3, r.d.stride = 256, r.a.scale.stride = INT64_C(1) << 30),
           h_backend() == TRP_BACKEND_CUDA ? TRP_E_UNSUPPORTED : TRP_E_ARGUMENT, "a.scale");
    REFUSE(r.b.scale.buffer = out, TRP_E_ARGUMENT, "overlap");
    REFUSE(r.d.scale.buffer = any, TRP_E_UNSUPPORTED, "d.scale: expected none");
    REFUSE((r.a.type = TRP_F4E2M1, r.a.scale = r.b.scale = (trp_scale){0}), TRP_E_UNSUPPORTED,
           "expected factors of as many elements along k as f4e2m1 must have");
    REFUSE((r.a.type = TRP_F4E2M1, r.k = 127), TRP_E_ARGUMENT, "of even numbers of elements");
    REFUSE((r.groups.scale = any), TRP_E_UNSUPPORTED,
           "groups: expected none but for a B of 8 or 4 bits");
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static const h_case cases[] = {H_CASE(blocks_of_128), H_CASE(on_the_host), H_CASE(searched),
                               H_CASE(refused)};

int main(int argc, char **argv)
{
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* gpu/cutlass_rows has some */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
