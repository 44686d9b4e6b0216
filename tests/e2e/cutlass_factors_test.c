/* The cutlass actor: products whose A and B have factors for blocks, held against float64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/elements.h"
#include "support/harness.h"
#include "support/matmul_reference.h"

#include <complex.h>
#include <math.h>
#include <string.h>

static h_world world;
static trp_actor *cutlass;
static trp_tune tune; /* of all products */

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* A or B: lines of k elements that follow each other, and their factors. */
typedef struct side {
    trp_dtype type;
    trp_scale_mode mode;
    int64_t lines, k;
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

static side make_side(trp_dtype type, trp_scale_mode mode, int64_t lines, int64_t k)
{
    side s = {.type = type, .mode = mode, .lines = lines, .k = k};
    size_t bytes = (size_t)(lines * k) * trp_dtype_bits(type) / 8;
    size_t scale_bytes = (size_t)ref_scale_bytes(mode, lines, k);
    s.data = h_malloc(bytes);
    s.scale = h_malloc(scale_bytes);
    for (int64_t i = 0; i < lines * k; i++)
        ref_element_store(type, s.data, i, (double)below(2001) / 500 - 2);
    for (size_t i = 0; i < scale_bytes; i++)
        s.scale[i] = mode == TRP_SCALE_BLOCK_16 ? (unsigned char)(40 + below(24))
                                                : (unsigned char)(125 + below(5));
    if (mode >= TRP_SCALE_BLOCK_128) {
        float *f = (float *)(void *)s.scale;
        for (size_t i = 0; i < scale_bytes / 4; i++)
            f[i] = (float)(1 + below(64)) / 32;
    }
    s.value = h_malloc((size_t)(lines * k) * sizeof *s.value);
    for (int64_t i = 0; i < lines * k; i++)
        s.value[i] = creal(ref_element_load(type, s.data, i)) *
                     ref_scale(mode, s.scale, lines, k, i / k, i % k);
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
    return (trp_matmul_matrix){.buffer = s->at,
                               .type = s->type,
                               .order = order,
                               .ld = s->k,
                               .scale = {.buffer = s->scale_at, .mode = s->mode}};
}

/* D = 2 sums, in f32, poisoned before. */
static void check_product(trp_dtype type_a, trp_dtype type_b, trp_scale_mode mode_a,
                          trp_scale_mode mode_b, int64_t m, int64_t n, int64_t k, bool by_row)
{
    side a = make_side(type_a, mode_a, m, k), b = make_side(type_b, mode_b, n, k);
    float *d = h_malloc((size_t)(m * n) * sizeof *d);
    h_random_bytes(h_rng(), d, (size_t)(m * n) * sizeof *d);
    trp_buffer out = upload(d, (size_t)(m * n) * sizeof *d);
    trp_cutlass_chosen chosen;
    const trp_cutlass_gemm_request r = {
        .m = m,
        .n = n,
        .k = k,
        .a = matrix_of(&a, TRP_ROW_MAJOR),
        .b = matrix_of(&b, TRP_COL_MAJOR),
        .d = {.buffer = out, .type = TRP_F32, .order = by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR},
        .alpha = trp_real(2),
        .tune = tune,
        .chosen = &chosen};
    trp_completion done = {0};
    H_OK(trp_cutlass_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    H_CHECK(!h_is_cuda() || chosen.searching == (tune != TRP_TUNE_OFF));
    h_read(world.device, out, 0, d, (size_t)(m * n) * sizeof *d);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0, got = (double)d[by_row ? i * n + j : j * m + i];
            for (int64_t p = 0; p < k; p++) {
                double one = a.value[i * k + p] * b.value[j * k + p];
                sum += one;
                size += fabs(one);
            }
            if (!(fabs(got - 2 * sum) <= 2e-6 * size + 1e-30))
                h_fail(__FILE__, __LINE__,
                       "%s (mode %d) x %s (mode %d), %lld x %lld x %lld: D[%lld][%lld] is %.9g, "
                       "expected %.9g",
                       trp_dtype_name(type_a), (int)mode_a, trp_dtype_name(type_b), (int)mode_b,
                       (long long)m, (long long)n, (long long)k, (long long)i, (long long)j, got,
                       2 * sum);
        }
    }
    drop(&a);
    drop(&b);
    H_OK(trp_buffer_free(world.device, out));
    free(d);
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
    }
    h_close(&world);
}

/* --- groups of a narrow B --- */

static double rounded_load(trp_dtype type, const void *data, int64_t at)
{
    return creal(ref_element_load(type, data, at));
}

/* D = x * sums[col] of weights with factors for groups: what they are rounded to is exact, with
 * sums of few enough elements. A tree, so that rows and columns are told apart. */
static void check_mixed(trp_dtype type_a, trp_dtype type_b, int64_t m, int64_t n, int64_t k,
                        int64_t group, bool zeros, bool by_row)
{
    int64_t groups = group ? (k - 1) / group + 1 : 1, count = groups * n;
    /* Two of 4 bits are a byte; their lines may lie apart, and behind something. */
    const bool fours = type_b == TRP_I4;
    const int64_t ldb = k + (fours ? 32 * (int64_t)below(3) : 0), first = fours ? 16 : 0;
    const size_t bytes_b = (size_t)(first + n * ldb);
    unsigned char *a = h_malloc((size_t)(m * k) * 2), *b = h_malloc(bytes_b);
    unsigned char *s = h_malloc((size_t)count * 2), *z = h_malloc((size_t)count * 2);
    float *column = h_malloc((size_t)n * sizeof *column);
    float *d = h_malloc((size_t)(m * n) * sizeof *d);
    for (int64_t i = 0; i < m * k; i++)
        ref_element_store(type_a, a, i, (double)below(401) / 100 - 2);
    h_random_bytes(h_rng(), b, bytes_b);
    for (int64_t i = 0; i < n * k; i++)
        ref_element_store(type_b, b + first, i / k * ldb + i % k,
                          fours              ? (double)below(16) - 8
                          : type_b == TRP_I8 ? (double)below(255) - 127
                                             : (double)below(401) / 50 - 4);
    for (int64_t i = 0; i < count; i++) {
        ref_element_store(type_a, s, i, (double)(1 + below(200)) / 64);
        ref_element_store(type_a, z, i, (double)below(200) / 32 - 3);
    }
    for (int64_t j = 0; j < n; j++)
        column[j] = (float)(1 + below(16)) / 4;
    h_random_bytes(h_rng(), d, (size_t)(m * n) * sizeof *d);
    trp_buffer at[] = {upload(a, (size_t)(m * k) * 2),
                       upload(b, bytes_b),
                       upload(s, (size_t)count * 2),
                       upload(z, (size_t)count * 2),
                       upload(column, (size_t)n * sizeof *column),
                       upload(d, (size_t)(m * n) * sizeof *d)};
    const trp_epilogue_node nodes[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_SCALE_COLUMNS, .input = {1}, .buffer = at[4]},
    };
    trp_cutlass_chosen chosen;
    trp_cutlass_gemm_request r = {
        .m = m,
        .n = n,
        .k = k,
        .a = {.buffer = at[0], .type = type_a, .order = TRP_ROW_MAJOR},
        .b = {.buffer = at[1], .offset = (uint64_t)first, .type = type_b, .ld = ldb},
        .d = {.buffer = at[5], .type = TRP_F32, .order = by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR},
        .epilogue = nodes,
        .epilogue_count = 3,
        .tune = tune,
        .chosen = &chosen};
    if (group)
        r.groups = (trp_cutlass_groups){.size = group, .scale = at[2]};
    if (zeros)
        r.groups.zero = at[3];
    trp_completion done = {0};
    H_OK(trp_cutlass_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    H_CHECK(!h_is_cuda() || chosen.searching == (tune != TRP_TUNE_OFF));
    h_read(world.device, at[5], 0, d, (size_t)(m * n) * sizeof *d);
    double *wide = h_malloc((size_t)(n * k) * sizeof *wide);
    for (int64_t i = 0; i < n * k; i++) {
        wide[i] = rounded_load(type_b, b + first, i / k * ldb + i % k);
        int64_t place = group ? i % k / group * n + i / k : 0;
        if (group)
            wide[i] = ref_element_round(type_a, wide[i] * rounded_load(type_a, s, place));
        if (zeros)
            wide[i] = ref_element_round(type_a, wide[i] + rounded_load(type_a, z, place));
    }
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0, got = (double)d[by_row ? i * n + j : j * m + i];
            for (int64_t p = 0; p < k; p++) {
                double one = rounded_load(type_a, a, i * k + p) * wide[j * k + p];
                sum += one;
                size += fabs(one);
            }
            sum *= (double)column[j];
            if (!(fabs(got - sum) <= 2e-6 * size * (double)column[j] + 1e-30))
                h_fail(__FILE__, __LINE__,
                       "%s x %s, groups of %lld%s, %lld x %lld x %lld: D[%lld][%lld] is %.9g, "
                       "expected %.9g",
                       trp_dtype_name(type_a), trp_dtype_name(type_b), (long long)group,
                       zeros ? " with zeros" : "", (long long)m, (long long)n, (long long)k,
                       (long long)i, (long long)j, got, sum);
        }
    }
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        H_OK(trp_buffer_free(world.device, at[i]));
    free(a);
    free(b);
    free(s);
    free(z);
    free(column);
    free(d);
    free(wide);
}

static void narrow_weights(void)
{
    static const trp_dtype narrow[] = {TRP_I8, TRP_I4, TRP_F8E4M3, TRP_F8E5M2};
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int i = 0; i < 16; i++) {
        trp_dtype a = below(2) ? TRP_F16 : TRP_BF16, b = narrow[i / 4];
        int64_t n = 8 * (1 + (int64_t)below(16)), k = 32 * (1 + (int64_t)below(9));
        int64_t m = i & 1 ? 1 + (int64_t)below(90) : 4 * (1 + (int64_t)below(20));
        check_mixed(a, b, m, n, k, i & 2 ? 64 * (1 + (int64_t)below(3)) : 0, below(2) && i & 2,
                    i & 1);
        if (!h_is_cuda())
            check_mixed(a, b, m, n + 1, k + (b == TRP_I4 ? 2 : 1), 1 + (int64_t)below(40), i & 1,
                        i & 2);
    }
    check_mixed(TRP_BF16, TRP_I4, 20, 24, 160, 64, true, true);
    check_mixed(TRP_F16, TRP_I4, 20, 24, 160, 128, false, false);
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
    check_mixed(TRP_BF16, TRP_I8, 20, 24, 144, 0, false, true);
    check_mixed(TRP_BF16, TRP_I8, 20, 24, 144, 64, false, true);
    check_mixed(TRP_BF16, TRP_I8, 20, 24, 144, 64, true, true);
    check_mixed(TRP_BF16, TRP_I8, 20, 24, 144, 128, true, true);
    check_mixed(TRP_BF16, TRP_I4, 20, 24, 160, 64, true, true);
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
    REFUSE((r.batch = 2, r.d.stride = 256), TRP_E_UNSUPPORTED,
           "a.scale: factors of blocks with a batch");
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

#define REFUSE_GROUPS(change, status, word)                                                        \
    do {                                                                                           \
        trp_cutlass_gemm_request r = {.m = 16, .n = 16, .k = 128};                                 \
        r.a = (trp_matmul_matrix){.buffer = any, .type = TRP_BF16, .order = TRP_ROW_MAJOR};        \
        r.b = (trp_matmul_matrix){.buffer = any, .type = TRP_I8};                                  \
        r.d.buffer = out;                                                                          \
        r.groups = (trp_cutlass_groups){.size = 64, .scale = any};                                 \
        change;                                                                                    \
        refuse(&r, status, word);                                                                  \
    } while (0)

static void refused_groups(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    trp_buffer any = h_buffer(world.device, 4096), out = h_buffer(world.device, 4096);
    REFUSE_GROUPS(r.groups.size = -1, TRP_E_ARGUMENT, "groups.size: expected 0 or more, got -1");
    REFUSE_GROUPS(r.groups.scale.id = 0, TRP_E_ARGUMENT, "groups.scale: expected a buffer");
    REFUSE_GROUPS((r.groups.scale.id = 0, r.groups.zero = any), TRP_E_ARGUMENT, "groups.scale");
    REFUSE_GROUPS(r.groups.scale_offset = 1, TRP_E_ARGUMENT,
                  "groups.scale_offset: expected a multiple of 2, got 1");
    REFUSE_GROUPS(r.groups.scale_offset = 4080, TRP_E_ARGUMENT, "groups.scale");
    REFUSE_GROUPS((r.groups.zero = any, r.groups.zero_offset = 4080), TRP_E_ARGUMENT,
                  "groups.zero");
    REFUSE_GROUPS((r.groups.zero = out), TRP_E_ARGUMENT, "overlap");
    REFUSE_GROUPS((r.batch = 2, r.d.stride = 256), TRP_E_UNSUPPORTED,
                  "groups: factors with a batch");
    REFUSE_GROUPS(r.b.type = TRP_F16, TRP_E_UNSUPPORTED,
                  "b.type: expected bf16, i8, i4, f8e4m3 or f8e5m2 where A is bf16, got f16");
    REFUSE_GROUPS(r.b.scale = ((trp_scale){.buffer = any, .mode = TRP_SCALE_BLOCK_128}),
                  TRP_E_UNSUPPORTED, "b.scale: factors of mode 4 for a matrix of type i8");
    REFUSE_GROUPS((r.a.type = TRP_I8, r.b.type = TRP_BF16), TRP_E_UNSUPPORTED,
                  "b.type: expected i8 where A is i8");
    REFUSE_GROUPS((r.b.type = TRP_I4, r.k = 127), TRP_E_ARGUMENT,
                  "b: expected lines, b.ld and b.stride of even numbers of elements, got 127, 127");
    REFUSE_GROUPS((r.b.type = TRP_I4, r.b.ld = 129), TRP_E_ARGUMENT, "got 128, 129 and 0");
    REFUSE_GROUPS((r.b.type = TRP_I4, r.b.ld = 126), TRP_E_ARGUMENT, "b.ld: expected");
    REFUSE_GROUPS((r.b.type = TRP_I4, r.b.offset = 3088), TRP_E_ARGUMENT, "b");
    REFUSE_GROUPS((r.b.type = TRP_I4, r.b.order = TRP_ROW_MAJOR, r.n = 15), TRP_E_ARGUMENT,
                  "of even numbers of elements, got 15, 15");
    REFUSE_GROUPS(r.a.type = TRP_I4, TRP_E_UNSUPPORTED, "a.type: expected f64");
    REFUSE_GROUPS(r.d.type = TRP_I4, TRP_E_UNSUPPORTED, "d.type: expected f32");
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static const h_case cases[] = {
    {"blocks_of_128", blocks_of_128},
    {"on_the_host", on_the_host},
    {"narrow_weights", narrow_weights},
    {"searched", searched},
    {"refused", refused},
    {"refused_groups", refused_groups},
};

int main(int argc, char **argv)
{
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* gpu/cutlass_rows has some */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
