/* Softmax and norms by kernels of our own: widths around the limits of each variant, rows along any
 * dimension, NaN and infinities; and that those kernels ran where there is a GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>
#include <stdio.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

/* --- Softmax --- */

typedef struct softmax_row {
    int64_t dim[3];
    uint32_t axis;
    trp_dtype type;
    bool back;
    const char *engine; /* behind "softmax_" */
} softmax_row;

static uint32_t then(dp_problem *p, trp_dnn_pointwise mode, uint32_t x, uint32_t b)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = mode;
    n->x = x;
    n->b = b;
    return n->y = dp_virtual(p, TRP_DTYPE_NONE);
}

static uint32_t reduce(dp_problem *p, trp_dnn_reduce mode, uint32_t x, const softmax_row *row)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_REDUCTION);
    n->reduce = mode;
    n->x = x;
    n->y = dp_virtual(p, TRP_DTYPE_NONE);
    p->tensor[n->y].rank = 3;
    memcpy(p->tensor[n->y].dim, row->dim, sizeof row->dim);
    p->tensor[n->y].dim[row->axis] = 1;
    return n->y;
}

/* The nodes of layers_norm.c, for the reference. */
static void add_forward(dp_problem *p, const softmax_row *row, bool log, uint32_t x, uint32_t y)
{
    uint32_t shifted = then(p, TRP_DNN_SUB, x, reduce(p, TRP_DNN_MOST, x, row));
    uint32_t power = then(p, TRP_DNN_EXP, shifted, 0);
    uint32_t sum = reduce(p, TRP_DNN_SUM, power, row);
    if (log)
        then(p, TRP_DNN_SUB, shifted, then(p, TRP_DNN_LOG, sum, 0));
    else
        then(p, TRP_DNN_DIV, power, sum);
    p->node[p->nodes - 1].y = y;
}

static void add_backward(dp_problem *p, const softmax_row *row, bool log, uint32_t y, uint32_t dy,
                         uint32_t dx)
{
    if (log) {
        uint32_t sum = reduce(p, TRP_DNN_SUM, dy, row);
        uint32_t part = then(p, TRP_DNN_MUL, then(p, TRP_DNN_EXP, y, 0), sum);
        then(p, TRP_DNN_SUB, dy, part);
    } else {
        uint32_t sum = reduce(p, TRP_DNN_SUM, then(p, TRP_DNN_MUL, dy, y), row);
        then(p, TRP_DNN_MUL, then(p, TRP_DNN_SUB, dy, sum), y);
    }
    p->node[p->nodes - 1].y = dx;
}

/* `special`: what some elements of x or dy are; 0: none. */
static void check_softmax(const softmax_row *row, bool log, double special)
{
    char engine[64];
    trp_completion done = {0};
    trp_dnn_ran ran = {0};
    dp_problem p = {.kind = row->back ? "softmax backward" : "softmax", .packed = true};
    uint32_t x = dp_memory(&p, row->type, 3, row->dim), y = dp_memory(&p, row->type, 3, row->dim);
    uint32_t dx = row->back ? dp_memory(&p, row->type, 3, row->dim) : 0;
    p.fill[x] = row->back && !log ? DP_POSITIVE : DP_ANY;
    if (row->back)
        add_backward(&p, row, log, x, y, dx);
    else
        add_forward(&p, row, log, x, y);
    dp_make(world.device, &p);
    if (special != 0) {
        const uint32_t at = row->back ? y : x;
        double *v = dp_read(&p, at);
        const int64_t n = row->dim[0] * row->dim[1] * row->dim[2];
        for (int64_t i = 0; i < n; i++) {
            if (i % 97 == 13 || (i < n / 4 && special == -INFINITY)) /* and whole rows */
                v[i] = special;
        }
        dp_put(&p, at, v);
        free(v);
    }
    trp_softmax_request r = {.axis = row->axis, .log = log, .options.ran = &ran};
    p.options.ran = &ran;
    if (row->back) {
        r.y = p.tensor[x];
        r.dy = p.tensor[y];
        r.dx = p.tensor[dx];
        dp_await(&p, trp_softmax_backward(dnn, &r, &done), done);
    } else {
        r.x = p.tensor[x];
        r.y = p.tensor[y];
        dp_await(&p, trp_softmax_forward(dnn, &r, &done), done);
    }
    dp_compare(&p);
    snprintf(engine, sizeof engine, "softmax_%s", row->engine);
    dp_expect_engine(&p, engine);
    dp_drop(&p);
}

static const softmax_row softmax_rows[] = {
    {{1, 300, 1}, 1, TRP_F32, false, "f32_4"},
    {{40, 1, 1}, 2, TRP_F32, false, "columns_any_loose"}, /* of one element */
    {{3, 70, 2}, 2, TRP_BF16, false, "bf16_2"},
    {{2, 50, 10}, 2, TRP_F16, false, "f16_2"},
    {{1, 9, 250}, 2, TRP_F32, false, "f32_4"}, /* ragged: 7 more */
    {{1, 9, 256}, 2, TRP_F16, false, "f16_2"},
    {{1, 5, 257}, 2, TRP_BF16, false, "bf16_2"},
    {{1, 3, 1023}, 2, TRP_F32, false, "f32_4"},
    {{1, 2, 1024}, 2, TRP_F32, false, "f32_4"},
    {{1, 2, 2048}, 2, TRP_F16, false, "f16_4"},
    {{1, 2, 2049}, 2, TRP_F32, false, "f32_4"},
    {{1, 1, 8193}, 2, TRP_BF16, false, "bf16_4"},
    {{1, 1, 32768}, 2, TRP_F32, false, "f32_8"},
    {{1, 1, 32769}, 2, TRP_BF16, false, "bf16_8"},
    {{1, 2, 50257}, 2, TRP_BF16, false, "bf16_8"},
    {{1, 2, 65544}, 2, TRP_BF16, false, "bf16_parts"},
    {{1, 3, 50257}, 2, TRP_F32, false, "f32_parts"},
    {{1, 1, 300001}, 2, TRP_F16, false, "f16_parts"},
    {{1, 9, 32772}, 2, TRP_F32, false, "f32_slices"},
    {{1, 9, 32773}, 2, TRP_BF16, false, "bf16_slices"}, /* ragged */
    {{1, 3, 300}, 2, TRP_F64, false, "f64_1"},
    {{1, 1, 9000}, 2, TRP_F64, false, "parts_f64"},
    {{2, 21, 256}, 1, TRP_F32, false, "columns_any"},
    {{2, 33, 49}, 1, TRP_F16, false, "columns_any_loose"},
    {{1, 200, 300}, 1, TRP_F32, false, "columns_any_loose"},
    {{300, 3, 5}, 0, TRP_F32, false, "columns_any_loose"},
    {{1, 300, 264}, 1, TRP_BF16, false, "columns_any"},
    {{1, 40, 20}, 1, TRP_F64, false, "columns_f64_loose"},
    {{3, 70, 2}, 2, TRP_BF16, true, "bf16_back_2"},
    {{1, 5, 257}, 2, TRP_F32, true, "f32_back_4"},
    {{1, 3, 1024}, 2, TRP_F16, true, "f16_back_4"},
    {{1, 1, 16384}, 2, TRP_F32, true, "f32_back_4"},
    {{1, 2, 16385}, 2, TRP_BF16, true, "bf16_back_4"},
    {{1, 1, 40001}, 2, TRP_F32, true, "f32_back_parts"},
    {{1, 3, 40001}, 2, TRP_BF16, true, "bf16_back_parts"},
    {{1, 9, 16397}, 2, TRP_F32, true, "f32_back_slices"},
    {{1, 9, 32776}, 2, TRP_F16, true, "f16_back_slices"},
    {{2, 21, 256}, 1, TRP_F32, true, "back_columns_any"},
    {{1, 300, 49}, 1, TRP_F16, true, "back_columns_any_loose"},
    {{1, 40, 20}, 1, TRP_F64, true, "back_columns_f64_loose"},
    {{1, 2, 500}, 2, TRP_F64, true, "back_f64_1"},
};

static void softmax(void)
{
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof softmax_rows / sizeof *softmax_rows; i++) {
        check_softmax(&softmax_rows[i], false, 0);
        check_softmax(&softmax_rows[i], true, 0);
    }
    dp_close(&world);
}

static void softmax_specials(void)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, 60000, -60000};
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof softmax_rows / sizeof *softmax_rows; i += 2)
        check_softmax(&softmax_rows[i], i % 4, specials[i / 2 % 5]);
    dp_close(&world);
}

/* --- Norms --- */

/* What x is. */
typedef enum norm_fill {
    NORM_ANY,
    NORM_FAR,      /* the mean is far larger than deviations */
    NORM_HUGE,     /* squares overflow in f32 */
    NORM_TINY,     /* squares vanish in f32, and epsilon is 0 */
    NORM_INFINITE, /* and NaN: in some rows */
} norm_fill;

typedef struct norm_row {
    int64_t dim[3];
    trp_dnn_norm mode;
    trp_dtype type, scale; /* of x and y; of scale and bias */
    bool back;
    const char *engine;
    bool channels_last;
} norm_row;

static const norm_row norm_rows[] = {
    {{5, 1, 64}, TRP_DNN_LAYER, TRP_F32, TRP_F32, false, "norm_f32_each_2", false},
    {{33, 1, 7}, TRP_DNN_LAYER, TRP_BF16, TRP_F32, false, "norm_any_1", false},
    {{3, 1, 257}, TRP_DNN_RMS, TRP_F16, TRP_F16, false, "norm_any_2", false},
    {{2, 1, 768}, TRP_DNN_LAYER, TRP_BF16, TRP_BF16, false, "norm_bf16_each_4", false},
    {{2, 4, 256}, TRP_DNN_LAYER, TRP_F32, TRP_BF16, false, "norm_f32_each_4", false},
    {{2, 1, 1025}, TRP_DNN_RMS, TRP_F32, TRP_F32, false, "norm_any_1", false},
    {{2, 1, 4096}, TRP_DNN_RMS, TRP_BF16, TRP_BF16, false, "norm_bf16_each_4", false},
    {{1, 1, 16384}, TRP_DNN_LAYER, TRP_F16, TRP_F32, false, "norm_f16_each_4", false},
    {{9, 1, 8}, TRP_DNN_RMS, TRP_BF16, TRP_F32, false, "norm_bf16_each_2", false},
    {{2, 1, 1024}, TRP_DNN_LAYER, TRP_BF16, TRP_F32, false, "norm_bf16_each_4", false},
    {{2, 1, 20480}, TRP_DNN_LAYER, TRP_F32, TRP_F32, false, "norm_f32_each_8", false},
    {{2, 1, 40008}, TRP_DNN_LAYER, TRP_BF16, TRP_BF16, false, "norm_bf16_each_8", false},
    {{2, 1, 33000}, TRP_DNN_LAYER, TRP_F32, TRP_F32, false, "norm_f32_each_walk", false},
    {{2, 1, 65544}, TRP_DNN_RMS, TRP_BF16, TRP_BF16, false, "norm_bf16_each_walk", false},
    {{1, 3, 32771}, TRP_DNN_INSTANCE, TRP_F32, TRP_BF16, false, "norm_f32_row_walk", false},
    {{2, 1, 33003}, TRP_DNN_LAYER, TRP_F32, TRP_BF16, false, "norm_any_walk_loose", false},
    {{2, 1, 32771}, TRP_DNN_RMS, TRP_F16, TRP_F16, false, "norm_any_walk_loose", false},
    {{3, 1, 70002}, TRP_DNN_LAYER, TRP_BF16, TRP_F32, false, "norm_any_walk_loose", false},
    {{9, 1, 32776}, TRP_DNN_LAYER, TRP_F32, TRP_F32, false, "norm_f32_each_slices", false},
    {{140, 1, 24584}, TRP_DNN_LAYER, TRP_F32, TRP_F32, false, "norm_f32_each_held", false},
    {{7, 5, 196}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, false, "norm_bf16_half_4", false},
    {{2, 3, 300}, TRP_DNN_INSTANCE, TRP_F16, TRP_F32, false, "norm_f16_half_4", false},
    {{2, 5, 301}, TRP_DNN_INSTANCE, TRP_F16, TRP_F32, false, "norm_f16_row_2", false},
    {{2, 3, 4900}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, false, "norm_bf16_row_4", false},
    {{2, 1, 300}, TRP_DNN_LAYER, TRP_F64, TRP_F64, false, "direct", false},
    {{3, 5, 49}, TRP_DNN_INSTANCE, TRP_F32, TRP_F32, false, "norm_tiles_f32_rows", false},
    {{20, 77, 49}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, false, "norm_tiles_bf16_rows", false},
    {{9, 70, 49}, TRP_DNN_INSTANCE, TRP_F16, TRP_F32, false, "norm_tiles_f16_rows", false},
    {{3, 29, 196}, TRP_DNN_INSTANCE, TRP_F32, TRP_BF16, false, "norm_tiles_f32_rows", false},
    {{2, 3, 1024}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, false, "norm_bf16_row_4", false},
    {{5, 1, 64}, TRP_DNN_LAYER, TRP_F32, TRP_F32, true, "norm_back_f32_each", false},
    {{300, 1, 7}, TRP_DNN_LAYER, TRP_BF16, TRP_F32, true, "norm_back_any_1_loose", false},
    {{40, 1, 264}, TRP_DNN_RMS, TRP_F16, TRP_F16, true, "norm_back_f16_each", false},
    {{9, 1, 768}, TRP_DNN_LAYER, TRP_BF16, TRP_BF16, true, "norm_back_bf16_each", false},
    {{3, 1, 8192}, TRP_DNN_RMS, TRP_F32, TRP_F32, true, "norm_back_f32_each", false},
    {{700, 1, 40}, TRP_DNN_LAYER, TRP_BF16, TRP_F32, true, "norm_back_bf16_each", false},
    {{5000, 1, 16}, TRP_DNN_LAYER, TRP_F32, TRP_BF16, true, "norm_back_f32_each", false},
    {{150, 1, 1000}, TRP_DNN_LAYER, TRP_F16, TRP_F32, true, "norm_back_f16_each", false},
    {{40, 1, 4100}, TRP_DNN_RMS, TRP_BF16, TRP_F32, true, "norm_back_any_2_loose", false},
    {{3, 2, 150}, TRP_DNN_LAYER, TRP_F64, TRP_F64, true, "direct", false},
    {{3, 5, 49}, TRP_DNN_INSTANCE, TRP_F32, TRP_F32, true, "norm_back_any_1", false},
    {{2, 40, 1024}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, true, "norm_back_any_1", false},
    {{3, 1, 20000}, TRP_DNN_LAYER, TRP_F32, TRP_F32, true, "map_f32_vector", false},
    {{1, 7, 2001}, TRP_DNN_RMS, TRP_BF16, TRP_F32, true, "map_f32_vector", true},
    {{2, 30, 600}, TRP_DNN_LAYER, TRP_F16, TRP_F16, true, "map_f32_vector", true},
    {{6, 3, 49}, TRP_DNN_BATCH, TRP_F32, TRP_F32, false, "norm_batch_rows_loose", false},
    {{3, 5, 1032}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, false, "norm_batch_rows", false},
    {{9, 2, 4096}, TRP_DNN_BATCH, TRP_F32, TRP_BF16, false, "norm_batch_rows", false},
    {{700, 5, 1}, TRP_DNN_BATCH, TRP_F32, TRP_F32, false, "norm_batch_columns_loose", false},
    {{9, 264, 10}, TRP_DNN_BATCH, TRP_F32, TRP_F32, false, "norm_batch_columns", true},
    {{2, 24, 200}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, false, "norm_batch_columns", true},
    {{2, 23, 90}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, false, "norm_batch_columns_loose", true},
    {{3, 8, 700}, TRP_DNN_BATCH, TRP_F16, TRP_F32, false, "norm_batch_columns", true},
    {{64, 3, 196}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, false, "norm_batch_rows", false},
    {{2, 136, 30}, TRP_DNN_INSTANCE, TRP_F32, TRP_F32, false, "norm_batch_columns", true},
    {{3, 2, 20000}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, false, "norm_bf16_row_8", false},
    {{2, 34, 4160}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, false, "norm_batch_slices", false},
    {{5, 70, 196}, TRP_DNN_BATCH, TRP_F16, TRP_F32, false, "norm_batch_slices", false},
    {{2, 34, 2080}, TRP_DNN_BATCH, TRP_F32, TRP_F32, true, "norm_batch_slices", false},
    {{5, 70, 196}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, true, "norm_batch_slices", false},
    {{3, 45, 2056}, TRP_DNN_INSTANCE, TRP_BF16, TRP_F32, true, "norm_batch_slices", false},
    {{1, 68, 3136}, TRP_DNN_INSTANCE, TRP_F32, TRP_F32, true, "norm_batch_slices", false},
    {{6, 3, 49}, TRP_DNN_BATCH, TRP_F32, TRP_F32, true, "norm_batch_rows_loose", false},
    {{3, 5, 1032}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, true, "norm_batch_rows", false},
    {{9, 264, 10}, TRP_DNN_BATCH, TRP_F32, TRP_F32, true, "norm_batch_columns", true},
    {{300, 24, 4}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, true, "norm_batch_columns", true},
    {{30, 25, 4}, TRP_DNN_BATCH, TRP_BF16, TRP_F32, true, "norm_batch_columns_loose", true},
    {{2, 520, 33}, TRP_DNN_BATCH, TRP_F32, TRP_F32, true, "norm_batch_columns", true},
    {{64, 2, 196}, TRP_DNN_BATCH, TRP_F16, TRP_F32, true, "norm_batch_rows", false},
    {{2, 136, 30}, TRP_DNN_INSTANCE, TRP_F32, TRP_F32, true, "norm_batch_columns", true},
    {{3, 2, 20001}, TRP_DNN_INSTANCE, TRP_F32, TRP_F32, true, "norm_batch_rows_loose", false},
};

static double norm_element(norm_fill fill, double x, int64_t row, int64_t i)
{
    return fill == NORM_FAR                  ? 1000 + x / 16
           : fill == NORM_HUGE               ? x * 1e30
           : fill == NORM_TINY               ? x * 1e-30
           : fill == NORM_INFINITE && i == 5 ? (row % 3 == 0   ? NAN
                                                : row % 3 == 1 ? INFINITY
                                                               : x)
                                             : x;
}

static uint32_t norm_image(dp_problem *p, const norm_row *row)
{
    const uint32_t number = dp_memory(p, row->type, 3, row->dim);
    if (row->channels_last) {
        p->tensor[number].stride[0] = row->dim[1] * row->dim[2];
        p->tensor[number].stride[1] = 1;
        p->tensor[number].stride[2] = row->dim[1];
    }
    return number;
}

static void add_running(dp_problem *p, trp_dnn_node *n, const int64_t *dim)
{
    n->running_mean = dp_memory(p, TRP_F32, 3, dim);
    n->running_variance = dp_memory(p, TRP_F32, 3, dim);
    n->new_running_mean = dp_memory(p, TRP_F32, 3, dim);
    n->new_running_variance = dp_memory(p, TRP_F32, 3, dim);
    n->average_factor = dp_value(p, 0.25);
    p->fill[n->running_variance] = DP_POSITIVE;
}

/* `given`: the same, of statistics that are read. */
static void check_norm(const norm_row *row, norm_fill fill, bool given)
{
    trp_completion done = {0};
    trp_dnn_ran ran = {0};
    dp_problem p = {.kind = row->back ? "norm backward" : "norm", .packed = true};
    const bool instance = row->mode == TRP_DNN_INSTANCE, centred = row->mode != TRP_DNN_RMS;
    const bool batch = row->mode == TRP_DNN_BATCH;
    const int64_t *d = row->dim, scale[3] = {1, d[1], instance || batch ? 1 : d[2]};
    const int64_t statistics[3] = {batch ? 1 : d[0], instance || batch ? d[1] : 1, 1};
    trp_dnn_node *n = dp_node(&p, row->back ? TRP_DNN_NORM_BACKWARD
                                  : given   ? TRP_DNN_NORM_INFERENCE
                                            : TRP_DNN_NORM_TRAINING);
    const trp_dtype wide = row->type == TRP_F64 ? TRP_F64 : TRP_F32;
    n->norm = row->mode;
    n->x = norm_image(&p, row);
    n->scale = dp_memory(&p, row->scale, 3, scale);
    if (row->back || !given || batch) {
        n->mean = centred ? dp_memory(&p, wide, 3, statistics) : 0;
        n->inv_variance = dp_memory(&p, wide, 3, statistics);
    }
    if (row->back) {
        n->dy = norm_image(&p, row);
        n->dx = norm_image(&p, row);
        n->dscale = dp_memory(&p, row->scale, 3, scale);
        n->dbias = centred ? dp_memory(&p, row->scale, 3, scale) : 0;
    } else {
        n->bias = centred ? dp_memory(&p, row->scale, 3, scale) : 0;
        n->epsilon = given && batch ? 0 : dp_value(&p, fill == NORM_TINY ? 0 : 1e-5);
        n->y = norm_image(&p, row);
        if (batch && !given)
            add_running(&p, n, statistics);
    }
    if (row->back || (given && batch))
        p.fill[n->inv_variance] = DP_POSITIVE;
    dp_make(world.device, &p);
    double *v = dp_read(&p, n->x);
    for (int64_t i = 0; i < d[0] * d[1] * d[2]; i++)
        v[i] = norm_element(fill, v[i], i / (d[1] * d[2]), i % (d[1] * d[2]));
    dp_put(&p, n->x, v);
    free(v);
    p.options.ran = &ran;
    dp_await(&p, dp_send(dnn, &p, &done), done);
    dp_compare(&p);
    const bool lowered = row->back && strncmp(row->engine, "map_", 4) == 0;
    if (lowered && h_is_gpu()) /* an engine may take it */
        H_CHECK(strcmp(ran.engine, "direct") != 0);
    else if (!(given && batch && row->channels_last)) /* element by element */
        dp_expect_engine(&p, given && strcmp(row->engine, "norm_batch_slices") == 0
                                 ? "norm_batch_rows"
                                 : row->engine);
    dp_drop(&p);
}

static void norms(void)
{
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof norm_rows / sizeof *norm_rows; i++) {
        const norm_row *row = &norm_rows[i];
        const bool infinite = row->mode != TRP_DNN_BATCH && i % 2 == 0;
        const bool far = row->type == TRP_F32 && i % 2;
        check_norm(row, NORM_ANY, false);
        if (!row->back)
            check_norm(row, NORM_ANY, true);
        if (row->type == TRP_F16 || row->back)
            continue;
        /* The host's squares of f32 overflow, and vanish. */
        if (far || h_is_cuda())
            check_norm(row, far ? NORM_FAR : NORM_HUGE, false);
        if (infinite || h_is_cuda())
            check_norm(row, infinite ? NORM_INFINITE : NORM_TINY, false);
    }
    dp_close(&world);
}

/* --- Group norm, as graphs spell it --- */

typedef struct group_row {
    int64_t dim[4], groups;
    trp_dtype type, scale;
    bool bias, training;
    const char *engine;
} group_row;

static const group_row group_rows[] = {
    {{2, 32, 8, 8}, 8, TRP_F32, TRP_F32, true, false, "norm_f32_row_2"},
    {{3, 12, 5, 5}, 4, TRP_F32, TRP_F32, true, true, "norm_f32_row_2"}, /* ragged */
    {{2, 64, 14, 14}, 32, TRP_BF16, TRP_F32, true, false, "norm_bf16_row_2"},
    {{2, 30, 7, 9}, 3, TRP_F16, TRP_F16, false, false, "norm_f16_row_4"},
    {{2, 64, 28, 28}, 2, TRP_BF16, TRP_BF16, true, true, "norm_bf16_row_8"},
    {{1, 64, 30, 30}, 1, TRP_F32, TRP_BF16, true, false, "norm_f32_row_walk"},
    {{1, 3, 160, 160}, 1, TRP_BF16, TRP_F32, true, false, "norm_bf16_row_walk"},
    {{4, 70, 96, 172}, 35, TRP_BF16, TRP_F32, true, true, "norm_bf16_row_held"},
    {{4, 70, 96, 172}, 35, TRP_F32, TRP_F32, true, false, "norm_f32_row_held"},
};

static void check_group(const group_row *row, norm_fill fill)
{
    trp_completion done = {0};
    trp_dnn_ran ran = {0};
    dp_problem p = {.kind = "group norm", .packed = true};
    const int64_t *d = row->dim, channels[4] = {1, d[1], 1, 1}, each[3] = {1, row->groups, 1};
    const int64_t grouped[3] = {d[0], row->groups, d[1] / row->groups * d[2] * d[3]};
    const int64_t statistics[3] = {d[0], row->groups, 1};
    uint32_t inside[3];
    for (int i = 0; i < 3; i++) {
        inside[i] = dp_virtual(&p, i == 0 ? row->type : TRP_DTYPE_NONE);
        p.tensor[inside[i]].rank = i < 2 ? 3 : 4;
        memcpy(p.tensor[inside[i]].dim, i < 2 ? grouped : d, (i < 2 ? 3 : 4) * sizeof *d);
    }
    const uint32_t x = dp_memory(&p, row->type, 4, d);
    trp_dnn_node *n = dp_node(&p, TRP_DNN_RESHAPE);
    n->x = x;
    n->y = inside[0];
    n = dp_node(&p, row->training ? TRP_DNN_NORM_TRAINING : TRP_DNN_NORM_INFERENCE);
    n->norm = TRP_DNN_INSTANCE;
    n->x = inside[0];
    n->scale = dp_memory(&p, TRP_F32, 3, each);
    n->bias = row->training ? dp_memory(&p, TRP_F32, 3, each) : 0;
    n->epsilon = dp_value(&p, fill == NORM_TINY ? 0 : 1e-5);
    n->y = inside[1];
    if (row->training) {
        n->mean = dp_memory(&p, TRP_F32, 3, statistics);
        n->inv_variance = dp_memory(&p, TRP_F32, 3, statistics);
    }
    n = dp_node(&p, TRP_DNN_RESHAPE);
    n->x = inside[1];
    n->y = inside[2];
    uint32_t product = inside[2], factor = dp_memory(&p, row->scale, 4, channels);
    if (row->bias) {
        product = then(&p, TRP_DNN_MUL, product, factor);
        factor = dp_memory(&p, row->scale, 4, channels);
    }
    n = dp_node(&p, TRP_DNN_POINTWISE);
    n->pointwise = row->bias ? TRP_DNN_ADD : TRP_DNN_MUL;
    n->x = factor;
    n->b = product;
    n->y = dp_memory(&p, row->type, 4, d);
    dp_make(world.device, &p);
    double *v = dp_read(&p, x);
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++)
        v[i] = norm_element(fill, v[i], i / (d[1] * d[2] * d[3]), i % (d[1] * d[2] * d[3]));
    dp_put(&p, x, v);
    free(v);
    p.options.ran = &ran;
    dp_await(&p, dp_send(dnn, &p, &done), done);
    dp_compare(&p);
    dp_expect_engine(&p, row->engine);
    dp_drop(&p);
}

static void groups(void)
{
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof group_rows / sizeof *group_rows; i++) {
        check_group(&group_rows[i], NORM_ANY);
        if (strstr(group_rows[i].engine, "held")) /* of as many rows as processors: large */
            continue;
        if (group_rows[i].type == TRP_F32)
            check_group(&group_rows[i], NORM_FAR);
        if (group_rows[i].type != TRP_F16 && h_is_cuda())
            check_group(&group_rows[i], NORM_HUGE);
    }
    dp_close(&world);
}

/* Plans of one kernel for several widths, each of which wants shared memory of its own size, by
 * turns: the gradient of y = 1 with dy = 1 is 1 - n. */
static void widths_in_turns(void)
{
    static const int64_t widths[] = {46384, 24000, 46384, 33000, 24000, 46384};
    enum { ROWS = 24 };
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    const size_t bytes = ROWS * 46384 * sizeof(float);
    float *got = h_malloc(bytes);
    const trp_buffer y = h_filled(world.device, bytes, 0x3f800000);
    const trp_buffer dx = h_filled(world.device, bytes, 0x7fc00000);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        trp_completion done = {0};
        const trp_dnn_tensor t = {
            .type = TRP_F32, .rank = 2, .dim = {ROWS, widths[i]}, .buffer = y};
        trp_softmax_request r = {.axis = 1, .y = t, .dy = t, .dx = t};
        r.dx.buffer = dx;
        H_OK(trp_softmax_backward(dnn, &r, &done));
        H_OK(h_await_any(done));
        const size_t count = (size_t)(ROWS * widths[i]);
        h_read(world.device, dx, 0, got, count * sizeof *got);
        for (size_t k = 0; k < count; k += 997)
            H_CHECK(fabsf(got[k] - (float)(1 - widths[i])) <= 1e-5F * (float)widths[i]);
    }
    free(got);
    h_close(&world);
}

H_CASES(H_CASE(softmax), H_CASE(softmax_specials), H_CASE(norms), H_CASE(groups),
        H_CASE(widths_in_turns))
