/* The cutlass actor beside what tests/conformance compares: sums that wrap, a tree of many nodes,
 * and what is refused. SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

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
    REFUSE(s.r.k = 0, TRP_E_ARGUMENT, "k: expected 1 or more, got 0");
    REFUSE(s.r.kernel = "none", h_is_cuda() ? TRP_E_ARGUMENT : TRP_E_UNSUPPORTED, "kernel: ");
    REFUSE(s.r.m = INT64_MAX, TRP_E_ARGUMENT, "a: ");
    REFUSE((s.r.b.order = TRP_ROW_MAJOR, s.r.b.ld = 5), TRP_E_ARGUMENT,
           "b.ld: expected at least 6 (the columns of b as stored), got 5");
    REFUSE(s.r.d.ld = INT64_MAX, TRP_E_ARGUMENT, "d: ");
    REFUSE((s.r.batch = 2, s.r.d.stride = 8), TRP_E_ARGUMENT, "d.stride: expected at least 48");
    REFUSE(s.r.compute = TRP_COMPUTE_EMULATED, TRP_E_ARGUMENT, "compute: expected");
    REFUSE(s.r.compute = TRP_COMPUTE_TF32, TRP_E_ARGUMENT, "compute: TRP_COMPUTE_TF32 goes with");
    REFUSE(s.r.beta = trp_real(1); s.r.c.buffer.id = 0, TRP_E_ARGUMENT, "c.buffer: expected one");
    REFUSE((s.r.beta = trp_real(1), s.r.c.order = TRP_ROW_MAJOR), TRP_E_UNSUPPORTED, "c.order");
    REFUSE(s.r.epilogue_count = 1, TRP_E_ARGUMENT, "epilogue: expected nodes");
}

static void refused_types(void)
{
    REFUSE(s.r.a.type = TRP_C64, TRP_E_UNSUPPORTED, "a.type: expected f64, f32");
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

static const h_case cases[] = {H_CASE(wrapping), H_CASE(bias_gelu_residual), H_CASE(refused)};

int main(int argc, char **argv)
{
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* too many kernels: gpu/cutlass has some */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
