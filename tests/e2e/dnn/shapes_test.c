/* Convolutions of the shapes that PyTorch tests its own with, each in all passes and several types,
 * against the float64 reference. A transposed convolution is the gradient of the data.
 *
 * Source of the shapes: PyTorch, test/nn/test_convolution.py and
 * torch/testing/_internal/common_nn.py. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_problem.h"
#include "support/label.h"

TROUPE_TEST("one isolation");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* How tensors lie. */
typedef enum layout {
    ROWS,
    CHANNELS_LAST,  /* all three */
    MIXED,          /* the image with its channels last, the others in rows */
    EVERY_SECOND,   /* all three are every second element of rows twice as long */
    SECOND_OF_EACH, /* y: the second half of each image of twice the size */
    EVERY_SECOND_W, /* the filter alone, of rows twice as long */
    ONE_FILTER_TAP, /* all taps of the filter are one element, where it is read */
} layout;

/* One shape: of the image n, c and spatial sizes; filters, groups, and for each spatial dimension
 * window, stride (0: 1), padding in front and behind, and dilation (0: 1). */
typedef struct shape {
    const char *name;
    int rank;
    int64_t x[5], filters, groups;
    int64_t window[3], stride[3], pre[3], post[3], dilation[3];
    layout layout;
} shape;

/* clang-format off */
#define PAD1(p) {p}, {p}
#define PAD2(p) {p, p}, {p, p}
#define PAD3(p) {p, p, p}, {p, p, p}
#define NONE    {0}, {0}
#define ALL2(a) {a, a}
#define ALL3(a) {a, a, a}

static const shape shapes[] = {
    /* The modules' own. */
    {"Conv1d", 3, {2, 4, 10}, 5, 1, {3}, {0}, NONE, {0}, ROWS},
    {"Conv1d_stride", 3, {2, 4, 10}, 5, 1, {3}, {2}, NONE, {0}, ROWS},
    {"Conv1d_pad1", 3, {2, 4, 10}, 5, 1, {3}, {1}, PAD1(1), {0}, ROWS},
    {"Conv1d_pad2", 3, {2, 4, 10}, 5, 1, {5}, {1}, PAD1(2), {0}, ROWS},
    {"Conv1d_pad1size1", 3, {1, 4, 1}, 4, 1, {3}, {1}, PAD1(1), {0}, ROWS},
    {"Conv1d_pad2size1", 3, {1, 4, 1}, 4, 1, {5}, {1}, PAD1(2), {0}, ROWS},
    {"Conv1d_zero_batch", 3, {0, 4, 10}, 5, 1, {3}, {0}, NONE, {0}, ROWS},
    {"Conv1d_dilated", 3, {2, 4, 10}, 5, 1, {3}, {1}, NONE, {2}, ROWS},
    {"Conv1d_grouped", 3, {2, 4, 6}, 6, 2, {3}, {0}, NONE, {0}, ROWS},
    {"ConvTranspose1d", 3, {1, 4, 21}, 3, 1, {3}, {3}, PAD1(1), {0}, ROWS},
    {"ConvTranspose1d_groups", 3, {2, 6, 20}, 4, 2, {3}, {3}, PAD1(1), {0}, ROWS},
    {"ConvTranspose1d_dilated", 3, {1, 4, 22}, 3, 1, {3}, {3}, PAD1(1), {2}, ROWS},
    {"Conv2d", 4, {2, 3, 7, 5}, 4, 1, {3, 2}, {0}, NONE, {0}, ROWS},
    {"Conv2d_strided", 4, {2, 3, 6, 6}, 4, 1, {3, 3}, {2, 2}, NONE, {0}, ROWS},
    {"Conv2d_padding", 4, {2, 3, 6, 6}, 4, 1, {3, 3}, {2, 2}, PAD2(1), {0}, ROWS},
    {"Conv2d_dilated", 4, {2, 3, 8, 8}, 2, 1, {3, 3}, {2, 2}, PAD2(1), {2, 2}, ROWS},
    {"Conv2d_no_bias", 4, {2, 3, 6, 5}, 4, 1, {3, 2}, {1, 1}, NONE, {1, 1}, ROWS},
    {"Conv2d_zero_batch", 4, {0, 3, 7, 5}, 4, 1, {3, 2}, {0}, NONE, {0}, ROWS},
    {"Conv2d_groups", 4, {2, 4, 6, 5}, 6, 2, {3, 2}, {0}, NONE, {0}, ROWS},
    {"ConvTranspose2d", 4, {1, 4, 20, 11}, 3, 1, {3, 3}, {3, 2}, PAD2(1), {0}, ROWS},
    {"ConvTranspose2d_dilated", 4, {1, 4, 15, 21}, 3, 1, {3, 3}, {2, 3}, PAD2(1), {2, 2}, ROWS},
    {"ConvTranspose2d_groups", 4, {1, 4, 5, 7}, 2, 2, {2, 3}, {0}, NONE, {0}, ROWS},
    {"Conv2d_depthwise", 4, {2, 4, 6, 6}, 4, 4, {3, 3}, {0}, NONE, {0}, ROWS},
    {"Conv2d_depthwise_with_multiplier", 4, {2, 4, 6, 6}, 8, 4, {3, 3}, {0}, NONE, {0}, ROWS},
    {"Conv2d_depthwise_strided", 4, {2, 4, 6, 6}, 4, 4, {3, 3}, {2, 2}, NONE, {0}, ROWS},
    {"Conv2d_depthwise_padded", 4, {2, 4, 6, 6}, 4, 4, {3, 3}, {0}, PAD2(1), {0}, ROWS},
    {"Conv2d_depthwise_dilated", 4, {2, 4, 5, 5}, 4, 4, {2, 2}, {0}, NONE, {2, 2}, ROWS},
    {"Conv3d", 5, {1, 2, 4, 5, 4}, 3, 1, {2, 3, 2}, {0}, NONE, {0}, ROWS},
    {"Conv3d_1x1x1_no_bias", 5, {1, 2, 4, 5, 4}, 3, 1, {1, 1, 1}, {0}, NONE, {0}, ROWS},
    {"Conv3d_stride", 5, {2, 3, 5, 5, 5}, 4, 1, {2, 2, 2}, {2, 2, 2}, NONE, {0}, ROWS},
    {"Conv3d_stride_padding", 5, {2, 3, 5, 5, 5}, 4, 1, {2, 2, 2}, {2, 2, 2}, PAD3(1), {0}, ROWS},
    {"Conv3d_zero_batch", 5, {0, 3, 3, 4, 5}, 4, 1, {2, 3, 4}, {0}, NONE, {0}, ROWS},
    {"Conv3d_groups", 5, {1, 2, 4, 5, 4}, 4, 2, {2, 3, 2}, {0}, NONE, {0}, ROWS},
    {"Conv3d_dilated", 5, {2, 3, 5, 5, 5}, 4, 1, {2, 2, 2}, {0}, NONE, {2, 2, 2}, ROWS},
    {"Conv3d_dilated_strided", 5, {2, 3, 5, 5, 5}, 4, 1, {2, 2, 2}, {2, 2, 2}, NONE, {2, 2, 2},
     ROWS},
    {"ConvTranspose3d", 5, {1, 3, 5, 7, 5}, 2, 1, {2, 3, 2}, {0}, NONE, {0}, ROWS},
    {"ConvTranspose3d_dilated", 5, {1, 3, 6, 9, 6}, 2, 1, {2, 3, 2}, {0}, NONE, {2, 2, 2}, ROWS},
    /* Every stride, padding and dilation that a window of one meets. */
    {"strided_padded_dilated", 4, {1, 2, 4, 4}, 2, 1, {1, 1}, ALL2(2), NONE, {0}, ROWS},
    {"strided_padded_dilated", 4, {1, 2, 4, 4}, 2, 1, {1, 1}, ALL2(1), PAD2(1), {0}, ROWS},
    {"strided_padded_dilated", 4, {1, 2, 4, 4}, 2, 1, {1, 1}, ALL2(2), PAD2(1), {0}, ROWS},
    {"strided_padded_dilated", 5, {1, 2, 4, 4, 4}, 2, 1, {1, 1, 1}, ALL3(2), PAD3(1), {0}, ROWS},
    {"strided_padded_dilated", 5, {1, 2, 4, 4, 4}, 2, 1, {1, 1, 1}, ALL3(1), NONE, ALL3(2), ROWS},
    {"Conv2d_1x1", 4, {1, 2, 5, 5}, 2, 1, {1, 1}, {0}, NONE, {0}, ROWS},
    {"Conv2d_OneDNN", 4, {1, 24, 6, 6}, 24, 24, {3, 3}, ALL2(2), PAD2(1), {0}, ROWS},
    {"Conv2d_OneDNN", 4, {1, 23, 6, 6}, 23, 23, {3, 3}, ALL2(2), PAD2(1), ALL2(2), ROWS},
    {"Conv2d_OneDNN", 4, {1, 25, 6, 6}, 25, 25, {3, 3}, ALL2(2), PAD2(1), ALL2(2), ROWS},
    {"conv_shapecheck", 3, {3, 1, 2}, 1, 1, {2}, {2}, NONE, {0}, ROWS},
    {"conv_shapecheck", 3, {3, 1, 2}, 1, 1, {3}, {2}, PAD1(1), {0}, ROWS},
    {"conv_shapecheck", 5, {3, 1, 2, 2, 2}, 1, 1, {3, 3, 3}, {0}, PAD3(1), {0}, ROWS},
    {"ConvTranspose2d_output_size", 4, {2, 4, 18, 20}, 3, 1, {3, 3}, ALL2(3), NONE, {0}, ROWS},
    {"ConvTranspose2d_output_size", 4, {2, 4, 19, 18}, 3, 1, {3, 3}, ALL2(3), NONE, {0}, ROWS},
    {"downsample_upsample", 4, {2, 3, 13, 14}, 2, 1, {4, 4}, ALL2(3), PAD2(2), ALL2(3), ROWS},
    {"downsample_upsample", 4, {2, 3, 16, 15}, 2, 1, {2, 2}, ALL2(2), PAD2(1), ALL2(4), ROWS},
    /* The same size, so that what is around it is not the same on both sides. */
    {"conv1d_same_padding", 3, {1, 1, 12}, 1, 1, {3}, {0}, PAD1(1), {0}, ROWS},
    {"conv1d_same_padding", 3, {1, 1, 12}, 1, 1, {4}, {0}, {1}, {2}, {0}, ROWS},
    {"conv1d_same_padding", 3, {1, 1, 12}, 1, 1, {4}, {0}, {4}, {5}, {3}, ROWS},
    {"conv1d_same_padding", 3, {1, 1, 20}, 1, 1, {10}, {0}, {4}, {5}, {0}, ROWS},
    {"conv1d_same_padding", 3, {1, 1, 53}, 1, 1, {8}, {0}, {10}, {11}, {3}, ROWS},
    {"conv2d_same_padding", 4, {1, 1, 10, 11}, 1, 1, {4, 5}, {0}, {1, 2}, {2, 2}, {0}, ROWS},
    {"conv2d_same_padding", 4, {1, 1, 10, 11}, 1, 1, {3, 4}, {0}, {2, 3}, {2, 3}, ALL2(2), ROWS},
    {"conv2d_same_padding", 4, {1, 1, 10, 11}, 1, 1, {4, 4}, {0}, {4, 4}, {5, 5}, ALL2(3), ROWS},
    {"conv2d_same_padding", 4, {1, 1, 9, 20}, 1, 1, {5, 10}, {0}, {2, 4}, {2, 5}, {0}, ROWS},
    {"conv3d_same_padding", 5, {1, 1, 10, 11, 12}, 1, 1, {1, 2, 5}, {0}, {0, 0, 2}, {0, 1, 2}, {0},
     ROWS},
    {"conv3d_same_padding", 5, {1, 1, 10, 11, 12}, 1, 1, {4, 4, 4}, {0}, ALL3(4), ALL3(5), ALL3(3),
     ROWS},
    {"conv3d_same_padding", 5, {1, 1, 4, 4, 4}, 1, 1, {2, 3, 4}, {0}, {0, 1, 1}, {1, 1, 2}, {0},
     ROWS},
    /* Groups. */
    {"groups_nobias", 4, {2, 4, 6, 6}, 4, 2, {3, 3}, {0}, NONE, {0}, ROWS},
    {"groups_nobias_v2", 4, {2, 4, 6, 6}, 16, 2, {3, 3}, {0}, NONE, {0}, ROWS},
    {"Conv3d_groups_nobias", 5, {2, 4, 6, 6, 6}, 16, 2, {3, 3, 3}, {0}, NONE, {0}, ROWS},
    {"depthwise_naive_groups", 4, {2, 2, 6, 6}, 4, 2, {3, 3}, {0}, NONE, {0}, ROWS},
    {"depthwise_naive_groups", 5, {2, 2, 6, 6, 6}, 4, 2, {3, 3, 3}, {0}, NONE, {0}, ROWS},
    {"grouped_nhwc", 4, {16, 16, 8, 8}, 8, 4, {3, 3}, {0}, PAD2(1), {0}, CHANNELS_LAST},
    {"grad_conv2d", 4, {2, 8, 16, 16}, 16, 4, {5, 5}, ALL2(2), PAD2(2), ALL2(2), ROWS},
    {"conv3d_issue_120406", 5, {2, 3, 8, 9, 26}, 3, 3, {1, 1, 17}, {0}, NONE, {0}, ROWS},
    {"conv1d_issue_120547", 3, {1, 16, 1}, 16, 16, {32}, {0}, PAD1(16), {0}, MIXED},
    {"permute_issue_120211", 4, {1, 3, 33, 64}, 3, 3, {1, 41}, {0}, NONE, {0}, MIXED},
    /* What is not packed. */
    {"cudnn_non_contiguous", 3, {12, 16, 50}, 32, 1, {2}, {0}, NONE, {0}, MIXED},
    {"cudnn_not_mutate_stride", 4, {2, 64, 10, 10}, 64, 1, {1, 1}, {0}, NONE, {0}, MIXED},
    {"discontiguous_weight", 4, {4, 16, 16, 16}, 32, 1, {1, 1}, {0}, NONE, {0}, EVERY_SECOND_W},
    {"cudnn_noncontiguous_weight", 3, {1, 1, 3}, 1, 1, {2}, {2}, NONE, {2}, ONE_FILTER_TAP},
    {"noncontig_conv_grad", 4, {2, 3, 10, 10}, 5, 1, {3, 3}, {0}, PAD2(1), {0}, SECOND_OF_EACH},
    {"memory_layout", 4, {2, 8, 4, 4}, 4, 1, {3, 3}, {0}, NONE, {0}, CHANNELS_LAST},
    {"memory_layout", 4, {2, 8, 4, 4}, 4, 1, {3, 3}, {0}, NONE, {0}, MIXED},
    /* What it chooses a backend for: of each rank and layout, with groups and depthwise, also of no
     * images, and of no channels. */
    {"conv_backend", 3, {2, 6, 7}, 12, 3, {3}, {1}, NONE, {0}, EVERY_SECOND},
    {"conv_backend", 3, {2, 6, 7}, 12, 6, {3}, {2}, NONE, {2}, EVERY_SECOND},
    {"conv_backend", 4, {2, 6, 7, 8}, 12, 3, {3, 3}, ALL2(2), NONE, {0}, EVERY_SECOND},
    {"conv_backend", 4, {2, 6, 7, 8}, 12, 6, {3, 3}, ALL2(1), NONE, ALL2(2), EVERY_SECOND},
    {"conv_backend", 5, {2, 6, 7, 8, 9}, 12, 3, {3, 3, 3}, ALL3(2), NONE, ALL3(2), EVERY_SECOND},
    {"conv_backend", 5, {2, 6, 7, 8, 9}, 12, 6, {3, 3, 3}, ALL3(2), NONE, {0}, ROWS},
    {"empty_batch", 3, {0, 6, 7}, 12, 3, {3}, {2}, NONE, {0}, ROWS},
    {"empty_batch", 4, {0, 6, 7, 8}, 12, 3, {3, 3}, {0}, NONE, {0}, EVERY_SECOND},
    {"empty_batch", 5, {0, 6, 7, 8, 9}, 12, 3, {3, 3, 3}, {0}, NONE, {0}, ROWS},
    {"empty_channel", 3, {2, 0, 7}, 12, 1, {3}, {1}, NONE, {0}, ROWS},
    {"empty_channel", 4, {2, 0, 7, 8}, 12, 1, {3, 3}, ALL2(2), NONE, {0}, EVERY_SECOND},
    {"empty_channel", 5, {2, 0, 7, 8, 9}, 12, 1, {3, 3, 3}, {0}, NONE, {0}, ROWS},
    {"empty_batch_channel", 3, {0, 0, 7}, 12, 1, {3}, {1}, NONE, {0}, ROWS},
    {"empty_batch_channel", 4, {0, 0, 7, 8}, 12, 1, {3, 3}, {0}, NONE, {0}, ROWS},
    {"empty_batch_channel", 5, {0, 0, 7, 8, 9}, 12, 1, {3, 3, 3}, {0}, NONE, {0}, ROWS},
};
/* clang-format on */

static h_world world;
static trp_actor *dnn;

/* The strides of rows, the last of them `last` times as long. */
static void lay_rows(trp_dnn_tensor *t, int64_t last)
{
    int64_t next = last;
    for (uint32_t i = t->rank; i-- > 0; next *= t->dim[i] ? t->dim[i] : 1)
        t->stride[i] = next;
}

static void lay_out(dp_problem *p, layout how, uint32_t x, uint32_t w, uint32_t y, bool reads_w)
{
    trp_dnn_tensor *image = &p->tensor[x], *filter = &p->tensor[w], *result = &p->tensor[y];
    if (how == CHANNELS_LAST || how == MIXED)
        trp_dnn_channels_last(image);
    if (how == CHANNELS_LAST) {
        trp_dnn_channels_last(filter);
        trp_dnn_channels_last(result);
    }
    if (how == EVERY_SECOND) {
        lay_rows(image, 2);
        lay_rows(result, 2);
    }
    if (how == EVERY_SECOND || how == EVERY_SECOND_W)
        lay_rows(filter, 2);
    if (how == SECOND_OF_EACH) {
        lay_rows(result, 1);
        result->offset = (uint64_t)result->stride[0] * (trp_dtype_bits(result->type) / 8);
        result->stride[0] *= 2;
    }
    if (how == ONE_FILTER_TAP && reads_w) {
        lay_rows(filter, 1);
        for (uint32_t i = 2; i < filter->rank; i++)
            filter->stride[i] = 0;
    }
}

static void check(const shape *s, trp_dnn_kind kind, trp_dtype type)
{
    dp_problem p = {.kind = s->name, .packed = true};
    trp_dnn_node *n = dp_node(&p, kind);
    int64_t w[5] = {s->filters, s->x[1] / s->groups}, y[5] = {s->x[0], s->filters};
    for (int i = 0; i < s->rank - 2; i++) {
        const int64_t stride = s->stride[i] ? s->stride[i] : 1;
        const int64_t reach = (s->window[i] - 1) * (s->dilation[i] ? s->dilation[i] : 1) + 1;
        w[2 + i] = s->window[i];
        y[2 + i] = (s->x[2 + i] + s->pre[i] + s->post[i] - reach) / stride + 1;
        n->pre_pad[i] = s->pre[i];
        n->post_pad[i] = s->post[i];
        n->stride[i] = s->stride[i];
        n->dilation[i] = s->dilation[i];
    }
    const uint32_t rank = (uint32_t)s->rank;
    const bool data = kind == TRP_DNN_CONV_BACKWARD_DATA;
    const bool filter = kind == TRP_DNN_CONV_BACKWARD_FILTER;
    const uint32_t image = *(data ? &n->dx : &n->x) = dp_memory(&p, type, rank, s->x);
    const uint32_t taps = *(filter ? &n->dw : &n->w) = dp_memory(&p, type, rank, w);
    const uint32_t result = *(data || filter ? &n->dy : &n->y) = dp_memory(&p, type, rank, y);
    lay_out(&p, s->layout, image, taps, result, !filter);
    dp_check(world.device, dnn, &p);
}

static void all(void)
{
    static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_F16, TRP_BF16};
    world = dp_open(&dnn);
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (int kind = TRP_DNN_CONV_FORWARD; kind <= TRP_DNN_CONV_BACKWARD_FILTER; kind++) {
            for (size_t t = 0; t < (H_SANITIZED ? 1 : COUNT_OF(types)); t++)
                check(&shapes[i], (trp_dnn_kind)kind, types[t]);
        }
    }
    dp_close(&world);
}

H_CASES(H_CASE(all))
