/* Reductions of rows and columns by kernels of our own: lengths around the limits of each variant,
 * pieces that are combined, NaN and infinities; and that those kernels ran where there is a GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

typedef enum over { COLUMNS, ROWS, ALL } over;

typedef struct reduction_row {
    int64_t dim[2];
    over over;
    trp_dtype type;
    const char *engine; /* begins with that, behind "reduce_" */
} reduction_row;

/* clang-format off */
static const reduction_row rows[] = {
    {{7, 3}, ROWS, TRP_F32, "rows_"}, /* most begin anywhere */
    {{300, 64}, ROWS, TRP_BF16, "rows_"},
    {{65, 520}, ROWS, TRP_F16, "rows_"},
    {{9, 4099}, ROWS, TRP_BF16, "rows_"}, /* a block each */
    {{2200, 263}, ROWS, TRP_F32, "rows_"}, /* a warp each */
    {{2, 70001}, ROWS, TRP_F16, "rows_"}, /* pieces */
    {{1, 300000}, ALL, TRP_F32, "rows_"},
    {{3, 50001}, ALL, TRP_BF16, "rows_"},
    {{5, 8}, COLUMNS, TRP_BF16, "columns_"},
    {{100, 64}, COLUMNS, TRP_F32, "columns_"},
    {{2, 64}, COLUMNS, TRP_F16, "columns_"},
    {{700, 128}, COLUMNS, TRP_BF16, "columns_"}, /* a cluster */
    {{1001, 264}, COLUMNS, TRP_F16, "columns_"},
    {{17000, 8}, COLUMNS, TRP_F32, "columns_"}, /* clusters, and pieces of them */
    {{50, 2056}, COLUMNS, TRP_BF16, "columns_"},
    {{31, 77}, COLUMNS, TRP_F32, "columns_"}, /* rows begin anywhere */
    {{3000, 131}, COLUMNS, TRP_BF16, "columns_"},
    {{1, 1025}, COLUMNS, TRP_F16, "columns_"},
    {{333, 263}, COLUMNS, TRP_F16, "columns_"},
    {{31, 61}, COLUMNS, TRP_F32, "columns_"}, /* no packs */
    {{40, 2}, COLUMNS, TRP_F16, "columns_"},
};
/* clang-format on */

static const char *const kinds[] = {
    [TRP_DNN_SUM] = "sums",      [TRP_DNN_MEAN] = "sums",     [TRP_DNN_LEAST] = "extremes",
    [TRP_DNN_MOST] = "extremes", [TRP_DNN_AMAX] = "extremes", [TRP_DNN_NORM1] = "sums",
    [TRP_DNN_NORM2] = "squares"};

static void expect_engine(const dp_problem *p, const trp_dnn_ran *ran, const reduction_row *row,
                          const char *kind)
{
    char engine[64];
    snprintf(engine, sizeof engine, "reduce_%s%s_%s", row->engine, kind, trp_dtype_name(row->type));
    if (!h_is_cuda() || p->refused ||
        (strncmp(ran->engine, engine, strlen(engine)) == 0 && ran->parts == 1))
        return;
    printf("%s: ran by %s in %u parts, expected %s\n", p->kind, ran->engine, ran->parts, engine);
    H_CHECK(false);
}

/* Whether an element of x is another one in check(). */
static bool is_special(int64_t i)
{
    return i % 97 == 13;
}

/* The reference knows no NaN of extremes: each that has one is NaN, and no other. */
static void expect_nan(const dp_problem *p, const reduction_row *row, uint32_t y)
{
    const int64_t *d = row->dim, count = row->over == ALL ? 1 : d[row->over == ROWS ? 0 : 1];
    bool *is_nan = calloc((size_t)count, sizeof *is_nan);
    double *v = dp_read(p, y);
    for (int64_t i = 0; i < d[0] * d[1]; i++) {
        const int64_t at = row->over == ALL ? 0 : row->over == ROWS ? i / d[1] : i % d[1];
        is_nan[at] = is_nan[at] || is_special(i);
    }
    for (int64_t i = 0; i < count; i++)
        H_CHECK((v[i] != v[i]) == is_nan[i]);
    free(is_nan);
    free(v);
}

/* Some elements of x become `special`; 0: none. */
static void check(const reduction_row *row, trp_dnn_reduce mode, bool statistics, double special)
{
    trp_completion done = {0};
    trp_dnn_ran ran = {0};
    dp_problem p = {.kind = kinds[mode], .packed = true};
    const int64_t *d = row->dim, count = d[0] * d[1];
    const int64_t to[2] = {row->over == ROWS ? d[0] : 1, row->over == COLUMNS ? d[1] : 1};
    trp_dnn_node *n = dp_node(&p, statistics ? TRP_DNN_STATISTICS : TRP_DNN_REDUCTION);
    n->x = dp_memory(&p, row->type, 2, d);
    if (statistics) {
        n->sum = dp_memory(&p, TRP_F32, 2, to);
        n->square_sum = dp_memory(&p, TRP_F32, 2, to);
    } else {
        n->reduce = mode;
        n->y = dp_memory(&p, special != 0 ? TRP_F32 : row->type, 2, to);
    }
    dp_make(world.device, &p);
    if (special != 0) {
        double *v = dp_read(&p, n->x);
        for (int64_t i = 0; i < count; i++) {
            if (is_special(i))
                v[i] = special;
        }
        dp_put(&p, n->x, v);
        free(v);
    }
    p.options.ran = &ran;
    dp_await(&p, dp_send(dnn, &p, &done), done);
    if (special != special && strcmp(kinds[mode], "extremes") == 0)
        expect_nan(&p, row, n->y);
    else
        dp_compare(&p);
    expect_engine(&p, &ran, row, kinds[mode]);
    dp_drop(&p);
}

static void numbers(void)
{
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int mode = TRP_DNN_SUM; mode <= TRP_DNN_NORM2; mode++)
            check(&rows[i], (trp_dnn_reduce)mode, false, 0);
    }
    dp_close(&world);
}

static void specials(void)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int mode = TRP_DNN_SUM; mode <= TRP_DNN_NORM2; mode++)
            check(&rows[i], (trp_dnn_reduce)mode, false, special[(i + (size_t)mode) % 3]);
    }
    dp_close(&world);
}

static void statistics(void)
{
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].over == COLUMNS)
            check(&rows[i], TRP_DNN_SUM, true, 0);
    }
    dp_close(&world);
}

/* Sums of f64 stay as exact as PyTorch's, which adds in pairs: naive ones of 1,000,003 numbers
 * between 0 and 1 are off by 100 roundings and more. */
static void exact_sums_of(bool columns, trp_dnn_reduce mode)
{
    const int64_t high = H_SANITIZED ? 5003 : 100003, all = H_SANITIZED ? 50003 : 1000003;
    const int64_t dim[] = {columns ? high : 1, columns ? 11 : all}, to[] = {1, dim[1]};
    const int64_t one[] = {1, 1}, count = dim[0] * dim[1], results = columns ? dim[1] : 1;
    trp_completion done = {0};
    dp_problem p = {.kind = "f64", .packed = true};
    trp_dnn_node *n = dp_node(&p, TRP_DNN_REDUCTION);
    n->reduce = mode;
    n->x = dp_memory(&p, TRP_F64, 2, dim);
    n->y = dp_memory(&p, TRP_F64, 2, columns ? to : one);
    dp_make(world.device, &p);
    double *v = malloc((size_t)count * sizeof *v);
    for (int64_t i = 0; i < count; i++)
        v[i] = ref_rng_uniform(h_rng(), 0, 1);
    dp_put(&p, n->x, v);
    dp_await(&p, dp_send(dnn, &p, &done), done);
    double *y = dp_read(&p, n->y);
    for (int64_t r = 0; r < results; r++) {
        long double sum = 0;
        for (int64_t i = r; i < count; i += results)
            sum += v[i];
        const double wanted = (double)(mode == TRP_DNN_MEAN ? sum * results / count : sum);
        if (!(fabs(y[r] - wanted) <= 32 * 0x1p-53 * wanted))
            h_fail(__FILE__, __LINE__, "result %lld: expected %.17g, got %.17g", (long long)r,
                   wanted, y[r]);
    }
    free(v), free(y);
    dp_drop(&p);
}

static void exact_sums(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < 6; i++)
        exact_sums_of(i < 3,
                      (const trp_dnn_reduce[]){TRP_DNN_SUM, TRP_DNN_MEAN, TRP_DNN_NORM1}[i % 3]);
    dp_close(&world);
}

H_CASES(H_CASE(numbers), H_CASE(specials), H_CASE(statistics), H_CASE(exact_sums))
