/* The cutlass actor: products of every type and layout, with small integers as input, so that what
 * must come out is known to the bit. SPDX-License-Identifier: Apache-2.0 */
#include "support/elements.h"
#include "support/harness.h"

#include <complex.h>
#include <math.h>

static h_world world;
static trp_actor *cutlass;

static void open_world(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
}

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* --- matrices --- */

/* One as it lies in memory, in elements, with gaps of random width. */
typedef struct layout {
    trp_dtype type;
    bool row_major;
    size_t offset, ld, stride, span;
    unsigned char *data; /* what it holds before */
    trp_buffer buffer;
} layout;

static size_t bytes_of(const layout *x, size_t elements)
{
    return elements * (trp_dtype_bits(x->type) / 8);
}

static layout lay_out(trp_dtype type, size_t rows, size_t columns, size_t batch, bool shared)
{
    layout x = {.type = type, .row_major = below(2)};
    size_t run = x.row_major ? columns : rows, lines = x.row_major ? rows : columns;
    x.ld = run + below(6);
    x.offset = below(5);
    x.stride = shared ? 0 : lines * x.ld + below(7);
    x.span = x.offset + (batch - 1) * x.stride + lines * x.ld + 8;
    x.data = h_malloc(bytes_of(&x, x.span));
    h_random_bytes(h_rng(), x.data, bytes_of(&x, x.span));
    return x;
}

static int64_t at(const layout *x, size_t i, size_t j, size_t b)
{
    return (int64_t)(x->offset + b * x->stride +
                     (x->row_major ? i * x->ld + j : j * x->ld + i));
}

/* Small integers, which all types have. */
static void fill(layout *x)
{
    for (size_t i = 0; i < x->span; i++)
        ref_element_store(x->type, x->data, (int64_t)i,
                          (double)below(9) - 4);
}

static double load(const layout *x, size_t i, size_t j, size_t b)
{
    return creal(ref_element_load(x->type, x->data, at(x, i, j, b)));
}

static void send(layout *x)
{
    x->buffer = h_buffer(world.device, bytes_of(x, x->span));
    h_write(world.device, x->buffer, 0, x->data, bytes_of(x, x->span));
}

static trp_matmul_matrix matrix_of(const layout *x)
{
    return (trp_matmul_matrix){.buffer = x->buffer,
                               .offset = bytes_of(x, x->offset),
                               .type = x->type,
                               .order = x->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)x->ld,
                               .stride = (int64_t)x->stride};
}

static void drop(layout *x)
{
    if (x->buffer.id)
        H_OK(trp_buffer_free(world.device, x->buffer));
    free(x->data);
}

/* --- products without a tree --- */

typedef struct problem {
    trp_dtype a, b, c, d;
    size_t m, n, k, batch;
    double alpha, beta;
    bool in_place;
} problem;

static trp_dtype one_of(const trp_dtype *types, size_t count)
{
    return types[below(count)];
}

static problem random_problem(size_t most)
{
    static const trp_dtype inputs[] = {TRP_F64, TRP_F32,    TRP_F16,    TRP_BF16,
                                       TRP_I8,  TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    static const trp_dtype narrow[] = {TRP_F32,    TRP_F16,    TRP_BF16,
                                       TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    static const trp_dtype wide[] = {TRP_F64, TRP_F32};
    static const double alphas[] = {1, 1, -2, 0, 3}, betas[] = {0, 0, 1, -3, 2};
    problem p = {.a = inputs[below(8)],
                 .m = 1 + below(most),
                 .n = 1 + below(most),
                 .k = 1 + below(most),
                 .batch = below(3) ? 1 : 1 + below(4),
                 .alpha = alphas[below(5)],
                 .beta = betas[below(5)],
                 .in_place = below(3) == 0};
    bool fp8 = p.a == TRP_F8E4M3 || p.a == TRP_F8E5M2;
    p.b = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : p.a;
    p.d = p.a == TRP_F64 ? one_of(wide, 2) : one_of(narrow, 6);
    p.c = p.a == TRP_F64 ? one_of(wide, 2) : one_of(narrow, 6);
    if (p.a == TRP_I8 && below(2))
        p.c = p.d = TRP_I32;
    if (p.in_place)
        p.c = p.d;
    return p;
}

/* The sums, with A by rows and B by columns, so that even large ones take no time. */
static double *sums_of(const problem *p, const layout *a, const layout *b, size_t l)
{
    double *wide_a = h_malloc(p->m * p->k * sizeof *wide_a);
    double *wide_b = h_malloc(p->k * p->n * sizeof *wide_b);
    double *sums = h_malloc(p->m * p->n * sizeof *sums);
    for (size_t x = 0; x < p->k; x++) {
        for (size_t i = 0; i < p->m; i++)
            wide_a[i * p->k + x] = load(a, i, x, l);
        for (size_t j = 0; j < p->n; j++)
            wide_b[j * p->k + x] = load(b, x, j, l);
    }
    for (size_t j = 0; j < p->n; j++) {
        for (size_t i = 0; i < p->m; i++) {
            double sum = 0;
            for (size_t x = 0; x < p->k; x++)
                sum += wide_a[i * p->k + x] * wide_b[j * p->k + x];
            sums[j * p->m + i] = sum;
        }
    }
    free(wide_a);
    free(wide_b);
    return sums;
}

/* What D must hold, gaps and all. */
static unsigned char *expected(const problem *p, const layout *a, const layout *b, const layout *c,
                               const layout *d)
{
    unsigned char *want = h_malloc(bytes_of(d, d->span));
    memcpy(want, d->data, bytes_of(d, d->span));
    for (size_t l = 0; l < p->batch; l++) {
        double *sums = sums_of(p, a, b, l);
        for (size_t j = 0; j < p->n; j++) {
            for (size_t i = 0; i < p->m; i++) {
                double sum = sums[j * p->m + i];
                double value = p->beta != 0 ? fma(p->alpha, sum, p->beta * load(c, i, j, l))
                                            : p->alpha * sum;
                ref_element_store(p->d, want, at(d, i, j, l), value);
            }
        }
        free(sums);
    }
    return want;
}

static void check_product(const problem *p)
{
    layout a = lay_out(p->a, p->m, p->k, p->batch, below(4) == 0);
    layout b = lay_out(p->b, p->k, p->n, p->batch, below(4) == 0);
    layout d = lay_out(p->d, p->m, p->n, p->batch, false), c = {0};
    fill(&a);
    fill(&b);
    if (p->in_place && p->beta != 0)
        fill(&d);
    if (!p->in_place) {
        c = lay_out(p->c, p->m, p->n, p->batch, below(4) == 0);
        if (c.row_major != d.row_major) { /* C's order is D's */
            bool by_row = d.row_major;
            do {
                free(c.data);
                c = lay_out(p->c, p->m, p->n, p->batch, false);
            } while (c.row_major != by_row);
        }
        if (p->beta != 0)
            fill(&c); /* else what is there must not be read */
        send(&c);
    }
    send(&a);
    send(&b);
    send(&d);
    trp_cutlass_gemm_request r = {.m = (int64_t)p->m,
                                  .n = (int64_t)p->n,
                                  .k = (int64_t)p->k,
                                  .batch = (int64_t)(p->batch == 1 && below(2) ? 0 : p->batch),
                                  .a = matrix_of(&a),
                                  .b = matrix_of(&b),
                                  .c = matrix_of(p->in_place ? &d : &c),
                                  .d = matrix_of(&d)};
    if (p->alpha != 1 || below(2))
        r.alpha = trp_real(p->alpha);
    if (p->beta != 0 || below(2))
        r.beta = trp_real(p->beta);
    trp_completion done = {0};
    H_OK(trp_cutlass_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));

    size_t size = bytes_of(&d, d.span);
    unsigned char *after = h_malloc(size);
    h_read(world.device, d.buffer, 0, after, size);
    unsigned char *want = expected(p, &a, &b, p->in_place ? &d : &c, &d);
    for (size_t i = 0; i < size; i++) {
        if (after[i] != want[i])
            h_fail(__FILE__, __LINE__,
                   "%s x %s + %s -> %s, %zu x %zu x %zu, batch %zu, alpha %g beta %g: byte %zu of "
                   "%zu is %#x, expected %#x",
                   trp_dtype_name(p->a), trp_dtype_name(p->b), trp_dtype_name(p->c),
                   trp_dtype_name(p->d), p->m, p->n, p->k, p->batch, p->alpha, p->beta, i, size,
                   after[i], want[i]);
    }
    free(want);
    free(after);
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&d);
}

static void products(void)
{
    open_world();
    for (int i = 0; i < 400; i++) {
        problem p = random_problem(i % 20 == 0 ? 90 : 20);
        check_product(&p);
    }
    h_close(&world);
}

/* More than one tile in every direction. */
static void large(void)
{
    open_world();
    for (int i = 0; i < 2; i++) {
        problem p = random_problem(4);
        p.a = p.b = i ? TRP_I8 : TRP_BF16;
        p.c = p.d = i ? TRP_I32 : TRP_F32;
        p.m = 513 + below(9);
        p.n = 514;
        p.k = 515;
        p.batch = 1;
        check_product(&p);
    }
    h_close(&world);
}

/* i32 wraps. */
static void wrapping(void)
{
    enum { N = 4 };
    int8_t ones[N * N];
    int32_t d[N * N];
    open_world();
    memset(ones, 127, sizeof ones);
    trp_buffer a = h_buffer(world.device, sizeof ones), out = h_buffer(world.device, sizeof d);
    h_write(world.device, a, 0, ones, sizeof ones);
    trp_cutlass_gemm_request r = {.m = N,
                                  .n = N,
                                  .k = N,
                                  .a = {.buffer = a, .type = TRP_I8},
                                  .b = {.buffer = a},
                                  .d = {.buffer = out},
                                  .alpha = trp_real(INT32_MAX)};
    trp_completion done = {0};
    H_OK(trp_cutlass_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, out, 0, d, sizeof d);
    for (int i = 0; i < N * N; i++)
        H_CHECK((uint32_t)d[i] == (uint32_t)INT32_MAX * (uint32_t)(127 * 127 * N));
    h_close(&world);
}

static const h_case cases[] = {
    {"products", products},
    {"large", large},
    {"wrapping", wrapping},
};

int main(int argc, char **argv)
{
    if (h_is_cuda())
        return H_EXIT_SKIPPED; /* not there yet */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
