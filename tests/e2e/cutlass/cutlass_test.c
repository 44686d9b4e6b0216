/* The cutlass actor: products of every type and layout, with small integers as input, so that what
 * must come out is known to the bit. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/harness.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

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
    return (int64_t)(x->offset + b * x->stride + (x->row_major ? i * x->ld + j : j * x->ld + i));
}

/* Small integers, which all types have. */
static void fill(layout *x)
{
    for (size_t i = 0; i < x->span; i++)
        ref_element_store(x->type, x->data, (int64_t)i, (double)below(9) - 4);
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
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
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
                double value =
                    p->beta != 0 ? fma(p->alpha, sum, p->beta * load(c, i, j, l)) : p->alpha * sum;
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
    if (p->beta != 0 || r.c.buffer.id || below(2))
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
    for (int i = 0; i < (H_SANITIZED ? 1 : 2); i++) {
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

/* --- products with a tree --- */

enum { M = 67, N = 530, K = 33 };

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    return b;
}

static float *random_floats(size_t count)
{
    float *x = h_malloc(count * sizeof *x);
    ref_fill_uniform(REF_F32, x, count, h_rng());
    return x;
}

static void check_close(const char *what, size_t at, double got, double want, double scale)
{
    if (!(fabs(got - want) <= 4e-6 * scale))
        h_fail(__FILE__, __LINE__, "%s[%zu]: %.9g, expected %.9g", what, at, got, want);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/* D = gelu(scale[i] sums + bias[j]) + C, C in D's place; what the gelu is given goes to a matrix of
 * the other order (which kernels of CUTLASS 2.x can't have: there it is of the same), the sums of
 * D's columns and its largest absolute value to places of their own. With a buffer for each and
 * more slots than a record has room for. */
static void bias_gelu_residual(void)
{
    enum { NONE, SUMS, SCALED, BIAS, BIASED, AUX, GELU, OLD, NEW, COLUMNS, LARGEST, ROOT, COUNT };
    float *a = random_floats(M * K), *b = random_floats(K * N), *c = random_floats(M * N);
    float *scale = random_floats(M), *bias = random_floats(N);
    float *d = h_malloc(M * N * sizeof *d), *aux = h_malloc(M * N * sizeof *aux);
    float *columns = h_malloc(N * sizeof *columns), largest, want_largest = 0;
    bool by_row = h_is_cuda();
    open_world();
    trp_buffer out = upload(c, M * N * sizeof *c);
    trp_epilogue_node nodes[COUNT] = {
        [SUMS] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [SCALED] = {.kind = TRP_EPILOGUE_SCALE_ROWS,
                    .input = {SUMS},
                    .buffer = upload(scale, M * sizeof *scale)},
        [BIAS] = {.kind = TRP_EPILOGUE_PER_COLUMN, .buffer = upload(bias, N * sizeof *bias)},
        [BIASED] = {.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, BIAS}},
        [AUX] = {.kind = TRP_EPILOGUE_AUX_STORE,
                 .input = {BIASED},
                 .buffer = h_buffer(world.device, M * N * sizeof *aux),
                 .order = by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR},
        [GELU] = {.kind = TRP_EPILOGUE_ACTIVATION,
                  .activation = TRP_ACTIVATION_GELU,
                  .input = {AUX}},
        [OLD] = {.kind = TRP_EPILOGUE_C},
        [NEW] = {.kind = TRP_EPILOGUE_BINARY, .input = {GELU, OLD}},
        [COLUMNS] = {.kind = TRP_EPILOGUE_REDUCE_COLUMNS,
                     .input = {NEW},
                     .buffer = h_buffer(world.device, N * sizeof *columns)},
        [LARGEST] = {.kind = TRP_EPILOGUE_REDUCE_ALL,
                     .reduction = TRP_REDUCTION_AMAX,
                     .input = {COLUMNS},
                     .buffer = h_buffer(world.device, sizeof largest)},
        /* Not the root by itself: a sink need not be used, but here one is. */
        [ROOT] = {.kind = TRP_EPILOGUE_UNARY, .unary = TRP_UNARY_NEGATE, .input = {LARGEST}},
    };
    trp_cutlass_gemm_request r = {
        .m = M,
        .n = N,
        .k = K,
        .a = {.buffer = upload(a, M * K * sizeof *a), .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .b = {.buffer = upload(b, K * N * sizeof *b), .order = TRP_ROW_MAJOR},
        .c = {.buffer = out, .order = TRP_ROW_MAJOR},
        .d = {.buffer = out, .order = TRP_ROW_MAJOR},
        .epilogue = nodes,
        .epilogue_count = COUNT};
    trp_completion done = {0};
    H_OK(trp_cutlass_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, out, 0, d, M * N * sizeof *d);
    h_read(world.device, nodes[AUX].buffer, 0, aux, M * N * sizeof *aux);
    h_read(world.device, nodes[COLUMNS].buffer, 0, columns, N * sizeof *columns);
    h_read(world.device, nodes[LARGEST].buffer, 0, &largest, sizeof largest);
    for (size_t j = 0; j < N; j++) {
        double column = 0;
        for (size_t i = 0; i < M; i++) {
            double sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += (double)a[i * K + k] * (double)b[k * N + j];
            double x = (double)scale[i] * sum + (double)bias[j];
            double value = gelu(x) + (double)c[i * N + j];
            size_t at_aux = by_row ? i * N + j : j * M + i;
            check_close("aux", at_aux, (double)aux[at_aux], x, 4);
            check_close("d", i * N + j, (double)d[i * N + j], -value, 4);
            column -= (double)d[i * N + j];
            want_largest = fmaxf(want_largest, fabsf(d[i * N + j]));
        }
        check_close("columns", j, (double)columns[j], column, M);
    }
    H_CHECK(largest == want_largest);
    h_close(&world);
    free(a);
    free(b);
    free(c);
    free(scale);
    free(bias);
    free(d);
    free(aux);
    free(columns);
}

/* --- what is refused --- */

typedef struct setting {
    trp_cutlass_gemm_request r;
    trp_epilogue_node nodes[18];
    uint32_t count;
} setting;

static trp_buffer buffer_a, buffer_b, buffer_c, buffer_d;

/* 8 x 6 x 4 in bf16, all column-major. */
static setting right(void)
{
    return (setting){.r = {.m = 8,
                           .n = 6,
                           .k = 4,
                           .a = {.buffer = buffer_a, .type = TRP_BF16},
                           .b = {.buffer = buffer_b},
                           .c = {.buffer = buffer_c},
                           .d = {.buffer = buffer_d}}};
}

static setting with_tree(void)
{
    setting s = right();
    s.nodes[1].kind = TRP_EPILOGUE_ACCUMULATOR;
    s.count = 2;
    return s;
}

static trp_status send_setting(setting *s)
{
    trp_completion done = {0};
    if (s->count) {
        s->r.epilogue = s->nodes;
        s->r.epilogue_count = s->count;
    } else if (!s->r.beta.given && s->r.c.buffer.id) {
        s->r.beta = trp_real(0);
    }
    trp_status status = trp_cutlass_gemm(cutlass, &s->r, &done);
    return status == TRP_OK ? h_await_any(done) : status;
}

static void refuse(setting s, trp_status status, const char *word)
{
    H_IS(send_setting(&s), status);
    H_SAYS(word);
}

#define REFUSE(change, status, word)                                                               \
    do {                                                                                           \
        setting s = right();                                                                       \
        change;                                                                                    \
        refuse(s, status, word);                                                                   \
    } while (0)

#define REFUSE_TREE(change, status, word)                                                          \
    do {                                                                                           \
        setting s = with_tree();                                                                   \
        change;                                                                                    \
        refuse(s, status, word);                                                                   \
    } while (0)

static void refused_numbers(void)
{
    REFUSE(s.r.m = -1, TRP_E_ARGUMENT, "m: expected 0 or more, got -1");
    REFUSE(s.r.n = INT64_MIN, TRP_E_ARGUMENT, "n: expected 0 or more");
    REFUSE(s.r.k = 0, TRP_E_ARGUMENT, "k: expected 1 or more, got 0");
    REFUSE(s.r.batch = -2, TRP_E_ARGUMENT, "batch: expected 0 or more, got -2");
    REFUSE(s.r.first = (trp_cutlass_first)2, TRP_E_ARGUMENT, "first: expected TRP_CUTLASS_FIRST_");
    REFUSE(s.r.kernel = "none", h_is_cuda() ? TRP_E_ARGUMENT : TRP_E_UNSUPPORTED, "kernel: ");
    REFUSE(s.r.m = INT64_MAX, TRP_E_ARGUMENT, "a: ");
    REFUSE(s.r.a.ld = 7, TRP_E_ARGUMENT, "a.ld: expected at least 8");
    REFUSE((s.r.b.order = TRP_ROW_MAJOR, s.r.b.ld = 5), TRP_E_ARGUMENT,
           "b.ld: expected at least 6 (the columns of b as stored), got 5");
    REFUSE(s.r.d.ld = INT64_MAX, TRP_E_ARGUMENT, "d: ");
    REFUSE((s.r.batch = 2, s.r.d.stride = 8), TRP_E_ARGUMENT, "d.stride: expected at least 48");
    REFUSE(s.r.a.order = (trp_order)7, TRP_E_ARGUMENT, "a.order: expected TRP_COL_MAJOR or");
    REFUSE(s.r.compute = TRP_COMPUTE_EMULATED, TRP_E_ARGUMENT, "compute: expected");
    REFUSE(s.r.compute = TRP_COMPUTE_TF32, TRP_E_ARGUMENT, "compute: TRP_COMPUTE_TF32 goes with");
    REFUSE(s.r.d.offset = 1, TRP_E_ARGUMENT, "d.offset: expected a multiple of 2 bytes, got 1");
    REFUSE(s.r.a.offset = 4096, TRP_E_ARGUMENT, "a: ");
    REFUSE(s.r.beta = trp_real(1); s.r.c.buffer.id = 0, TRP_E_ARGUMENT, "c.buffer: expected one");
    REFUSE(s.r.alpha = trp_complex(1, 2), TRP_E_ARGUMENT, "alpha: expected a real number");
    REFUSE((s.r.beta = trp_real(1), s.r.c.order = TRP_ROW_MAJOR), TRP_E_UNSUPPORTED, "c.order");
    REFUSE(s.r.d = s.r.b, TRP_E_ARGUMENT, "overlap");
    REFUSE(s.r.epilogue_count = 1, TRP_E_ARGUMENT, "epilogue: expected nodes");
}

static void refused_types(void)
{
    REFUSE(s.r.a.type = TRP_C64, TRP_E_UNSUPPORTED, "a.type: expected f64, f32");
    REFUSE(s.r.a.type = TRP_DTYPE_NONE, TRP_E_UNSUPPORTED, "a.type");
    REFUSE(s.r.a.type = (trp_dtype)99, TRP_E_UNSUPPORTED, "(99)");
    REFUSE(s.r.b.type = TRP_F16, TRP_E_UNSUPPORTED,
           "b.type: expected bf16, i8, i4, f8e4m3 or f8e5m2 where A is bf16");
    REFUSE(s.r.d.type = TRP_F64, TRP_E_UNSUPPORTED, "d.type: expected f32, f16");
    REFUSE(s.r.d.type = TRP_I32, TRP_E_UNSUPPORTED, "d.type");
    REFUSE(s.r.c.type = TRP_I32, TRP_E_UNSUPPORTED, "c.type");
    REFUSE((s.r.a.type = TRP_I8, s.r.c.type = TRP_F32), TRP_E_UNSUPPORTED,
           "c.type: expected i32, as D");
    REFUSE((s.r.a.type = TRP_I8, s.r.alpha = trp_real(0.5)), TRP_E_ARGUMENT,
           "alpha: expected an integer");
    REFUSE(s.r.a.scale.buffer = buffer_b, TRP_E_UNSUPPORTED, "a.scale: expected none");
    REFUSE(s.r.d.scale.mode = TRP_SCALE_VECTOR, TRP_E_UNSUPPORTED, "d.scale: expected none");
    REFUSE_TREE(s.r.a.type = TRP_I8, TRP_E_UNSUPPORTED, "d.type: expected");
}

static void refused_trees(void)
{
    REFUSE_TREE(s.r.alpha = trp_real(1), TRP_E_ARGUMENT, "alpha: expected none beside");
    REFUSE_TREE(s.r.beta = trp_real(0), TRP_E_ARGUMENT, "beta: expected none beside");
    REFUSE_TREE(s.count = 3, TRP_E_ARGUMENT, "nodes[2]");
    REFUSE_TREE((s.count = 3, s.nodes[2].kind = TRP_EPILOGUE_UNARY, s.nodes[2].input[0] = 2),
                TRP_E_ARGUMENT, "itself");
    REFUSE_TREE((s.count = 3, s.nodes[2].kind = TRP_EPILOGUE_PER_ROW), TRP_E_ARGUMENT, "nodes[");
    /* One operand in memory too many: A, B, D and 12 vectors. */
    setting s = with_tree();
    trp_buffer vector = h_buffer(world.device, 64);
    for (uint32_t i = 2; i < 14; i++)
        s.nodes[i] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_SCALE_ROWS, .input = {i - 1}, .buffer = vector};
    s.count = 13;
    H_OK(send_setting(&s)); /* 14 */
    s.count = 14;
    refuse(s, TRP_E_UNSUPPORTED, "expected at most 14 operands in memory");
    /* Stores that overlap D, or what is read. */
    s = with_tree();
    s.count = 3;
    s.nodes[2] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_AUX_STORE, .input = {1}, .buffer = buffer_d, .offset = 2};
    refuse(s, TRP_E_ARGUMENT, "overlap");
    s.nodes[2].buffer = buffer_a;
    refuse(s, TRP_E_ARGUMENT, "overlap");
    H_OK(trp_buffer_free(world.device, vector));
    s.nodes[2].buffer = vector;
    refuse(s, TRP_E_STALE, "nodes[2]");
}

static void refused(void)
{
    open_world();
    buffer_a = h_buffer(world.device, 4096);
    buffer_b = h_buffer(world.device, 4096);
    buffer_c = h_buffer(world.device, 4096);
    buffer_d = h_buffer(world.device, 4096);
    setting s = right();
    H_OK(send_setting(&s));
    s = with_tree();
    H_OK(send_setting(&s));
    refused_numbers();
    refused_types();
    refused_trees();
    s = right();
    s.r.m = 0; /* nothing to do, and nothing looked at */
    s.r.d.buffer.id = 0;
    H_OK(send_setting(&s));
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static const h_case cases[] = {
    {"products", products}, {"large", large},
    {"wrapping", wrapping}, {"bias_gelu_residual", bias_gelu_residual},
    {"refused", refused},
};

int main(int argc, char **argv)
{
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* too many kernels: gpu/cutlass has some */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
