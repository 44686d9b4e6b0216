/* Grouped products by kernels of CUTLASS on a GPU: every grouping, with rows of every family, each
 * compared with float64. The kernels of a case are compiled side by side. */
#include "support/gpu.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass");

enum { A, B, C, D, MATRICES };
enum { GROUPS_MOST = 70, WAYS = 5 };

/* A few large groups; more than CUTLASS looks at in one go, small ones; and none with elements. */
typedef enum how_many { FEW, MANY, EMPTY, CROWDS } how_many;

static h_world world;
static trp_actor *cutlass;

typedef struct problem {
    const char *name, *kernel; /* kernel: NULL, the best */
    trp_dtype a, d;
    bool a_row, b_row, d_row;
    int unit; /* that divides all sizes but those that are cut */
    int most; /* units, of a size */
    trp_compute compute;
    bool tree;  /* else alpha and beta C */
    bool whole; /* no group is without elements */
    trp_cutlass_first first;
} problem;

typedef struct group {
    int m, n, k, row, column;
    size_t at[MATRICES], ld[MATRICES];
} group;

typedef struct sent {
    const problem *p;
    trp_cutlass_grouping grouping;
    how_many crowd;
    int groups;
    group group[GROUPS_MOST];
    int m, n, k;
    gpu_matrix matrix[MATRICES];
    trp_buffer table;
    float *scale, *bias, *factor; /* per row, per column, of a group */
    int rows, columns;            /* from group to group, of scale and bias; 0: cut */
    trp_buffer scale_at, bias_at, factor_at;
    trp_cutlass_chosen chosen;
    trp_completion done;
} sent;

static int below(int bound)
{
    return (int)ref_rng_below(h_rng(), (size_t)bound);
}

static bool is_cut(const sent *s, int which)
{
    return (s->grouping == TRP_CUTLASS_GROUPS_OF_M && which != B) ||
           (s->grouping == TRP_CUTLASS_GROUPS_OF_N && which != A) ||
           (s->grouping == TRP_CUTLASS_GROUPS_OF_K && which < C);
}

/* Whether the pieces of a dimension must begin at whole units: they are along lines. */
static bool whole_pieces(const sent *s, int dimension)
{
    for (int i = 0; i < MATRICES; i++) {
        int across = i == B ? 2 : 0, along = i == A ? 2 : 1;
        if (dimension == (s->matrix[i].by_row ? along : across))
            return true;
    }
    return false;
}

/* A driver that is not a GPU's gets less to do. */
static int most_of(const sent *s)
{
    int most = h_is_gpu() ? s->p->most : s->p->most / 3;
    return s->crowd == MANY ? most / 6 + 1 : most;
}

static int draw(const sent *s, int unit)
{
    return below(5) == 0 && !s->p->whole ? 0 : unit * (1 + below(most_of(s) * s->p->unit / unit));
}

static void draw_sizes(sent *s)
{
    int unit = s->p->unit, cut = (int)s->grouping - TRP_CUTLASS_GROUPS_OF_M, begin = 0;
    int size[3];
    for (int i = 0; i < 3; i++)
        size[i] = unit * (1 + below(most_of(s)));
    for (int g = 0; g < s->groups; g++) {
        int own[3];
        for (int i = 0; i < 3; i++) {
            if (cut < 0)
                own[i] = draw(s, unit);
            else
                own[i] = i == cut ? draw(s, whole_pieces(s, i) ? unit : 1) : size[i];
            if (s->crowd == EMPTY && i == (cut < 0 ? below(2) : cut))
                own[i] = 0;
        }
        s->group[g] = (group){.m = own[0],
                              .n = own[1],
                              .k = own[2],
                              .row = cut == 0 ? begin : 0,
                              .column = cut == 1 ? begin : 0};
        begin += cut >= 0 ? own[cut] : 0;
        for (int i = 0; i < 3 && cut < 0; i++)
            size[i] = own[i] > size[i] ? own[i] : size[i];
    }
    if (cut >= 0)
        size[cut] = begin + unit; /* something behind the last end */
    s->m = size[0];
    s->n = size[1];
    s->k = size[2];
}

/* Lines of D are longer than they need be. */
static void lay_out(sent *s, int which)
{
    gpu_matrix *all = &s->matrix[which];
    size_t extra = which == D ? (size_t)s->p->unit : 0, at = 0;
    int begin = 0;
    for (int g = 0; g < s->groups; g++) {
        group *x = &s->group[g];
        int rows = which == B ? x->k : x->m, columns = which == A ? x->k : x->n;
        int all_rows = which == B ? s->k : s->m, all_columns = which == A ? s->k : s->n;
        bool own = s->grouping < TRP_CUTLASS_GROUPS_OF_M, row = all->by_row;
        bool of_rows = s->grouping == TRP_CUTLASS_GROUPS_OF_M ||
                       (s->grouping == TRP_CUTLASS_GROUPS_OF_K && which == B);
        if (own) {
            x->ld[which] = (size_t)(row ? columns : rows) + extra;
            x->at[which] = at;
            at += x->ld[which] * (size_t)(row ? rows : columns);
            continue;
        }
        x->ld[which] = all->ld = (size_t)(row ? all_columns : all_rows) + extra;
        all->stride = is_cut(s, which) ? 0 : all->ld * (size_t)(row ? all_rows : all_columns);
        x->at[which] = is_cut(s, which) ? (size_t)begin * (of_rows == row ? all->ld : 1)
                                        : (size_t)g * all->stride;
        begin += s->grouping == TRP_CUTLASS_GROUPS_OF_M   ? x->m
                 : s->grouping == TRP_CUTLASS_GROUPS_OF_N ? x->n
                                                          : x->k;
        at = all->ld * (size_t)(row ? all_rows : all_columns) *
             (size_t)(is_cut(s, which) ? 1 : s->groups);
    }
    all->elements = at + 16;
}

/* D = relu(scale[row] sums + bias[col]) + factor C. */
enum { NONE, SUMS, SCALED, COLUMN, BIASED, RELU, FACTOR, OLD, ROOT, NODES };

static void set_nodes(const sent *s, trp_epilogue_node *x)
{
    x[SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[SCALED] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_SCALE_ROWS, .input = {SUMS}, .buffer = s->scale_at, .stride = s->rows};
    x[COLUMN] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_PER_COLUMN, .buffer = s->bias_at, .stride = s->columns};
    x[BIASED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, COLUMN}};
    x[RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {BIASED}};
    x[FACTOR] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .buffer = s->factor_at, .stride = 1};
    x[OLD].kind = TRP_EPILOGUE_C;
    x[ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA, .input = {FACTOR, OLD, RELU}};
}

static void set_groups(const sent *s, trp_cutlass_group *row, int32_t *ends)
{
    int32_t end = 0;
    for (int g = 0; g < s->groups; g++) {
        const group *x = &s->group[g];
        row[g] = (trp_cutlass_group){.m = x->m,
                                     .n = x->n,
                                     .k = x->k,
                                     .a = (int64_t)x->at[A],
                                     .b = (int64_t)x->at[B],
                                     .c = (int64_t)x->at[C],
                                     .d = (int64_t)x->at[D],
                                     .ldd = (int64_t)x->ld[D]};
        end += s->grouping == TRP_CUTLASS_GROUPS_OF_M   ? x->m
               : s->grouping == TRP_CUTLASS_GROUPS_OF_N ? x->n
                                                        : x->k;
        ends[g] = end;
    }
}

static trp_status send(sent *s, const problem *p, trp_cutlass_grouping grouping, how_many crowd)
{
    trp_epilogue_node nodes[NODES] = {{0}};
    trp_cutlass_group row[GROUPS_MOST];
    int32_t ends[GROUPS_MOST];
    bool table = grouping == TRP_CUTLASS_GROUPS_BY_TABLE;
    *s = (sent){
        .p = p, .grouping = grouping, .crowd = crowd, .groups = crowd == MANY ? GROUPS_MOST : 7};
    s->matrix[A] = (gpu_matrix){.type = p->a, .by_row = p->a_row};
    s->matrix[B] = (gpu_matrix){.type = p->a, .by_row = p->b_row};
    s->matrix[C] = s->matrix[D] = (gpu_matrix){.type = p->d, .by_row = p->d_row};
    draw_sizes(s);
    for (int i = 0; i < MATRICES; i++) {
        lay_out(s, i);
        gpu_matrix_make(world.device, &s->matrix[i], i == D);
    }
    /* Vectors along lines of D are as aligned as these. */
    s->rows = grouping == TRP_CUTLASS_GROUPS_OF_M ? 0 : (s->m + 7) / 8 * 8;
    s->columns = grouping == TRP_CUTLASS_GROUPS_OF_N ? 0 : (s->n + 7) / 8 * 8;
    s->scale = gpu_floats(world.device, s->rows ? s->rows * s->groups : s->m, &s->scale_at);
    s->bias = gpu_floats(world.device, s->columns ? s->columns * s->groups : s->n, &s->bias_at);
    s->factor = gpu_floats(world.device, s->groups, &s->factor_at);
    set_groups(s, row, ends);
    size_t bytes = (size_t)s->groups * (table ? sizeof *row : sizeof *ends);
    s->table = h_buffer(world.device, bytes);
    h_write(world.device, s->table, 0, table ? (void *)row : (void *)ends, bytes);
    trp_cutlass_grouped_gemm_request r = {.groups = s->groups,
                                          .grouping = grouping,
                                          .compute = p->compute,
                                          .m = s->m,
                                          .n = s->n,
                                          .k = s->k,
                                          .a = gpu_matrix_of(&s->matrix[A]),
                                          .b = gpu_matrix_of(&s->matrix[B]),
                                          .c = gpu_matrix_of(&s->matrix[C]),
                                          .d = gpu_matrix_of(&s->matrix[D]),
                                          .table = s->table,
                                          .alignment = p->unit > 1 ? 16 : 0,
                                          .kernel = p->kernel,
                                          .first = p->first,
                                          .chosen = &s->chosen};
    if (grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
        r.group = row;
        r.table.id = 0;
        r.m = r.n = r.k = r.alignment = 0;
    }
    if (p->tree) {
        set_nodes(s, nodes);
        r.epilogue = nodes;
        r.epilogue_count = NODES;
    } else {
        r.alpha = trp_real(2);
        r.beta = trp_real(-3);
    }
    return trp_cutlass_grouped_gemm(cutlass, &r, &s->done);
}

static size_t at(const sent *s, int which, const group *x, int i, int j)
{
    return x->at[which] + gpu_matrix_at(&s->matrix[which], x->ld[which], i, j);
}

static double load(const sent *s, int which, const group *x, int i, int j)
{
    return gpu_matrix_load(&s->matrix[which], s->matrix[which].data, at(s, which, x, i, j));
}

/* One group; marks what is its D. Returns the largest deviation, as a part of what is allowed. */
static double check_group(const sent *s, int g, const unsigned char *after, unsigned char *mark)
{
    const problem *p = s->p;
    const group *x = &s->group[g];
    size_t width = trp_dtype_bits(p->d) / 8;
    double worst = 0, input = gpu_sum_error(p->a, p->compute);
    for (int i = 0; i < x->m; i++) {
        for (int j = 0; j < x->n; j++) {
            double sum = 0, size = 1, c = load(s, C, x, i, j);
            for (int k = 0; k < x->k; k++) {
                double one = load(s, A, x, i, k) * load(s, B, x, k, j);
                sum += one;
                size += fabs(one);
            }
            double want = 2 * sum - 3 * c;
            if (p->tree)
                want = fmax(s->scale[s->rows * g + x->row + i] * sum +
                                s->bias[s->columns * g + x->column + j],
                            0) +
                       s->factor[g] * c;
            size_t place = at(s, D, x, i, j);
            double got = gpu_matrix_load(&s->matrix[D], after, place);
            double bound = 8 * input * size + 2.02 * gpu_rounding(p->d) * fabs(want) + 1e-30;
            worst = fmax(worst, fabs(got - want) / bound);
            if (!(fabs(got - want) <= bound))
                h_fail(__FILE__, __LINE__,
                       "%s, grouping %d, by %s: group %d of %d x %d x %d: D[%d][%d] is %.9g, "
                       "expected %.9g (+- %g)",
                       p->name, (int)s->grouping, s->chosen.kernel, g, x->m, x->n, x->k, i, j, got,
                       want, bound);
            memset(mark + place * width, 1, width);
        }
    }
    return worst;
}

static void check(sent *s)
{
    const problem *p = s->p;
    trp_error error = {0};
    size_t bytes = gpu_matrix_bytes(&s->matrix[D]);
    unsigned char *after = h_malloc(bytes), *mark = calloc(bytes, 1);
    double worst = 0;
    if (h_await(s->done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s, grouping %d, by %s: %s", p->name, (int)s->grouping,
               s->chosen.kernel, error.message);
    h_read(world.device, s->matrix[D].buffer, 0, after, bytes);
    for (int g = 0; g < s->groups; g++)
        worst = fmax(worst, check_group(s, g, after, mark));
    for (size_t i = 0; i < bytes; i++) {
        if (!mark[i] && after[i] != s->matrix[D].data[i])
            h_fail(__FILE__, __LINE__, "%s, grouping %d, by %s: byte %zu is no group's", p->name,
                   (int)s->grouping, s->chosen.kernel, i);
    }
    printf("  %-28s %d %-38s largest deviation %.3f of what is allowed\n", p->name,
           (int)s->grouping, s->chosen.kernel, worst);
    free(after);
    free(mark);
}

static void drop(sent *s)
{
    trp_buffer all[] = {s->table, s->scale_at, s->bias_at, s->factor_at};
    for (int i = 0; i < MATRICES; i++)
        gpu_matrix_free(world.device, &s->matrix[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        H_OK(trp_buffer_free(world.device, all[i]));
    free(s->scale);
    free(s->bias);
    free(s->factor);
}

static void run_all(const problem *p, size_t count)
{
    p += gpu_chosen(&count);
    if (count == 0)
        return;
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    sent *s = h_malloc(count * WAYS * sizeof *s);
    for (int round = 0; round < CROWDS; round++) {
        for (size_t i = 0; i < count * WAYS; i++)
            H_OK(send(&s[i], &p[i / WAYS], (trp_cutlass_grouping)(i % WAYS), (how_many)round));
        for (size_t i = 0; i < count * WAYS; i++) {
            check(&s[i]);
            drop(&s[i]);
        }
    }
    free(s);
    h_close(&world);
}

#define RUN(list) run_all(list, sizeof(list) / sizeof *(list))

#define HALF(id)                                                                                   \
    {                                                                                              \
        .name = id, .kernel = id, .a = TRP_BF16, .d = TRP_BF16, .a_row = true, .d_row = true,      \
        .unit = 8, .most = 24, .tree = true                                                        \
    }

/* Kernels of CUTLASS 2.x. */
static void sm80(void)
{
    static const problem list[] = {
        HALF("s80_grouped_half_128x128x32_a8"),
        HALF("s80_grouped_half_64x64x64_a8"),
        {.name = "bf16, odd sizes",
         .a = TRP_BF16,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .unit = 1,
         .most = 90,
         .tree = true},
        {.name = "f16, odd sizes, transposed",
         .a = TRP_F16,
         .d = TRP_F32,
         .b_row = true,
         .unit = 1,
         .most = 90,
         .tree = true},
        {.name = "f32", .a = TRP_F32, .d = TRP_F32, .a_row = true, .unit = 1, .most = 90},
        {.name = "f32 as tf32",
         .a = TRP_F32,
         .d = TRP_F32,
         .d_row = true,
         .unit = 4,
         .most = 30,
         .compute = TRP_COMPUTE_TF32},
        {.name = "f64", .a = TRP_F64, .d = TRP_F64, .b_row = true, .unit = 2, .most = 40},
        {.name = "f8e4m3, odd sizes",
         .a = TRP_F8E4M3,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .unit = 1,
         .most = 90,
         .tree = true},
    };
    RUN(list);
}

/* Kernels of 3.x, with TMA. */
static void sm90(void)
{
    static const problem list[] = {
        HALF("s90_grouped_half_128x256x64_2x1"),
        HALF("s90_grouped_half_128x128x64_1x1"),
        HALF("s90_grouped_half_64x256x64_1x1_pingpong"),
        HALF("s90_grouped_half_64x128x64_1x1_pingpong"),
        {.name = "f16, all column-major", .a = TRP_F16, .d = TRP_F16, .unit = 8, .most = 30},
        {.name = "bf16, gradients",
         .a = TRP_BF16,
         .d = TRP_F32,
         .b_row = true,
         .d_row = true,
         .unit = 8,
         .most = 30},
        {.name = "s90_grouped_fp8_128x128x128_1x1",
         .kernel = "s90_grouped_fp8_128x128x128_1x1",
         .a = TRP_F8E4M3,
         .d = TRP_BF16,
         .a_row = true,
         .d_row = true,
         .unit = 16,
         .most = 16,
         .tree = true},
    };
    RUN(list);
}

/* A problem for a kernel, as odd as it takes. */
static problem problem_of(const gpu_row *row)
{
    const char *in = row->inputs;
    const trp_dtype type = strncmp(in, "f16", 3) == 0      ? (below(2) ? TRP_F16 : TRP_BF16)
                           : strncmp(in, "f32", 3) == 0    ? TRP_F32
                           : strncmp(in, "f64", 3) == 0    ? TRP_F64
                           : strncmp(in, "f8e4m3", 6) == 0 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2)
                                                           : TRP_DTYPE_NONE;
    if (type == TRP_DTYPE_NONE)
        h_fail(__FILE__, __LINE__, "%s: inputs \"%s\"", row->name, in);
    return (problem){.name = row->name,
                     .kernel = row->name,
                     .a = type,
                     .d = trp_dtype_bits(type) == 8 ? TRP_BF16 : type,
                     .a_row = true,
                     .d_row = true,
                     .unit = row->align,
                     .most = 200 / row->align,
                     .compute = strstr(in, "tf32") ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT};
}

static struct {
    problem problem;
    sent sent[WAYS];
} of_row[GPU_ROWS_AT_ONCE];

/* Groups told in each way. Sizes are multiples of more than a kernel loads of A and B at once if it
 * stores more of D. */
static void send_each_way(const gpu_row *row, size_t at)
{
    problem *p = &of_row[at].problem;
    sent *s = of_row[at].sent;
    trp_status status;
    *p = problem_of(row);
    while ((status = send(&s[0], p, (trp_cutlass_grouping)0, FEW)) == TRP_E_UNSUPPORTED &&
           p->unit < 16) {
        drop(&s[0]);
        p->unit *= 2;
    }
    H_OK(status);
    for (int way = 1; way < WAYS; way++)
        H_OK(send(&s[way], p, (trp_cutlass_grouping)way, FEW));
}

static void check_each_way(size_t at)
{
    for (int way = 0; way < WAYS; way++) {
        check(&of_row[at].sent[way]);
        drop(&of_row[at].sent[way]);
    }
}

/* Every kernel that the device can have. */
static void each_row(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    gpu_each_row("_grouped_", world.device, send_each_way, check_each_way);
    h_close(&world);
}

/* By cuBLASLt as long as a kernel is being compiled, by the kernel from then on. */
static void fallback(void)
{
    static const trp_dtype a[] = {TRP_BF16, TRP_F16, TRP_F32, TRP_F64},
                           d[] = {TRP_F32, TRP_F16, TRP_F32, TRP_F64};
    enum { TYPES = sizeof a / sizeof *a };
    problem p[TYPES];
    sent s[TYPES];
    const char *const library[] = {"cublaslt", NULL, NULL};
    const gpu_cache cache = gpu_empty_cache();
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    for (int time = 0; time < 3; time++) {
        for (int i = 0; i < TYPES; i++) {
            p[i] =
                (problem){.name = "groups",
                          .a = a[i],
                          .d = d[i],
                          .a_row = i % 2 == 0,
                          .b_row = i < 2,
                          .d_row = i % 3 == 0,
                          .unit = 8,
                          .most = 20,
                          .whole = true,
                          .first = time == 1 ? TRP_CUTLASS_FIRST_WAIT : TRP_CUTLASS_FIRST_FALLBACK};
            H_OK(send(&s[i], &p[i], TRP_CUTLASS_GROUPS_BY_VALUE, FEW));
            gpu_check_fallback(&s[i].chosen, library[time]);
        }
        for (int i = 0; i < TYPES; i++) {
            check(&s[i]);
            drop(&s[i]);
        }
    }
    h_close(&world);
    gpu_drop_cache(&cache);
}

GPU_CASES(H_CASE(sm80), H_CASE(sm90), H_CASE(each_row), H_CASE(fallback))
