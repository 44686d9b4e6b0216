/* Convolutions of i8 as libraries have kernels for, channels last and in whole groups: their sums
 * as they are, in other types, and scaled to i8 again; and in vectors of channels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <string.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all");

static h_world world;
static trp_actor *dnn;

/* A convolution whose y is still to be given; its dimensions. */
static trp_dnn_node *draw_conv(dp_problem *p, int64_t y[4])
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONV_FORWARD);
    const int64_t side = dp_from(3, 8), channels = 16 * dp_from(1, 3), taps = dp_from(1, 3);
    const int64_t x[] = {dp_from(1, 2), channels, side, side + 1};
    const int64_t w[] = {16 * dp_from(1, 3), channels, taps, taps};
    p->packed = true;
    n->compute = TRP_I32;
    n->x = dp_memory(p, TRP_I8, 4, x);
    n->w = dp_memory(p, TRP_I8, 4, w);
    p->fill[n->x] = p->fill[n->w] = DP_WIDE;
    y[0] = x[0];
    y[1] = w[0];
    for (int i = 0; i < 2; i++) {
        n->stride[i] = dp_from(1, 2);
        n->pre_pad[i] = dp_below(2);
        n->post_pad[i] = dp_below(2);
        y[2 + i] = (x[2 + i] + n->pre_pad[i] + n->post_pad[i] - taps) / n->stride[i] + 1;
    }
    return n;
}

static void send(dp_problem *p)
{
    for (uint32_t t = 1; t <= p->tensors; t++) {
        if (p->memory[t])
            trp_dnn_channels_last(&p->tensor[t]);
    }
    dp_check(world.device, dnn, p);
}

static void sums(void)
{
    static const trp_dtype types[] = {TRP_I32, TRP_F32, TRP_I8, TRP_BF16, TRP_U8};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(10); i++) {
        dp_problem p = {.kind = "conv of i8, channels last"};
        int64_t y[4];
        trp_dnn_node *n = draw_conv(&p, y);
        n->y = dp_memory(&p, types[i % 5], 4, y);
        send(&p);
    }
    dp_close(&world);
}

/* A power of two, so that a product is as exact as it is in f64; then i8 again. */
static void scaled(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(5); i++) {
        dp_problem p = {.kind = "conv of i8, scaled"};
        int64_t y[4];
        const uint32_t sum = draw_conv(&p, y)->y = dp_virtual(&p, TRP_DTYPE_NONE);
        trp_dnn_node *n = dp_node(&p, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_MUL;
        n->x = sum;
        n->b = dp_value(&p, 0x1p-8);
        const uint32_t less = n->y = dp_virtual(&p, TRP_F32);
        n = dp_node(&p, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_RELU;
        n->x = less;
        n->y = dp_memory(&p, TRP_I8, 4, y);
        send(&p);
    }
    dp_close(&world);
}

/* A tensor of these dimensions whose channels lie in vectors of `width` that are fastest, as cuDNN
 * has them for i8 (NCHW_VECT_C): by its strides, a dimension for the vectors and one in them. */
static uint32_t vectors(dp_problem *p, trp_dtype type, const int64_t dim[4], int64_t width)
{
    const int64_t pixels = dim[2] * dim[3];
    const int64_t parts[] = {dim[0], dim[1] / width, width, dim[2], dim[3]};
    const int64_t stride[] = {dim[1] * pixels, width * pixels, 1, width * dim[3], width};
    const uint32_t t = dp_memory(p, type, 5, parts);
    memcpy(p->tensor[t].stride, stride, sizeof stride);
    return t;
}

static uint32_t whole(dp_problem *p, trp_dtype type, const int64_t dim[4])
{
    const uint32_t t = dp_virtual(p, type);
    p->tensor[t].rank = 4;
    memcpy(p->tensor[t].dim, dim, 4 * sizeof *dim);
    return t;
}

/* One graph: the vectors are channels again by a reshape, for x and w, and for y before it is
 * written. */
static void in_vectors(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(8); i++) {
        dp_problem p = {.kind = "conv of i8, channels in vectors", .packed = true};
        const int64_t width = i % 2 ? 32 : 4, side = dp_from(3, 6);
        const int64_t x[] = {dp_from(1, 2), width * dp_from(1, 2), side, side + 1};
        const int64_t w[] = {width * dp_from(1, 2), x[1], 3, 3};
        const int64_t y[] = {x[0], w[0], x[2], x[3]};
        const trp_dtype type = i % 4 < 2 ? TRP_F32 : TRP_I8;
        const uint32_t memory[] = {vectors(&p, TRP_I8, x, width), vectors(&p, TRP_I8, w, width)};
        const uint32_t given[] = {whole(&p, TRP_I8, x), whole(&p, TRP_I8, w)};
        const uint32_t sum = whole(&p, type, y);
        for (int k = 0; k < 2; k++) {
            trp_dnn_node *n = dp_node(&p, TRP_DNN_RESHAPE);
            n->x = memory[k];
            n->y = given[k];
            p.fill[memory[k]] = DP_WIDE;
        }
        trp_dnn_node *n = dp_node(&p, TRP_DNN_CONV_FORWARD);
        n->compute = TRP_I32;
        n->x = given[0];
        n->w = given[1];
        n->y = sum;
        n->pre_pad[0] = n->pre_pad[1] = n->post_pad[0] = n->post_pad[1] = 1;
        n = dp_node(&p, TRP_DNN_RESHAPE);
        n->x = sum;
        n->y = vectors(&p, type, y, width);
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

H_CASES(H_CASE(sums), H_CASE(scaled), H_CASE(in_vectors))
