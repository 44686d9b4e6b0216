/* Pooling by kernels of our own: windows around the limits of each variant, NaN and infinities; and
 * that those kernels ran where there is a GPU. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>
#include <stdio.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

typedef struct pool_row {
    uint32_t rank;
    int64_t x[5];
    int64_t window[3], stride[3], pad[3];
    bool channels_last;
    trp_dtype type;
    const char *forward; /* an engine, or for one of planes its way and window */
    const char *backward;
} pool_row;

/* clang-format off */
static const pool_row pool_rows[] = {
    {4, {2, 3, 9, 11}, {3, 3}, {2, 2}, {1, 1}, false, TRP_F32, "planes 3_2", "pool_strip_f32_back"},
    {4, {2, 3, 8, 16}, {3, 3}, {2, 2}, {1, 1}, false, TRP_BF16, "words 3_2", "pool_strip_bf16_back"},
    {4, {1, 2, 9, 21}, {2, 5}, {3, 1}, {1, 2}, false, TRP_F16, "pool_typed_f16_1_forward", "pool_strip_f16_back"},
    {4, {1, 2, 9, 32}, {2, 2}, {3, 4}, {0, 1}, false, TRP_F32, "pool_typed_f32_1_forward", "pool_strip_f32_back"},
    {4, {2, 16, 8, 8}, {2, 2}, {2, 2}, {0, 0}, true, TRP_BF16, "pool_typed_bf16_8_forward", "pool_typed_bf16_8_back"},
    {4, {1, 8, 9, 7}, {3, 3}, {2, 2}, {1, 1}, true, TRP_F32, "pool_typed_f32_4_forward", "pool_typed_f32_4_back"},
    {4, {1, 12, 9, 9}, {5, 5}, {1, 1}, {2, 2}, true, TRP_F32, "pool_typed_f32_4_forward", "pool_typed_f32_4_back"},
    {4, {1, 4, 9, 9}, {9, 9}, {4, 4}, {4, 4}, true, TRP_F32, "pool_warp_f32_1", "pool_typed_f32_4_back"},
    {4, {1, 5, 9, 7}, {3, 2}, {1, 2}, {1, 0}, true, TRP_F16, "pool_typed_f16_1_forward", "pool_typed_f16_1_back"},
    {4, {3, 5, 9, 9}, {9, 9}, {1, 1}, {0, 0}, false, TRP_F32, "planes 9_1", "pool_strip_f32_back"},
    {4, {2, 24, 14, 14}, {14, 14}, {1, 1}, {0, 0}, true, TRP_F16, "pool_warp_f32_8", "pool_typed_f16_8_back"},
    {4, {1, 2, 20, 20}, {9, 9}, {4, 4}, {4, 4}, false, TRP_BF16, "pool_warp_f32_1", "pool_strip_bf16_back"},
    {3, {2, 4, 40}, {4}, {3}, {1}, false, TRP_BF16, "pool_typed_bf16_1_forward", "pool_strip_bf16_back"},
    {5, {1, 8, 4, 5, 6}, {2, 2, 3}, {2, 1, 2}, {0, 1, 1}, true, TRP_F32, "pool_typed_f32_4_forward", "pool_typed_f32_4_back"},
    {5, {1, 3, 4, 5, 6}, {2, 2, 3}, {1, 2, 2}, {1, 1, 0}, false, TRP_F64, "pool_f64_1", "pool_back_f64_1"},
    {4, {1, 40, 13, 13}, {2, 2}, {2, 2}, {0, 0}, false, TRP_F16, "planes 2_2", "pool_strip_f16_back"},
    {4, {3, 5, 4, 5}, {3, 3}, {1, 1}, {1, 1}, false, TRP_BF16, "planes 3_1", "pool_strip_bf16_back"},
    {4, {2, 2, 61, 57}, {3, 3}, {1, 1}, {1, 1}, false, TRP_F32, "planes 3_1", "pool_strip_f32_back"}, /* bands */
    {4, {1, 3, 93, 131}, {3, 3}, {2, 2}, {0, 0}, false, TRP_F16, "planes 3_2", "pool_strip_f16_back"},
    {4, {2, 3, 12, 10}, {5, 5}, {1, 1}, {2, 2}, false, TRP_BF16, "words 5_1", "pool_strip_bf16_back"},
    {4, {1, 2, 9, 12}, {5, 5}, {1, 1}, {1, 1}, false, TRP_F16, "words 5_1", "pool_strip_f16_back"},
    {4, {1, 3, 9, 11}, {5, 5}, {1, 1}, {2, 2}, false, TRP_F32, "planes 5_1", "pool_strip_f32_back"},
    {4, {1, 2, 8, 9}, {7, 7}, {1, 1}, {3, 3}, false, TRP_F16, "planes 7_1", "pool_strip_f16_back"},
    {4, {1, 2, 8, 10}, {9, 9}, {1, 1}, {4, 4}, false, TRP_BF16, "words 9_1", "pool_strip_bf16_back"},
    {4, {1, 2, 14, 14}, {13, 13}, {1, 1}, {6, 6}, false, TRP_BF16, "words 13_1", "pool_strip_bf16_back"},
    {4, {1, 2, 11, 15}, {13, 13}, {1, 1}, {6, 6}, false, TRP_F32, "planes 13_1", "pool_strip_f32_back"},
    {4, {1, 2, 30, 64}, {2, 2}, {2, 2}, {0, 0}, false, TRP_BF16, "words 2_2", "pool_strip_bf16_back"},
    {4, {1, 2, 9, 8}, {3, 3}, {1, 1}, {1, 1}, false, TRP_F16, "words 3_1", "pool_strip_f16_back"},
    {4, {3, 90, 7, 7}, {7, 7}, {7, 7}, {0, 0}, false, TRP_BF16, "whole", "pool_strip_bf16_back"},
    {4, {2, 70, 5, 5}, {5, 5}, {5, 5}, {0, 0}, false, TRP_F32, "whole", "pool_strip_f32_back"},
    {4, {1, 3, 6, 6}, {6, 6}, {2, 2}, {0, 0}, false, TRP_F16, "whole", "pool_strip_f16_back"},
    {4, {1, 1, 5, 3001}, {3, 3}, {1, 1}, {1, 1}, false, TRP_F32, "pool_typed_f32_1_forward", "pool_strip_f32_back"}, /* rows too wide for planes */
    {4, {1, 2, 9, 9}, {9, 9}, {1, 1}, {0, 0}, false, TRP_F64, "pool_warp_f64_1", "pool_back_f64_1"},
    /* bands of 16 KiB with idle threads, and none of 32 KiB */
    {4, {1, 64, 20, 416}, {3, 3}, {2, 2}, {0, 0}, false, TRP_F32, "pool_typed_f32_1_forward", "pool_strip_f32_back"},
    {4, {1, 64, 20, 832}, {3, 3}, {2, 2}, {0, 0}, false, TRP_F16, "pool_typed_f16_1_forward", "pool_strip_f16_back"},
};
/* clang-format on */

static uint32_t image(dp_problem *p, const pool_row *row, trp_dtype type, const int64_t *dim)
{
    const uint32_t number = dp_memory(p, type, row->rank, dim);
    trp_dnn_tensor *t = &p->tensor[number];
    int64_t next = 1;
    for (uint32_t i = row->rank; i-- > 0 && row->channels_last;) {
        if (i == 1)
            continue;
        t->stride[i] = next * dim[1];
        next *= dim[i];
    }
    if (row->channels_last)
        t->stride[1] = 1;
    return number;
}

static int64_t taps_of(const pool_row *row)
{
    int64_t taps = 1;
    for (uint32_t i = 0; i + 2 < row->rank; i++)
        taps *= row->window[i];
    return taps;
}

static void set_window(trp_dnn_node *n, const pool_row *row)
{
    for (uint32_t i = 0; i + 2 < row->rank; i++) {
        n->window[i] = row->window[i];
        n->stride[i] = row->stride[i];
        n->pre_pad[i] = n->post_pad[i] = row->pad[i];
    }
}

/* The kernel that runs forward; those of planes are named by what they find, too. */
static const char *forward_of(const pool_row *row, trp_dnn_resample mode, bool index, char name[64])
{
    const char *type = trp_dtype_name(row->type), *window = strchr(row->forward, ' ');
    const char *most = mode == TRP_DNN_POOL_MAX ? "max" : "mean";
    const bool whole = strcmp(row->forward, "whole") == 0;
    if (window && index && taps_of(row) > 128)
        return "pool_warp_f32_1"; /* those of planes write places of 8 bits */
    if (!window && !whole)
        return row->forward;
    if (whole && index)
        snprintf(name, 64, "pool_typed_%s_1_forward", type);
    else if (whole)
        snprintf(name, 64, "pool_whole_%s_%s", type, most);
    else if (index)
        snprintf(name, 64, "pool_places_%s_%s", type, window + 1);
    else
        snprintf(name, 64, "pool_%.*s_%s_%s_%s", (int)(window - row->forward), row->forward, type,
                 most, window + 1);
    return name;
}

/* `back`: 1 with an index, 2 from x. */
static void check_pool(const pool_row *row, trp_dnn_resample mode, int back, double special)
{
    trp_completion done = {0};
    trp_dnn_ran ran = {0};
    dp_problem p = {.kind = back ? "pool backward" : "pool", .packed = true};
    const bool most = mode == TRP_DNN_POOL_MAX, index = most && back < 2;
    /* Places in larger windows are i32, which one kernel reads. */
    const char *backward = most && taps_of(row) > 128 ? "pool_back_f32_1" : row->backward;
    char name[64];
    const char *forward = forward_of(row, mode, index, name);
    int64_t y[5] = {row->x[0], row->x[1]};
    for (uint32_t i = 0; i + 2 < row->rank; i++)
        y[2 + i] = (row->x[2 + i] + 2 * row->pad[i] - row->window[i]) / row->stride[i] + 1;
    trp_dnn_node *n = dp_node(&p, TRP_DNN_RESAMPLE_FORWARD);
    n->resample = mode;
    set_window(n, row);
    n->x = image(&p, row, row->type, row->x);
    n->y = image(&p, row, row->type, y);
    n->index = index ? image(&p, row, taps_of(row) > 128 ? TRP_I32 : TRP_I8, y) : 0;
    p.unknown[n->index] = true;
    p.fill[n->x] = special != 0 ? DP_FEW : row->type == TRP_BF16 ? DP_FEW : DP_ANY;
    trp_dnn_node *b = back ? dp_node(&p, TRP_DNN_RESAMPLE_BACKWARD) : NULL;
    if (b) {
        b->resample = mode;
        set_window(b, row);
        b->index = n->index;
        b->x = most && !index ? n->x : 0;
        b->y = most && !index ? n->y : 0;
        b->dy = image(&p, row, row->type, y);
        b->dx = image(&p, row, row->type, row->x);
    }
    dp_make(world.device, &p);
    if (special != 0) {
        double *v = dp_read(&p, n->x);
        int64_t count = 1;
        for (uint32_t i = 0; i < row->rank; i++)
            count *= row->x[i];
        for (int64_t i = 0; i < count; i++) {
            if (i % 23 == 7 || (special == -INFINITY && i < count / 2))
                v[i] = special;
        }
        dp_put(&p, n->x, v);
        free(v);
    }
    p.options.ran = &ran;
    dp_await(&p, dp_send(dnn, &p, &done), done);
    dp_compare(&p);
    if (!back)
        dp_expect_engine(&p, forward);
    else if (h_is_cuda() && !p.refused)
        H_CHECK(strcmp(ran.engine, forward) == 0 || strcmp(ran.engine, backward) == 0);
    dp_drop(&p);
}

static void pools(void)
{
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof pool_rows / sizeof *pool_rows; i++) {
        for (int mode = 0; mode < 3; mode++) {
            check_pool(&pool_rows[i], (trp_dnn_resample)mode, 0, 0);
            check_pool(&pool_rows[i], (trp_dnn_resample)mode, 1, 0);
        }
        check_pool(&pool_rows[i], TRP_DNN_POOL_MAX, 2, 0);
        check_pool(&pool_rows[i], TRP_DNN_POOL_MAX, i % 3 == 2 ? 2 : 0, i % 2 ? NAN : -INFINITY);
        check_pool(&pool_rows[i], TRP_DNN_POOL_AVERAGE, 0, INFINITY);
    }
    dp_close(&world);
}

H_CASES(H_CASE(pools))
