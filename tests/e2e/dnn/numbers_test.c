/* NaN, infinities, the largest and smallest numbers of each type, integers that f32 does not hold,
 * in functions, windows, norms with given statistics and in place: what dnn.h says of them, against
 * references of long double that are written here from the definitions. Small tensors and those
 * that are large enough for a library. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_small.h"
#include "support/label.h"

#include <float.h>
#include <math.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

enum { LARGE = 40000 };

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
    const double most = ds_most_of(type), all[] = {NAN,
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
                                                   ds_smallest(type),
                                                   -ds_smallest(type)};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        x[i] = dr_round(type, all[i]);
    return COUNT_OF(all);
}

static void activations(void)
{
    ds_begin();
    FOR_FLOATS(type)
    {
        double x[32], want[32], slope[32], dy = 0.75;
        const size_t values = extremes(type, x);
        for (int mode = TRP_DNN_RELU; mode <= TRP_DNN_SWISH; mode++) {
            for (size_t count = values; count <= LARGE; count += LARGE - values) {
                ds_graph g = {0};
                trp_dnn_node *n = ds_node(&g, TRP_DNN_POINTWISE);
                trp_dnn_node *back = ds_node(&g, TRP_DNN_POINTWISE_BACKWARD);
                char what[64];
                snprintf(what, sizeof what, "activation %d of %zu", mode, count);
                for (size_t i = 0; i < values; i++) {
                    want[i] = activation((trp_dnn_pointwise)mode, x[i]);
                    slope[i] = dy * derivative((trp_dnn_pointwise)mode, x[i]);
                }
                n->pointwise = back->pointwise = (trp_dnn_pointwise)mode;
                n->x = back->x = ds_line(&g, type, count, x, values);
                n->y = ds_line(&g, type, count, NULL, 0);
                back->dy = ds_line(&g, type, count, &dy, 1);
                back->dx = ds_line(&g, type, count, NULL, 0);
                ds_run(&g);
                ds_check_all(what, &g, n->y, want, values, 128, type == TRP_F64 ? 0 : 1e-6);
                ds_check_all(what, &g, back->dx, slope, values, 16, 1);
                ds_drop(&g);
            }
        }
    }
    ds_end();
}

/* Where a relu is flat nothing comes through. */
static void flat(void)
{
    ds_begin();
    const double x[] = {-1, -INFINITY, 0, 1, INFINITY, NAN};
    const double dy[] = {INFINITY, NAN, -INFINITY, INFINITY, 2, 1};
    const double want[] = {0, 0, 0, INFINITY, 2, NAN};
    ds_graph g = {0};
    trp_dnn_node *n = ds_node(&g, TRP_DNN_POINTWISE_BACKWARD);
    n->pointwise = TRP_DNN_RELU;
    n->x = ds_line(&g, TRP_F32, 6, x, 6);
    n->dy = ds_line(&g, TRP_F32, 6, dy, 6);
    n->dx = ds_line(&g, TRP_F32, 6, NULL, 0);
    ds_run(&g);
    ds_check_all("relu's gradient", &g, n->dx, want, 6, 0, 0);
    ds_drop(&g);
    ds_end();
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
        {TRP_DNN_ADD_SQUARE, -INFINITY, 1e20, -INFINITY}, /* the square leaves f32 */
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
    ds_begin();
    FOR_FLOATS(type)
    {
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            if (rows[i].b == 1e20 && type == TRP_F16) /* it has no such number */
                continue;
            for (size_t count = 3; count <= LARGE; count += LARGE - 3) {
                ds_graph g = {0};
                trp_dnn_node *n = ds_node(&g, TRP_DNN_POINTWISE);
                char what[64];
                snprintf(what, sizeof what, "mode %d, row %zu", (int)rows[i].mode, i);
                n->pointwise = rows[i].mode;
                n->x = ds_line(&g, type, count, &rows[i].x, 1);
                n->b = ds_line(&g, type, count, &rows[i].b, 1);
                n->y = ds_line(&g, type, count, NULL, 0);
                ds_run(&g);
                ds_check_all(what, &g, n->y, &rows[i].y, 1, 2, 0);
                ds_drop(&g);
            }
        }
    }
    ds_end();
}

/* A number that is not 0 is true: where it becomes a bool, and where it is taken for one. */
static void truth(void)
{
    ds_begin();
    FOR_FLOATS(type)
    {
        const double x[] = {0, -0.0, 0.25, -0.25, NAN, -INFINITY, 7, ds_smallest(type)};
        const double want[] = {0, 0, 1, 1, 1, 1, 1, 1}, nought[] = {1, 1, 0, 0, 0, 0, 0, 0};
        const double one = 1, zero = 0;
        ds_graph g = {0};
        trp_dnn_node *as = ds_node(&g, TRP_DNN_POINTWISE), *not = ds_node(&g, TRP_DNN_POINTWISE);
        trp_dnn_node *select = ds_node(&g, TRP_DNN_POINTWISE), *move = ds_node(&g, TRP_DNN_RESHAPE);
        as->x = not ->x = select->t = move->x = ds_line(&g, type, 8, x, 8);
        as->y = ds_line(&g, TRP_BOOL, 8, NULL, 0);
        not ->pointwise = TRP_DNN_NOT;
        not ->y = ds_line(&g, TRP_BOOL, 8, NULL, 0);
        select->pointwise = TRP_DNN_SELECT;
        select->x = ds_line(&g, TRP_F32, 8, &one, 1);
        select->b = ds_line(&g, TRP_F32, 8, &zero, 1);
        select->y = ds_line(&g, TRP_F32, 8, NULL, 0);
        move->y = ds_line(&g, TRP_BOOL, 8, NULL, 0);
        ds_run(&g);
        ds_check_all("bool", &g, as->y, want, 8, 0, 0);
        ds_check_all("not", &g, not ->y, nought, 8, 0, 0);
        ds_check_all("select", &g, select->y, want, 8, 0, 0);
        ds_check_all("a move to bool", &g, move->y, want, 8, 0, 0);
        ds_drop(&g);
    }
    ds_end();
}

/* --- pooling --- */

static void pool_of(trp_dnn_resample mode, trp_dtype type, const double *x, int64_t size,
                    int64_t window, int64_t pad, const double *want, const double *dx)
{
    const int64_t x_dim[] = {1, 1, size}, y_dim[] = {1, 1, size / window};
    const double dy = 1;
    for (int index = 0; index <= (mode == TRP_DNN_POOL_MAX); index++) {
        ds_graph g = {0};
        trp_dnn_node *n = ds_node(&g, TRP_DNN_RESAMPLE_FORWARD);
        trp_dnn_node *back = ds_node(&g, TRP_DNN_RESAMPLE_BACKWARD);
        n->resample = mode;
        n->window[0] = n->stride[0] = window;
        n->pre_pad[0] = n->post_pad[0] = pad;
        *back = *n;
        back->kind = TRP_DNN_RESAMPLE_BACKWARD;
        n->x = ds_put(&g, type, 3, x_dim, x, (size_t)size);
        n->y = ds_put(&g, type, 3, y_dim, NULL, 0);
        if (index)
            n->index = back->index = ds_put(&g, TRP_I32, 3, y_dim, NULL, 0);
        else if (mode == TRP_DNN_POOL_MAX) {
            back->x = n->x;
            back->y = n->y;
        }
        back->dy = ds_put(&g, type, 3, y_dim, &dy, 1);
        back->dx = ds_put(&g, type, 3, x_dim, NULL, 0);
        ds_run(&g);
        ds_check_all("pooling", &g, n->y, want, (size_t)y_dim[2], 2, 0);
        ds_check_all("its gradient", &g, back->dx, dx, (size_t)size, 2, 0);
        ds_drop(&g);
    }
}

static void pools(void)
{
    ds_begin();
    FOR_FLOATS(type)
    {
        const double most = ds_most_of(type), inf = INFINITY;
        pool_of(TRP_DNN_POOL_MAX, type,
                (double[]){-inf, -inf, -inf, -inf, -most, -inf, 1, NAN, 2, NAN, inf, NAN}, 12, 3, 0,
                (double[]){-inf, -most, NAN, NAN}, (double[]){1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0});
        pool_of(TRP_DNN_POOL_AVERAGE, type, (double[]){most, most, most, -most, inf, 1, NAN, 2}, 8,
                2, 0, (double[]){most, 0, inf, NAN},
                (double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
    }
    ds_end();
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
    ds_begin();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int mode = TRP_DNN_POOL_AVERAGE; mode <= TRP_DNN_POOL_AVERAGE_PADDED; mode++) {
            for (int64_t planes = 1; planes <= LARGE; planes += LARGE / 4) {
                const int64_t x_dim[] = {1, planes, rows[i].size};
                const int64_t y_dim[] = {1, planes, rows[i].count};
                const double one = 1;
                ds_graph g = {0};
                trp_dnn_node *n = ds_node(&g, TRP_DNN_RESAMPLE_FORWARD);
                char what[32];
                snprintf(what, sizeof what, "rounded up, row %zu", i);
                n->resample = (trp_dnn_resample)mode;
                n->round_up = true;
                n->window[0] = rows[i].window;
                n->stride[0] = rows[i].stride;
                n->pre_pad[0] = n->post_pad[0] = rows[i].pad;
                n->x = ds_put(&g, TRP_F32, 3, x_dim, &one, 1);
                n->y = ds_put(&g, TRP_F32, 3, y_dim, NULL, 0);
                ds_run(&g);
                ds_check_all(what, &g, n->y,
                             mode == TRP_DNN_POOL_AVERAGE ? rows[i].inside : rows[i].counted,
                             (size_t)rows[i].count, 2, 0);
                ds_drop(&g);
            }
        }
    }
    ds_end();
}

/* --- integers --- */

static void integers(void)
{
    const double odd = 16777217;
    const int64_t dim[] = {2, 3}, turned[] = {3, 2}, all[] = {4, 3}, sums[] = {2, 1};
    const double x[] = {16777217, 2, 2147483647, -16777219, 0, -2147483648.0};
    const double turned_x[] = {16777217, -16777219, 2, 0, 2147483647, -2147483648.0};
    const double zero = 0, one = 1, next[] = {16777216, -2147483647};
    ds_begin();
    ds_graph g = {0};
    const uint32_t in = ds_put(&g, TRP_I32, 2, dim, x, 6),
                   add = ds_put(&g, TRP_I32, 2, dim, &zero, 1);
    trp_dnn_node *n = ds_node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_ADD;
    n->x = in;
    n->b = add;
    n->y = ds_put(&g, TRP_I32, 2, dim, NULL, 0);
    const uint32_t sum = n->y;
    n = ds_node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_SELECT;
    n->x = in;
    n->b = add;
    n->t = in;
    n->y = ds_put(&g, TRP_I32, 2, dim, NULL, 0);
    const uint32_t chosen = n->y;
    n = ds_node(&g, TRP_DNN_REDUCTION);
    n->x = in;
    n->reduce = TRP_DNN_MOST;
    n->y = ds_put(&g, TRP_I32, 2, sums, NULL, 0);
    const uint32_t most = n->y;
    n = ds_node(&g, TRP_DNN_TRANSPOSE);
    n->x = in;
    n->order[0] = 1;
    n->order[1] = 0;
    n->y = ds_put(&g, TRP_I32, 2, turned, NULL, 0);
    const uint32_t moved = n->y;
    n = ds_node(&g, TRP_DNN_CONCATENATE);
    n->part[0] = in;
    n->part[1] = in;
    n->y = ds_put(&g, TRP_I32, 2, all, NULL, 0);
    const uint32_t both = n->y;
    ds_run(&g);
    ds_check_all("i32 + 0", &g, sum, x, 6, 0, 0);
    ds_check_all("i32 chosen", &g, chosen, x, 6, 0, 0);
    ds_check_all("most of i32", &g, most, (double[]){2147483647, 0}, 2, 0, 0);
    ds_check_all("i32 turned", &g, moved, turned_x, 6, 0, 0);
    ds_check_all("i32 twice", &g, both, x, 6, 0, 0);
    ds_drop(&g);

    /* Neighbours that f32 takes for one; and a sum that saturates. */
    n = ds_node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_EQUAL;
    n->x = ds_line(&g, TRP_I32, 2, (double[]){odd, -2147483648.0}, 2);
    n->b = ds_line(&g, TRP_I32, 2, next, 2);
    n->y = ds_line(&g, TRP_BOOL, 2, NULL, 0);
    const uint32_t equal = n->y;
    trp_dnn_node *up = ds_node(&g, TRP_DNN_POINTWISE);
    up->pointwise = TRP_DNN_SUB;
    up->x = n->x;
    up->b = ds_line(&g, TRP_I32, 2, &one, 1);
    up->y = ds_line(&g, TRP_I32, 2, NULL, 0);
    ds_run(&g);
    ds_check_all("i32 == i32", &g, equal, (double[]){0, 0}, 2, 0, 0);
    ds_check_all("i32 - 1", &g, up->y, (double[]){16777216, -2147483648.0}, 2, 0, 0);
    trp_completion done = {0};
    up->compute = TRP_F32;
    H_IS(ds_send(&g, &done), TRP_E_ARGUMENT);
    H_SAYS("nodes[1].compute (pointwise): expected f64, for it reads f64 or i32, got f32");
    ds_drop(&g);
    ds_end();
}

/* A chain of functions over what it reads, and what may not be done so. */
static void in_place(void)
{
    ds_begin();
    for (size_t count = 5; count <= LARGE; count += LARGE - 5) {
        const double x[] = {-2, 3, 0.5}, b[] = {4}, want[] = {0, 7, 4.5};
        const double square[] = {4, 9, 0.25};
        ds_graph g = {0};
        trp_completion done = {0};
        trp_dnn_node *n = ds_node(&g, TRP_DNN_POINTWISE), *then = ds_node(&g, TRP_DNN_POINTWISE);
        trp_dnn_node *last = ds_node(&g, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_RELU;
        n->x = ds_line(&g, TRP_F32, count, x, 3);
        n->y = ++g.tensors; /* virtual */
        then->pointwise = TRP_DNN_ADD;
        then->x = n->y;
        then->b = ds_line(&g, TRP_F32, count, b, 1);
        then->y = ++g.tensors;
        last->pointwise = TRP_DNN_SELECT; /* what is not above 0 goes to 0 */
        last->x = then->y;
        last->b = n->y;
        last->t = n->y;
        last->y = ++g.tensors;
        g.tensor[last->y] = g.tensor[n->x];
        g.count[last->y] = count;
        const uint32_t y = last->y;
        ds_run(&g);
        ds_check_all("a chain in place", &g, y, want, 3, 0, 0);
        g.tensor[y].buffer.id = 0; /* it is freed once */
        ds_drop(&g);

        n = ds_node(&g, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_MUL; /* over b, and over x, which are one */
        n->x = n->b = ds_line(&g, TRP_F32, count, x, 3);
        n->y = ++g.tensors;
        g.tensor[n->y] = g.tensor[n->x];
        g.count[n->y] = count;
        ds_run(&g);
        ds_check_all("a square in place", &g, n->x, square, 3, 0, 0);

        g.tensor[n->y].stride[0] = 1;
        g.tensor[n->y].offset = 4; /* not the same elements */
        g.tensor[n->y].dim[0] = g.tensor[n->x].dim[0] = (int64_t)count - 1;
        H_IS(ds_send(&g, &done), TRP_E_ARGUMENT);
        H_SAYS("tensors[2]: it overlaps tensors[1], and is written");
        g.tensor[n->y].buffer.id = 0;
        ds_drop(&g);

        const int64_t dim[] = {(int64_t)count};
        n = ds_node(&g, TRP_DNN_RESHAPE); /* not one of those nodes */
        n->x = ds_put(&g, TRP_F32, 1, dim, x, 3);
        n->y = ++g.tensors;
        g.tensor[n->y] = g.tensor[n->x];
        H_IS(ds_send(&g, &done), TRP_E_ARGUMENT);
        H_SAYS("tensors[2]: it overlaps tensors[1], and is written");
        g.tensor[n->y].buffer.id = 0;
        ds_drop(&g);
    }
    ds_end();
}

/* Statistics that are given, so far from x that the difference leaves the type. */
static void given_one(trp_dtype type, bool channels_last, bool shifted)
{
    enum { N = 2, C = 8, S = 9, COUNT = N * C * S };
    const int64_t x_dim[] = {N, C, S}, one[] = {1, C, 1};
    const trp_dtype stats = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const double most = ds_most_of(type), scale = 1.5, bias = shifted ? -0.25 : 0;
    double x[COUNT], want[COUNT], mean[C], inverse[C];
    ds_graph g = {0};
    for (size_t c = 0; c < C; c++) {
        mean[c] = dr_round(stats, (c % 2 ? 0.9 : -0.9) * most);
        inverse[c] = dr_round(stats, (c % 3 ? 30 : 5) / most);
    }
    for (size_t i = 0; i < COUNT; i++) { /* every other one at the other end than its mean */
        const size_t c = channels_last ? i % C : i / S % C;
        x[i] = dr_round(type, (c % 2 ? -1 : 1) * most * (i % 2 ? 0.9 : 1e-3));
        want[i] = (double)(((long double)x[i] - (long double)mean[c]) * (long double)inverse[c] *
                               (long double)scale +
                           (long double)bias);
    }
    trp_dnn_node *n = ds_node(&g, TRP_DNN_NORM_INFERENCE);
    n->norm = TRP_DNN_BATCH;
    n->x = ds_put(&g, type, 3, x_dim, x, COUNT);
    n->mean = ds_put(&g, stats, 3, one, mean, C);
    n->inv_variance = ds_put(&g, stats, 3, one, inverse, C);
    n->scale = ds_put(&g, stats, 3, one, &scale, 1);
    n->bias = shifted ? ds_put(&g, stats, 3, one, &bias, 1) : 0;
    n->y = ds_put(&g, type, 3, x_dim, NULL, 0);
    const uint32_t images[] = {n->x, n->y};
    for (size_t i = 0; i < COUNT_OF(images) && channels_last; i++)
        memcpy(g.tensor[images[i]].stride, ((int64_t[]){C * S, 1, C}), 3 * sizeof(int64_t));
    ds_run(&g);
    ds_check_all("far from a mean", &g, n->y, want, COUNT, 16, 1);
    ds_drop(&g);
}

/* The least numbers of f64, none of whose digits is lost. */
static void given_least(void)
{
    enum { N = 4, C = 3, COUNT = N * C };
    const int64_t x_dim[] = {N, C, 1}, one[] = {1, C, 1};
    const double mean[C] = {0, 3 * 0x1p-1074, -0x1p-1070}, inverse = 0x1p40, scale = 1;
    double x[COUNT], want[COUNT];
    ds_graph g = {0};
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = (double)(2 * i + 1) * 0x1p-1074;
        want[i] = (x[i] - mean[i % C]) * inverse;
    }
    trp_dnn_node *n = ds_node(&g, TRP_DNN_NORM_INFERENCE);
    n->norm = TRP_DNN_BATCH;
    n->x = ds_put(&g, TRP_F64, 3, x_dim, x, COUNT);
    n->mean = ds_put(&g, TRP_F64, 3, one, mean, C);
    n->inv_variance = ds_put(&g, TRP_F64, 3, one, &inverse, 1);
    n->scale = ds_put(&g, TRP_F64, 3, one, &scale, 1);
    n->y = ds_put(&g, TRP_F64, 3, x_dim, NULL, 0);
    ds_run(&g);
    ds_check_all("the least numbers", &g, n->y, want, COUNT, 0, 0);
    ds_drop(&g);
}

static void given_statistics(void)
{
    ds_begin();
    given_least();
    FOR_FLOATS(type)
    {
        for (int way = 0; way < 4; way++)
            given_one(type, way % 2 == 1, way / 2 == 1);
    }
    ds_end();
}

H_CASES(H_CASE(activations), H_CASE(flat), H_CASE(pairs), H_CASE(truth), H_CASE(pools),
        H_CASE(rounded_up), H_CASE(integers), H_CASE(in_place), H_CASE(given_statistics))
