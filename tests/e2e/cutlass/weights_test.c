/* The cutlass actor: products of weights of 8 and 4 bits, with factors for groups along k, held
 * against float64. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/harness.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
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

static double load(trp_dtype type, const void *data, int64_t at)
{
    return creal(ref_element_load(type, data, at));
}

/* D = sums * column[col] of A, m x k, and weights, n x k, `batch` of each. A tree, so that rows and
 * columns are told apart. */
typedef struct problem {
    trp_dtype a, b;
    int64_t m, n, k, batch;
    int64_t group; /* 0: none */
    bool zeros, by_row;
    const char *kernel; /* NULL: any */
} problem;

enum { A, B, SCALE, ZERO, COLUMN, D, OPERANDS };

typedef struct operands {
    unsigned char *data[OPERANDS];
    size_t bytes[OPERANDS];
    trp_buffer at[OPERANDS];
    /* Of weights: where they begin, and elements between lines and between those of a batch. */
    int64_t first, ld, stride;
    int64_t scale_stride; /* of the batch; 0: all have the same */
} operands;

static void fill(operands *x, const problem *p)
{
    float *column = (float *)(void *)x->data[COLUMN];
    for (int64_t i = 0; i < p->batch * p->m * p->k; i++)
        ref_element_store(p->a, x->data[A], i, (double)below(401) / 100 - 2);
    for (int64_t i = 0; i < p->batch * p->n * p->k; i++) {
        const int64_t line = i / p->k;
        ref_element_store(p->b, x->data[B] + x->first,
                          line / p->n * x->stride + line % p->n * x->ld + i % p->k,
                          p->b == TRP_I4   ? (double)below(16) - 8
                          : p->b == TRP_I8 ? (double)below(255) - 127
                                           : (double)below(401) / 50 - 4);
    }
    for (int64_t i = 0; i < (int64_t)(x->bytes[SCALE] / 2); i++) {
        ref_element_store(p->a, x->data[SCALE], i, (double)(1 + below(200)) / 64);
        ref_element_store(p->a, x->data[ZERO], i, (double)below(200) / 32 - 3);
    }
    for (int64_t j = 0; j < p->n; j++)
        column[j] = (float)(1 + below(16)) / 4;
}

/* Two weights of 4 bits are a byte; their lines may lie apart, and behind something. What is not
 * written here is random, D too. */
static operands make_operands(const problem *p)
{
    const bool fours = p->b == TRP_I4;
    const int64_t groups = p->group ? (p->k - 1) / p->group + 1 : 1, count = groups * p->n;
    operands x = {.first = fours ? 16 : 0, .ld = p->k + (fours ? 32 * (int64_t)below(3) : 0)};
    x.stride = p->n * x.ld + (fours ? 32 * (int64_t)below(2) : 0);
    x.scale_stride = p->batch > 1 && below(3) ? count + 8 * (int64_t)below(2) : 0;
    x.bytes[A] = (size_t)(p->batch * p->m * p->k) * 2;
    x.bytes[B] = (size_t)(x.first + p->batch * x.stride);
    x.bytes[SCALE] = x.bytes[ZERO] = (size_t)(count + (p->batch - 1) * x.scale_stride) * 2;
    x.bytes[COLUMN] = (size_t)p->n * sizeof(float);
    x.bytes[D] = (size_t)(p->batch * p->m * p->n) * sizeof(float);
    for (int i = 0; i < OPERANDS; i++) {
        x.data[i] = h_malloc(x.bytes[i]);
        h_random_bytes(h_rng(), x.data[i], x.bytes[i]);
    }
    fill(&x, p);
    for (int i = 0; i < OPERANDS; i++) {
        x.at[i] = h_buffer(world.device, x.bytes[i]);
        h_write(world.device, x.at[i], 0, x.data[i], x.bytes[i]);
    }
    return x;
}

static void drop(operands *x)
{
    for (int i = 0; i < OPERANDS; i++) {
        H_OK(trp_buffer_free(world.device, x->at[i]));
        free(x->data[i]);
    }
}

/* The rows of A of number l: m x k. */
static double *widened_a(const problem *p, const operands *x, int64_t l)
{
    double *out = h_malloc((size_t)(p->m * p->k) * sizeof *out);
    for (int64_t i = 0; i < p->m * p->k; i++)
        out[i] = load(p->a, x->data[A], l * p->m * p->k + i);
    return out;
}

/* The weights of number l, as A's type has them: n x k. */
static double *widened_b(const problem *p, const operands *x, int64_t l)
{
    double *out = h_malloc((size_t)(p->n * p->k) * sizeof *out);
    for (int64_t i = 0; i < p->n * p->k; i++) {
        const int64_t line = i / p->k, q = i % p->k;
        const int64_t at = l * x->scale_stride + (p->group ? q / p->group : 0) * p->n + line;
        out[i] = load(p->b, x->data[B] + x->first, l * x->stride + line * x->ld + q);
        if (p->group)
            out[i] = ref_element_round(p->a, out[i] * load(p->a, x->data[SCALE], at));
        if (p->zeros)
            out[i] = ref_element_round(p->a, out[i] + load(p->a, x->data[ZERO], at));
    }
    return out;
}

static void compare(const problem *p, const operands *x, int64_t l)
{
    const float *d = (const float *)(const void *)x->data[D] + l * p->m * p->n;
    const float *column = (const float *)(const void *)x->data[COLUMN];
    double *a = widened_a(p, x, l), *b = widened_b(p, x, l);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        const int64_t row = i / p->n, col = i % p->n;
        double sum = 0, size = 0, got = (double)d[p->by_row ? i : col * p->m + row];
        for (int64_t q = 0; q < p->k; q++) {
            double one = a[row * p->k + q] * b[col * p->k + q];
            sum += one;
            size += fabs(one);
        }
        sum *= (double)column[col];
        if (!(fabs(got - sum) <= 2e-6 * size * (double)column[col] + 1e-30))
            h_fail(__FILE__, __LINE__,
                   "%s x %s, groups of %lld%s, %lld x %lld x %lld, number %lld: D[%lld][%lld] is "
                   "%.9g, expected %.9g",
                   trp_dtype_name(p->a), trp_dtype_name(p->b), (long long)p->group,
                   p->zeros ? " with zeros" : "", (long long)p->m, (long long)p->n, (long long)p->k,
                   (long long)l, (long long)row, (long long)col, got, sum);
    }
    free(a);
    free(b);
}

/* A product under way. */
typedef struct sent {
    problem p;
    operands x;
    trp_completion done;
} sent;

static void send_product(const problem *p, sent *out)
{
    const operands x = make_operands(p);
    const trp_epilogue_node nodes[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_SCALE_COLUMNS, .input = {1}, .buffer = x.at[COLUMN]},
    };
    trp_cutlass_chosen chosen;
    trp_cutlass_gemm_request r = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .a = {.buffer = x.at[A], .type = p->a, .order = TRP_ROW_MAJOR, .stride = p->m * p->k},
        .b = {.buffer = x.at[B],
              .offset = (uint64_t)x.first,
              .type = p->b,
              .ld = x.ld,
              .stride = x.stride},
        .d = {.buffer = x.at[D],
              .type = TRP_F32,
              .order = p->by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
              .stride = p->m * p->n},
        .epilogue = nodes,
        .epilogue_count = 3,
        .kernel = p->kernel,
        .tune = tune,
        .chosen = &chosen};
    if (p->group)
        r.groups =
            (trp_cutlass_groups){.size = p->group, .scale = x.at[SCALE], .stride = x.scale_stride};
    if (p->zeros)
        r.groups.zero = x.at[ZERO];
    *out = (sent){.p = *p, .x = x};
    H_OK(trp_cutlass_gemm(cutlass, &r, &out->done));
    H_CHECK(!h_is_cuda() || chosen.searching == (tune != TRP_TUNE_OFF));
}

static void check_sent(sent *s)
{
    operands *x = &s->x;
    H_OK(h_await_any(s->done));
    h_read(world.device, x->at[D], 0, x->data[D], x->bytes[D]);
    for (int64_t l = 0; l < s->p.batch; l++)
        compare(&s->p, x, l);
    drop(x);
}

static void check(const problem *p)
{
    sent s;
    send_product(p, &s);
    check_sent(&s);
}

static trp_dtype half(void)
{
    return below(2) ? TRP_F16 : TRP_BF16;
}

/* What 9.0 has kernels for; and for the host, of any sizes and groups. */
static void of_all_types(void)
{
    static const trp_dtype narrow[] = {TRP_I8, TRP_I4, TRP_F8E4M3, TRP_F8E5M2};
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int i = 0; i < 24; i++) {
        problem p = {.a = half(),
                     .b = narrow[i % 4],
                     .m = i & 4 ? 1 + (int64_t)below(90) : 4 * (1 + (int64_t)below(20)),
                     .n = 8 * (1 + (int64_t)below(16)),
                     .k = 32 * (1 + (int64_t)below(9)),
                     .batch = i < 12 ? 1 : 1 + (int64_t)below(3),
                     .group = i & 8 ? 64 * (1 + (int64_t)below(3)) : 0,
                     .by_row = i & 4};
        p.zeros = p.group && below(2);
        check(&p);
        if (h_is_cuda())
            continue;
        p.n++;
        p.k += p.b == TRP_I4 ? 2 : 1;
        p.group = 1 + (int64_t)below(40);
        p.zeros = below(2);
        check(&p);
    }
    h_close(&world);
}

/* One factor for a column, and groups of k, with and without zeros, of each. */
static void of_a_batch(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int i = 0; i < 8; i++)
        check(&(problem){.a = half(),
                         .b = i & 1 ? TRP_I4 : TRP_I8,
                         .m = 20,
                         .n = 24,
                         .k = 160,
                         .batch = 3,
                         .group = i & 2 ? 64 : 160,
                         .zeros = i & 4,
                         .by_row = below(2)});
    h_close(&world);
}

/* Kernels of 2.x, for any device: either matrix narrow (as the order of D has it), groups that end
 * within a tile, factors that begin anywhere, and a k whose first tile is not whole. They are all
 * compiled before the first one is waited for. */
static void by_mma(void)
{
    static const trp_dtype narrow[] = {TRP_I8, TRP_I4, TRP_F8E4M3, TRP_F8E5M2};
    enum { TILES = 5, PRODUCTS = 8 * TILES };
    sent *s = h_malloc(PRODUCTS * sizeof *s);
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int i = 0; i < PRODUCTS; i++) {
        const trp_dtype b = narrow[i % 4];
        static const char *const tiles[TILES] = {"128x128x64", "64x64x64", "64x128x64", "32x128x64",
                                                 "16x128x64"};
        static const char *const ends[TILES] = {"", "_d1", "", "_streamk", "_streamk"};
        char kernel[64];
        const int tile = i / 4 % TILES;
        const bool in_parts = h_is_cuda() && tile > 2; /* sums that are long enough for it */
        const int64_t even = tile == 1 ? 1 : 8;
        snprintf(kernel, sizeof kernel, "s80_mixed_%s%s_%s%s", b == TRP_I4 ? "i4_" : "",
                 tiles[tile], b == TRP_I4 ? "a32" : "a16", ends[tile]);
        problem p = {.a = half(),
                     .b = b,
                     .m = even * (1 + (int64_t)below((size_t)(200 / even))),
                     .n = even * (1 + (int64_t)below((size_t)(200 / even))),
                     .k = (b == TRP_I4 ? 32 : 16) * (1 + (int64_t)below(in_parts ? 200 : 40)),
                     .batch = in_parts ? 1 : 1 + (int64_t)below(3),
                     .by_row = i < PRODUCTS / 2,
                     .kernel = h_is_cuda() ? kernel : NULL};
        p.group = below(4) ? 32 * (1 + (int64_t)below(6)) : below(2) ? p.k : 0;
        p.k += p.group && p.group < p.k ? p.k % 32 : 0;
        p.zeros = p.group && below(2);
        send_product(&p, &s[i]);
    }
    for (int i = 0; i < PRODUCTS; i++)
        check_sent(&s[i]);
    free(s);
    h_close(&world);
}

/* What is timed reads the factors too. */
static void searched(void)
{
    static const int64_t groups[] = {0, 64, 128};
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    tune = TRP_TUNE_FULL;
    for (int i = 0; i < 4; i++)
        check(&(problem){.a = TRP_BF16,
                         .b = i < 3 ? TRP_I8 : TRP_I4,
                         .m = 20,
                         .n = 24,
                         .k = 160,
                         .batch = 1,
                         .group = groups[i < 3 ? i : 1],
                         .zeros = i > 1,
                         .by_row = true});
    tune = TRP_TUNE_OFF;
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static void refuse(const trp_cutlass_gemm_request *r, trp_status status, const char *word)
{
    trp_completion done = {0};
    H_IS(trp_cutlass_gemm(cutlass, r, &done), status);
    H_SAYS(word);
}

#define REFUSE(change, status, word)                                                               \
    do {                                                                                           \
        trp_cutlass_gemm_request r = {.m = 16, .n = 16, .k = 128};                                 \
        r.a = (trp_matmul_matrix){.buffer = any, .type = TRP_BF16, .order = TRP_ROW_MAJOR};        \
        r.b = (trp_matmul_matrix){.buffer = any, .type = TRP_I8};                                  \
        r.d.buffer = out;                                                                          \
        r.groups = (trp_cutlass_groups){.size = 64, .scale = any};                                 \
        change;                                                                                    \
        refuse(&r, status, word);                                                                  \
    } while (0)

static void refused(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    trp_buffer any = h_buffer(world.device, 4096), out = h_buffer(world.device, 4096);
    REFUSE(r.groups.size = -1, TRP_E_ARGUMENT, "groups.size: expected 0 or more, got -1");
    REFUSE(r.groups.scale.id = 0, TRP_E_ARGUMENT, "groups.scale: expected a buffer");
    REFUSE((r.groups.scale.id = 0, r.groups.zero = any), TRP_E_ARGUMENT, "groups.scale");
    REFUSE(r.groups.scale_offset = 1, TRP_E_ARGUMENT,
           "groups.scale_offset: expected a multiple of 2, got 1");
    REFUSE(r.groups.scale_offset = 4080, TRP_E_ARGUMENT, "groups.scale");
    REFUSE((r.groups.zero = any, r.groups.zero_offset = 4080), TRP_E_ARGUMENT, "groups.zero");
    REFUSE((r.groups.zero = out), TRP_E_ARGUMENT, "overlap");
    REFUSE((r.batch = 2, r.d.stride = 256, r.groups.stride = -8), TRP_E_ARGUMENT,
           "groups.stride: expected 0 or more, got -8");
    REFUSE((r.batch = 2, r.d.stride = 256, r.groups.stride = 2040), TRP_E_ARGUMENT, "groups.scale");
    REFUSE((r.batch = 2, r.d.stride = 256, r.groups.stride = INT64_MAX / 2), TRP_E_ARGUMENT,
           "groups.scale");
    REFUSE(r.b.type = TRP_F16, TRP_E_UNSUPPORTED,
           "b.type: expected bf16, i8, i4, f8e4m3 or f8e5m2 where A is bf16, got f16");
    REFUSE(r.b.scale = ((trp_scale){.buffer = any, .mode = TRP_SCALE_BLOCK_128}), TRP_E_UNSUPPORTED,
           "b.scale: factors of mode 4 for a matrix of type i8");
    REFUSE((r.a.type = TRP_I8, r.b.type = TRP_BF16), TRP_E_UNSUPPORTED,
           "b.type: expected i8 where A is i8");
    REFUSE((r.b.type = TRP_I4, r.k = 127), TRP_E_ARGUMENT,
           "b: expected lines, b.ld and b.stride of even numbers of elements, got 127, 127");
    REFUSE((r.b.type = TRP_I4, r.b.ld = 129), TRP_E_ARGUMENT, "got 128, 129 and 0");
    REFUSE((r.b.type = TRP_I4, r.b.ld = 126), TRP_E_ARGUMENT, "b.ld: expected");
    REFUSE((r.b.type = TRP_I4, r.b.offset = 3088), TRP_E_ARGUMENT, "b");
    REFUSE((r.b.type = TRP_I4, r.b.order = TRP_ROW_MAJOR, r.n = 15), TRP_E_ARGUMENT,
           "of even numbers of elements, got 15, 15");
    REFUSE(r.a.type = TRP_I4, TRP_E_UNSUPPORTED, "a.type: expected f64");
    REFUSE(r.d.type = TRP_I4, TRP_E_UNSUPPORTED, "d.type: expected f32");
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static const h_case cases[] = {H_CASE(of_all_types), H_CASE(of_a_batch), H_CASE(by_mma),
                               H_CASE(searched), H_CASE(refused)};

static const h_case of_gpu[] = {H_CASE(by_mma), H_CASE(refused)};

int main(int argc, char **argv)
{
    /* gpu/cutlass_rows has some for 9.0, which take long to compile. */
    return h_main(argc, argv, h_is_gpu() ? of_gpu : cases,
                  (h_is_gpu() ? sizeof of_gpu : sizeof cases) / sizeof *cases);
}
