/* Every kind of node of the dnn actor, of every type and layout, against a float64 reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/dnn_problem.h"

#include <math.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

static void open_world(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
}

static void close_world(void)
{
    dp_print_table();
    h_close(&world);
}

static void check(dp_problem *p)
{
    dp_check(world.device, dnn, p);
}

static trp_dtype draw_float(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32,  TRP_F32,    TRP_F16,
                                      TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2};
    return types[dp_below(COUNT_OF(types))];
}

/* Of a result: mostly that of what was read. */
static trp_dtype draw_output(trp_dtype like)
{
    static const trp_dtype types[] = {TRP_F64,    TRP_F32,    TRP_F16, TRP_BF16,
                                      TRP_F8E4M3, TRP_F8E5M2, TRP_I8,  TRP_I32};
    return dp_below(2) ? like : types[dp_below(COUNT_OF(types))];
}

/* --- convolutions --- */

static void draw_conv(dp_problem *p, trp_dnn_node *n, trp_dtype type, int64_t most)
{
    const int64_t spatial = dp_from(1, 3), groups = dp_below(3) ? 1 : dp_from(1, 4);
    const bool depthwise = dp_below(4) == 0, i8 = type == TRP_I8;
    int64_t each = depthwise ? 1 : dp_from(1, most), filters = dp_from(1, most);
    int64_t x[TRP_DNN_RANK_MAX] = {dp_from(1, 2), groups * each};
    int64_t w[TRP_DNN_RANK_MAX] = {groups * filters, each};
    int64_t y[TRP_DNN_RANK_MAX] = {0};
    const uint32_t rank = (uint32_t)spatial + 2;
    x[0] = dp_below(12) ? x[0] : 0;
    y[0] = x[0];
    y[1] = w[0];
    n->flip = dp_below(3) == 0;
    for (int64_t i = 0; i < spatial; i++) {
        int64_t stride = dp_from(1, 3), dilation = dp_from(1, 2);
        w[2 + i] = dp_from(1, 3);
        n->pre_pad[i] = dp_below(3);
        n->post_pad[i] = dp_below(3);
        int64_t reach = (w[2 + i] - 1) * dilation + 1, pads = n->pre_pad[i] + n->post_pad[i];
        x[2 + i] = dp_from(1, spatial == 3 ? 4 : 6);
        x[2 + i] = x[2 + i] + pads < reach ? reach - pads : x[2 + i];
        y[2 + i] = (x[2 + i] + pads - reach) / stride + 1;
        n->stride[i] = stride == 1 && dp_below(2) ? 0 : stride;
        n->dilation[i] = dilation == 1 && dp_below(2) ? 0 : dilation;
    }
    const trp_dtype fp8 = type == TRP_F8E4M3 && dp_below(2) ? TRP_F8E5M2 : type;
    bool forward = n->kind == TRP_DNN_CONV_FORWARD, data = n->kind == TRP_DNN_CONV_BACKWARD_DATA;
    if (i8)
        n->compute = dp_below(4) ? TRP_I32 : TRP_F32;
    trp_dtype to = i8 && dp_below(2) ? TRP_I32 : draw_output(type);
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

static void convolutions(void)
{
    static const char *const names[] = {"conv_forward", "conv_backward_data",
                                        "conv_backward_filter"};
    open_world();
    for (int i = 0; i < dp_rounds(H_SANITIZED ? 60 : 120); i++) {
        int kind = i % 3;
        dp_problem p = {.kind = names[kind]};
        trp_dnn_node *n = dp_node(&p, (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + kind));
        bool i8 = kind == 0 && dp_below(6) == 0;
        draw_conv(&p, n, i8 ? TRP_I8 : draw_float(), i % 10 == 0 ? 7 : 3);
        if (n->compute == TRP_I32)
            p.kind = "conv_forward of i32";
        check(&p);
    }
    close_world();
}

/* --- matmul --- */

static void products(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(60); i++) {
        bool i8 = i % 6 == 0;
        dp_problem p = {.kind = i8 ? "matmul of i32" : "matmul"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_MATMUL);
        const uint32_t rank = (uint32_t)dp_from(2, 5);
        int64_t a[TRP_DNN_RANK_MAX], b[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
        for (uint32_t k = 0; k < rank - 2; k++) {
            int64_t size = dp_below(12) ? dp_from(1, 3) : 0, which = dp_below(4);
            y[k] = size;
            a[k] = which == 1 && size > 0 ? 1 : size;
            b[k] = which == 2 && size > 0 ? 1 : size;
        }
        y[rank - 2] = a[rank - 2] = dp_below(15) ? dp_from(1, 17) : 0;
        y[rank - 1] = b[rank - 1] = dp_below(15) ? dp_from(1, 17) : 0;
        a[rank - 1] = b[rank - 2] = dp_below(15) ? dp_from(1, 17) : 0;
        trp_dtype type = i8 ? TRP_I8 : draw_float();
        n->compute = i8 ? TRP_I32 : TRP_DTYPE_NONE;
        n->a = dp_memory(&p, type, rank, a);
        n->b = dp_memory(&p, type, rank, b);
        n->y = dp_memory(&p, i8 && dp_below(2) ? TRP_I32 : draw_output(type), rank, y);
        check(&p);
    }
    close_world();
}

/* --- pointwise --- */

static trp_dnn_pointwise mode_of(int i)
{
    return (trp_dnn_pointwise)(i % (TRP_DNN_SWISH + 1));
}

/* What x and b must hold, that the function has a value there and is not too steep. */
static dp_fill fill_of(trp_dnn_pointwise mode, bool x)
{
    switch (mode) {
    case TRP_DNN_LOG:
    case TRP_DNN_SQRT:
    case TRP_DNN_RSQRT:
        return DP_POSITIVE;
    case TRP_DNN_POW:
        return x ? DP_POSITIVE : DP_ANY;
    case TRP_DNN_DIV:
    case TRP_DNN_MOD:
        return x ? DP_ANY : DP_AWAY;
    case TRP_DNN_RECIPROCAL:
    case TRP_DNN_ATAN2:
        return DP_AWAY;
    default:
        if (mode >= TRP_DNN_EQUAL && mode <= TRP_DNN_NOT)
            return DP_FEW;
        return mode >= TRP_DNN_RELU ? DP_AWAY : DP_ANY;
    }
}

static void draw_parameters(trp_dnn_node *n)
{
    switch (n->pointwise) {
    case TRP_DNN_RELU: /* f8 has none of these: at a clip a gradient has no value */
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

/* Tangents and powers of integers get too large, and i8 has no value near 0 for the rest. */
static trp_dtype draw_input(trp_dnn_pointwise mode)
{
    static const trp_dtype all[] = {TRP_I8, TRP_U8, TRP_I32, TRP_BOOL};
    bool any = mode <= TRP_DNN_MAX || (mode >= TRP_DNN_EQUAL && mode <= TRP_DNN_SELECT);
    bool zero = mode == TRP_DNN_DIV;
    return any && !zero && dp_below(3) == 0 ? all[dp_below(COUNT_OF(all))] : draw_float();
}

static void draw_pointwise(dp_problem *p, trp_dnn_node *n)
{
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    const int inputs = dr_inputs(n->pointwise);
    trp_dtype type = draw_input(n->pointwise);
    uint32_t *fields[] = {&n->x, &n->b, &n->t};
    int64_t y[TRP_DNN_RANK_MAX], dim[TRP_DNN_RANK_MAX];
    for (uint32_t k = 0; k < rank; k++)
        y[k] = dp_below(25) ? dp_from(1, 5) : 0;
    for (int i = 0; i < inputs; i++) {
        bool value = i == 1 && dp_below(4) == 0, whole = i == 0 || dp_below(2);
        for (uint32_t k = 0; k < rank; k++)
            dim[k] = whole || dp_below(2) ? y[k] : 1;
        *fields[i] = value ? dp_value(p, ref_rng_uniform(h_rng(), 0.3, 2))
                           : dp_memory(p, i == 2 ? TRP_BOOL : type, rank, dim);
        p->fill[*fields[i]] = i == 2 ? DP_FEW : fill_of(n->pointwise, i == 0);
    }
    bool truth = n->pointwise >= TRP_DNN_EQUAL && n->pointwise <= TRP_DNN_NOT;
    n->y = dp_memory(p, truth && dp_below(2) ? TRP_BOOL : draw_output(type), rank, y);
    draw_parameters(n);
}

static void pointwise(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(4 * (TRP_DNN_SWISH + 1)); i++) {
        trp_dnn_pointwise mode = mode_of(i);
        dp_problem p = {.kind = mode >= TRP_DNN_RELU    ? "activation"
                                : mode >= TRP_DNN_EQUAL ? "comparison"
                                : mode >= TRP_DNN_ABS   ? "function"
                                                        : "arithmetic"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_POINTWISE);
        n->pointwise = mode;
        draw_pointwise(&p, n);
        check(&p);
    }
    close_world();
}

static void activation_gradients(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(5 * (TRP_DNN_SWISH + 1 - TRP_DNN_RELU)); i++) {
        dp_problem p = {.kind = "pointwise_backward"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_POINTWISE_BACKWARD);
        const uint32_t rank = (uint32_t)dp_from(1, 5);
        trp_dtype type = draw_float();
        int64_t dim[TRP_DNN_RANK_MAX];
        for (uint32_t k = 0; k < rank; k++)
            dim[k] = dp_from(1, 5);
        n->pointwise = (trp_dnn_pointwise)(TRP_DNN_RELU + i % (TRP_DNN_SWISH + 1 - TRP_DNN_RELU));
        draw_parameters(n);
        n->x = dp_memory(&p, type, rank, dim);
        n->dy = dp_memory(&p, type, rank, dim);
        n->dx = dp_memory(&p, draw_output(type), rank, dim);
        p.fill[n->x] = DP_AWAY;
        check(&p);
    }
    close_world();
}

/* --- reductions --- */

static void reductions(void)
{
    static const char *const names[] = {"sum",  "mean",  "least", "most",
                                        "amax", "norm1", "norm2", "product"};
    open_world();
    for (int i = 0; i < dp_rounds(80); i++) {
        trp_dnn_reduce mode = (trp_dnn_reduce)(i % 8);
        dp_problem p = {.kind = names[mode]};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_REDUCTION);
        const uint32_t rank = (uint32_t)dp_from(1, 5);
        bool sum = mode == TRP_DNN_SUM || mode == TRP_DNN_NORM1;
        int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
        for (uint32_t k = 0; k < rank; k++) {
            x[k] = sum && dp_below(10) == 0 ? 0 : dp_from(1, mode == TRP_DNN_PRODUCT ? 3 : 6);
            y[k] = dp_below(2) ? x[k] : 1;
        }
        trp_dtype type = dp_below(6) ? draw_float() : TRP_I8;
        n->reduce = mode;
        n->x = dp_memory(&p, type, rank, x);
        n->y = dp_memory(&p, mode == TRP_DNN_PRODUCT && type != TRP_F64 ? TRP_F32
                                                                        : draw_output(type),
                         rank, y);
        p.fill[n->x] = mode == TRP_DNN_PRODUCT ? DP_FEW : DP_ANY;
        check(&p);
    }
    close_world();
}

static void statistics(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(25); i++) {
        dp_problem p = {.kind = "statistics"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_STATISTICS);
        const uint32_t rank = (uint32_t)dp_from(2, 5);
        int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
        trp_dtype type = draw_float();
        for (uint32_t k = 0; k < rank; k++) {
            x[k] = dp_below(15) ? dp_from(1, 6) : 0;
            y[k] = k == 1 ? x[k] : 1;
        }
        n->x = dp_memory(&p, type, rank, x);
        n->sum = dp_memory(&p, type == TRP_F64 ? type : TRP_F32, rank, y);
        n->square_sum = dp_memory(&p, type == TRP_F64 ? type : TRP_F32, rank, y);
        check(&p);
    }
    close_world();
}

/* --- pooling --- */

static uint32_t draw_windows(trp_dnn_node *n, int64_t *x, int64_t *y)
{
    const int64_t spatial = dp_from(1, 3);
    x[0] = y[0] = dp_below(12) ? dp_from(1, 3) : 0;
    x[1] = y[1] = dp_from(1, 4);
    for (int64_t i = 0; i < spatial; i++) {
        int64_t window = dp_from(1, 3), stride = dp_from(1, 3);
        n->window[i] = window;
        n->stride[i] = stride == 1 && dp_below(2) ? 0 : stride;
        n->pre_pad[i] = dp_below(window);
        n->post_pad[i] = dp_below(window);
        int64_t pads = n->pre_pad[i] + n->post_pad[i];
        x[2 + i] = dp_from(1, 6);
        x[2 + i] = x[2 + i] + pads < window ? window - pads : x[2 + i];
        y[2 + i] = (x[2 + i] + pads - window) / stride + 1;
    }
    return (uint32_t)spatial + 2;
}

static void forward_pool(dp_problem *p, trp_dtype type, bool index)
{
    int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_RESAMPLE_FORWARD);
    uint32_t rank = draw_windows(n, x, y);
    n->x = dp_memory(p, type, rank, x);
    n->y = dp_memory(p, index ? type : draw_output(type), rank, y);
    if (index && dp_below(2))
        n->index = dp_memory(p, TRP_I8, rank, y);
    else if (index)
        n->index = dp_virtual(p, TRP_I8);
    p->unknown[n->index] = n->index != 0;
}

static void pools(void)
{
    static const char *const names[] = {"max pool", "average pool", "average pool, padded"};
    open_world();
    for (int i = 0; i < dp_rounds(60); i++) {
        dp_problem p = {.kind = names[i % 3]};
        forward_pool(&p, draw_float(), false);
        p.node[0].resample = (trp_dnn_resample)(i % 3);
        check(&p);
    }
    close_world();
}

/* Forward and backward as one graph, for the index is between them. */
static void pool_gradients(void)
{
    static const char *const names[] = {"max pool backward", "average pool backward",
                                        "padded pool backward"};
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    open_world();
    for (int i = 0; i < dp_rounds(60); i++) {
        const trp_dtype type = types[dp_below(4)];
        const int mode = i % 3;
        const bool most = mode == TRP_DNN_POOL_MAX, index = most && dp_below(2);
        dp_problem p = {.kind = names[mode]};
        forward_pool(&p, type, index);
        trp_dnn_node *forward = &p.node[0], *n = dp_node(&p, TRP_DNN_RESAMPLE_BACKWARD);
        const uint32_t x = forward->x, y = forward->y;
        forward->resample = (trp_dnn_resample)mode;
        uint32_t index_of = forward->index;
        *n = *forward;
        n->kind = TRP_DNN_RESAMPLE_BACKWARD;
        n->index = index_of;
        n->x = most && !index ? x : 0;
        n->y = most && !index ? y : 0;
        p.tensor[y].type = type; /* the old y must be what is in x */
        p.fill[x] = DP_DISTINCT;
        n->dy = dp_memory(&p, type, p.tensor[y].rank, p.tensor[y].dim);
        n->dx = dp_memory(&p, draw_output(type), p.tensor[x].rank, p.tensor[x].dim);
        check(&p);
    }
    close_world();
}

/* --- normalisation --- */

/* Dimensions of x, of statistics and of scale; LAYER and RMS may leave out the first ones. */
static uint32_t norm_dims(trp_dnn_norm norm, int64_t *x, int64_t *cells, int64_t *scale)
{
    const uint32_t rank = (uint32_t)dp_from(norm == TRP_DNN_INSTANCE ? 3 : 2, 5);
    const bool inner = norm == TRP_DNN_LAYER || norm == TRP_DNN_RMS;
    const uint32_t first = inner && dp_below(3) == 0 ? (uint32_t)dp_from(1, rank - 1) : 1;
    for (uint32_t i = 0; i < rank; i++) {
        bool over = inner ? i >= first : norm == TRP_DNN_BATCH ? i != 1 : i >= 2;
        x[i] = dp_from(2, i == 0 ? 3 : 5);
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

static void training(dp_problem *p, trp_dnn_norm norm, bool gradient)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    int64_t x[TRP_DNN_RANK_MAX], cells[TRP_DNN_RANK_MAX], scale[TRP_DNN_RANK_MAX];
    const trp_dtype type = types[dp_below(4)], sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dtype parameters = dp_below(2) ? type : sums;
    trp_dnn_node *n = dp_node(p, TRP_DNN_NORM_TRAINING);
    const uint32_t rank = norm_dims(norm, x, cells, scale);
    n->norm = norm;
    n->x = dp_memory(p, type, rank, x);
    n->scale = dp_memory(p, parameters, rank, scale);
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

static void inference(dp_problem *p, trp_dnn_norm norm)
{
    const trp_dtype type = draw_float(), sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    int64_t x[TRP_DNN_RANK_MAX], cells[TRP_DNN_RANK_MAX], scale[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_NORM_INFERENCE);
    const uint32_t rank = norm_dims(norm, x, cells, scale);
    n->norm = norm;
    n->x = dp_memory(p, type, rank, x);
    n->scale = dp_memory(p, sums, rank, scale);
    if (norm != TRP_DNN_RMS && dp_below(4))
        n->bias = dp_memory(p, sums, rank, scale);
    n->y = dp_memory(p, draw_output(type), rank, x);
    if (norm == TRP_DNN_BATCH) {
        n->mean = dp_memory(p, sums, rank, cells);
        n->inv_variance = dp_memory(p, sums, rank, cells);
        p->fill[n->inv_variance] = DP_POSITIVE;
    } else {
        n->epsilon = one_number(p, sums, 1e-3);
    }
}

static void norms(void)
{
    static const char *const names[][3] = {
        {"layer norm", "layer norm backward", "layer norm inference"},
        {"batch norm", "batch norm backward", "batch norm inference"},
        {"instance norm", "instance norm backward", "instance norm inference"},
        {"RMS norm", "RMS norm backward", "RMS norm inference"}};
    open_world();
    for (int i = 0; i < dp_rounds(144); i++) {
        trp_dnn_norm norm = (trp_dnn_norm)(i % 4);
        int pass = i / 4 % 3;
        dp_problem p = {.kind = names[norm][pass]};
        if (pass == 2)
            inference(&p, norm);
        else
            training(&p, norm, pass == 1);
        check(&p);
    }
    close_world();
}

static const h_case cases[] = {
    {"convolutions", convolutions},
    {"products", products},
    {"pointwise", pointwise},
    {"activation_gradients", activation_gradients},
    {"reductions", reductions},
    {"statistics", statistics},
    {"pools", pools},
    {"pool_gradients", pool_gradients},
    {"norms", norms},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
