/* Nodes of the dnn actor that are larger than those of tests/conformance, and how a graph was run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_problem.h"
#include "support/label.h"

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all,alike",
                     "TROUPE_TEST_REGULAR=1");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

static void check(dp_problem *p)
{
    dp_check(world.device, dnn, p);
}

/* --- convolutions --- */

/* So large that the host gives them to oneDNN: in every pass. */
static void larger_convolutions(void)
{
    static const struct {
        uint32_t rank;
        int64_t x[5], w[5], y[5], pre_pad[3], post_pad[3], stride[3], dilation[3];
        trp_dtype type;
    } shapes[] = {
        {4,
         {1, 24, 27, 25},
         {33, 24, 3, 3},
         {1, 33, 27, 25},
         {1, 1},
         {1, 1},
         {1, 1},
         {1, 1},
         TRP_F32},
        {4,
         {2, 40, 31, 30},
         {60, 8, 5, 3},
         {2, 60, 15, 29},
         {2, 0},
         {1, 3},
         {2, 1},
         {1, 2},
         TRP_BF16},
        {5,
         {1, 12, 9, 10, 11},
         {20, 12, 3, 3, 3},
         {1, 20, 9, 9, 9},
         {1, 1, 0},
         {1, 0, 0},
         {1, 1, 1},
         {1, 1, 1},
         TRP_F32},
        {3, {2, 64, 181}, {65, 64, 3}, {2, 65, 181}, {1}, {1}, {1}, {1}, TRP_F16},
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < 3 * (H_SANITIZED ? 2 : COUNT_OF(shapes)); i++) {
        const trp_dnn_kind kind = (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + i % 3);
        const uint32_t rank = shapes[i / 3].rank;
        dp_problem p = {.kind = "larger convolution"};
        trp_dnn_node *n = dp_node(&p, kind);
        memcpy(n->pre_pad, shapes[i / 3].pre_pad, sizeof n->pre_pad);
        memcpy(n->post_pad, shapes[i / 3].post_pad, sizeof n->post_pad);
        memcpy(n->stride, shapes[i / 3].stride, sizeof n->stride);
        memcpy(n->dilation, shapes[i / 3].dilation, sizeof n->dilation);
        uint32_t *x = kind == TRP_DNN_CONV_BACKWARD_DATA ? &n->dx : &n->x;
        uint32_t *w = kind == TRP_DNN_CONV_BACKWARD_FILTER ? &n->dw : &n->w;
        uint32_t *y = kind == TRP_DNN_CONV_FORWARD ? &n->y : &n->dy;
        *x = dp_memory(&p, shapes[i / 3].type, rank, shapes[i / 3].x);
        *w = dp_memory(&p, shapes[i / 3].type, rank, shapes[i / 3].w);
        *y = dp_memory(&p, shapes[i / 3].type, rank, shapes[i / 3].y);
        check(&p);
    }
    dp_close(&world);
}

/* Padded more on one side, with channels that do not come in eights, or of several types: what
 * libraries take after a copy. In every pass, in rows and with channels last. */
static void convolutions_unlike(void)
{
    static const struct {
        uint32_t rank;
        int64_t x[5], w[5], y[5], pre_pad[3], post_pad[3], stride[3];
        trp_dtype read, written;
    } shapes[] = {
        {4,
         {2, 12, 17, 16},
         {20, 12, 3, 3},
         {2, 20, 9, 8},
         {1, 0},
         {1, 1},
         {2, 2},
         TRP_F16,
         TRP_F16},
        {4,
         {2, 3, 30, 31},
         {16, 3, 7, 7},
         {2, 16, 15, 16},
         {2, 3},
         {3, 3},
         {2, 2},
         TRP_BF16,
         TRP_BF16},
        {4,
         {1, 16, 14, 14},
         {8, 8, 2, 2},
         {1, 8, 14, 14},
         {1, 0},
         {0, 1},
         {1, 1},
         TRP_BF16,
         TRP_F32},
        {4,
         {3, 32, 9, 12},
         {48, 32, 3, 3},
         {3, 48, 9, 12},
         {1, 1},
         {1, 1},
         {1, 1},
         TRP_BF16,
         TRP_F16},
        {4,
         {2, 24, 15, 8},
         {10, 24, 1, 4},
         {2, 10, 17, 5},
         {2, 0},
         {0, 0},
         {1, 1},
         TRP_F32,
         TRP_F16},
        {3, {2, 40, 101}, {33, 40, 4}, {2, 33, 100}, {0}, {2}, {1}, TRP_F16, TRP_F16},
        {5,
         {1, 9, 6, 7, 8},
         {11, 9, 2, 3, 1},
         {1, 11, 6, 7, 9},
         {0, 1, 1},
         {1, 1, 0},
         {1, 1, 1},
         TRP_F16,
         TRP_F32},
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < 6 * (H_SANITIZED ? 2 : COUNT_OF(shapes)); i++) {
        const trp_dnn_kind kind = (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + i % 3);
        const trp_dtype read = shapes[i / 6].read, written = shapes[i / 6].written;
        const bool last = i / 3 % 2 == 1;
        dp_problem p = {.kind = "unlike convolution", .packed = last};
        trp_dnn_node *n = dp_node(&p, kind);
        memcpy(n->pre_pad, shapes[i / 6].pre_pad, sizeof n->pre_pad);
        memcpy(n->post_pad, shapes[i / 6].post_pad, sizeof n->post_pad);
        memcpy(n->stride, shapes[i / 6].stride, sizeof n->stride);
        uint32_t *x = kind == TRP_DNN_CONV_BACKWARD_DATA ? &n->dx : &n->x;
        uint32_t *w = kind == TRP_DNN_CONV_BACKWARD_FILTER ? &n->dw : &n->w;
        uint32_t *y = kind == TRP_DNN_CONV_FORWARD ? &n->y : &n->dy;
        const uint32_t rank = shapes[i / 6].rank;
        *x = dp_memory(&p, x == &n->dx ? written : read, rank, shapes[i / 6].x);
        *w = dp_memory(&p, w == &n->dw ? written : read, rank, shapes[i / 6].w);
        *y = dp_memory(&p, y == &n->y ? written : read, rank, shapes[i / 6].y);
        for (uint32_t t = 1; t <= p.tensors && last; t++)
            trp_dnn_channels_last(&p.tensor[t]);
        check(&p);
    }
    dp_close(&world);
}

/* 8-bit floats as libraries have kernels for: whole groups of channels, which are fastest. */
static void narrow(void)
{
    static const trp_dtype types[] = {TRP_F8E4M3, TRP_F8E5M2};
    world = dp_open(&dnn);
    for (int i = 0; i < 2; i++) {
        dp_problem p = {.kind = "conv of f8, channels last", .packed = true};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_CONV_FORWARD);
        const int64_t x[] = {2, 32, 7, 6}, w[] = {48, 32, 3, 3}, y[] = {2, 48, 5, 4};
        n->x = dp_memory(&p, types[i], 4, x);
        n->w = dp_memory(&p, types[i], 4, w);
        n->y = dp_memory(&p, i == 0 ? TRP_F32 : types[i], 4, y);
        for (uint32_t t = 1; t <= p.tensors; t++)
            trp_dnn_channels_last(&p.tensor[t]);
        check(&p);
    }
    for (int i = 0; i < 2; i++) {
        dp_problem p = {.kind = "matmul of f8", .packed = true};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_MATMUL);
        n->a = dp_memory(&p, types[0], 3, (const int64_t[]){2, 32, 64});
        n->b = dp_memory(&p, types[0], 3, (const int64_t[]){2, 64, 48});
        n->y = dp_memory(&p, i == 0 ? TRP_F32 : TRP_BF16, 3, (const int64_t[]){2, 32, 48});
        check(&p);
    }
    dp_close(&world);
}

/* Of which the host does not gather all at once, and a library may choose others than of small
 * ones.
 */
static void large_convolutions(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < (H_SANITIZED ? 3 : 6); i++) {
        dp_problem p = {.kind = "large convolution"};
        trp_dnn_node *n = dp_node(&p, (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + i % 3));
        const trp_dtype type = i < 3 ? TRP_F32 : TRP_F16;
        const int64_t side = dp_from(29, 33), channels = dp_from(22, 25);
        const int64_t x[] = {1, channels, 2 * side + 1, side}, w[] = {1, channels, 3, 5},
                      y[] = {1, 1, side, side};
        uint32_t image = dp_memory(&p, type, 4, x), filter = dp_memory(&p, type, 4, w);
        uint32_t out = dp_memory(&p, type, 4, y);
        *(i % 3 == 1 ? &n->dx : &n->x) = image;
        *(i % 3 == 2 ? &n->dw : &n->w) = filter;
        *(i % 3 == 0 ? &n->y : &n->dy) = out;
        n->pre_pad[1] = n->post_pad[1] = 2;
        n->stride[0] = 2;
        check(&p);
    }
    dp_close(&world);
}

/* An i8 says which of 128 elements was the largest, an i32 which of more. */
static void large_windows(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < 2; i++) {
        const int64_t rows = 8 + i, x[] = {1, 2, 3 * rows, 32}, y[] = {1, 2, 3, 2};
        dp_problem p = {.kind = "pool of large windows"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_RESAMPLE_FORWARD);
        trp_dnn_node *back = dp_node(&p, TRP_DNN_RESAMPLE_BACKWARD);
        trp_completion done = {0};
        n->x = dp_memory(&p, TRP_F32, 4, x);
        n->y = dp_memory(&p, TRP_F32, 4, y);
        n->index = dp_memory(&p, i == 0 ? TRP_I8 : TRP_I32, 4, y);
        p.unknown[n->index] = true;
        p.fill[n->x] = DP_DISTINCT;
        n->window[0] = n->stride[0] = rows;
        n->window[1] = n->stride[1] = 16;
        *back = *n;
        back->kind = TRP_DNN_RESAMPLE_BACKWARD;
        back->x = back->y = 0;
        back->dy = dp_memory(&p, TRP_F32, 4, y);
        back->dx = dp_memory(&p, TRP_F32, 4, x);
        dp_make(world.device, &p);
        p.tensor[n->index].type = TRP_I8;
        if (i > 0) {
            H_IS(dp_send(dnn, &p, &done), TRP_E_ARGUMENT);
            H_SAYS(
                "nodes[0].index (resample_forward): expected i32, for windows have more than 128 "
                "elements, got i8");
        }
        p.tensor[n->index].type = i == 0 ? TRP_I8 : TRP_I32;
        dp_compute(dnn, &p);
        dp_compare(&p);
        dp_drop(&p);
    }
    dp_close(&world);
}

/* The request reports how its graph was run. */
static void run_is_reported(void)
{
    world = dp_open(&dnn);
    for (int64_t n = 0; n < 2; n++) {
        dp_problem p = {.kind = "told"};
        trp_dnn_ran ran = {.parts = 77};
        trp_dnn_node *node = dp_node(&p, TRP_DNN_POINTWISE);
        node->x = dp_memory(&p, TRP_F32, 1, &n);
        node->y = dp_memory(&p, TRP_F32, 1, &n);
        p.options.ran = &ran;
        check(&p);
        H_CHECK(n == 0 ? ran.parts == 0 : ran.parts >= 1);
        H_CHECK(ran.engine[0] != '\0');
        if (!h_is_cuda())
            H_CHECK(strcmp(ran.engine, n == 0 ? "none" : "host") == 0);
    }
    dp_close(&world);
}

H_CASES(H_CASE(large_convolutions), H_CASE(larger_convolutions), H_CASE(convolutions_unlike),
        H_CASE(narrow), H_CASE(large_windows), H_CASE(run_is_reported))
