/* See dnn_draw.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"

#include <math.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

trp_dtype dd_float(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32,  TRP_F32,    TRP_F16,
                                      TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2};
    return types[dp_below(COUNT_OF(types))];
}

/* Draws the type of a result, usually that of the input. */
trp_dtype dd_output(trp_dtype like)
{
    static const trp_dtype types[] = {TRP_F64,    TRP_F32,    TRP_F16, TRP_BF16,
                                      TRP_F8E4M3, TRP_F8E5M2, TRP_I8,  TRP_I32};
    return dp_below(2) ? like : types[dp_below(COUNT_OF(types))];
}

trp_dtype dd_wide(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(COUNT_OF(types))];
}

/* --- sizes --- */

/* A problem of users' sizes takes the reference some milliseconds. */
enum { LARGE = 60000, PRODUCTS = 1 << 20, LARGE_NORM = 16384, DISTINCT = 4000 };

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* From 1, each power of two with the same probability. */
static int64_t by_magnitude(int64_t most)
{
    return at_most((int64_t)exp2(ref_rng_uniform(h_rng(), 0, log2((double)most + 1))), most);
}

int64_t dd_channels(int64_t most)
{
    static const int64_t steps[] = {8, 16, 32, 64};
    const int64_t step = steps[dp_below(COUNT_OF(steps))];
    if (dp_below(3) == 0 || step > most)
        return by_magnitude(most);
    return step * by_magnitude(most / step);
}

int64_t dd_pixels(int64_t most)
{
    static const int64_t usual[] = {1, 7, 14, 28, 56, 112, 224};
    return dp_below(2) ? at_most(usual[dp_below(COUNT_OF(usual))], most) : by_magnitude(most);
}

int64_t dd_batch(int64_t most)
{
    return dp_below(2) ? at_most(INT64_C(1) << dp_below(7), most) : by_magnitude(most);
}

bool dd_as_users(void)
{
    return dp_below(H_SANITIZED ? 40 : 8) == 0;
}

void dd_fit(int64_t *dim, uint32_t rank, int64_t elements)
{
    for (;;) {
        int64_t count = 1;
        for (uint32_t i = 0; i < rank; i++)
            count *= dim[i];
        if (count <= elements)
            return;
        int64_t *one = &dim[dp_below(rank)];
        *one = *one > 1 ? *one / 2 : *one;
    }
}

void dd_dims(int64_t *dim, uint32_t rank, int64_t most, int64_t elements)
{
    const bool users = dd_as_users();
    for (uint32_t i = 0; i < rank; i++) {
        dim[i] = !users      ? dp_from(1, most)
                 : rank == 1 ? by_magnitude(elements)
                 : i == 0    ? dd_batch(64)
                 : i == 1    ? dd_channels(2048)
                             : dd_pixels(224);
    }
    if (users)
        dd_fit(dim, rank, elements);
}

/* --- convolutions --- */

typedef struct conv_size {
    int64_t images, groups, each, filters, pixels[3]; /* channels and filters of a group */
} conv_size;

static conv_size small_conv(int64_t most)
{
    conv_size s = {.groups = dp_below(3) ? 1 : dp_from(1, 4)};
    s.each = dp_below(4) ? dp_from(1, most) : 1;
    s.filters = dp_from(1, most);
    s.images = dp_below(12) ? dp_from(1, 2) : 0;
    return s;
}

/* Draws at most so many products, with filters of 3 in each direction. */
static conv_size users_conv(int64_t spatial)
{
    const bool depthwise = dp_below(4) == 0;
    conv_size s = {dd_batch(64),
                   1,
                   dd_channels(2048),
                   dd_channels(2048),
                   {dd_pixels(224), dd_pixels(224), dd_pixels(224)}};
    if (depthwise) {
        s.groups = s.each;
        s.each = s.filters = 1;
    } else if (dp_below(4) == 0) {
        s.groups = INT64_C(2) << dp_below(4);
    }
    int64_t *const all[] = {&s.images,    &s.groups,    &s.each,     &s.filters,
                            &s.pixels[0], &s.pixels[1], &s.pixels[2]};
    for (;;) {
        int64_t images = s.images * s.groups, taps = 1;
        for (int64_t i = 0; i < spatial; i++) {
            images *= s.pixels[i] + 2;
            taps *= 3;
        }
        if (images * s.filters * s.each * taps <= PRODUCTS && images * s.filters <= LARGE &&
            images * s.each <= LARGE && s.groups * s.each * s.filters * taps <= LARGE)
            return s;
        int64_t *one = all[dp_below((int64_t)COUNT_OF(all) - 3 + spatial)];
        *one = *one > 1 ? *one / 2 : *one;
    }
}

void dd_conv(dp_problem *p, trp_dnn_node *n, trp_dtype type, int64_t most)
{
    const int64_t spatial = dp_from(1, 3);
    const bool users = dd_as_users(), i8 = type == TRP_I8;
    const conv_size size = users ? users_conv(spatial) : small_conv(most);
    const int64_t groups = size.groups, each = size.each, filters = size.filters;
    int64_t x[TRP_DNN_RANK_MAX] = {size.images, groups * each};
    int64_t w[TRP_DNN_RANK_MAX] = {groups * filters, each};
    int64_t y[TRP_DNN_RANK_MAX] = {0};
    const uint32_t rank = (uint32_t)spatial + 2;
    y[0] = x[0];
    y[1] = w[0];
    n->flip = dp_below(3) == 0;
    for (int64_t i = 0; i < spatial; i++) {
        int64_t stride = dp_from(1, 3), dilation = dp_from(1, 2);
        w[2 + i] = dp_from(1, 3);
        n->pre_pad[i] = dp_below(3);
        n->post_pad[i] = dp_below(3);
        int64_t reach = (w[2 + i] - 1) * dilation + 1, pads = n->pre_pad[i] + n->post_pad[i];
        x[2 + i] = users ? size.pixels[i] : dp_from(1, spatial == 3 ? 4 : 6);
        x[2 + i] = x[2 + i] + pads < reach ? reach - pads : x[2 + i];
        y[2 + i] = (x[2 + i] + pads - reach) / stride + 1;
        n->stride[i] = stride == 1 && dp_below(2) ? 0 : stride;
        n->dilation[i] = dilation == 1 && dp_below(2) ? 0 : dilation;
    }
    const trp_dtype fp8 = type == TRP_F8E4M3 && dp_below(2) ? TRP_F8E5M2 : type;
    bool forward = n->kind == TRP_DNN_CONV_FORWARD, data = n->kind == TRP_DNN_CONV_BACKWARD_DATA;
    if (i8)
        n->compute = dp_below(4) ? TRP_I32 : TRP_F32;
    trp_dtype to = i8 && dp_below(2) ? TRP_I32 : dd_output(type);
    if (type == TRP_F16 && dp_below(4) == 0)
        n->compute = dp_below(2) ? TRP_F64 : TRP_F32;
    if (forward) {
        n->x = dp_memory(p, type, rank, x);
        n->w = dp_memory(p, fp8, rank, w);
        n->y = dp_memory(p, to, rank, y);
    } else if (data) {
        n->dy = dp_memory(p, type, rank, y);
        n->w = dp_memory(p, fp8, rank, w);
        n->dx = dp_memory(p, to, rank, x);
    } else {
        n->dy = dp_memory(p, type, rank, y);
        n->x = dp_memory(p, fp8, rank, x);
        n->dw = dp_memory(p, to, rank, w);
    }
}

/* --- activations --- */

void dd_parameters(trp_dnn_node *n)
{
    switch (n->pointwise) {
    case TRP_DNN_RELU: /* f8 has no such activations: a gradient has no value at a clip */
        if (dp_below(2))
            n->parameter[0] = trp_real(ref_rng_uniform(h_rng(), -0.9, 0.4));
        if (dp_below(2))
            n->parameter[1] = trp_real(ref_rng_uniform(h_rng(), 0.5, 1.9));
        if (dp_below(2))
            n->parameter[2] = trp_real(ref_rng_uniform(h_rng(), 0, 0.5));
        return;
    case TRP_DNN_ELU:
    case TRP_DNN_SOFTPLUS:
    case TRP_DNN_SWISH:
        if (dp_below(2))
            n->parameter[0] = trp_real(ref_rng_uniform(h_rng(), 0.3, 2.5));
        return;
    default:
        return;
    }
}

uint32_t dd_then(dp_problem *p, trp_dnn_pointwise mode, uint32_t x, uint32_t b, trp_dtype type)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = mode;
    n->x = x;
    n->b = b;
    return n->y = dp_virtual(p, type);
}

trp_dnn_node *dd_activate(dp_problem *p, uint32_t x, uint32_t y)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = (trp_dnn_pointwise)dp_from(TRP_DNN_RELU, TRP_DNN_SWISH);
    dd_parameters(n);
    n->x = x;
    n->y = y;
    p->layer.activation.mode = n->pointwise;
    memcpy(p->layer.activation.parameter, n->parameter, sizeof n->parameter);
    return n;
}

/* --- pooling --- */

static uint32_t draw_windows(trp_dnn_node *n, int64_t *x, int64_t *y)
{
    const int64_t spatial = dp_from(1, 3);
    const bool users = dd_as_users();
    int64_t size[2 + TRP_DNN_SPATIAL_MAX] = {dd_batch(64), dd_channels(2048), dd_pixels(224),
                                             dd_pixels(224), dd_pixels(224)};
    n->round_up = dp_below(3) == 0;
    dd_fit(size, (uint32_t)spatial + 2, DISTINCT / 2); /* windows may enlarge it */
    x[0] = y[0] = users ? size[0] : dp_below(12) ? dp_from(1, 3) : 0;
    x[1] = y[1] = users ? size[1] : dp_from(1, 4);
    for (int64_t i = 0; i < spatial; i++) {
        int64_t window = dp_from(1, 3), stride = dp_from(1, 3);
        n->window[i] = window;
        n->stride[i] = stride == 1 && dp_below(2) ? 0 : stride;
        n->pre_pad[i] = dp_below(window);
        n->post_pad[i] = dp_below(window);
        int64_t pads = n->pre_pad[i] + n->post_pad[i];
        x[2 + i] = users ? size[2 + i] : dp_from(1, 6);
        x[2 + i] = x[2 + i] + pads < window ? window - pads : x[2 + i];
        y[2 + i] = (x[2 + i] + pads - window) / stride + 1;
        const int64_t up = (x[2 + i] + pads - window + stride - 1) / stride + 1;
        if (n->round_up && (up - 1) * stride < x[2 + i] + n->pre_pad[i])
            y[2 + i] = up;
    }
    return (uint32_t)spatial + 2;
}

void dd_pool(dp_problem *p, trp_dtype type, bool index)
{
    int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_RESAMPLE_FORWARD);
    uint32_t rank = draw_windows(n, x, y);
    n->x = dp_memory(p, type, rank, x);
    n->y = dp_memory(p, index ? type : dd_output(type), rank, y);
    const trp_dtype places = dp_below(2) ? TRP_I8 : TRP_I32;
    if (index && dp_below(2))
        n->index = dp_memory(p, places, rank, y);
    else if (index)
        n->index = dp_virtual(p, places);
    p->unknown[n->index] = n->index != 0;
}

/* --- normalisation --- */

/* Sets dimensions of x, of statistics and of scale; LAYER and RMS may leave out the first ones. */
static uint32_t norm_dims(trp_dnn_norm norm, int64_t *x, int64_t *cells, int64_t *scale)
{
    const uint32_t rank = (uint32_t)dp_from(norm == TRP_DNN_INSTANCE ? 3 : 2, 5);
    const bool inner = norm == TRP_DNN_LAYER || norm == TRP_DNN_RMS;
    const uint32_t first = inner && dp_below(3) == 0 ? (uint32_t)dp_from(1, rank - 1) : 1;
    const bool users = dd_as_users();
    for (uint32_t i = 0; i < rank; i++)
        x[i] = i == 0 ? dd_batch(64) : i == 1 || inner ? dd_channels(2048) : dd_pixels(224);
    dd_fit(x, rank, LARGE_NORM);
    for (uint32_t i = 0; i < rank; i++) {
        bool over = inner ? i >= first : norm == TRP_DNN_BATCH ? i != 1 : i >= 2;
        x[i] = users ? (x[i] < 2 ? 2 : x[i]) : dp_from(2, i == 0 ? 3 : 5);
        cells[i] = over ? 1 : x[i];
        scale[i] = (inner ? over : i == 1) ? x[i] : 1;
    }
    return rank;
}

static uint32_t one_number(dp_problem *p, trp_dtype type, double value)
{
    static const int64_t ones[TRP_DNN_RANK_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (dp_below(4))
        return dp_value(p, value);
    uint32_t t = dp_memory(p, type, (uint32_t)dp_from(1, 4), ones);
    p->fill[t] = DP_POSITIVE;
    return t;
}

void dd_training(dp_problem *p, trp_dtype type, trp_dnn_norm norm, bool gradient)
{
    int64_t x[TRP_DNN_RANK_MAX], cells[TRP_DNN_RANK_MAX], scale[TRP_DNN_RANK_MAX];
    const trp_dtype sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dtype parameters = dp_below(2) ? type : sums;
    trp_dnn_node *n = dp_node(p, TRP_DNN_NORM_TRAINING);
    const uint32_t rank = norm_dims(norm, x, cells, scale);
    n->norm = norm;
    n->x = dp_memory(p, type, rank, x);
    n->scale = dp_memory(p, parameters, rank, scale);
    p->repeated[n->scale] = dp_below(6) == 0; /* its gradient is not repeated */
    if (norm != TRP_DNN_RMS && dp_below(4))
        n->bias = dp_memory(p, parameters, rank, scale);
    n->epsilon = one_number(p, sums, pow(10, -(double)dp_from(1, 5)));
    n->y = dp_memory(p, type, rank, x);
    if (norm != TRP_DNN_RMS)
        n->mean = dp_memory(p, sums, rank, cells);
    n->inv_variance = dp_memory(p, sums, rank, cells);
    if (norm == TRP_DNN_BATCH && dp_below(2)) {
        n->running_mean = dp_memory(p, sums, rank, cells);
        n->running_variance = dp_memory(p, sums, rank, cells);
        p->fill[n->running_variance] = DP_POSITIVE;
        n->average_factor = dp_value(p, ref_rng_uniform(h_rng(), 0.05, 0.95));
        n->new_running_mean = dp_memory(p, sums, rank, cells);
        n->new_running_variance = dp_memory(p, sums, rank, cells);
    }
    if (!gradient)
        return;
    trp_dnn_node *back = dp_node(p, TRP_DNN_NORM_BACKWARD);
    back->norm = norm;
    back->x = n->x;
    back->scale = n->scale;
    back->mean = n->mean;
    back->inv_variance = n->inv_variance;
    back->dy = dp_memory(p, type, rank, x);
    back->dx = dp_memory(p, type, rank, x);
    back->dscale = dp_memory(p, parameters, rank, scale);
    if (norm != TRP_DNN_RMS)
        back->dbias = dp_memory(p, parameters, rank, scale);
}

void dd_inference(dp_problem *p, trp_dtype type, trp_dnn_norm norm)
{
    const trp_dtype sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    int64_t x[TRP_DNN_RANK_MAX], cells[TRP_DNN_RANK_MAX], scale[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_NORM_INFERENCE);
    const uint32_t rank = norm_dims(norm, x, cells, scale);
    n->norm = norm;
    n->x = dp_memory(p, type, rank, x);
    n->scale = dp_memory(p, sums, rank, scale);
    if (norm != TRP_DNN_RMS && dp_below(4))
        n->bias = dp_memory(p, sums, rank, scale);
    n->y = dp_memory(p, dd_output(type), rank, x);
    if (norm == TRP_DNN_BATCH) {
        n->mean = dp_memory(p, sums, rank, cells);
        n->inv_variance = dp_memory(p, sums, rank, cells);
        p->fill[n->inv_variance] = DP_POSITIVE;
    } else {
        n->epsilon = one_number(p, sums, 1e-3);
    }
}

/* --- random numbers --- */

static uint32_t draw_word(dp_problem *p)
{
    static const int64_t ones[TRP_DNN_RANK_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (dp_below(2))
        return dp_memory(p, TRP_I64, (uint32_t)dp_from(1, 4), ones);
    uint32_t t = dp_value(p, (double)dp_below(INT64_C(1) << 53));
    if (dp_below(3)) {
        uint64_t whole;
        h_random_bytes(h_rng(), &whole, sizeof whole);
        p->tensor[t] = trp_dnn_integer(whole);
    }
    return t;
}

trp_dnn_node *dd_random(dp_problem *p, trp_dnn_random random)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_RANDOM);
    const double low = ref_rng_uniform(h_rng(), -2, 2);
    n->random = random;
    n->seed = draw_word(p);
    if (dp_below(2))
        n->offset = draw_word(p);
    if (dp_below(3) == 0)
        return n;
    n->parameter[0] = trp_real(random == TRP_DNN_BERNOULLI ? fabs(low) / 2 : low);
    if (random == TRP_DNN_UNIFORM)
        n->parameter[1] = trp_real(low + ref_rng_uniform(h_rng(), 0.9, 3));
    if (random == TRP_DNN_NORMAL)
        n->parameter[1] = trp_real(ref_rng_uniform(h_rng(), 0, 3));
    return n;
}

/* --- blocks with scales --- */

uint32_t dd_scale_of(dp_problem *p, trp_dtype type, const trp_dnn_node *n, uint32_t x)
{
    const uint32_t block = n->block ? n->block : 32;
    int64_t dim[TRP_DNN_RANK_MAX];
    memcpy(dim, p->tensor[x].dim, sizeof dim);
    dim[n->axis] = (dim[n->axis] + block - 1) / block;
    return dp_memory(p, type, p->tensor[x].rank, dim);
}
