/* Products by kernels of CUTLASS on a GPU: rendered, compiled, loaded and run as a request does it,
 * compared with float64. All kernels of a case are compiled side by side. */
#include "support/reference/elements.h"
#include "support/gpu.h"
#include "support/label.h"

#include <complex.h>
#include <math.h>
#include <signal.h>
#include <sys/types.h>

TROUPE_TEST("long", "computes");
TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass");

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
} product;

enum { A, B, C, D, MATRICES };

typedef struct sent {
    const product *p;
    gpu_matrix matrix[MATRICES];
    float *bias, *scale; /* per column, per row */
    trp_buffer bias_at, scale_at, aux_at, sums_at;
    trp_completion done;
} sent;

static size_t at(const sent *s, int which, int i, int j, int l)
{
    const gpu_matrix *x = &s->matrix[which];
    return (size_t)l * x->stride + gpu_matrix_at(x, x->ld, i, j);
}

static double load(const sent *s, int which, int i, int j, int l)
{
    return gpu_matrix_load(&s->matrix[which], s->matrix[which].data, at(s, which, i, j, l));
}

static void make_matrices(sent *s)
{
    const product *p = s->p;
    const struct {
        trp_dtype type;
        bool by_row;
        int rows, columns;
    } shape[MATRICES] = {
        {p->a, p->a_row, p->m, p->k},
        {p->a, p->b_row, p->k, p->n},
        {p->c, p->d_row, p->m, p->n},
        {p->d, p->d_row, p->m, p->n},
    };
    for (int i = 0; i < MATRICES; i++) {
        size_t rows = (size_t)shape[i].rows, columns = (size_t)shape[i].columns;
        if (shape[i].type == TRP_DTYPE_NONE)
            continue;
        s->matrix[i] = (gpu_matrix){.type = shape[i].type,
                                    .by_row = shape[i].by_row,
                                    .ld = shape[i].by_row ? columns : rows,
                                    .stride = rows * columns,
                                    .elements = rows * columns * (size_t)p->batch};
        gpu_matrix_make(world.device, &s->matrix[i], i == D);
    }
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
                                     .stride = (int64_t)s->matrix[D].stride,
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
    make_matrices(s);
    s->bias = gpu_floats(world.device, p->n, &s->bias_at);
    s->scale = gpu_floats(world.device, p->m, &s->scale_at);
    s->aux_at = h_buffer(world.device, (size_t)p->m * (size_t)p->n * (size_t)p->batch * 4);
    s->sums_at = h_buffer(world.device, (size_t)p->n * 4);
    trp_cutlass_gemm_request r = {.m = p->m,
                                  .n = p->n,
                                  .k = p->k,
                                  .batch = p->batch,
                                  .compute = p->compute,
                                  .a = gpu_matrix_of(&s->matrix[A]),
                                  .b = gpu_matrix_of(&s->matrix[B]),
                                  .d = gpu_matrix_of(&s->matrix[D])};
    if (p->c)
        r.c = gpu_matrix_of(&s->matrix[C]);
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
    h_read(world.device, s->matrix[D].buffer, 0, s->matrix[D].data,
           gpu_matrix_bytes(&s->matrix[D]));
    float *aux = h_malloc((size_t)p->m * (size_t)p->n * (size_t)p->batch * 4);
    float *sums = h_malloc((size_t)p->n * 4);
    double *columns = calloc((size_t)p->n, sizeof *columns);
    h_read(world.device, s->aux_at, 0, aux, (size_t)p->m * (size_t)p->n * (size_t)p->batch * 4);
    h_read(world.device, s->sums_at, 0, sums, (size_t)p->n * 4);
    double input = gpu_sum_error(p->a, p->compute);
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
                double bound = 8 * input * size + 2.02 * gpu_rounding(p->d) * fabs(want) + 1e-30 +
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
    for (int i = 0; i < MATRICES; i++)
        gpu_matrix_free(world.device, &s->matrix[i]);
    H_OK(trp_buffer_free(world.device, s->bias_at));
    H_OK(trp_buffer_free(world.device, s->scale_at));
    H_OK(trp_buffer_free(world.device, s->aux_at));
    H_OK(trp_buffer_free(world.device, s->sums_at));
    free(s->bias);
    free(s->scale);
}

static void run_all(const product *p, size_t count)
{
    p += gpu_chosen(&count);
    if (count == 0)
        return;
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

enum { COLUMN, ROW }; /* A, B, D; C is laid out like D */
#define SIZES(rows, columns, terms, count) .m = rows, .n = columns, .k = terms, .batch = count

/* Kernels of CUTLASS 2.x. */
static void sm80(void)
{
    static const product list[] = {
        {"f32, odd sizes", TRP_F32, TRP_F32, TRP_F32, ROW, COLUMN, ROW, SIZES(131, 77, 61, 1)},
        {"f32, all column-major", TRP_F32, TRP_F32, TRP_F32, COLUMN, COLUMN, COLUMN,
         SIZES(65, 130, 40, 3)},
        {"f32 as tf32", TRP_F32, TRP_F32, TRP_F32, ROW, COLUMN, ROW, SIZES(132, 76, 64, 1),
         .compute = TRP_COMPUTE_TF32},
        {"f64, odd sizes", TRP_F64, TRP_F64, TRP_F64, ROW, ROW, ROW, SIZES(67, 71, 33, 2)},
        {"f16, lines of 2 bytes", TRP_F16, TRP_F16, TRP_F16, ROW, COLUMN, ROW,
         SIZES(131, 77, 61, 1)},
        {"f16, lines of 4 bytes", TRP_F16, TRP_DTYPE_NONE, TRP_F32, ROW, COLUMN, ROW,
         SIZES(130, 78, 62, 1)},
        {"bf16, lines of 8 bytes, row bias", TRP_BF16, TRP_DTYPE_NONE, TRP_BF16, ROW, ROW, ROW,
         SIZES(132, 76, 60, 1), .tree = BIAS_RELU},
        {"bf16, tree", TRP_BF16, TRP_BF16, TRP_BF16, ROW, COLUMN, ROW, SIZES(132, 76, 60, 2),
         .tree = FULL},
        {"i8 to i32", TRP_I8, TRP_I32, TRP_I32, ROW, COLUMN, ROW, SIZES(144, 80, 96, 1)},
        {"i8 to i32, odd sizes", TRP_I8, TRP_DTYPE_NONE, TRP_I32, ROW, COLUMN, ROW,
         SIZES(131, 77, 61, 1)},
        {"i8 to f32, tree", TRP_I8, TRP_DTYPE_NONE, TRP_F32, ROW, COLUMN, ROW,
         SIZES(144, 80, 96, 1), .tree = BIAS_RELU},
    };
    RUN(list);
}

/* Kernels of 3.x, with TMA. */
static void sm90(void)
{
    static const product list[] = {
        {"bf16", TRP_BF16, TRP_DTYPE_NONE, TRP_BF16, ROW, COLUMN, ROW, SIZES(264, 520, 144, 1)},
        {"bf16, column-major D", TRP_BF16, TRP_BF16, TRP_BF16, ROW, ROW, COLUMN,
         SIZES(264, 136, 80, 1)},
        {"f16 to f32, transposed A", TRP_F16, TRP_DTYPE_NONE, TRP_F32, COLUMN, ROW, ROW,
         SIZES(200, 136, 80, 2)},
        {"bf16, bias and relu", TRP_BF16, TRP_DTYPE_NONE, TRP_BF16, ROW, COLUMN, ROW,
         SIZES(264, 136, 80, 1), .tree = BIAS_RELU},
        {"bf16, bias and relu, column-major", TRP_BF16, TRP_DTYPE_NONE, TRP_BF16, ROW, COLUMN,
         COLUMN, SIZES(264, 136, 80, 1), .tree = BIAS_RELU},
        {"f16, scale, bias, gelu, residual", TRP_F16, TRP_F16, TRP_F16, ROW, COLUMN, ROW,
         SIZES(264, 136, 80, 2), .tree = FULL},
        {"bf16, sums of columns and a copy", TRP_BF16, TRP_DTYPE_NONE, TRP_BF16, ROW, COLUMN, ROW,
         SIZES(264, 136, 80, 1), .tree = REDUCED},
        {"f8e4m3 to bf16", TRP_F8E4M3, TRP_DTYPE_NONE, TRP_BF16, ROW, COLUMN, ROW,
         SIZES(256, 144, 96, 1)},
        {"f32 as tf32", TRP_F32, TRP_DTYPE_NONE, TRP_F32, ROW, COLUMN, ROW, SIZES(264, 136, 80, 1),
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

/* A chain, sent at once, whose products read what the one just before has written: as a matrix, and
 * as a scalar of a tree. A kernel may begin while the one before it is at its last tiles. */

enum { LINES = 512, EDGE = 64 };

/* A matrix of EDGE columns, row by row, of bf16. */
static trp_buffer chain_matrix(int rows, double (*element)(int i, int j, int detail), int detail)
{
    size_t bytes = (size_t)rows * EDGE * 2;
    void *data = h_malloc(bytes);
    for (int i = 0; i < rows * EDGE; i++)
        ref_element_store(TRP_BF16, data, i, element(i / EDGE, i % EDGE, detail));
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    free(data);
    return b;
}

static double begin(int i, int j, int detail)
{
    (void)detail;
    return (i * 7 + j * 5) % 61 - 30;
}

/* Moves each column by one. */
static double turn(int i, int j, int detail)
{
    (void)detail;
    return (i + 1) % EDGE == j;
}

static double sign(int i, int j, int detail)
{
    (void)i;
    return j == 0 ? detail : 0;
}

/* By a kernel of 9.0, where there is one. */
static void send_link(trp_cutlass_gemm_request *r)
{
    r->kernel = "s90_half_64x64x64_1x1_pingpong";
    trp_status status = trp_cutlass_gemm(cutlass, r, NULL);
    if (status == TRP_E_UNSUPPORTED) {
        r->kernel = NULL;
        status = trp_cutlass_gemm(cutlass, r, NULL);
    }
    H_OK(status);
}

static trp_cutlass_gemm_request link_of(int rows, trp_buffer a, trp_buffer b, trp_buffer d)
{
    return (trp_cutlass_gemm_request){
        .header = {.wait_ns = TRP_FOREVER},
        .m = rows,
        .n = EDGE,
        .k = EDGE,
        .a = {.buffer = a, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = b, .order = TRP_ROW_MAJOR},
        .d = {.buffer = d, .order = TRP_ROW_MAJOR},
    };
}

static void chain(void)
{
    enum { LINKS = 40 };
    open_world();
    trp_buffer x[2] = {chain_matrix(LINES, begin, 0), h_buffer(world.device, LINES * EDGE * 2)};
    trp_buffer step = chain_matrix(EDGE, turn, 0);
    trp_buffer signs[2] = {chain_matrix(EDGE, sign, 1), chain_matrix(EDGE, sign, -1)};
    trp_buffer ones = chain_matrix(EDGE, sign, 1); /* row 0 counts, and of it column 0 */
    trp_buffer scalar = h_buffer(world.device, EDGE * EDGE * 4);
    trp_epilogue_node tree[] = {
        {0},
        {.kind = TRP_EPILOGUE_ACCUMULATOR},
        {.kind = TRP_EPILOGUE_SCALAR, .buffer = scalar},
        {.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {1, 2}},
    };
    double all = 1;
    for (int i = 0; i < LINKS; i++) {
        int minus = (int)ref_rng_below(h_rng(), 2);
        trp_cutlass_gemm_request r = link_of(EDGE, signs[minus], ones, scalar);
        r.d.type = TRP_F32;
        send_link(&r);
        r = link_of(LINES, x[i % 2], step, x[(i + 1) % 2]);
        r.epilogue = tree;
        r.epilogue_count = sizeof tree / sizeof *tree;
        send_link(&r);
        all *= minus ? -1 : 1;
    }
    void *data = h_malloc(LINES * EDGE * 2);
    h_read(world.device, x[LINKS % 2], 0, data, LINES * EDGE * 2);
    for (int i = 0; i < LINES * EDGE; i++) {
        double want = all * begin(i / EDGE, (i % EDGE - LINKS + 8 * EDGE) % EDGE, 0);
        double got = creal(ref_element_load(TRP_BF16, data, i));
        if (got != want)
            h_fail(__FILE__, __LINE__, "element %d is %g, expected %g", i, got, want);
    }
    free(data);
    h_close(&world);
}

GPU_CASES(H_CASE(sm80), H_CASE(sm90), H_CASE(many_problems), H_CASE(chain))
