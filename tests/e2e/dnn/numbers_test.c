/* NaN, infinities, the largest and smallest numbers of each type, integers that f32 does not hold,
 * scores that are shifted far: what dnn.h says of them, against references of long double that are
 * written here from the definitions. Small tensors and those that are large enough for a library.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"
#include "support/harness.h"

#include <float.h>
#include <math.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

enum { TENSORS = 24, NODES = 8, LARGE = 40000 };

static h_world world;
static trp_actor *dnn;

/* --- graphs --- */

typedef struct graph {
    trp_dnn_tensor tensor[TENSORS]; /* [0] is none */
    size_t count[TENSORS];
    uint32_t tensors;
    trp_dnn_node node[NODES];
    uint32_t nodes;
} graph;

static void begin(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
}

static void end(void)
{
    h_close(&world);
}

/* A packed tensor in memory, of values that are repeated; NULL: poison. */
static uint32_t put(graph *g, trp_dtype type, uint32_t rank, const int64_t *dim, const double *v,
                    size_t values)
{
    const uint32_t number = ++g->tensors;
    trp_dnn_tensor *t = &g->tensor[number];
    size_t count = 1;
    *t = (trp_dnn_tensor){.type = type, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        t->dim[i] = dim[i];
        count *= (size_t)dim[i];
    }
    const size_t size = trp_dtype_bits(type) / 8, bytes = (count ? count : 1) * size;
    unsigned char *data = h_malloc(bytes);
    memset(data, 0x5a, bytes);
    for (size_t i = 0; v && i < count; i++)
        dr_store(type, data, (int64_t)i, v[i % values]);
    t->buffer = h_buffer(world.device, bytes);
    h_write(world.device, t->buffer, 0, data, bytes);
    free(data);
    g->count[number] = count;
    return number;
}

static uint32_t line(graph *g, trp_dtype type, size_t count, const double *v, size_t values)
{
    const int64_t dim = (int64_t)count;
    return put(g, type, 1, &dim, v, values);
}

static uint32_t number(graph *g, double value)
{
    g->tensor[++g->tensors] = (trp_dnn_tensor){.value = trp_real(value)};
    return g->tensors;
}

static trp_dnn_node *node(graph *g, trp_dnn_kind kind)
{
    g->node[g->nodes] = (trp_dnn_node){.kind = kind};
    return &g->node[g->nodes++];
}

static trp_dnn_ran ran; /* of the last request */

static trp_status send(graph *g, trp_completion *done)
{
    const trp_dnn_graph_request r = {.options.ran = &ran,
                                     .tensors = g->tensor,
                                     .tensor_count = g->tensors + 1,
                                     .nodes = g->node,
                                     .node_count = g->nodes};
    return trp_dnn_graph(dnn, &r, done);
}

static void run(graph *g)
{
    trp_completion done = {0};
    H_OK(send(g, &done));
    H_OK(h_await_any(done));
}

static double *get(const graph *g, uint32_t t)
{
    const size_t size = trp_dtype_bits(g->tensor[t].type) / 8, count = g->count[t];
    unsigned char *data = h_malloc(count * size + 1);
    double *v = h_malloc((count + 1) * sizeof *v);
    h_read(world.device, g->tensor[t].buffer, 0, data, count * size);
    for (size_t i = 0; i < count; i++)
        v[i] = dr_load(g->tensor[t].type, data, (int64_t)i);
    free(data);
    return v;
}

static void drop(graph *g)
{
    for (uint32_t i = 1; i <= g->tensors; i++) {
        if (g->tensor[i].buffer.id)
            H_OK(trp_buffer_free(world.device, g->tensor[i].buffer));
    }
    *g = (graph){0};
}

/* A unit in the last place of numbers near 1, and of the smallest ones. */
static double step_of(trp_dtype type)
{
    return type == TRP_F64   ? 0x1p-52
           : type == TRP_F32 ? 0x1p-23
           : type == TRP_F16 ? 0x1p-10
                             : 0x1p-7;
}

static double smallest(trp_dtype type)
{
    return type == TRP_F64    ? 0x1p-1074
           : type == TRP_F16  ? 0x1p-24
           : type == TRP_BF16 ? 0x1p-133
                              : 0x1p-149;
}

static double most_of(trp_dtype type)
{
    return type == TRP_F64   ? DBL_MAX
           : type == TRP_F32 ? (double)FLT_MAX
           : type == TRP_F16 ? 65504
                             : 0x1.fep127;
}

/* A result within so many units of what it must be, or as far from 0 as `size` allows. */
static void check(const char *what, trp_dtype type, size_t at, double got, double want,
                  double units, double size)
{
    const double held = dr_round(type, want);
    if (isnan(want) ? isnan(got) : got == held || got == want)
        return;
    const double bound = units * step_of(type) * fmax(fabs(want), size) + 2 * smallest(type);
    if (!isnan(want) && !isinf(held) && fabs(got - want) <= bound)
        return;
    if (isinf(held) && fabs(want) <= most_of(type) * (1 + 4 * step_of(type)) &&
        fabs(got) >= most_of(type) * (1 - 4 * step_of(type)))
        return; /* a rounding away from infinity */
    h_fail(__FILE__, __LINE__, "%s, %s, by %s, element %zu: got %.17g, expected %.17g +- %.3g",
           what, trp_dtype_name(type), ran.engine, at, got, want, bound);
}

static void check_all(const char *what, const graph *g, uint32_t t, const double *want,
                      size_t values, double units, double size)
{
    double *got = get(g, t);
    for (size_t i = 0; i < g->count[t]; i++)
        check(what, g->tensor[t].type, i, got[i], want[i % values], units, size);
    free(got);
}

static const trp_dtype floats[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FOR_FLOATS(type)                                                                           \
    for (size_t type##_at = 0; type##_at < COUNT_OF(floats); type##_at++)                          \
        for (trp_dtype type = floats[type##_at], *type##_once = &type; type##_once;                \
             type##_once = NULL)

/* --- activations --- */

static long double sigmoid(long double x)
{
    return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
}

#define ROOT_2_BY_PI 0.797884560802865355879892119868763737L

/* At infinities the limits are given, where formulas are none. */
static double activation(trp_dnn_pointwise mode, double given)
{
    const long double x = (long double)given;
    if (isnan(given))
        return NAN;
    switch (mode) {
    case TRP_DNN_RELU:
        return given > 0 ? given : 0;
    case TRP_DNN_TANH:
        return (double)tanhl(x);
    case TRP_DNN_SIGMOID:
        return (double)sigmoid(x);
    case TRP_DNN_ELU:
        return (double)(x > 0 ? x : expm1l(x));
    case TRP_DNN_GELU:
        return isinf(given) ? (given > 0 ? given : -0.0) : (double)(x / 2 * erfcl(-x / sqrtl(2)));
    case TRP_DNN_GELU_TANH:
        return isinf(given) ? (given > 0 ? given : -0.0)
                            : (double)(x * sigmoid(2 * ROOT_2_BY_PI * (x + 0.044715L * x * x * x)));
    case TRP_DNN_SOFTPLUS:
        return (double)(fmaxl(x, 0) + log1pl(expl(-fabsl(x))));
    default:
        return isinf(given) ? (given > 0 ? given : -0.0) : (double)(x * sigmoid(x));
    }
}

static double derivative(trp_dnn_pointwise mode, double given)
{
    const long double x = (long double)given, s = sigmoid(x);
    if (isnan(given))
        return NAN;
    switch (mode) {
    case TRP_DNN_RELU:
        return given > 0;
    case TRP_DNN_TANH:
        return (double)(4 * sigmoid(2 * x) * sigmoid(-2 * x));
    case TRP_DNN_SIGMOID:
        return (double)(s * sigmoid(-x));
    case TRP_DNN_ELU:
        return given > 0 ? 1 : (double)expl(x);
    case TRP_DNN_SOFTPLUS:
        return (double)s;
    default:
        break;
    }
    if (isinf(given) || fabs(given) > 1e4)
        return given > 0;
    if (mode == TRP_DNN_GELU)
        return (double)(erfcl(-x / sqrtl(2)) / 2 + x * expl(-x * x / 2) * ROOT_2_BY_PI / 2);
    if (mode == TRP_DNN_SWISH)
        return (double)(s + x * s * sigmoid(-x));
    const long double y = 2 * ROOT_2_BY_PI * (x + 0.044715L * x * x * x);
    return (double)(sigmoid(y) +
                    x * sigmoid(y) * sigmoid(-y) * 2 * ROOT_2_BY_PI * (1 + 3 * 0.044715L * x * x));
}

/* Numbers at the ends of a type, and in between. */
static size_t extremes(trp_dtype type, double *x)
{
    const double most = most_of(type), all[] = {NAN,
                                                INFINITY,
                                                -INFINITY,
                                                0.0,
                                                -0.0,
                                                most,
                                                -most,
                                                1,
                                                -1,
                                                0.1,
                                                -3,
                                                10,
                                                -10,
                                                100,
                                                -100,
                                                1e4,
                                                -1e4,
                                                4,
                                                -4,
                                                0x1p-14,
                                                -0x1p-14,
                                                smallest(type),
                                                -smallest(type)};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        x[i] = dr_round(type, all[i]);
    return COUNT_OF(all);
}

static void activations(void)
{
    begin();
    FOR_FLOATS(type)
    {
        double x[32], want[32], slope[32], dy = 0.75;
        const size_t values = extremes(type, x);
        for (int mode = TRP_DNN_RELU; mode <= TRP_DNN_SWISH; mode++) {
            for (size_t count = values; count <= LARGE; count += LARGE - values) {
                graph g = {0};
                trp_dnn_node *n = node(&g, TRP_DNN_POINTWISE);
                trp_dnn_node *back = node(&g, TRP_DNN_POINTWISE_BACKWARD);
                char what[64];
                snprintf(what, sizeof what, "activation %d of %zu", mode, count);
                for (size_t i = 0; i < values; i++) {
                    want[i] = activation((trp_dnn_pointwise)mode, x[i]);
                    slope[i] = dy * derivative((trp_dnn_pointwise)mode, x[i]);
                }
                n->pointwise = back->pointwise = (trp_dnn_pointwise)mode;
                n->x = back->x = line(&g, type, count, x, values);
                n->y = line(&g, type, count, NULL, 0);
                back->dy = line(&g, type, count, &dy, 1);
                back->dx = line(&g, type, count, NULL, 0);
                run(&g);
                check_all(what, &g, n->y, want, values, 128, type == TRP_F64 ? 0 : 1e-6);
                check_all(what, &g, back->dx, slope, values, 16, 1);
                drop(&g);
            }
        }
    }
    end();
}

/* Where a relu is flat nothing comes through. */
static void flat(void)
{
    begin();
    const double x[] = {-1, -INFINITY, 0, 1, INFINITY, NAN};
    const double dy[] = {INFINITY, NAN, -INFINITY, INFINITY, 2, 1};
    const double want[] = {0, 0, 0, INFINITY, 2, NAN};
    graph g = {0};
    trp_dnn_node *n = node(&g, TRP_DNN_POINTWISE_BACKWARD);
    n->pointwise = TRP_DNN_RELU;
    n->x = line(&g, TRP_F32, 6, x, 6);
    n->dy = line(&g, TRP_F32, 6, dy, 6);
    n->dx = line(&g, TRP_F32, 6, NULL, 0);
    run(&g);
    check_all("relu's gradient", &g, n->dx, want, 6, 0, 0);
    drop(&g);
    end();
}

/* --- two numbers, and truth --- */

static void pairs(void)
{
    static const struct {
        trp_dnn_pointwise mode;
        double x, b, y;
    } rows[] = {
        {TRP_DNN_MIN, NAN, 1, NAN},
        {TRP_DNN_MIN, 1, NAN, NAN},
        {TRP_DNN_MIN, -INFINITY, 1, -INFINITY},
        {TRP_DNN_MAX, NAN, INFINITY, NAN},
        {TRP_DNN_MAX, INFINITY, NAN, NAN},
        {TRP_DNN_MAX, -INFINITY, -3, -3},
        {TRP_DNN_ADD, INFINITY, -INFINITY, NAN},
        {TRP_DNN_MUL, 0, INFINITY, NAN},
        {TRP_DNN_DIV, 1, 0, INFINITY},
        {TRP_DNN_DIV, 1, -0.0, -INFINITY},
        {TRP_DNN_DIV, 0, 0, NAN},
        {TRP_DNN_MOD, 5, INFINITY, 5},
        {TRP_DNN_MOD, INFINITY, 5, NAN},
        {TRP_DNN_MOD, -5.5, 2, -1.5},
        {TRP_DNN_POW, NAN, 0, 1},
        {TRP_DNN_POW, 1, NAN, 1},
        {TRP_DNN_POW, -8, 3, -512},
        {TRP_DNN_ATAN2, 0, -1, 3.14159265358979323846},
        {TRP_DNN_EQUAL, NAN, NAN, 0},
        {TRP_DNN_NOT_EQUAL, NAN, NAN, 1},
        {TRP_DNN_GREATER, NAN, 1, 0},
        {TRP_DNN_LESS_EQUAL, NAN, 1, 0},
        {TRP_DNN_EQUAL, 0.0, -0.0, 1},
        {TRP_DNN_GREATER_EQUAL, INFINITY, INFINITY, 1},
        {TRP_DNN_AND, NAN, 1, 1},
        {TRP_DNN_AND, 0, NAN, 0},
        {TRP_DNN_OR, -0.0, 0, 0},
        {TRP_DNN_OR, 0, 0.25, 1},
    };
    begin();
    FOR_FLOATS(type)
    {
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            for (size_t count = 3; count <= LARGE; count += LARGE - 3) {
                graph g = {0};
                trp_dnn_node *n = node(&g, TRP_DNN_POINTWISE);
                char what[64];
                snprintf(what, sizeof what, "mode %d, row %zu", (int)rows[i].mode, i);
                n->pointwise = rows[i].mode;
                n->x = line(&g, type, count, &rows[i].x, 1);
                n->b = line(&g, type, count, &rows[i].b, 1);
                n->y = line(&g, type, count, NULL, 0);
                run(&g);
                check_all(what, &g, n->y, &rows[i].y, 1, 2, 0);
                drop(&g);
            }
        }
    }
    end();
}

/* A number that is not 0 is true: where it becomes a bool, and where it is taken for one. */
static void truth(void)
{
    begin();
    FOR_FLOATS(type)
    {
        const double x[] = {0, -0.0, 0.25, -0.25, NAN, -INFINITY, 7, smallest(type)};
        const double want[] = {0, 0, 1, 1, 1, 1, 1, 1}, nought[] = {1, 1, 0, 0, 0, 0, 0, 0};
        const double one = 1, zero = 0;
        graph g = {0};
        trp_dnn_node *as = node(&g, TRP_DNN_POINTWISE), *not = node(&g, TRP_DNN_POINTWISE);
        trp_dnn_node *select = node(&g, TRP_DNN_POINTWISE), *move = node(&g, TRP_DNN_RESHAPE);
        as->x = not ->x = select->t = move->x = line(&g, type, 8, x, 8);
        as->y = line(&g, TRP_BOOL, 8, NULL, 0);
        not ->pointwise = TRP_DNN_NOT;
        not ->y = line(&g, TRP_BOOL, 8, NULL, 0);
        select->pointwise = TRP_DNN_SELECT;
        select->x = line(&g, TRP_F32, 8, &one, 1);
        select->b = line(&g, TRP_F32, 8, &zero, 1);
        select->y = line(&g, TRP_F32, 8, NULL, 0);
        move->y = line(&g, TRP_BOOL, 8, NULL, 0);
        run(&g);
        check_all("bool", &g, as->y, want, 8, 0, 0);
        check_all("not", &g, not ->y, nought, 8, 0, 0);
        check_all("select", &g, select->y, want, 8, 0, 0);
        check_all("a move to bool", &g, move->y, want, 8, 0, 0);
        drop(&g);
    }
    end();
}

/* --- reductions --- */

static void reduce_to(const char *what, trp_dnn_reduce mode, trp_dtype type, size_t count,
                      const double *x, size_t values, double want)
{
    const int64_t from[] = {2, (int64_t)count}, to[] = {2, 1};
    graph g = {0};
    trp_dnn_node *n = node(&g, TRP_DNN_REDUCTION);
    n->reduce = mode;
    n->x = put(&g, type, 2, from, x, values);
    n->y = put(&g, type, 2, to, NULL, 0);
    run(&g);
    check_all(what, &g, n->y, &want, 1, 4, 0);
    drop(&g);
}

static void reductions(void)
{
    begin();
    FOR_FLOATS(type)
    {
        const double most = most_of(type), least = smallest(type);
        const double large[] = {most, most / 2, most, most / 2}, small[] = {3 * least, 4 * least};
        const double nan[] = {1, NAN, -2, 5}, up[] = {1, INFINITY, -2, 5}, some[] = {-3, 2, -1, 2};
        reduce_to("mean of the largest", TRP_DNN_MEAN, type, 4, large, 4, most / 2 + most / 4);
        reduce_to("mean of one", TRP_DNN_MEAN, type, 1, large, 1, most);
        reduce_to("norm of one", TRP_DNN_NORM2, type, 1, large, 1, most);
        reduce_to("norm of the smallest", TRP_DNN_NORM2, type, 2, small, 2, 5 * least);
        reduce_to("norm of large ones", TRP_DNN_NORM2, type, 2, (double[]){most / 8, -most / 8}, 2,
                  dr_round(type, most / 8) * sqrt(2));
        reduce_to("largest of the smallest", TRP_DNN_AMAX, type, 2, small, 2, 4 * least);
        reduce_to("norm of nothing but 0", TRP_DNN_NORM2, type, 2, (double[]){0, -0.0}, 2, 0);
        for (int mode = TRP_DNN_SUM; mode <= TRP_DNN_PRODUCT; mode++)
            reduce_to("of a NaN", (trp_dnn_reduce)mode, type, 4, nan, 4, NAN);
        reduce_to("sum of infinity", TRP_DNN_SUM, type, 4, up, 4, INFINITY);
        reduce_to("mean of infinity", TRP_DNN_MEAN, type, 4, up, 4, INFINITY);
        reduce_to("norm of infinity", TRP_DNN_NORM2, type, 4, up, 4, INFINITY);
        reduce_to("most of infinity", TRP_DNN_MOST, type, 4, up, 4, INFINITY);
        reduce_to("least of infinity", TRP_DNN_LEAST, type, 4, up, 4, -2);
        reduce_to("product", TRP_DNN_PRODUCT, type, 4, some, 4, 12);
        reduce_to("norm of some", TRP_DNN_NORM2, type, 4, some, 4, sqrt(18));
        reduce_to("a long mean", TRP_DNN_MEAN, type, h_is_cuda() ? 50000 : 1000000,
                  (double[]){dr_round(type, 100.25)}, 1, dr_round(type, 100.25));
    }
    end();
}

/* Over nothing. */
static void empty(void)
{
    static const double want[] = {
        [TRP_DNN_SUM] = 0,          [TRP_DNN_MEAN] = 0,   [TRP_DNN_LEAST] = INFINITY,
        [TRP_DNN_MOST] = -INFINITY, [TRP_DNN_AMAX] = 0,   [TRP_DNN_NORM1] = 0,
        [TRP_DNN_NORM2] = 0,        [TRP_DNN_PRODUCT] = 1};
    begin();
    FOR_FLOATS(type)
    {
        for (int mode = TRP_DNN_SUM; mode <= TRP_DNN_PRODUCT; mode++)
            reduce_to("over nothing", (trp_dnn_reduce)mode, type, 0, want, 1, want[mode]);
    }
    end();
}

/* One reduction whose groups are of all sizes. */
static void groups(void)
{
    begin();
    const int64_t from[] = {4, 2}, to[] = {4, 1};
    const double x[] = {3e200, 4e200, 3e-200, 4e-200, 3, 4, 0, 0};
    const double want[] = {5e200, 5e-200, 5, 0};
    graph g = {0};
    trp_dnn_node *n = node(&g, TRP_DNN_REDUCTION);
    n->reduce = TRP_DNN_NORM2;
    n->x = put(&g, TRP_F64, 2, from, x, 8);
    n->y = put(&g, TRP_F64, 2, to, NULL, 0);
    run(&g);
    check_all("norms of all sizes", &g, n->y, want, 4, 4, 0);
    drop(&g);
    end();
}

/* --- normalisation --- */

/* x is n x c x s; what is normalised over follows from the mode. */
typedef struct norm_case {
    const char *name;
    trp_dnn_norm mode;
    trp_dtype type;
    int64_t n, c, s;
    double mean, deviation, epsilon;
} norm_case;

static void statistics_of(const norm_case *k, const double *x, int64_t i, int64_t c,
                          long double *mean, long double *variance)
{
    const int64_t first_n = k->mode == TRP_DNN_BATCH ? 0 : i;
    const int64_t end_n = k->mode == TRP_DNN_BATCH ? k->n : i + 1;
    const bool inner = k->mode == TRP_DNN_LAYER || k->mode == TRP_DNN_RMS;
    const int64_t first_c = inner ? 0 : c, end_c = inner ? k->c : c + 1;
    long double count = 0, sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t a = first_n; a < end_n; a++) {
            for (int64_t b = first_c; b < end_c; b++) {
                for (int64_t s = 0; s < k->s; s++) {
                    const long double v = (long double)x[(a * k->c + b) * k->s + s];
                    const long double m =
                        k->mode == TRP_DNN_RMS ? 0 : sum / (count > 0 ? count : 1);
                    if (pass == 0)
                        sum += v;
                    else
                        squares += (v - m) * (v - m);
                    count += pass == 0;
                }
            }
        }
    }
    *mean = k->mode == TRP_DNN_RMS ? 0 : sum / count;
    *variance = squares / count;
}

static void norm_one(const norm_case *k)
{
    const size_t count = (size_t)(k->n * k->c * k->s);
    const bool inner = k->mode == TRP_DNN_LAYER || k->mode == TRP_DNN_RMS;
    const int64_t x_dim[] = {k->n, k->c, k->s};
    const int64_t scale_dim[] = {1, k->c, inner ? k->s : 1};
    const int64_t stat_dim[] = {k->mode == TRP_DNN_BATCH ? 1 : k->n, inner ? 1 : k->c, 1};
    const trp_dtype stats = k->type == TRP_F64 ? TRP_F64 : TRP_F32;
    const size_t stat_count = (size_t)(stat_dim[0] * stat_dim[1]);
    double *x = h_malloc(count * sizeof *x), *y = h_malloc(count * sizeof *y);
    double *mean = h_malloc(stat_count * sizeof *mean), *inv = h_malloc(stat_count * sizeof *inv);
    const double scale = 1.5, bias = -0.25;
    graph g = {0};
    trp_dnn_node *n = node(&g, TRP_DNN_NORM_TRAINING);
    for (size_t i = 0; i < count; i++) /* -1 to 1, the same sequence always */
        x[i] = dr_round(k->type, k->mean + k->deviation * cos((double)(i * 7 % 1013) * 1.7));
    for (int64_t i = 0; i < k->n; i++) {
        for (int64_t c = 0; c < k->c; c++) {
            long double m, v;
            statistics_of(k, x, i, c, &m, &v);
            const long double by = 1 / sqrtl(v + (long double)k->epsilon);
            const size_t at =
                (size_t)((k->mode == TRP_DNN_BATCH ? 0 : i) * stat_dim[1] + (inner ? 0 : c));
            mean[at] = (double)m;
            inv[at] = (double)by;
            for (int64_t s = 0; s < k->s; s++) {
                const size_t e = (size_t)((i * k->c + c) * k->s + s);
                y[e] = (double)(((long double)x[e] - m) * by * (long double)scale +
                                (k->mode == TRP_DNN_RMS ? 0 : (long double)bias));
            }
        }
    }
    n->norm = k->mode;
    n->x = put(&g, k->type, 3, x_dim, x, count);
    n->scale = put(&g, stats, 3, scale_dim, &scale, 1);
    n->epsilon = number(&g, k->epsilon);
    if (k->mode != TRP_DNN_RMS) {
        n->bias = put(&g, stats, 3, scale_dim, &bias, 1);
        n->mean = put(&g, stats, 3, stat_dim, NULL, 0);
    }
    n->inv_variance = put(&g, stats, 3, stat_dim, NULL, 0);
    n->y = put(&g, k->type, 3, x_dim, NULL, 0);
    run(&g);
    check_all(k->name, &g, n->y, y, count, 64, 1);
    check_all(k->name, &g, n->inv_variance, inv, stat_count, 64, 0);
    if (n->mean)
        check_all(k->name, &g, n->mean, mean, stat_count, 16, k->deviation);
    drop(&g);
    free(x);
    free(y);
    free(mean);
    free(inv);
}

static void norms(void)
{
    static const struct {
        const char *name;
        double mean, deviation, epsilon;
        bool f64;
    } sizes[] = {
        {"ordinary", 0.5, 1, 1e-5, false},
        {"large", 1e25, 3e25, 1e-5, false},
        {"small, without epsilon", 1e-25, 3e-25, 0, false},
        {"small", 1e-25, 3e-25, 1e-5, false},
        {"a large mean", 1000, 0.01, 0, false},
        {"a large mean of large ones", 1e30, 1e26, 0, false},
        {"huge", 1e200, 3e200, 1e-5, true},
        {"tiny, without epsilon", 1e-200, 3e-200, 0, true},
        {"tiny", 1e-200, 3e-200, 1e-5, true},
    };
    begin();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (int mode = TRP_DNN_LAYER; mode <= TRP_DNN_RMS; mode++) {
            for (int large = 0; large < 2; large++) {
                norm_case k = {.name = sizes[i].name,
                               .mode = (trp_dnn_norm)mode,
                               .type = sizes[i].f64 ? TRP_F64 : TRP_F32,
                               .n = large ? 5 : 2,
                               .c = large ? 13 : 3,
                               .s = large ? 600 : 7,
                               .mean = sizes[i].mean,
                               .deviation = sizes[i].deviation,
                               .epsilon = sizes[i].epsilon};
                norm_one(&k);
                if (i == 0) {
                    k.type = TRP_BF16;
                    norm_one(&k);
                    k.type = TRP_F16;
                    norm_one(&k);
                }
            }
        }
    }
    /* One value a channel, and equal ones: the bias. */
    norm_one(&(norm_case){"one value", TRP_DNN_BATCH, TRP_F32, 1, 5, 1, 7, 3, 1e-5});
    norm_one(&(norm_case){"one value", TRP_DNN_INSTANCE, TRP_F32, 3, 5, 1, 7, 3, 1e-5});
    norm_one(&(norm_case){"equal ones", TRP_DNN_BATCH, TRP_F32, 5, 13, 600, 4096, 0, 1e-5});
    norm_one(&(norm_case){"equal ones", TRP_DNN_LAYER, TRP_F64, 2, 3, 8, 0x1p1000, 0, 1e-5});
    end();
}

/* How large x, dy and the scale are, where the deviation of x counts as `x`. */
typedef struct slope_sizes {
    const char *name;
    double x, dy, scale;
    bool steep; /* 1 / deviation is denormal, which cuDNN takes for 0; sums over rows are numbers */
} slope_sizes;

static void slopes_one(trp_dnn_norm mode, trp_dtype type, int64_t n, int64_t c, int64_t s,
                       const slope_sizes *size)
{
    const size_t count = (size_t)(n * c * s);
    const bool inner = mode == TRP_DNN_LAYER || mode == TRP_DNN_RMS;
    const int64_t x_dim[] = {n, c, s}, scale_dim[] = {1, c, inner ? s : 1};
    const int64_t stat_dim[] = {mode == TRP_DNN_BATCH ? 1 : n, inner ? 1 : c, 1};
    const trp_dtype stats = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const double zero = 0, scale = size->scale, inverse = dr_round(stats, 1 / size->x);
    const size_t scales = (size_t)(c * scale_dim[2]);
    double *x = h_malloc(count * sizeof *x), *dy = h_malloc(count * sizeof *dy);
    double *dx = h_malloc(count * sizeof *dx), *dscale = h_malloc(scales * sizeof *dscale);
    graph g = {0};
    trp_dnn_node *back = node(&g, TRP_DNN_NORM_BACKWARD);
    for (size_t i = 0; i < count; i++) {
        x[i] = dr_round(type, size->x * cos((double)(i * 7 % 1013) * 1.7));
        dy[i] = dr_round(type, size->dy * cos((double)(i * 5 % 1019) * 2.3));
    }
    memset(dscale, 0, scales * sizeof *dscale);
    for (size_t i = 0; i < count; i++)
        dscale[inner ? i % scales : i / (size_t)s % scales] += dy[i] * (x[i] * inverse);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t b = 0; b < c; b++) {
            const int64_t first_n = mode == TRP_DNN_BATCH ? 0 : i;
            const int64_t end_n = mode == TRP_DNN_BATCH ? n : i + 1;
            const int64_t first_c = inner ? 0 : b, end_c = inner ? c : b + 1;
            long double sum = 0, product = 0, all = 0;
            for (int64_t k = first_n; k < end_n; k++) {
                for (int64_t e = (k * c + first_c) * s; e < (k * c + end_c) * s; e++) {
                    sum += (long double)dy[e];
                    product += (long double)dy[e] * (long double)(x[e] * inverse);
                    all++;
                }
            }
            for (int64_t e = (i * c + b) * s; e < (i * c + b + 1) * s; e++)
                dx[e] = (double)((long double)scale * (long double)inverse *
                                 ((long double)dy[e] - (mode == TRP_DNN_RMS ? 0 : sum / all) -
                                  (long double)(x[e] * inverse) * product / all));
        }
    }
    back->norm = mode;
    back->x = put(&g, type, 3, x_dim, x, count);
    back->dy = put(&g, type, 3, x_dim, dy, count);
    back->scale = put(&g, stats, 3, scale_dim, &scale, 1);
    if (mode != TRP_DNN_RMS)
        back->mean = put(&g, stats, 3, stat_dim, &zero, 1);
    back->inv_variance = put(&g, stats, 3, stat_dim, &inverse, 1);
    back->dx = put(&g, type, 3, x_dim, NULL, 0);
    back->dscale = put(&g, stats, 3, scale_dim, NULL, 0);
    if (mode != TRP_DNN_RMS)
        back->dbias = put(&g, stats, 3, scale_dim, NULL, 0);
    run(&g);
    const bool compared = !size->steep || strncmp(ran.engine, "eng", 3) != 0;
    if (compared)
        check_all(size->name, &g, back->dx, dx, count, 64, size->dy * scale * inverse);
    if (compared && size->steep)
        check_all(size->name, &g, back->dscale, dscale, scales, 64,
                  size->dy * (double)(count / scales));
    drop(&g);
    free(x);
    free(dy);
    free(dx);
    free(dscale);
}

static void slopes_of(trp_dnn_norm mode, trp_dtype type, const slope_sizes *size)
{
    slopes_one(mode, type, 3, 5, 7, size);
    slopes_one(mode, type, 4, 16, 768, size);
    slopes_one(mode, type, 300, 48, 1, size);
    slopes_one(mode, type, 9, 1, 4096, size);
}

static const trp_dtype slope_types[] = {TRP_F32, TRP_BF16};

static void slopes_of_the_largest(void)
{
    static const trp_dnn_norm modes[] = {TRP_DNN_LAYER, TRP_DNN_BATCH, TRP_DNN_INSTANCE,
                                         TRP_DNN_RMS};
    begin();
    for (size_t t = 0; t < COUNT_OF(slope_types); t++) {
        /* Sums of dy, and of dy times x, leave the type on their way to results that it holds. */
        const slope_sizes size = {"slopes of the largest", 1, most_of(slope_types[t]) * 0.75,
                                  0x1p-10, false};
        for (size_t m = 0; m < COUNT_OF(modes); m++)
            slopes_of(modes[m], slope_types[t], &size);
    }
    end();
}

/* 1 / deviation is denormal. */
static void slopes_of_large_ones(trp_dnn_norm mode)
{
    begin();
    for (size_t t = 0; t < COUNT_OF(slope_types); t++) {
        const slope_sizes size = {"slopes of large ones", most_of(slope_types[t]) * 0.9, 1, 0x1p100,
                                  true};
        slopes_of(mode, slope_types[t], &size);
    }
    end();
}

static void steep_layer(void)
{
    slopes_of_large_ones(TRP_DNN_LAYER);
}

static void steep_batch(void)
{
    slopes_of_large_ones(TRP_DNN_BATCH);
}

static void steep_instance(void)
{
    slopes_of_large_ones(TRP_DNN_INSTANCE);
}

static void steep_rms(void)
{
    slopes_of_large_ones(TRP_DNN_RMS);
}

/* Where all of x is one large number a 0 beside a row, which no kernel may look at, is further from
 * the mean than the type reaches. */
static void slopes_beside(trp_dnn_norm mode, trp_dtype type, int64_t n, int64_t c, int64_t s)
{
    const size_t count = (size_t)(n * c * s);
    const bool inner = mode == TRP_DNN_LAYER;
    const int64_t x_dim[] = {n, c, s}, scale_dim[] = {1, c, inner ? s : 1};
    const int64_t stat_dim[] = {mode == TRP_DNN_BATCH ? 1 : n, inner ? 1 : c, 1};
    const double one = 1, inverse = 316.25, large = dr_round(type, most_of(type) * 0.75);
    double *dy = h_malloc(count * sizeof *dy), *dx = h_malloc(count * sizeof *dx);
    double *none = calloc((size_t)(c * s), sizeof *none);
    graph g = {0};
    trp_dnn_node *back = node(&g, TRP_DNN_NORM_BACKWARD);
    for (size_t i = 0; i < count; i++)
        dy[i] = (double)(i * 7 % 13) / 8;
    for (int64_t i = 0; i < n * c; i++) {
        double sum = 0, all = 0;
        for (int64_t k = 0; k < n * c; k++) {
            const bool same = mode == TRP_DNN_BATCH   ? k % c == i % c
                              : mode == TRP_DNN_LAYER ? k / c == i / c
                                                      : k == i;
            for (int64_t e = k * s; same && e < (k + 1) * s; e++, all++)
                sum += dy[e];
        }
        for (int64_t e = i * s; e < (i + 1) * s; e++)
            dx[e] = inverse * (dy[e] - sum / all);
    }
    back->norm = mode;
    back->x = put(&g, type, 3, x_dim, &large, 1);
    back->dy = put(&g, type, 3, x_dim, dy, count);
    back->scale = put(&g, TRP_F32, 3, scale_dim, &one, 1);
    back->mean = put(&g, TRP_F32, 3, stat_dim, &large, 1);
    back->inv_variance = put(&g, TRP_F32, 3, stat_dim, &inverse, 1);
    back->dx = put(&g, type, 3, x_dim, NULL, 0);
    back->dscale = put(&g, TRP_F32, 3, scale_dim, NULL, 0);
    back->dbias = put(&g, TRP_F32, 3, scale_dim, NULL, 0);
    run(&g);
    check_all("slopes of equal large ones", &g, back->dx, dx, count, 64, inverse);
    check_all("slopes of the scale", &g, back->dscale, none, (size_t)(c * (inner ? s : 1)), 0, 1);
    drop(&g);
    free(dy);
    free(dx);
    free(none);
}

static void slopes_of_equal_large_ones(void)
{
    static const trp_dnn_norm modes[] = {TRP_DNN_LAYER, TRP_DNN_BATCH, TRP_DNN_INSTANCE};
    static const trp_dtype types[] = {TRP_F32, TRP_BF16};
    begin();
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t m = 0; m < COUNT_OF(modes); m++) {
            slopes_beside(modes[m], types[t], 8, 96, 1);
            slopes_beside(modes[m], types[t], 5, 3, 7);
            slopes_beside(modes[m], types[t], 40, 9, 8);
            slopes_beside(modes[m], types[t], 3, 1, 2056);
        }
    }
    end();
}

/* An epsilon and a factor of 0 are said, others are the defaults. */
static void zeros_are_given(void)
{
    begin();
    const int64_t x_dim[] = {2, 1, 1}, one[] = {1, 1, 1};
    const double x[] = {1e-8, 3e-8}, scale = 1, old[] = {5};
    for (int given = 0; given < 2; given++) {
        graph g = {0};
        trp_completion done = {0};
        trp_norm_request r = {.mode = TRP_DNN_BATCH};
        r.x = g.tensor[put(&g, TRP_F32, 3, x_dim, x, 2)];
        r.scale = g.tensor[put(&g, TRP_F32, 3, one, &scale, 1)];
        const uint32_t y = put(&g, TRP_F32, 3, x_dim, NULL, 0);
        r.y = g.tensor[y];
        r.mean = g.tensor[put(&g, TRP_F32, 3, one, NULL, 0)];
        r.inv_variance = g.tensor[put(&g, TRP_F32, 3, one, NULL, 0)];
        r.running_mean = g.tensor[put(&g, TRP_F32, 3, one, old, 1)];
        r.running_variance = g.tensor[put(&g, TRP_F32, 3, one, old, 1)];
        const uint32_t new_mean = put(&g, TRP_F32, 3, one, NULL, 0);
        r.new_running_mean = g.tensor[new_mean];
        r.new_running_variance = g.tensor[put(&g, TRP_F32, 3, one, NULL, 0)];
        if (given)
            r.epsilon = r.average_factor = trp_real(0);
        H_OK(trp_norm_training(dnn, &r, &done));
        H_OK(h_await_any(done));
        const double by = 1 / sqrt(1e-16 + (given ? 0 : 1e-5));
        check_all("epsilon", &g, y, (double[]){-1e-8 * by, 1e-8 * by}, 2, 8, 0);
        check_all("average_factor", &g, new_mean, (double[]){given ? 5 : 0.9 * 5 + 0.1 * 2e-8}, 1,
                  2, 0);
        r.epsilon = trp_real(-1);
        H_IS(trp_norm_training(dnn, &r, &done), TRP_E_ARGUMENT);
        H_SAYS("epsilon: expected a real finite number, 0 or more, got -1");
        drop(&g);
    }
    end();
}

/* --- softmax --- */

static void softmaxes(void)
{
    static const double rows[][4] = {
        {1, 2, 3, 4},
        {1e30, 1e30, -1e30, 1e30},
        {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX},
        {FLT_MAX, -FLT_MAX, FLT_MAX, 0},
        {-INFINITY, 1, -INFINITY, 1},
        {-1e9, -1e9, -1e9, -1e9},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {INFINITY, 1, 2, 3},
        {NAN, 1, 2, 3},
        {0, -90, -110, -1000},
    };
    begin();
    for (int log = 0; log < 2; log++) {
        for (int64_t copies = 1; copies <= 1000; copies += 999) {
            const int64_t dim[] = {copies, COUNT_OF(rows), 4};
            double want[COUNT_OF(rows) * 4];
            graph g = {0};
            trp_completion done = {0};
            for (size_t i = 0; i < COUNT_OF(rows); i++) {
                long double sum = 0;
                double most = -INFINITY;
                bool none = false;
                for (int j = 0; j < 4; j++) {
                    most = fmax(most, rows[i][j]);
                    none = none || isnan(rows[i][j]);
                }
                none = none || isinf(most);
                for (int j = 0; j < 4; j++)
                    sum += expl((long double)rows[i][j] - (long double)most);
                for (int j = 0; j < 4; j++) {
                    const long double away = (long double)rows[i][j] - (long double)most;
                    want[i * 4 + (size_t)j] =
                        none ? NAN : (double)(log ? away - logl(sum) : expl(away) / sum);
                }
            }
            const uint32_t x = put(&g, TRP_F32, 3, dim, &rows[0][0], COUNT_OF(want));
            const uint32_t y = put(&g, TRP_F32, 3, dim, NULL, 0);
            trp_softmax_request r = {.axis = 2, .log = log, .x = g.tensor[x], .y = g.tensor[y]};
            H_OK(trp_softmax_forward(dnn, &r, &done));
            H_OK(h_await_any(done));
            check_all(log ? "log-softmax" : "softmax", &g, y, want, COUNT_OF(want), 8, 1e-30);
            drop(&g);
        }
    }
    end();
}

/* --- pooling --- */

static void pool_of(trp_dnn_resample mode, trp_dtype type, const double *x, int64_t size,
                    int64_t window, int64_t pad, const double *want, const double *dx)
{
    const int64_t x_dim[] = {1, 1, size}, y_dim[] = {1, 1, size / window};
    const double dy = 1;
    for (int index = 0; index <= (mode == TRP_DNN_POOL_MAX); index++) {
        graph g = {0};
        trp_dnn_node *n = node(&g, TRP_DNN_RESAMPLE_FORWARD);
        trp_dnn_node *back = node(&g, TRP_DNN_RESAMPLE_BACKWARD);
        n->resample = mode;
        n->window[0] = n->stride[0] = window;
        n->pre_pad[0] = n->post_pad[0] = pad;
        *back = *n;
        back->kind = TRP_DNN_RESAMPLE_BACKWARD;
        n->x = put(&g, type, 3, x_dim, x, (size_t)size);
        n->y = put(&g, type, 3, y_dim, NULL, 0);
        if (index)
            n->index = back->index = put(&g, TRP_I32, 3, y_dim, NULL, 0);
        else if (mode == TRP_DNN_POOL_MAX) {
            back->x = n->x;
            back->y = n->y;
        }
        back->dy = put(&g, type, 3, y_dim, &dy, 1);
        back->dx = put(&g, type, 3, x_dim, NULL, 0);
        run(&g);
        check_all("pooling", &g, n->y, want, (size_t)y_dim[2], 2, 0);
        check_all("its gradient", &g, back->dx, dx, (size_t)size, 2, 0);
        drop(&g);
    }
}

static void pools(void)
{
    begin();
    FOR_FLOATS(type)
    {
        const double most = most_of(type), inf = INFINITY;
        pool_of(TRP_DNN_POOL_MAX, type,
                (double[]){-inf, -inf, -inf, -inf, -most, -inf, 1, NAN, 2, NAN, inf, NAN}, 12, 3, 0,
                (double[]){-inf, -most, NAN, NAN}, (double[]){1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0});
        pool_of(TRP_DNN_POOL_AVERAGE, type, (double[]){most, most, most, -most, inf, 1, NAN, 2}, 8,
                2, 0, (double[]){most, 0, inf, NAN},
                (double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
    }
    end();
}

/* The sizes and divisors of frameworks' ceil mode: of torch.nn.functional.avg_pool1d(torch.ones(1,
 * 1, size), window, stride, pad, ceil_mode=True, count_include_pad=...), worked out by hand. */
static void rounded_up(void)
{
    static const struct {
        int64_t size, window, stride, pad, count;
        double counted[5], inside[5];
    } rows[] = {
        {6, 3, 2, 0, 3, {1, 1, 1}, {1, 1, 1}},
        {7, 3, 2, 1, 4, {2. / 3, 1, 1, 2. / 3}, {1, 1, 1, 1}},
        {6, 3, 2, 1, 4, {2. / 3, 1, 1, 0.5}, {1, 1, 1, 1}}, /* the last: of 1 and padding */
        {5, 3, 3, 1, 2, {2. / 3, 1}, {1, 1}},
        {6, 4, 4, 1, 2, {3. / 4, 3. / 4}, {1, 1}},
        {4, 2, 3, 0, 2, {1, 1}, {1, 1}},      /* the last has one element */
        {5, 2, 3, 1, 2, {1. / 2, 1}, {1, 1}}, /* a third would begin behind the image */
    };
    begin();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int mode = TRP_DNN_POOL_AVERAGE; mode <= TRP_DNN_POOL_AVERAGE_PADDED; mode++) {
            for (int64_t planes = 1; planes <= LARGE; planes += LARGE / 4) {
                const int64_t x_dim[] = {1, planes, rows[i].size};
                const int64_t y_dim[] = {1, planes, rows[i].count};
                const double one = 1;
                graph g = {0};
                trp_dnn_node *n = node(&g, TRP_DNN_RESAMPLE_FORWARD);
                char what[32];
                snprintf(what, sizeof what, "rounded up, row %zu", i);
                n->resample = (trp_dnn_resample)mode;
                n->round_up = true;
                n->window[0] = rows[i].window;
                n->stride[0] = rows[i].stride;
                n->pre_pad[0] = n->post_pad[0] = rows[i].pad;
                n->x = put(&g, TRP_F32, 3, x_dim, &one, 1);
                n->y = put(&g, TRP_F32, 3, y_dim, NULL, 0);
                run(&g);
                check_all(what, &g, n->y,
                          mode == TRP_DNN_POOL_AVERAGE ? rows[i].inside : rows[i].counted,
                          (size_t)rows[i].count, 2, 0);
                drop(&g);
            }
        }
    }
    end();
}

/* --- integers --- */

static void integers(void)
{
    const double odd = 16777217;
    const int64_t dim[] = {2, 3}, turned[] = {3, 2}, all[] = {4, 3}, sums[] = {2, 1};
    const double x[] = {16777217, 2, 2147483647, -16777219, 0, -2147483648.0};
    const double turned_x[] = {16777217, -16777219, 2, 0, 2147483647, -2147483648.0};
    const double zero = 0, one = 1, next[] = {16777216, -2147483647};
    begin();
    graph g = {0};
    const uint32_t in = put(&g, TRP_I32, 2, dim, x, 6), add = put(&g, TRP_I32, 2, dim, &zero, 1);
    trp_dnn_node *n = node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_ADD;
    n->x = in;
    n->b = add;
    n->y = put(&g, TRP_I32, 2, dim, NULL, 0);
    const uint32_t sum = n->y;
    n = node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_SELECT;
    n->x = in;
    n->b = add;
    n->t = in;
    n->y = put(&g, TRP_I32, 2, dim, NULL, 0);
    const uint32_t chosen = n->y;
    n = node(&g, TRP_DNN_REDUCTION);
    n->x = in;
    n->reduce = TRP_DNN_MOST;
    n->y = put(&g, TRP_I32, 2, sums, NULL, 0);
    const uint32_t most = n->y;
    n = node(&g, TRP_DNN_TRANSPOSE);
    n->x = in;
    n->order[0] = 1;
    n->order[1] = 0;
    n->y = put(&g, TRP_I32, 2, turned, NULL, 0);
    const uint32_t moved = n->y;
    n = node(&g, TRP_DNN_CONCATENATE);
    n->part[0] = in;
    n->part[1] = in;
    n->y = put(&g, TRP_I32, 2, all, NULL, 0);
    const uint32_t both = n->y;
    run(&g);
    check_all("i32 + 0", &g, sum, x, 6, 0, 0);
    check_all("i32 chosen", &g, chosen, x, 6, 0, 0);
    check_all("most of i32", &g, most, (double[]){2147483647, 0}, 2, 0, 0);
    check_all("i32 turned", &g, moved, turned_x, 6, 0, 0);
    check_all("i32 twice", &g, both, x, 6, 0, 0);
    drop(&g);

    /* Neighbours that f32 takes for one; and a sum that saturates. */
    n = node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_EQUAL;
    n->x = line(&g, TRP_I32, 2, (double[]){odd, -2147483648.0}, 2);
    n->b = line(&g, TRP_I32, 2, next, 2);
    n->y = line(&g, TRP_BOOL, 2, NULL, 0);
    const uint32_t equal = n->y;
    trp_dnn_node *up = node(&g, TRP_DNN_POINTWISE);
    up->pointwise = TRP_DNN_SUB;
    up->x = n->x;
    up->b = line(&g, TRP_I32, 2, &one, 1);
    up->y = line(&g, TRP_I32, 2, NULL, 0);
    run(&g);
    check_all("i32 == i32", &g, equal, (double[]){0, 0}, 2, 0, 0);
    check_all("i32 - 1", &g, up->y, (double[]){16777216, -2147483648.0}, 2, 0, 0);
    trp_completion done = {0};
    up->compute = TRP_F32;
    H_IS(send(&g, &done), TRP_E_ARGUMENT);
    H_SAYS("nodes[1].compute (pointwise): expected f64, for it reads f64 or i32, got f32");
    drop(&g);
    end();
}

/* --- attention --- */

enum { ROWS = 3, COLUMNS = 5, DEPTH = 2, WIDTH = 3 };

typedef struct attention_case {
    double q[ROWS * DEPTH], k[COLUMNS * DEPTH], v[COLUMNS * WIDTH], dy[ROWS * WIDTH];
    double bias[ROWS * COLUMNS];
    bool causal;
} attention_case;

typedef struct attention_results {
    double y[ROWS * WIDTH], dq[ROWS * DEPTH], dk[COLUMNS * DEPTH], dv[COLUMNS * WIDTH];
    double dbias[ROWS * COLUMNS];
} attention_results;

static void attention_reference(const attention_case *k, attention_results *r)
{
    *r = (attention_results){.y = {0}};
    for (int i = 0; i < ROWS; i++) {
        double score[COLUMNS], most = -INFINITY;
        long double weight[COLUMNS], sum = 0, y[WIDTH] = {0}, mean = 0;
        for (int j = 0; j < COLUMNS; j++) {
            const double bias = k->bias[i * COLUMNS + j];
            score[j] = bias;
            if ((k->causal && j > i) || bias == -INFINITY)
                score[j] = -INFINITY;
            for (int d = 0; d < DEPTH && score[j] != -INFINITY; d++)
                score[j] += k->q[i * DEPTH + d] * k->k[j * DEPTH + d];
            most = score[j] > most ? score[j] : most;
        }
        for (int j = 0; j < COLUMNS; j++) {
            weight[j] = score[j] == -INFINITY ? 0 : expl((long double)score[j] - (long double)most);
            sum += weight[j];
        }
        for (int j = 0; j < COLUMNS && most != -INFINITY; j++) {
            weight[j] /= sum;
            for (int w = 0; w < WIDTH && weight[j] != 0; w++)
                y[w] += weight[j] * (long double)k->v[j * WIDTH + w];
        }
        for (int w = 0; w < WIDTH; w++) {
            r->y[i * WIDTH + w] = (double)y[w];
            mean += y[w] * (long double)k->dy[i * WIDTH + w];
        }
        for (int j = 0; j < COLUMNS; j++) {
            long double g = -mean;
            if (most == -INFINITY || weight[j] == 0)
                continue;
            for (int w = 0; w < WIDTH; w++) {
                g += (long double)k->v[j * WIDTH + w] * (long double)k->dy[i * WIDTH + w];
                r->dv[j * WIDTH + w] += (double)(weight[j] * (long double)k->dy[i * WIDTH + w]);
            }
            g *= weight[j];
            r->dbias[i * COLUMNS + j] = (double)g;
            for (int d = 0; d < DEPTH; d++) {
                r->dq[i * DEPTH + d] += (double)(g * (long double)k->k[j * DEPTH + d]);
                r->dk[j * DEPTH + d] += (double)(g * (long double)k->q[i * DEPTH + d]);
            }
        }
    }
}

static void attention_one(const char *name, trp_dtype type, const attention_case *k)
{
    const int64_t q_dim[] = {1, 1, ROWS, DEPTH}, k_dim[] = {1, 1, COLUMNS, DEPTH};
    const int64_t v_dim[] = {1, 1, COLUMNS, WIDTH}, y_dim[] = {1, 1, ROWS, WIDTH};
    const int64_t row_dim[] = {1, 1, ROWS, 1}, bias_dim[] = {1, 1, ROWS, COLUMNS};
    attention_results want;
    graph g = {0};
    trp_dnn_node *n = node(&g, TRP_DNN_ATTENTION), *b = node(&g, TRP_DNN_ATTENTION_BACKWARD);
    attention_reference(k, &want);
    n->q = put(&g, type, 4, q_dim, k->q, COUNT_OF(k->q));
    n->k = put(&g, type, 4, k_dim, k->k, COUNT_OF(k->k));
    n->v = put(&g, type, 4, v_dim, k->v, COUNT_OF(k->v));
    n->bias = put(&g, type, 4, bias_dim, k->bias, COUNT_OF(k->bias));
    n->y = put(&g, type, 4, y_dim, NULL, 0);
    n->stats = put(&g, type == TRP_F64 ? TRP_F64 : TRP_F32, 4, row_dim, NULL, 0);
    n->mask = k->causal ? TRP_DNN_MASK_CAUSAL : TRP_DNN_MASK_NONE;
    n->parameter[0] = trp_real(1);
    *b = *n;
    b->kind = TRP_DNN_ATTENTION_BACKWARD;
    b->dy = put(&g, type, 4, y_dim, k->dy, COUNT_OF(k->dy));
    b->dq = put(&g, type, 4, q_dim, NULL, 0);
    b->dk = put(&g, type, 4, k_dim, NULL, 0);
    b->dv = put(&g, type, 4, v_dim, NULL, 0);
    b->dbias = put(&g, type, 4, bias_dim, NULL, 0);
    run(&g);
    const double units = 16;
    check_all(name, &g, n->y, want.y, COUNT_OF(want.y), units, 1);
    check_all(name, &g, b->dv, want.dv, COUNT_OF(want.dv), units, 1);
    check_all(name, &g, b->dq, want.dq, COUNT_OF(want.dq), units, 2);
    check_all(name, &g, b->dk, want.dk, COUNT_OF(want.dk), units, 2);
    check_all(name, &g, b->dbias, want.dbias, COUNT_OF(want.dbias), units, 1);
    drop(&g);
}

/* Numbers that every type holds. */
static attention_case ordinary(void)
{
    attention_case k = {.causal = false};
    for (size_t i = 0; i < COUNT_OF(k.q); i++)
        k.q[i] = (double)(i * 3 % 5) / 4 - 0.5;
    for (size_t i = 0; i < COUNT_OF(k.k); i++)
        k.k[i] = (double)(i * 7 % 9) / 4 - 1;
    for (size_t i = 0; i < COUNT_OF(k.v); i++)
        k.v[i] = (double)(i * 5 % 11) / 4 - 1;
    for (size_t i = 0; i < COUNT_OF(k.dy); i++)
        k.dy[i] = (double)(i * 2 % 7) / 4 - 0.75;
    return k;
}

static void shifted(void)
{
    begin();
    FOR_FLOATS(type)
    {
        const double lowest = -most_of(type), far = type == TRP_F16 ? -60000 : -1e9;
        const double shifts[] = {0, 50, dr_round(type, far), -dr_round(type, far), lowest};
        for (size_t i = 0; i < COUNT_OF(shifts); i++) {
            attention_case k = ordinary();
            for (int j = 0; j < ROWS * COLUMNS; j++) /* all; in the second row all but two */
                k.bias[j] = j / COLUMNS == 1 && j % COLUMNS < 2 ? 0 : shifts[i];
            /* Kernels for GPUs add a bias in f32: what a far one rounds away is gone. */
            if (!h_is_cuda() || type == TRP_F64 || fabs(shifts[i]) <= 50)
                attention_one("shifted", type, &k);
            memset(k.q, 0, sizeof k.q); /* then all scores of a row are equal */
            attention_one("shifted, equal", type, &k);
            k.causal = true;
            attention_one("shifted, equal, causal", type, &k);
        }
    }
    end();
}

/* Hidden keys and values may be anything. */
static void hidden(void)
{
    begin();
    FOR_FLOATS(type)
    {
        for (int what = 0; what < 3; what++) {
            const double bad = what == 0 ? NAN : what == 1 ? INFINITY : -INFINITY;
            attention_case k = ordinary();
            k.k[3 * DEPTH] = bad;
            k.v[3 * WIDTH + 1] = bad;
            for (int i = 0; i < ROWS; i++)
                k.bias[i * COLUMNS + 3] = -INFINITY;
            attention_one("a hidden key", type, &k);
            for (int j = 0; j < COLUMNS; j++) /* a row that sees nothing, and holds nothing */
                k.bias[1 * COLUMNS + j] = -INFINITY;
            k.q[1 * DEPTH] = bad;
            attention_one("a row that sees nothing", type, &k);
            k = ordinary();
            k.causal = true; /* rows see 0 to 2 */
            k.k[4 * DEPTH + 1] = k.v[3 * WIDTH] = bad;
            attention_one("behind the diagonal", type, &k);
        }
    }
    end();
}

/* --- places --- */

/* dq, dk and dv in one buffer, row by row; and errors that name the fields of the call. */
static void views(void)
{
    begin();
    const attention_case k = ordinary();
    const int64_t dim[] = {1, 1, ROWS, DEPTH}, row_dim[] = {1, 1, ROWS, 1};
    enum { LINE = 3 * DEPTH };
    double zero = 0, *apart[3];
    for (int together = 0; together < 2; together++) {
        graph g = {0};
        trp_completion done = {0};
        trp_attention_request r = {.mask = TRP_DNN_MASK_NONE};
        r.q = g.tensor[put(&g, TRP_F32, 4, dim, k.q, COUNT_OF(k.q))];
        r.k = g.tensor[put(&g, TRP_F32, 4, dim, k.k, COUNT_OF(k.q))];
        r.v = g.tensor[put(&g, TRP_F32, 4, dim, k.v, COUNT_OF(k.q))];
        r.y = g.tensor[put(&g, TRP_F32, 4, dim, NULL, 0)];
        r.stats = g.tensor[put(&g, TRP_F32, 4, row_dim, NULL, 0)];
        H_OK(trp_attention_forward(dnn, &r, &done));
        H_OK(h_await_any(done));
        r.dy = g.tensor[put(&g, TRP_F32, 4, dim, k.dy, COUNT_OF(k.q))];
        trp_dnn_tensor *const to[] = {&r.dq, &r.dk, &r.dv};
        const uint32_t all = line(&g, TRP_F32, ROWS * LINE, &zero, 1);
        uint32_t number_of[3];
        for (int i = 0; i < 3; i++) {
            number_of[i] = together ? all : put(&g, TRP_F32, 4, dim, NULL, 0);
            *to[i] = g.tensor[number_of[i]];
            if (!together)
                continue;
            *to[i] = (trp_dnn_tensor){.type = TRP_F32,
                                      .rank = 4,
                                      .dim = {1, 1, ROWS, DEPTH},
                                      .stride = {ROWS * LINE, ROWS * LINE, LINE, 1},
                                      .buffer = g.tensor[all].buffer,
                                      .offset = (uint64_t)i * DEPTH * sizeof(float)};
        }
        H_OK(trp_attention_backward(dnn, &r, &done));
        H_OK(h_await_any(done));
        for (int i = 0; i < 3; i++) {
            double *got = get(&g, number_of[i]);
            for (int row = 0; together && row < ROWS; row++) {
                for (int d = 0; d < DEPTH; d++)
                    H_CHECK(got[row * LINE + i * DEPTH + d] == apart[i][row * DEPTH + d]);
            }
            if (together)
                free(apart[i]);
            apart[i] = together ? NULL : got;
            if (together)
                free(got);
        }
        if (together) {
            r.dk.offset = 0;
            H_IS(trp_attention_backward(dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("dq: it overlaps dk, and is written");
            r.dk = r.q;
            H_IS(trp_attention_backward(dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("dk: it overlaps q, and is written");
            r.k.dim[3] = DEPTH + 1;
            H_IS(trp_attention_backward(dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("k: expected");
            H_CHECK(strstr(trp_error_message(), "nodes[") == NULL);
            r.k.dim[3] = DEPTH;
            r.dropout = 2;
            H_IS(trp_attention_backward(dnn, &r, &done), TRP_E_ARGUMENT);
            H_SAYS("dropout: expected the probability of dropout");
        }
        drop(&g);
    }
    end();
}

/* A chain of functions over what it reads, and what may not be done so. */
static void in_place(void)
{
    begin();
    for (size_t count = 5; count <= LARGE; count += LARGE - 5) {
        const double x[] = {-2, 3, 0.5}, b[] = {4}, want[] = {0, 7, 4.5};
        const double square[] = {4, 9, 0.25};
        graph g = {0};
        trp_completion done = {0};
        trp_dnn_node *n = node(&g, TRP_DNN_POINTWISE), *then = node(&g, TRP_DNN_POINTWISE);
        trp_dnn_node *last = node(&g, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_RELU;
        n->x = line(&g, TRP_F32, count, x, 3);
        n->y = ++g.tensors; /* virtual */
        then->pointwise = TRP_DNN_ADD;
        then->x = n->y;
        then->b = line(&g, TRP_F32, count, b, 1);
        then->y = ++g.tensors;
        last->pointwise = TRP_DNN_SELECT; /* what is not above 0 goes to 0 */
        last->x = then->y;
        last->b = n->y;
        last->t = n->y;
        last->y = ++g.tensors;
        g.tensor[last->y] = g.tensor[n->x];
        g.count[last->y] = count;
        const uint32_t y = last->y;
        run(&g);
        check_all("a chain in place", &g, y, want, 3, 0, 0);
        g.tensor[y].buffer.id = 0; /* it is freed once */
        drop(&g);

        n = node(&g, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_MUL; /* over b, and over x, which are one */
        n->x = n->b = line(&g, TRP_F32, count, x, 3);
        n->y = ++g.tensors;
        g.tensor[n->y] = g.tensor[n->x];
        g.count[n->y] = count;
        run(&g);
        check_all("a square in place", &g, n->x, square, 3, 0, 0);

        g.tensor[n->y].stride[0] = 1;
        g.tensor[n->y].offset = 4; /* not the same elements */
        g.tensor[n->y].dim[0] = g.tensor[n->x].dim[0] = (int64_t)count - 1;
        H_IS(send(&g, &done), TRP_E_ARGUMENT);
        H_SAYS("tensors[2]: it overlaps tensors[1], and is written");
        g.tensor[n->y].buffer.id = 0;
        drop(&g);

        const int64_t dim[] = {(int64_t)count};
        n = node(&g, TRP_DNN_RESHAPE); /* not one of those nodes */
        n->x = put(&g, TRP_F32, 1, dim, x, 3);
        n->y = ++g.tensors;
        g.tensor[n->y] = g.tensor[n->x];
        H_IS(send(&g, &done), TRP_E_ARGUMENT);
        H_SAYS("tensors[2]: it overlaps tensors[1], and is written");
        g.tensor[n->y].buffer.id = 0;
        drop(&g);
    }
    end();
}

static const h_case cases[] = {
    {"activations", activations},
    {"flat", flat},
    {"pairs", pairs},
    {"truth", truth},
    {"reductions", reductions},
    {"groups", groups},
    {"empty", empty},
    {"norms", norms},
    {"slopes_of_the_largest", slopes_of_the_largest},
    {"steep_layer", steep_layer},
    {"steep_batch", steep_batch},
    {"steep_instance", steep_instance},
    {"steep_rms", steep_rms},
    {"slopes_of_equal_large_ones", slopes_of_equal_large_ones},
    {"zeros_are_given", zeros_are_given},
    {"softmaxes", softmaxes},
    {"pools", pools},
    {"rounded_up", rounded_up},
    {"integers", integers},
    {"shifted", shifted},
    {"hidden", hidden},
    {"views", views},
    {"in_place", in_place},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
