/* Sums, norms and softmaxes of NaN, infinities, and the largest and smallest numbers of each type:
 * what dnn.h says of them, against references of long double that are written here from the
 * definitions. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_small.h"
#include "support/label.h"

#include <float.h>
#include <math.h>
#include <troupe/layers.h>
#include <troupe/training.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* --- reductions --- */

static void reduce_to(const char *what, trp_dnn_reduce mode, trp_dtype type, size_t count,
                      const double *x, size_t values, double want)
{
    const int64_t from[] = {2, (int64_t)count}, to[] = {2, 1};
    ds_graph g = {0};
    trp_dnn_node *n = ds_node(&g, TRP_DNN_REDUCTION);
    n->reduce = mode;
    n->x = ds_put(&g, type, 2, from, x, values);
    n->y = ds_put(&g, type, 2, to, NULL, 0);
    ds_run(&g);
    ds_check_all(what, &g, n->y, &want, 1, 4, 0);
    ds_drop(&g);
}

static void reductions(void)
{
    ds_begin();
    FOR_FLOATS(type)
    {
        const double most = ds_most_of(type), least = ds_smallest(type);
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
    ds_end();
}

/* Over nothing. */
static void empty(void)
{
    static const double want[] = {
        [TRP_DNN_SUM] = 0,          [TRP_DNN_MEAN] = 0,   [TRP_DNN_LEAST] = INFINITY,
        [TRP_DNN_MOST] = -INFINITY, [TRP_DNN_AMAX] = 0,   [TRP_DNN_NORM1] = 0,
        [TRP_DNN_NORM2] = 0,        [TRP_DNN_PRODUCT] = 1};
    ds_begin();
    FOR_FLOATS(type)
    {
        for (int mode = TRP_DNN_SUM; mode <= TRP_DNN_PRODUCT; mode++)
            reduce_to("over nothing", (trp_dnn_reduce)mode, type, 0, want, 1, want[mode]);
    }
    ds_end();
}

/* One reduction whose groups are of all sizes. */
static void groups(void)
{
    ds_begin();
    const int64_t from[] = {4, 2}, to[] = {4, 1};
    const double x[] = {3e200, 4e200, 3e-200, 4e-200, 3, 4, 0, 0};
    const double want[] = {5e200, 5e-200, 5, 0};
    ds_graph g = {0};
    trp_dnn_node *n = ds_node(&g, TRP_DNN_REDUCTION);
    n->reduce = TRP_DNN_NORM2;
    n->x = ds_put(&g, TRP_F64, 2, from, x, 8);
    n->y = ds_put(&g, TRP_F64, 2, to, NULL, 0);
    ds_run(&g);
    ds_check_all("norms of all sizes", &g, n->y, want, 4, 4, 0);
    ds_drop(&g);
    ds_end();
}

/* Sums and products over dimensions that lie apart, where those of some terms leave the type. */
static void apart(void)
{
    static const int64_t from[] = {2, 3, 4, 2}, to[] = {1, 3, 1, 2};
    ds_begin();
    FOR_FLOATS(type)
    {
        const double most = ds_most_of(type), large = type == TRP_F16 ? 0x1p9 : 0x1p100;
        for (int product = 0; product < 2 && type != TRP_F64; product++) {
            double x[48], want[6];
            for (int i = 0; i < 48; i++)
                x[i] = product ? (i < 24 ? large : 1 / large) : i < 24 ? most : -most;
            for (int i = 0; i < 6; i++) {
                x[i / 2 * 8 + i % 2] = product ? -large : most / 2;
                want[i] = product ? -1 : -most / 2;
            }
            ds_graph g = {0};
            trp_dnn_node *n = ds_node(&g, TRP_DNN_REDUCTION);
            n->reduce = product ? TRP_DNN_PRODUCT : TRP_DNN_SUM;
            n->x = ds_put(&g, type, 4, from, x, 48);
            n->y = ds_put(&g, type, 4, to, NULL, 0);
            ds_run(&g);
            ds_check_all(product ? "products apart" : "sums apart", &g, n->y, want, 6, 4, 0);
            ds_drop(&g);
        }
    }
    ds_end();
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
    ds_graph g = {0};
    trp_dnn_node *n = ds_node(&g, TRP_DNN_NORM_TRAINING);
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
    n->x = ds_put(&g, k->type, 3, x_dim, x, count);
    n->scale = ds_put(&g, stats, 3, scale_dim, &scale, 1);
    n->epsilon = ds_number(&g, k->epsilon);
    if (k->mode != TRP_DNN_RMS) {
        n->bias = ds_put(&g, stats, 3, scale_dim, &bias, 1);
        n->mean = ds_put(&g, stats, 3, stat_dim, NULL, 0);
    }
    n->inv_variance = ds_put(&g, stats, 3, stat_dim, NULL, 0);
    n->y = ds_put(&g, k->type, 3, x_dim, NULL, 0);
    ds_run(&g);
    ds_check_all(k->name, &g, n->y, y, count, 64, 1);
    ds_check_all(k->name, &g, n->inv_variance, inv, stat_count, 64, 0);
    if (n->mean)
        ds_check_all(k->name, &g, n->mean, mean, stat_count, 16, k->deviation);
    ds_drop(&g);
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
    ds_begin();
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
    ds_end();
}

/* How large x, dy and the scale are, where the deviation of x counts as `x`. */
typedef struct slope_sizes {
    const char *name;
    double x, dy, scale;
    bool steep; /* 1 / deviation is denormal; sums over rows are numbers */
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
    ds_graph g = {0};
    trp_dnn_node *back = ds_node(&g, TRP_DNN_NORM_BACKWARD);
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
    back->x = ds_put(&g, type, 3, x_dim, x, count);
    back->dy = ds_put(&g, type, 3, x_dim, dy, count);
    back->scale = ds_put(&g, stats, 3, scale_dim, &scale, 1);
    if (mode != TRP_DNN_RMS)
        back->mean = ds_put(&g, stats, 3, stat_dim, &zero, 1);
    back->inv_variance = ds_put(&g, stats, 3, stat_dim, &inverse, 1);
    back->dx = ds_put(&g, type, 3, x_dim, NULL, 0);
    back->dscale = ds_put(&g, stats, 3, scale_dim, NULL, 0);
    if (mode != TRP_DNN_RMS)
        back->dbias = ds_put(&g, stats, 3, scale_dim, NULL, 0);
    ds_run(&g);
    ds_check_all(size->name, &g, back->dx, dx, count, 64, size->dy * scale * inverse);
    if (size->steep)
        ds_check_all(size->name, &g, back->dscale, dscale, scales, 64,
                     size->dy * (double)(count / scales));
    ds_drop(&g);
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
    ds_begin();
    for (size_t t = 0; t < COUNT_OF(slope_types); t++) {
        /* Sums of dy, and of dy times x, leave the type on their way to results that it holds. */
        const slope_sizes size = {"slopes of the largest", 1, ds_most_of(slope_types[t]) * 0.75,
                                  0x1p-10, false};
        for (size_t m = 0; m < COUNT_OF(modes); m++)
            slopes_of(modes[m], slope_types[t], &size);
    }
    ds_end();
}

/* 1 / deviation is denormal. */
static void slopes_of_large_ones(trp_dnn_norm mode)
{
    ds_begin();
    for (size_t t = 0; t < COUNT_OF(slope_types); t++) {
        const slope_sizes size = {"slopes of large ones", ds_most_of(slope_types[t]) * 0.9, 1,
                                  0x1p100, true};
        slopes_of(mode, slope_types[t], &size);
    }
    ds_end();
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
    const double one = 1, inverse = 316.25, large = dr_round(type, ds_most_of(type) * 0.75);
    double *dy = h_malloc(count * sizeof *dy), *dx = h_malloc(count * sizeof *dx);
    double *none = calloc((size_t)(c * s), sizeof *none);
    ds_graph g = {0};
    trp_dnn_node *back = ds_node(&g, TRP_DNN_NORM_BACKWARD);
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
    back->x = ds_put(&g, type, 3, x_dim, &large, 1);
    back->dy = ds_put(&g, type, 3, x_dim, dy, count);
    back->scale = ds_put(&g, TRP_F32, 3, scale_dim, &one, 1);
    back->mean = ds_put(&g, TRP_F32, 3, stat_dim, &large, 1);
    back->inv_variance = ds_put(&g, TRP_F32, 3, stat_dim, &inverse, 1);
    back->dx = ds_put(&g, type, 3, x_dim, NULL, 0);
    back->dscale = ds_put(&g, TRP_F32, 3, scale_dim, NULL, 0);
    back->dbias = ds_put(&g, TRP_F32, 3, scale_dim, NULL, 0);
    ds_run(&g);
    ds_check_all("slopes of equal large ones", &g, back->dx, dx, count, 64, inverse);
    ds_check_all("slopes of the scale", &g, back->dscale, none, (size_t)(c * (inner ? s : 1)), 0,
                 1);
    ds_drop(&g);
    free(dy);
    free(dx);
    free(none);
}

static void slopes_of_equal_large_ones(void)
{
    static const trp_dnn_norm modes[] = {TRP_DNN_LAYER, TRP_DNN_BATCH, TRP_DNN_INSTANCE};
    static const trp_dtype types[] = {TRP_F32, TRP_BF16};
    ds_begin();
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t m = 0; m < COUNT_OF(modes); m++) {
            slopes_beside(modes[m], types[t], 8, 96, 1);
            slopes_beside(modes[m], types[t], 5, 3, 7);
            slopes_beside(modes[m], types[t], 40, 9, 8);
            slopes_beside(modes[m], types[t], 3, 1, 2056);
        }
    }
    ds_end();
}

/* An epsilon and a factor of 0 are said, others are the defaults. */
static void zeros_are_given(void)
{
    ds_begin();
    const int64_t x_dim[] = {2, 1, 1}, one[] = {1, 1, 1};
    const double x[] = {1e-8, 3e-8}, scale = 1, old[] = {5};
    for (int given = 0; given < 2; given++) {
        ds_graph g = {0};
        trp_completion done = {0};
        trp_norm_request r = {.mode = TRP_DNN_BATCH};
        r.x = g.tensor[ds_put(&g, TRP_F32, 3, x_dim, x, 2)];
        r.scale = g.tensor[ds_put(&g, TRP_F32, 3, one, &scale, 1)];
        const uint32_t y = ds_put(&g, TRP_F32, 3, x_dim, NULL, 0);
        r.y = g.tensor[y];
        r.mean = g.tensor[ds_put(&g, TRP_F32, 3, one, NULL, 0)];
        r.inv_variance = g.tensor[ds_put(&g, TRP_F32, 3, one, NULL, 0)];
        r.running_mean = g.tensor[ds_put(&g, TRP_F32, 3, one, old, 1)];
        r.running_variance = g.tensor[ds_put(&g, TRP_F32, 3, one, old, 1)];
        const uint32_t new_mean = ds_put(&g, TRP_F32, 3, one, NULL, 0);
        r.new_running_mean = g.tensor[new_mean];
        r.new_running_variance = g.tensor[ds_put(&g, TRP_F32, 3, one, NULL, 0)];
        if (given)
            r.epsilon = r.average_factor = trp_real(0);
        H_OK(trp_norm_training(ds_dnn, &r, &done));
        H_OK(h_await_any(done));
        const double by = 1 / sqrt(1e-16 + (given ? 0 : 1e-5));
        ds_check_all("epsilon", &g, y, (double[]){-1e-8 * by, 1e-8 * by}, 2, 8, 0);
        ds_check_all("average_factor", &g, new_mean, (double[]){given ? 5 : 0.9 * 5 + 0.1 * 2e-8},
                     1, 2, 0);
        r.epsilon = trp_real(-1);
        H_IS(trp_norm_training(ds_dnn, &r, &done), TRP_E_ARGUMENT);
        H_SAYS("epsilon: expected a real finite number, 0 or more, got -1");
        ds_drop(&g);
    }
    ds_end();
}

/* --- softmax --- */

/* Twice a difference that leaves the type, of whose mean each element has a share. */
static void loss_slopes(void)
{
    ds_begin();
    for (size_t t = 0; t < COUNT_OF(slope_types); t++) {
        for (size_t count = 64; count <= 6400; count *= 100) {
            const double most = dr_round(slope_types[t], ds_most_of(slope_types[t]) * 0.75);
            const double x[] = {most, -most, 1, most}, target[] = {-most, most, 0.25, most};
            double want[4];
            ds_graph g = {0};
            trp_completion done = {0};
            for (size_t i = 0; i < 4; i++)
                want[i] = 2 * (x[i] - target[i]) / (double)count;
            const uint32_t from = ds_line(&g, slope_types[t], count, x, 4);
            const uint32_t to = ds_line(&g, slope_types[t], count, target, 4);
            const uint32_t dx = ds_line(&g, slope_types[t], count, NULL, 0);
            const trp_loss_request r = {.mode = TRP_DNN_MSE,
                                        .reduction = TRP_DNN_REDUCE_MEAN,
                                        .x = g.tensor[from],
                                        .target = g.tensor[to],
                                        .dx = g.tensor[dx],
                                        .options = {.ran = &ds_ran}};
            H_OK(trp_loss(ds_dnn, &r, &done));
            H_OK(h_await_any(done));
            ds_check_all("slopes of a loss", &g, dx, want, 4, 4, 0);
            ds_drop(&g);
        }
    }
    ds_end();
}

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
    ds_begin();
    for (int log = 0; log < 2; log++) {
        for (int64_t copies = 1; copies <= 1000; copies += 999) {
            const int64_t dim[] = {copies, COUNT_OF(rows), 4};
            double want[COUNT_OF(rows) * 4];
            ds_graph g = {0};
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
            const uint32_t x = ds_put(&g, TRP_F32, 3, dim, &rows[0][0], COUNT_OF(want));
            const uint32_t y = ds_put(&g, TRP_F32, 3, dim, NULL, 0);
            trp_softmax_request r = {.axis = 2, .log = log, .x = g.tensor[x], .y = g.tensor[y]};
            H_OK(trp_softmax_forward(ds_dnn, &r, &done));
            H_OK(h_await_any(done));
            ds_check_all(log ? "log-softmax" : "softmax", &g, y, want, COUNT_OF(want), 8, 1e-30);
            ds_drop(&g);
        }
    }
    ds_end();
}

H_CASES(H_CASE(reductions), H_CASE(groups), H_CASE(apart), H_CASE(empty), H_CASE(norms),
        H_CASE(slopes_of_the_largest), H_CASE(steep_layer), H_CASE(steep_batch),
        H_CASE(steep_instance), H_CASE(steep_rms), H_CASE(slopes_of_equal_large_ones),
        H_CASE(zeros_are_given), H_CASE(loss_slopes), H_CASE(softmaxes))
