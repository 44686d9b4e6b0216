/* Products by kernels of CUTLASS on a GPU: rendered, compiled, loaded and run as a request does it,
 * compared with float64. All kernels of a case are compiled side by side. */
#include "support/elements.h"
#include "support/harness.h"

#include <complex.h>
#include <math.h>
#include <signal.h>
#include <sys/types.h>

static h_world world;
static trp_actor *cutlass;

static void open_world(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
}

/* Products of every class of kernels: sizes that are no multiple of a tile, lines that TMA can take
 * and lines that it can't. */

typedef enum tree_kind { PLAIN, BIAS_RELU, FULL, REDUCED, TREES } tree_kind;

typedef struct product {
    const char *name;
    trp_dtype a, c, d; /* c: TRP_DTYPE_NONE: beta 0 */
    bool a_row, b_row, d_row;
    int m, n, k, batch;
    tree_kind tree;
    trp_compute compute;
    trp_dtype b; /* A's, if none is given */
} product;

typedef struct sent {
    const product *p;
    size_t ld[4], stride[4]; /* of A, B, C, D */
    unsigned char *data[4];
    trp_buffer buffer[4];
    float *bias, *scale; /* per column, per row */
    trp_buffer bias_at, scale_at, aux_at, sums_at;
    trp_completion done;
} sent;

enum { A, B, C, D };

static trp_dtype type_of(const product *p, int which)
{
    return which == A ? p->a : which == B ? (p->b ? p->b : p->a) : which == C ? p->c : p->d;
}

static bool by_row(const product *p, int which)
{
    return which == A ? p->a_row : which == B ? p->b_row : p->d_row;
}

static void shape(const product *p, int which, int *rows, int *columns)
{
    *rows = which == B ? p->k : p->m;
    *columns = which == A ? p->k : p->n;
}

static int64_t at(const sent *s, int which, int i, int j, int l)
{
    int64_t ld = (int64_t)s->ld[which];
    return l * (int64_t)s->stride[which] + (by_row(s->p, which) ? i * ld + j : j * ld + i);
}

static double load(const sent *s, int which, int i, int j, int l)
{
    return creal(ref_element_load(type_of(s->p, which), s->data[which], at(s, which, i, j, l)));
}

static size_t bytes_of(const sent *s, int which)
{
    return s->stride[which] * (size_t)s->p->batch * trp_dtype_bits(type_of(s->p, which)) / 8;
}

static float *floats(int count, trp_buffer *buffer)
{
    float *x = h_malloc((size_t)count * sizeof *x);
    for (int i = 0; i < count; i++)
        x[i] = (float)ref_rng_below(h_rng(), 64) / 16 - 2;
    *buffer = h_buffer(world.device, (size_t)count * sizeof *x);
    h_write(world.device, *buffer, 0, x, (size_t)count * sizeof *x);
    return x;
}

static void make_matrix(sent *s, int which)
{
    int rows, columns;
    trp_dtype type = type_of(s->p, which);
    if (type == TRP_DTYPE_NONE)
        return;
    shape(s->p, which, &rows, &columns);
    size_t run = (size_t)(by_row(s->p, which) ? columns : rows);
    size_t lines = (size_t)(by_row(s->p, which) ? rows : columns);
    s->ld[which] = run;
    s->stride[which] = run * lines;
    s->data[which] = h_malloc(bytes_of(s, which));
    if (which == D)
        h_random_bytes(h_rng(), s->data[D], bytes_of(s, D));
    for (int64_t i = 0; which != D && i < (int64_t)(s->stride[which] * (size_t)s->p->batch); i++)
        ref_element_store(type, s->data[which], i,
                          type == TRP_I8 || type == TRP_I32
                              ? (double)ref_rng_below(h_rng(), 15) - 7
                              : (double)ref_rng_below(h_rng(), 2001) / 1000 - 1);
    s->buffer[which] = h_buffer(world.device, bytes_of(s, which));
    h_write(world.device, s->buffer[which], 0, s->data[which], bytes_of(s, which));
}

static trp_matmul_matrix matrix_of(const sent *s, int which)
{
    return (trp_matmul_matrix){.buffer = s->buffer[which],
                               .type = type_of(s->p, which),
                               .order = by_row(s->p, which) ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)s->ld[which],
                               .stride = (int64_t)s->stride[which]};
}

enum { NONE, SUMS, SCALE, SCALED, BIAS, BIASED, AUX, FUNCTION, OLD, NEW, COLUMNS, ROOT, NODES };

/* D = relu(1.5 sums + bias[j]); D = gelu(scale[i] sums + bias[j]) + C; D = sums, with the sums of
 * its columns, and a copy as f32. Nodes that a tree leaves out are what comes before them. */
static uint32_t nodes_of(const sent *s, trp_epilogue_node *x)
{
    uint32_t n = SUMS;
    x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_ACCUMULATOR};
    if (s->p->tree == BIAS_RELU) {
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = trp_real(1.5)};
        x[n++] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {1, 2}};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN, .buffer = s->bias_at};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {3, 4}};
        x[n++] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {5}};
    } else if (s->p->tree == FULL) {
        x[n++] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_SCALE_ROWS, .buffer = s->scale_at, .input = {1}};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN, .buffer = s->bias_at};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {2, 3}};
        x[n++] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_GELU, .input = {4}};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_C};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {5, 6}};
    } else {
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                     .buffer = s->aux_at,
                                     .type = TRP_F32,
                                     .order = s->p->d_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                                     .stride = (int64_t)s->stride[D],
                                     .input = {1}};
        x[n++] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_REDUCE_COLUMNS, .buffer = s->sums_at, .input = {1}};
        x[n++] = (trp_epilogue_node){.kind = TRP_EPILOGUE_D, .input = {1}};
    }
    return n;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double expected(const sent *s, double sum, int i, int j, int l)
{
    double c = s->p->c ? load(s, C, i, j, l) : 0;
    switch (s->p->tree) {
    case BIAS_RELU:
        return fmax(1.5 * sum + s->bias[j], 0);
    case FULL:
        return gelu(s->scale[i] * sum + s->bias[j]) + c;
    case REDUCED:
        return sum;
    default:
        return 2 * sum - 3 * c;
    }
}

static trp_status send_one(sent *s, const product *p)
{
    trp_epilogue_node nodes[NODES] = {{0}};
    *s = (sent){.p = p};
    for (int i = A; i <= D; i++)
        make_matrix(s, i);
    s->bias = floats(p->n, &s->bias_at);
    s->scale = floats(p->m, &s->scale_at);
    s->aux_at = h_buffer(world.device, (size_t)p->m * (size_t)p->n * (size_t)p->batch * 4);
    s->sums_at = h_buffer(world.device, (size_t)p->n * 4);
    trp_cutlass_gemm_request r = {.m = p->m,
                                  .n = p->n,
                                  .k = p->k,
                                  .batch = p->batch,
                                  .compute = p->compute,
                                  .a = matrix_of(s, A),
                                  .b = matrix_of(s, B),
                                  .d = matrix_of(s, D)};
    if (p->c)
        r.c = matrix_of(s, C);
    if (p->tree == PLAIN) {
        r.alpha = trp_real(2);
        r.beta = trp_real(p->c ? -3 : 0);
    } else {
        r.epilogue = nodes;
        r.epilogue_count = nodes_of(s, nodes);
    }
    return trp_cutlass_gemm(cutlass, &r, &s->done);
}

static void send(sent *s, const product *p)
{
    H_OK(send_one(s, p));
}

/* Half a unit in the last place of what D's type holds, of a value near 1. */
static double rounding(trp_dtype type)
{
    switch (type) {
    case TRP_F16:
        return 1.0 / 2048;
    case TRP_BF16:
        return 1.0 / 256;
    case TRP_F8E4M3:
        return 1.0 / 16;
    case TRP_F8E5M2:
        return 1.0 / 8;
    case TRP_I8:
    case TRP_I32:
        return 0;
    case TRP_F64:
        return 1e-15;
    default:
        return 1e-6;
    }
}

static void check(sent *s)
{
    const product *p = s->p;
    trp_error error = {0};
    double worst = 0;
    if (h_await(s->done.future, &error) == TRP_E_DEPENDENCY) {
        sent again; /* says why its kernel could not be compiled */
        trp_status status = send_one(&again, p);
        h_fail(__FILE__, __LINE__, "%s: %s", p->name,
               status == TRP_OK ? error.message : trp_error_last()->message);
    }
    if (error.status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s: %s", p->name, error.message);
    h_read(world.device, s->buffer[D], 0, s->data[D], bytes_of(s, D));
    float *aux = h_malloc((size_t)p->m * (size_t)p->n * (size_t)p->batch * 4);
    float *sums = h_malloc((size_t)p->n * 4);
    double *columns = calloc((size_t)p->n, sizeof *columns);
    h_read(world.device, s->aux_at, 0, aux, (size_t)p->m * (size_t)p->n * (size_t)p->batch * 4);
    h_read(world.device, s->sums_at, 0, sums, (size_t)p->n * 4);
    /* What tf32 inputs lose. */
    double input = p->compute == TRP_COMPUTE_TF32 ? 1e-3
                   : p->a == TRP_F8E4M3           ? 3e-5 /* tensor cores add up with 14 bits */
                   : p->a == TRP_F64              ? 1e-15
                                                  : 2e-6;
    for (int l = 0; l < p->batch; l++) {
        for (int i = 0; i < p->m; i++) {
            for (int j = 0; j < p->n; j++) {
                double sum = 0, size = 1;
                for (int x = 0; x < p->k; x++) {
                    double one = load(s, A, i, x, l) * load(s, B, x, j, l);
                    sum += one;
                    size += fabs(one);
                }
                double want = expected(s, sum, i, j, l), got = load(s, D, i, j, l);
                double held = ref_element_round(p->d, want);
                double bound = 8 * input * size + 2.02 * rounding(p->d) * fabs(want) + 1e-30 +
                               (p->d == TRP_I8 ? 1 : 0);
                worst = fmax(worst, fabs(got - held) / (bound > 0 ? bound : 1));
                if (!(fabs(got - held) <= bound))
                    h_fail(__FILE__, __LINE__, "%s: D[%d][%d] of %d is %.9g, expected %.9g (+- %g)",
                           p->name, i, j, l, got, held, bound);
                columns[j] += sum;
                if (p->tree == REDUCED && !(fabs(aux[at(s, D, i, j, l)] - sum) <= 8 * input * size))
                    h_fail(__FILE__, __LINE__, "%s: the copy at %d, %d is %.9g, expected %.9g",
                           p->name, i, j, aux[at(s, D, i, j, l)], sum);
            }
        }
    }
    for (int j = 0; p->tree == REDUCED && j < p->n; j++)
        H_CHECK(fabs(sums[j] - columns[j]) <= 1e-3 * (fabs(columns[j]) + p->m));
    printf("  %-44s largest deviation %.3f of what is allowed\n", p->name, worst);
    free(aux);
    free(sums);
    free(columns);
}

static void drop(sent *s)
{
    for (int i = A; i <= D; i++) {
        free(s->data[i]);
        if (s->buffer[i].id)
            H_OK(trp_buffer_free(world.device, s->buffer[i]));
    }
    H_OK(trp_buffer_free(world.device, s->bias_at));
    H_OK(trp_buffer_free(world.device, s->scale_at));
    H_OK(trp_buffer_free(world.device, s->aux_at));
    H_OK(trp_buffer_free(world.device, s->sums_at));
    free(s->bias);
    free(s->scale);
}

/* With TROUPE_TEST_ONLY=3 the third alone: several processes compile faster than one. */
static void run_all(const product *p, size_t count)
{
    const char *only = getenv("TROUPE_TEST_ONLY");
    size_t which = only ? strtoul(only, NULL, 10) : 0;
    if (which > count)
        return;
    if (which > 0) {
        p += which - 1;
        count = 1;
    }
    open_world();
    sent *s = h_malloc(count * sizeof *s);
    int64_t start = h_now();
    for (size_t i = 0; i < count; i++)
        send(&s[i], &p[i]);
    for (size_t i = 0; i < count; i++) {
        check(&s[i]);
        drop(&s[i]);
    }
    printf("  %zu products: %.1f s\n", count, (double)(h_now() - start) / 1e9);
    free(s);
    h_close(&world);
}

#define RUN(list) run_all(list, sizeof(list) / sizeof *(list))

/* Kernels of CUTLASS 2.x. */
static void sm80(void)
{
    static const product list[] = {
        {.name = "f32, odd sizes",
         .a = TRP_F32,
         .c = TRP_F32,
         .d = TRP_F32,
         .a_row = true,
         .d_row = true,
         .m = 131,
         .n = 77,
         .k = 61,
         .batch = 1},
        {.name = "f32, all column-major",
         .a = TRP_F32,
         .c = TRP_F32,
         .d = TRP_F32,
         .m = 65,
         .n = 130,
         .k = 40,
         .batch = 3},
        {.name = "f32 as tf32",
         .a = TRP_F32,
         .c = TRP_F32,
         .d = TRP_F32,
         .a_row = true,
         .d_row = true,
         .m = 132,
         .n = 76,
         .k = 64,
         .batch = 1,
         .compute = TRP_COMPUTE_TF32},
        {.name = "f64, odd sizes",
         .a = TRP_F64,
         .c = TRP_F64,
         .d = TRP_F64,
         .a_row = true,
         .b_row = true,
         .d_row = true,
         .m = 67,
         .n = 71,
         .k = 33,
         .batch = 2},
        {.name = "f16, lines of 2 bytes",
         .a = TRP_F16,
         .c = TRP_F16,
         .d = TRP_F16,
         .a_row = true,
         .d_row = true,
         .m = 131,
         .n = 77,
         .k = 61,
         .batch = 1},
        {.name = "f16, lines of 4 bytes",
         .a = TRP_F16,
         .d = TRP_F32,
         .a_row = true,
         .d_row = true,
         .m = 130,
         .n = 78,
         .k = 62,
         .batch = 1},
        {.name = "bf16, lines of 8 bytes, row bias",
         .a = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .b_row = true,
         .d_row = true,
         .m = 132,
         .n = 76,
         .k = 60,
         .batch = 1,
         .tree = BIAS_RELU},
        {.name = "bf16, tree",
         .a = TRP_BF16,
         .c = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .m = 132,
         .n = 76,
         .k = 60,
         .batch = 2,
         .tree = FULL},
        {.name = "i8 to i32",
         .a = TRP_I8,
         .c = TRP_I32,
         .d = TRP_I32,
         .a_row = true,
         .d_row = true,
         .m = 144,
         .n = 80,
         .k = 96,
         .batch = 1},
        {.name = "i8 to i32, odd sizes",
         .a = TRP_I8,
         .d = TRP_I32,
         .a_row = true,
         .d_row = true,
         .m = 131,
         .n = 77,
         .k = 61,
         .batch = 1},
        {.name = "i8 to f32, tree",
         .a = TRP_I8,
         .d = TRP_F32,
         .a_row = true,
         .d_row = true,
         .m = 144,
         .n = 80,
         .k = 96,
         .batch = 1,
         .tree = BIAS_RELU},
    };
    RUN(list);
}

/* Kernels of 3.x, with TMA. */
static void sm90(void)
{
    static const product list[] = {
        {.name = "bf16",
         .a = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .m = 264,
         .n = 520,
         .k = 144,
         .batch = 1},
        {.name = "bf16, column-major D",
         .a = TRP_BF16,
         .c = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .b_row = true,
         .m = 264,
         .n = 136,
         .k = 80,
         .batch = 1},
        {.name = "f16 to f32, transposed A",
         .a = TRP_F16,
         .d = TRP_F32,
         .b_row = true,
         .d_row = true,
         .m = 200,
         .n = 136,
         .k = 80,
         .batch = 2},
        {.name = "bf16, bias and relu",
         .a = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .m = 264,
         .n = 136,
         .k = 80,
         .batch = 1,
         .tree = BIAS_RELU},
        {.name = "bf16, bias and relu, column-major",
         .a = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .m = 264,
         .n = 136,
         .k = 80,
         .batch = 1,
         .tree = BIAS_RELU},
        {.name = "f16, scale, bias, gelu, residual",
         .a = TRP_F16,
         .c = TRP_F16,
         .d = TRP_F16,
         .a_row = true,
         .d_row = true,
         .m = 264,
         .n = 136,
         .k = 80,
         .batch = 2,
         .tree = FULL},
        {.name = "bf16, sums of columns and a copy",
         .a = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .m = 264,
         .n = 136,
         .k = 80,
         .batch = 1,
         .tree = REDUCED},
        {.name = "f8e4m3 to bf16",
         .a = TRP_F8E4M3,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .m = 256,
         .n = 144,
         .k = 96,
         .batch = 1},
        {.name = "f32 as tf32",
         .a = TRP_F32,
         .d = TRP_F32,
         .a_row = true,
         .d_row = true,
         .m = 264,
         .n = 136,
         .k = 80,
         .batch = 1,
         .compute = TRP_COMPUTE_TF32},
    };
    RUN(list);
}

/* One kernel for all sizes; and it is there again after its worker has died. */
static void many_problems(void)
{
    enum { COUNT = 200 };
    open_world();
    product p[COUNT];
    sent *s = h_malloc(COUNT * sizeof *s);
    for (int i = 0; i < COUNT; i++) {
        p[i] = (product){.name = "one of many",
                         .a = TRP_BF16,
                         .d = TRP_BF16,
                         .a_row = true,
                         .d_row = true,
                         .m = 8 + 8 * (int)ref_rng_below(h_rng(), 12),
                         .n = 8 + 8 * (int)ref_rng_below(h_rng(), 12),
                         .k = 8 + 8 * (int)ref_rng_below(h_rng(), 6),
                         .batch = 1};
        send(&s[i], &p[i]);
        if (i % 50 == 49) {
            check(&s[i]);
            kill((pid_t)h_info(world.device).worker_pid, SIGKILL);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 50 != 49)
            check(&s[i]);
        drop(&s[i]);
    }
    free(s);
    h_close(&world);
}

static const h_case cases[] = {
    {"sm80", sm80},
    {"sm90", sm90},
    {"many_problems", many_problems},
};

int main(int argc, char **argv)
{
    setenv("TROUPE_TEST_BACKEND", "cuda", 1);
    setenv("TROUPE_TEST_ISOLATION", "process", 1);
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
