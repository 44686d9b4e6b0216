/* Matrix products of every type, transpose, order and layout against float64; and bad input. */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static const struct {
    trp_dtype type, type_c;
    ref_dtype ref, ref_c;
    double unit; /* roundoff of one element of C */
} types[] = {
    {TRP_F64, 0, REF_F64, REF_F64, 0x1p-53},       {TRP_F32, TRP_F32, REF_F32, REF_F32, 0x1p-24},
    {TRP_F16, 0, REF_F16, REF_F16, 0x1p-11},       {TRP_BF16, TRP_BF16, REF_BF16, REF_BF16, 0x1p-8},
    {TRP_F16, TRP_F32, REF_F16, REF_F32, 0x1p-24}, {TRP_BF16, TRP_F32, REF_BF16, REF_F32, 0x1p-24},
};
enum { TYPES = sizeof types / sizeof *types };

static h_world world;
static trp_actor *blas;

/* A matrix of the request as it lies in memory: `lines` runs of `run` elements, ld apart. */
typedef struct layout {
    size_t run, lines;
    size_t offset, ld, stride; /* elements */
    size_t span;               /* elements of the whole buffer */
    ref_dtype type;
    char *bytes;
} layout;

static size_t element_size(const layout *x)
{
    return ref_dtype_size(x->type);
}

static size_t index_of(const layout *x, bool row_major, size_t row, size_t column, size_t batch)
{
    size_t line = row_major ? row : column, place = row_major ? column : row;
    return x->offset + batch * x->stride + line * x->ld + place;
}

/* Room for a batch of rows x columns, with gaps of random width everywhere. */
static layout lay_out(ref_dtype type, bool row_major, size_t rows, size_t columns, size_t batch,
                      bool shared, bool gaps)
{
    ref_rng *rng = h_rng();
    layout x = {
        .type = type, .run = row_major ? columns : rows, .lines = row_major ? rows : columns};
    x.ld = x.run + (gaps ? ref_rng_below(rng, 6) : 0);
    if (x.ld == 0)
        x.ld = 1;
    x.offset = gaps ? ref_rng_below(rng, 9) : 0;
    x.stride = shared ? 0 : x.lines * x.ld + (gaps ? ref_rng_below(rng, 7) : 0);
    x.span = x.offset + (batch - 1) * x.stride + x.lines * x.ld + 8;
    x.bytes = h_malloc(x.span * element_size(&x));
    ref_poison(x.bytes, x.span * element_size(&x));
    return x;
}

static void fill_layout(layout *x, bool row_major, size_t rows, size_t columns, size_t batch)
{
    for (size_t b = 0; b < (x->stride == 0 ? 1 : batch); b++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                ref_store(x->type, x->bytes, index_of(x, row_major, i, j, b),
                          ref_rng_uniform(h_rng(), -1, 1));
}

/* The same matrices in float64, column-major and packed; absolute values if `magnitude`. */
static double *packed(const layout *x, bool row_major, size_t rows, size_t columns, size_t batch,
                      bool magnitude)
{
    double *out = h_malloc(rows * columns * batch * sizeof *out);
    for (size_t b = 0; b < batch; b++)
        for (size_t j = 0; j < columns; j++)
            for (size_t i = 0; i < rows; i++) {
                double value = ref_load(x->type, x->bytes, index_of(x, row_major, i, j, b));
                out[(b * columns + j) * rows + i] = magnitude ? fabs(value) : value;
            }
    return out;
}

typedef struct problem {
    int type; /* in types[] */
    trp_compute compute;
    bool row_major, trans_a, trans_b, gaps;
    size_t m, n, k, batch;
    bool share_a, share_b;
    trp_scalar alpha, beta;
} problem;

static double alpha_of(const problem *p)
{
    return p->alpha.given ? p->alpha.re : 1.0;
}

static double beta_of(const problem *p)
{
    return p->beta.given ? p->beta.re : 0.0;
}

/* C in float64, or, with `magnitude`, the sum of the absolute values of all its terms. */
static double *reference(const problem *p, const layout *a, const layout *b, const layout *c,
                         bool magnitude)
{
    size_t ar = p->trans_a ? p->k : p->m, ac = p->trans_a ? p->m : p->k;
    size_t br = p->trans_b ? p->n : p->k, bc = p->trans_b ? p->k : p->n;
    double *pa = packed(a, p->row_major, ar, ac, p->batch, magnitude);
    double *pb = packed(b, p->row_major, br, bc, p->batch, magnitude);
    double *pc = packed(c, p->row_major, p->m, p->n, p->batch, magnitude);
    double *out = h_malloc(p->m * p->n * p->batch * sizeof *out);
    ref_gemm_problem asked = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .transpose_a = p->trans_a,
        .transpose_b = p->trans_b,
        .alpha = magnitude ? fabs(alpha_of(p)) : alpha_of(p),
        .beta = magnitude ? fabs(beta_of(p)) : beta_of(p),
        .a = {.dtype = REF_F64, .data = pa, .ld = ar, .stride = ar * ac},
        .b = {.dtype = REF_F64, .data = pb, .ld = br, .stride = br * bc},
        .c = {.dtype = REF_F64, .data = pc, .ld = p->m, .stride = p->m * p->n},
    };
    ref_gemm(&asked, out);
    free(pa);
    free(pb);
    free(pc);
    return out;
}

static void describe(const problem *p, const char *what, size_t i, size_t j, size_t b, double got,
                     double want, double bound)
{
    h_fail(__FILE__, __LINE__,
           "%s: %s to %s compute %d order %d trans %d %d m n k %zu %zu %zu batch %zu share %d %d "
           "alpha %g beta %g: "
           "C(%zu, %zu) of %zu is %.17g, expected %.17g within %g",
           what, ref_dtype_name(types[p->type].ref), ref_dtype_name(types[p->type].ref_c),
           p->compute, p->row_major, p->trans_a, p->trans_b, p->m, p->n, p->k, p->batch, p->share_a,
           p->share_b, alpha_of(p), beta_of(p), i, j, b, got, want, bound);
}

/* Each element lies within the bound that rounding allows it: of the sum of its terms' absolute
 * values for the accumulation, of itself for the store. Everything else of C is unchanged. */
static void compare(const problem *p, const layout *before, const char *after, const double *want,
                    const double *magnitude)
{
    size_t size = element_size(before);
    double unit = types[p->type].unit;
    double accumulate = types[p->type].ref == REF_F64 ? 0x1p-53 : 0x1p-24;
    double share =
        4 * ((double)p->k + 4) * accumulate + (p->compute == TRP_COMPUTE_TF32 ? 0x1p-9 : 0);
    char *expected_outside = h_malloc(before->span * size);
    memcpy(expected_outside, before->bytes, before->span * size);
    for (size_t b = 0; b < p->batch; b++) {
        for (size_t j = 0; j < p->n; j++) {
            for (size_t i = 0; i < p->m; i++) {
                size_t at = index_of(before, p->row_major, i, j, b);
                size_t k = (b * p->n + j) * p->m + i;
                double got = ref_load(before->type, after, at);
                double bound = magnitude[k] * share + fabs(want[k]) * unit * 1.01 + 0x1p-24 * unit;
                if (before->type == REF_F16)
                    bound += 0x1p-24; /* the smallest step it has */
                if (!(fabs(got - want[k]) <= bound))
                    describe(p, "wrong element", i, j, b, got, want[k], bound);
                memcpy(expected_outside + at * size, after + at * size, size);
            }
        }
    }
    H_SAME(after, expected_outside, before->span * size);
    free(expected_outside);
}

static trp_buffer upload(const layout *x)
{
    trp_buffer b = h_buffer(world.device, x->span * element_size(x));
    h_write(world.device, b, 0, x->bytes, x->span * element_size(x));
    return b;
}

static void run(const problem *p)
{
    ref_dtype ref = types[p->type].ref, ref_c = types[p->type].ref_c;
    size_t ar = p->trans_a ? p->k : p->m, ac = p->trans_a ? p->m : p->k;
    size_t br = p->trans_b ? p->n : p->k, bc = p->trans_b ? p->k : p->n;
    layout a = lay_out(ref, p->row_major, ar, ac, p->batch, p->share_a, p->gaps);
    layout b = lay_out(ref, p->row_major, br, bc, p->batch, p->share_b, p->gaps);
    layout c = lay_out(ref_c, p->row_major, p->m, p->n, p->batch, false, p->gaps);
    fill_layout(&a, p->row_major, ar, ac, p->batch);
    fill_layout(&b, p->row_major, br, bc, p->batch);
    if (beta_of(p) != 0) /* else C stays poisoned: it must not be read */
        fill_layout(&c, p->row_major, p->m, p->n, p->batch);
    double *want = reference(p, &a, &b, &c, false), *magnitude = reference(p, &a, &b, &c, true);
    trp_buffer ba = upload(&a), bb = upload(&b), bc_ = upload(&c);
    size_t size = element_size(&c), in_size = element_size(&a);
    trp_completion done = {0};
    trp_gemm_request request = {
        .type = types[p->type].type,
        .type_c = types[p->type].type_c,
        .compute = p->compute,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans_a = p->trans_a ? TRP_T : TRP_N,
        .trans_b = p->trans_b ? TRP_T : TRP_N,
        .m = (int64_t)p->m,
        .n = (int64_t)p->n,
        .k = (int64_t)p->k,
        .alpha = p->alpha,
        .beta = p->beta,
        .a = ba,
        .b = bb,
        .c = bc_,
        .a_offset = a.offset * in_size,
        .b_offset = b.offset * in_size,
        .c_offset = c.offset * size,
        .lda = p->gaps ? (int64_t)a.ld : 0,
        .ldb = p->gaps ? (int64_t)b.ld : 0,
        .ldc = p->gaps ? (int64_t)c.ld : 0,
        .a_stride = (int64_t)a.stride,
        .b_stride = (int64_t)b.stride,
        .c_stride = (int64_t)c.stride,
        .batch = p->batch == 1 ? (int64_t)ref_rng_below(h_rng(), 2) : (int64_t)p->batch,
    };
    H_OK(trp_gemm(blas, &request, &done));
    char *after = h_malloc(c.span * size);
    H_OK(h_await_any(done));
    h_read(world.device, bc_, 0, after, c.span * size);
    compare(p, &c, after, want, magnitude);
    /* The inputs are inputs. */
    size_t some = a.span * in_size < c.span * size ? a.span * in_size : c.span * size;
    h_read(world.device, ba, 0, after, some);
    H_SAME(after, a.bytes, some);
    H_OK(trp_buffer_free(world.device, ba));
    H_OK(trp_buffer_free(world.device, bb));
    H_OK(trp_buffer_free(world.device, bc_));
    free(a.bytes);
    free(b.bytes);
    free(c.bytes);
    free(want);
    free(magnitude);
    free(after);
}

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

static trp_scalar pick_alpha(void)
{
    static const double values[] = {1, -0.5, 2.25, 0, -1};
    size_t i = ref_rng_below(h_rng(), 7);
    return i < 5 ? trp_real(values[i]) : (trp_scalar){0};
}

static trp_scalar pick_beta(void)
{
    static const double values[] = {0, 1, -0.75, 3};
    size_t i = ref_rng_below(h_rng(), 6);
    return i < 4 ? trp_real(values[i]) : (trp_scalar){0};
}

/* Every combination of type, order, transposes, batch and gaps, each with random sizes. */
static void combinations(void)
{
    open_world();
    for (int c = 0; c < TYPES * 32; c++) {
        problem p = {
            .type = c % TYPES,
            .row_major = c / TYPES & 1,
            .trans_a = c / TYPES & 2,
            .trans_b = c / TYPES & 4,
            .gaps = c / TYPES & 8,
            .batch = c / TYPES & 16 ? 3 : 1,
            .m = 1 + ref_rng_below(h_rng(), 40),
            .n = 1 + ref_rng_below(h_rng(), 40),
            .k = 1 + ref_rng_below(h_rng(), 60),
            .alpha = pick_alpha(),
            .beta = pick_beta(),
        };
        p.share_a = p.batch > 1 && ref_rng_below(h_rng(), 2);
        p.share_b = p.batch > 1 && ref_rng_below(h_rng(), 2);
        run(&p);
    }
    h_close(&world);
}

/* One that goes with the type, on this backend and device: the fake's is one of Hopper. */
static trp_compute pick_compute(const problem *p)
{
    bool f32 = types[p->type].type == TRP_F32, f64 = types[p->type].type == TRP_F64;
    trp_compute any = (trp_compute)ref_rng_below(h_rng(), 4);
    if ((any == TRP_COMPUTE_TF32 && !f32) ||
        (any == TRP_COMPUTE_EMULATED && (!f64 || !h_is_cuda() || h_is_gpu())))
        return TRP_COMPUTE_DEFAULT;
    return any;
}

static void random_problems(void)
{
    open_world();
    for (int i = 0; i < (H_TSAN ? 40 : H_SANITIZED ? 100 : 400); i++) {
        problem p = {
            .type = (int)ref_rng_below(h_rng(), TYPES),
            .row_major = ref_rng_below(h_rng(), 2),
            .trans_a = ref_rng_below(h_rng(), 2),
            .trans_b = ref_rng_below(h_rng(), 2),
            .gaps = ref_rng_below(h_rng(), 4) > 0,
            .batch = 1 + ref_rng_below(h_rng(), 5),
            .m = h_random_size(h_rng(), 90),
            .n = h_random_size(h_rng(), 90),
            .k = h_random_size(h_rng(), 200),
            .alpha = pick_alpha(),
            .beta = pick_beta(),
        };
        p.share_a = ref_rng_below(h_rng(), 3) == 0;
        p.share_b = ref_rng_below(h_rng(), 3) == 0;
        p.compute = pick_compute(&p);
        run(&p);
    }
    h_close(&world);
}

/* The smallest, and sizes with an empty side. */
static void edges(void)
{
    static const size_t sizes[] = {0, 1, 2, 17};
    open_world();
    for (int t = 0; t < TYPES; t++) {
        for (int c = 0; c < 64; c++) {
            problem p = {.type = t,
                         .m = sizes[c & 3],
                         .n = sizes[c >> 2 & 3],
                         .k = sizes[c >> 4],
                         .batch = 1 + ref_rng_below(h_rng(), 2),
                         .row_major = ref_rng_below(h_rng(), 2),
                         .trans_a = ref_rng_below(h_rng(), 2),
                         .trans_b = ref_rng_below(h_rng(), 2),
                         .gaps = ref_rng_below(h_rng(), 2),
                         .alpha = pick_alpha(),
                         .beta = c % 2 ? trp_real(-1.5) : (trp_scalar){0}};
            run(&p);
        }
    }
    h_close(&world);
}

static void larger(void)
{
    open_world();
    for (int t = 0; t < TYPES; t++) {
        problem p = {.type = t,
                     .m = 257,
                     .n = 131,
                     .k = H_SANITIZED ? 300 : 1023,
                     .batch = 1,
                     .gaps = true,
                     .row_major = t % 2,
                     .trans_a = t / 2,
                     .trans_b = !(t / 2),
                     .alpha = trp_real(1.5),
                     .beta = trp_real(0.5)};
        run(&p);
        p.compute = types[t].type == TRP_F32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_PEDANTIC;
        run(&p);
    }
    h_close(&world);
}

/* alpha 0 and k 0 leave A and B alone, even when they hold NaN: BLAS says that they are not read.
 */
static void inputs_that_do_not_count(void)
{
    enum { N = 6 };
    open_world();
    double nan[N * N], c[N * N], got[N * N];
    for (int i = 0; i < N * N; i++) {
        nan[i] = NAN;
        c[i] = i;
    }
    trp_buffer a = h_buffer(world.device, sizeof nan), b = h_buffer(world.device, sizeof c);
    h_write(world.device, a, 0, nan, sizeof nan);
    for (int round = 0; round < 4; round++) {
        trp_completion done = {0};
        trp_gemm_request r = {.type = TRP_F64, .m = N, .n = N, .k = N, .a = a, .b = a, .c = b};
        r.beta = trp_real(round % 2 ? 2.0 : 0.0);
        if (round < 2)
            r.alpha = trp_real(0);
        else
            r.k = 0;
        if (round == 3)
            r.a = r.b = (trp_buffer){UINT64_MAX}; /* not even looked at */
        h_write(world.device, b, 0, c, sizeof c);
        H_OK(trp_gemm(blas, &r, &done));
        H_OK(h_await_any(done));
        h_read(world.device, b, 0, got, sizeof got);
        for (int i = 0; i < N * N; i++)
            H_CHECK(got[i] == (round % 2 ? 2.0 * i : 0.0));
    }
    h_close(&world);
}

/* A and B may be one buffer, and C may lie behind them in it. */
static void one_buffer(void)
{
    enum { N = 8 };
    open_world();
    float x[3 * N * N], want[3 * N * N];
    for (int i = 0; i < 3 * N * N; i++)
        want[i] = x[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
    trp_buffer all = h_buffer(world.device, sizeof x);
    h_write(world.device, all, 0, x, sizeof x);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += (double)x[k * N + i] * (double)x[N * N + j * N + k];
            want[2 * N * N + j * N + i] = (float)sum;
        }
    }
    trp_completion done = {0};
    H_OK(trp_gemm(blas,
                  &(trp_gemm_request){.type = TRP_F32,
                                      .m = N,
                                      .n = N,
                                      .k = N,
                                      .a = all,
                                      .b = all,
                                      .c = all,
                                      .b_offset = N * N * 4,
                                      .c_offset = 2 * N * N * 4},
                  &done));
    H_OK(h_await_any(done));
    h_read(world.device, all, 0, x, sizeof x);
    H_SAME(x, want, 2 * N * N * sizeof *x);
    for (int i = 0; i < N * N; i++)
        H_CHECK(fabsf(x[2 * N * N + i] - want[2 * N * N + i]) < 1e-5f);
    h_close(&world);
}

/* A request that is right; each case below breaks one thing in it. */
static trp_gemm_request right(trp_buffer a, trp_buffer b, trp_buffer c)
{
    return (trp_gemm_request){.type = TRP_F32,
                              .m = 5,
                              .n = 6,
                              .k = 7,
                              .a = a,
                              .b = b,
                              .c = c,
                              .lda = 5,
                              .ldb = 7,
                              .ldc = 5};
}

/* Many small products at once, some of which need the results of others: whatever of them is done
 * in one call, all come to what they come to one after the other. Small integers, so exactly. */

enum { SIDE = 8, CELLS = SIDE * SIDE, INPUTS = 20, OUTPUTS = 60, DEEPEST = 3 };

typedef struct small {
    trp_buffer buffer;
    float value[CELLS];
    int depth; /* products that it is made of, one after the other */
} small;

static void multiply_small(small *out, const small *a, const small *b)
{
    out->depth = 1 + (a->depth > b->depth ? a->depth : b->depth);
    for (int j = 0; j < SIDE; j++) {
        for (int i = 0; i < SIDE; i++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a->value[i + k * SIDE] * b->value[k + j * SIDE];
            out->value[i + j * SIDE] = sum;
        }
    }
}

/* An input, or now and then an output that is not too large to be computed with exactly. */
static const small *pick(const small *all)
{
    const small *x = &all[ref_rng_below(h_rng(), INPUTS)];
    const small *out = &all[INPUTS + ref_rng_below(h_rng(), OUTPUTS)];
    return ref_rng_below(h_rng(), 12) == 0 && out->depth > 0 && out->depth < DEEPEST ? out : x;
}

static void many_at_once(void)
{
    static small all[INPUTS + OUTPUTS];
    float got[CELLS];
    open_world();
    for (int i = 0; i < INPUTS + OUTPUTS; i++) {
        all[i] = (small){.buffer = h_buffer(world.device, sizeof got)};
        for (int k = 0; k < CELLS; k++)
            all[i].value[k] = (float)ref_rng_below(h_rng(), 3) - 1;
        h_write(world.device, all[i].buffer, 0, all[i].value, sizeof got);
    }
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 150; i++) {
            small *out = &all[INPUTS + ref_rng_below(h_rng(), OUTPUTS)];
            const small *a = pick(all), *b = pick(all);
            if (a == out || b == out)
                continue;
            multiply_small(out, a, b);
            trp_gemm_request r = {.header = {.wait_ns = H_LONG},
                                  .type = TRP_F32,
                                  .m = SIDE,
                                  .n = SIDE,
                                  .k = SIDE,
                                  .a = a->buffer,
                                  .b = b->buffer,
                                  .c = out->buffer};
            if (ref_rng_below(h_rng(), 60) == 0)
                r.joining = TRP_JOINING_OFF;
            H_OK(trp_gemm(blas, &r, NULL));
        }
        for (int i = INPUTS; i < INPUTS + OUTPUTS; i++) {
            h_read(world.device, all[i].buffer, 0, got, sizeof got);
            H_SAME(got, all[i].value, sizeof got);
        }
    }
    h_close(&world);
}

static void bad_input(void)
{
    open_world();
    trp_buffer a = h_buffer(world.device, 35 * 4), b = h_buffer(world.device, 42 * 4);
    trp_buffer c = h_buffer(world.device, 30 * 4);
    trp_completion done = {.future = {9}};
    trp_gemm_request r = right(a, b, c);
    uint64_t before = h_info(world.device).requests_submitted;

#define BAD(field, value, word)                                                                    \
    do {                                                                                           \
        r = right(a, b, c);                                                                        \
        r.field = (value);                                                                         \
        H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);                                           \
        H_SAYS(word);                                                                              \
        H_CHECK(strcmp(trp_error_last()->actor, "blas") == 0);                                     \
    } while (0)

    BAD(type, TRP_DTYPE_NONE, "type");
    BAD(type, TRP_I32, "type");
    BAD(type_c, TRP_F64, "type_c");
    BAD(type_c, (trp_dtype)-1, "type_c");
    BAD(type, TRP_BOOL, "type");
    BAD(type, (trp_dtype)999, "type");
    BAD(type, (trp_dtype)-1, "type");
    BAD(compute, (trp_compute)4, "compute");
    BAD(compute, (trp_compute)-1, "compute");
    BAD(order, (trp_order)2, "order");
    BAD(trans_a, (trp_transpose)3, "trans_a");
    BAD(trans_b, (trp_transpose)-1, "trans_b");
    BAD(m, -1, "m:");
    BAD(n, -1, "n:");
    BAD(joining, (trp_joining)2, "joining");
    BAD(k, INT64_MIN, "k:");
    BAD(batch, -1, "batch");
    BAD(alpha, trp_complex(1, 1), "alpha");
    BAD(beta, trp_complex(0, -1), "beta");
    BAD(lda, 4, "lda");
    BAD(lda, -5, "lda");
    BAD(ldb, 6, "ldb");
    BAD(ldc, 4, "ldc");
    BAD(ldc, INT64_MIN, "ldc");
    BAD(trans_a, TRP_T, "lda"); /* stored 7 x 5 now */
    BAD(m, INT64_MAX, "");
    BAD(n, INT64_MAX, "");
    BAD(k, INT64_MAX, "");
    BAD(lda, INT64_MAX, "a");
    BAD(ldc, INT64_MAX / 2, "c");
    BAD(a_offset, 4, "a:");
    BAD(b_offset, 8, "b:");
    BAD(c_offset, 4, "c:");
    BAD(a_offset, 1, "a_offset");
    BAD(b_offset, 2, "b_offset");
    BAD(c_offset, 3, "c_offset");
    BAD(a_offset, UINT64_MAX - 3, "a:");
    BAD(k, 8, ""); /* one column more than there is */
    BAD(c, a, ""); /* too small, or the overlap with A: either names c */
    BAD(batch, 2, "c_stride");
    BAD(type, TRP_F64, "");
#undef BAD

    r = right(a, b, c);
    r.type = TRP_F16;
    r.compute = TRP_COMPUTE_TF32;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("compute");
    r = right(a, b, c);
    r.batch = 2;
    r.c_stride = 29;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("c_stride");
    r.c_stride = 30;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("c:");
    r.a_stride = -1;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    r.batch = INT64_MAX;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);

    /* Overlaps. */
    trp_buffer all = h_buffer(world.device, 4096);
    r = right(all, all, all);
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("overlap");
    r.c_offset = 35 * 4 - 4;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    r.b_offset = 1024;
    r.c_offset = 1024 + 42 * 4 - 4;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("b");

    /* The header. */
    H_IS(trp_submit(blas, NULL, &done), TRP_E_ARGUMENT);
    H_IS(trp_submit(NULL, &r.header, &done), TRP_E_ARGUMENT);
    r.header.op = 0x01ff;
    r.header.size = sizeof r;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_UNSUPPORTED);
    H_SAYS("op");
    r.header.op = TRP_OP_PROBE;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_UNSUPPORTED);
    r.header.op = 0;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_UNSUPPORTED);
    r.header.op = TRP_OP_GEMM;
    r.header.size = sizeof r - 8;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_VERSION);
    H_SAYS("size");

    H_EQUAL(done.future.id, 9);
    H_EQUAL(h_info(world.device).requests_submitted, before);
    /* Nothing was sent, and nothing is held. */
    r = right(a, b, c);
    if (h_is_cuda() && !h_is_gpu()) { /* the fake is a Hopper, which says so only in its turn */
        trp_completion told = {0};
        r.compute = TRP_COMPUTE_EMULATED;
        H_OK(trp_gemm(blas, &r, &told));
        H_IS(h_await_any(told), TRP_E_UNSUPPORTED);
        H_SAYS("needs a device of compute capability 10.0");
        r.compute = TRP_COMPUTE_DEFAULT;
    }
    H_OK(trp_gemm(blas, &r, NULL));
    H_OK(trp_device_drain(world.device, H_LONG));
    H_OK(trp_buffer_free(world.device, a));
    H_OK(trp_buffer_free(world.device, b));
    H_OK(trp_buffer_free(world.device, c));
    H_OK(trp_buffer_free(world.device, all));
    H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

static void actor_options(void)
{
    open_world();
    trp_actor *actor = NULL;
    static const char *const bad[] = {"", "Blas", "blas ", "memory", "cublas", NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        trp_actor_options o = {.kind = bad[i]};
        H_IS(trp_actor_create(world.device, &o, &actor), TRP_E_ARGUMENT);
        H_SAYS("kind");
        H_SAYS("\"blas\"");
        H_SAYS("\"probe\"");
        H_CHECK(!strstr(trp_error_message(), "\"memory\",")); /* it is internal */
    }
    trp_actor_options o = {.kind = "blas", .name = "a name of thirty-two bytes, full"};
    H_EQUAL(strlen(o.name), 32);
    H_IS(trp_actor_create(world.device, &o, &actor), TRP_E_ARGUMENT);
    H_SAYS("name");
    H_IS(trp_actor_create(NULL, &o, &actor), TRP_E_ARGUMENT);
    H_IS(trp_actor_create(world.device, NULL, &actor), TRP_E_ARGUMENT);
    o.name = "a name of thirty-one bytes, ok.";
    H_IS(trp_actor_create(world.device, &o, NULL), TRP_E_ARGUMENT);
    H_OK(trp_actor_create(world.device, &o, &actor));
    H_CHECK(trp_actor_device(actor) == world.device);
    trp_gemm_request r = {.type = TRP_F32, .m = -1};
    H_IS(trp_gemm(actor, &r, NULL), TRP_E_ARGUMENT);
    H_CHECK(strcmp(trp_error_last()->actor, o.name) == 0);
    trp_actor_destroy(actor);
    trp_actor_destroy(NULL);
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"combinations", combinations},
        {"random_problems", random_problems},
        {"edges", edges},
        {"larger", larger},
        {"inputs_that_do_not_count", inputs_that_do_not_count},
        {"one_buffer", one_buffer},
        {"many_at_once", many_at_once},
        {"bad_input", bad_input},
        {"actor_options", actor_options},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
