/* Every kind of node of the dnn actor, of every type and layout, against a float64 reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

TROUPE_TEST("long", "computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all",
                     "TROUPE_TEST_REGULAR=1");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

static void check(dp_problem *p)
{
    dp_check(world.device, dnn, p);
}

/* --- convolutions --- */

static void convolutions(void)
{
    static const char *const names[] = {"conv_forward", "conv_backward_data",
                                        "conv_backward_filter"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(H_SANITIZED ? 60 : 120); i++) {
        int kind = i % 3;
        dp_problem p = {.kind = names[kind]};
        trp_dnn_node *n = dp_node(&p, (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + kind));
        bool i8 = kind == 0 && dp_below(6) == 0;
        dd_conv(&p, n, i8 ? TRP_I8 : dd_float(), i % 10 == 0 ? 7 : 3);
        if (n->compute == TRP_I32)
            p.kind = "conv_forward of i32";
        check(&p);
    }
    dp_close(&world);
}

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

/* --- matmul --- */

static void products(void)
{
    world = dp_open(&dnn);
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
        int64_t mnk[3];
        for (int k = 0; k < 3; k++)
            mnk[k] = dp_below(15) ? dp_from(1, 17) : 0;
        if (dd_as_users()) { /* as many products as 100 x 100 x 100 */
            for (int k = 0; k < 3; k++)
                mnk[k] = dd_channels(2048);
            dd_fit(mnk, 3, 1000000);
        }
        y[rank - 2] = a[rank - 2] = mnk[0];
        y[rank - 1] = b[rank - 1] = mnk[1];
        a[rank - 1] = b[rank - 2] = mnk[2];
        trp_dtype type = i8 ? TRP_I8 : dd_float();
        n->compute = i8 ? TRP_I32 : TRP_DTYPE_NONE;
        n->a = dp_memory(&p, type, rank, a);
        n->b = dp_memory(&p, type, rank, b);
        n->y = dp_memory(&p, i8 && dp_below(2) ? TRP_I32 : dd_output(type), rank, y);
        check(&p);
    }
    dp_close(&world);
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
        return mode < TRP_DNN_RELU ? DP_ANY : dp_below(3) ? DP_AWAY : DP_STEEP;
    }
}

/* Tangents and powers of integers get too large, and i8 has no value near 0 for the rest. */
static trp_dtype draw_input(trp_dnn_pointwise mode)
{
    static const trp_dtype all[] = {TRP_I8, TRP_U8, TRP_I32, TRP_BOOL};
    bool any = mode <= TRP_DNN_MAX || (mode >= TRP_DNN_EQUAL && mode <= TRP_DNN_SELECT);
    bool zero = mode == TRP_DNN_DIV;
    return any && !zero && dp_below(3) == 0 ? all[dp_below(COUNT_OF(all))] : dd_float();
}

static void draw_pointwise(dp_problem *p, trp_dnn_node *n)
{
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    const int inputs = dr_inputs(n->pointwise);
    trp_dtype type = draw_input(n->pointwise);
    uint32_t *fields[] = {&n->x, &n->b, &n->t};
    int64_t y[TRP_DNN_RANK_MAX], dim[TRP_DNN_RANK_MAX];
    dd_dims(y, rank, 5, 20000);
    for (uint32_t k = 0; k < rank; k++)
        y[k] = dp_below(25) ? y[k] : 0;
    for (int i = 0; i < inputs; i++) {
        bool value = i == 1 && dp_below(4) == 0, whole = i == 0 || dp_below(2);
        for (uint32_t k = 0; k < rank; k++)
            dim[k] = whole || dp_below(2) ? y[k] : 1;
        *fields[i] = value ? dp_value(p, ref_rng_uniform(h_rng(), 0.3, 2))
                           : dp_memory(p, i == 2 ? TRP_BOOL : type, rank, dim);
        if (value) /* as that type holds it */
            p->tensor[*fields[i]].type =
                (trp_dtype[]){TRP_DTYPE_NONE, TRP_F32, TRP_F16, TRP_F8E4M3}[dp_below(4)];
        p->fill[*fields[i]] = i == 2 ? DP_FEW : fill_of(n->pointwise, i == 0);
    }
    bool truth = n->pointwise >= TRP_DNN_EQUAL && n->pointwise <= TRP_DNN_NOT;
    n->y = dp_memory(p, truth && dp_below(2) ? TRP_BOOL : dd_output(type), rank, y);
    dd_parameters(n);
}

static void pointwise(void)
{
    world = dp_open(&dnn);
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
    dp_close(&world);
}

static void activation_gradients(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(5 * (TRP_DNN_SWISH + 1 - TRP_DNN_RELU)); i++) {
        dp_problem p = {.kind = "pointwise_backward"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_POINTWISE_BACKWARD);
        const uint32_t rank = (uint32_t)dp_from(1, 5);
        trp_dtype type = dd_float();
        int64_t dim[TRP_DNN_RANK_MAX];
        dd_dims(dim, rank, 5, 20000);
        n->pointwise = (trp_dnn_pointwise)(TRP_DNN_RELU + i % (TRP_DNN_SWISH + 1 - TRP_DNN_RELU));
        dd_parameters(n);
        n->x = dp_memory(&p, type, rank, dim);
        n->dy = dp_memory(&p, type, rank, dim);
        n->dx = dp_memory(&p, dd_output(type), rank, dim);
        p.fill[n->x] = dp_below(3) ? DP_AWAY : DP_STEEP;
        check(&p);
    }
    dp_close(&world);
}

/* --- reductions --- */

static void reductions(void)
{
    static const char *const names[] = {"sum",  "mean",  "least", "most",
                                        "amax", "norm1", "norm2", "product"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(80); i++) {
        trp_dnn_reduce mode = (trp_dnn_reduce)(i % 8);
        dp_problem p = {.kind = names[mode]};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_REDUCTION);
        const uint32_t rank = (uint32_t)dp_from(1, 5);
        bool sum = mode == TRP_DNN_SUM || mode == TRP_DNN_NORM1;
        int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
        dd_dims(x, rank, mode == TRP_DNN_PRODUCT ? 3 : 6, mode == TRP_DNN_PRODUCT ? 200 : 20000);
        for (uint32_t k = 0; k < rank; k++) {
            x[k] = sum && dp_below(10) == 0 ? 0 : x[k];
            y[k] = dp_below(2) ? x[k] : 1;
        }
        trp_dtype type = dp_below(6) ? dd_float() : TRP_I8;
        n->reduce = mode;
        n->x = dp_memory(&p, type, rank, x);
        n->y = dp_memory(&p, mode == TRP_DNN_PRODUCT && type != TRP_F64 ? TRP_F32 : dd_output(type),
                         rank, y);
        p.fill[n->x] = mode == TRP_DNN_PRODUCT ? DP_FEW : DP_ANY;
        check(&p);
    }
    dp_close(&world);
}

static void statistics(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(25); i++) {
        dp_problem p = {.kind = "statistics"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_STATISTICS);
        const uint32_t rank = (uint32_t)dp_from(2, 5);
        int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
        trp_dtype type = dd_float();
        for (uint32_t k = 0; k < rank; k++) {
            x[k] = dp_below(15) ? dp_from(1, 6) : 0;
            y[k] = k == 1 ? x[k] : 1;
        }
        n->x = dp_memory(&p, type, rank, x);
        n->sum = dp_memory(&p, type == TRP_F64 ? type : TRP_F32, rank, y);
        n->square_sum = dp_memory(&p, type == TRP_F64 ? type : TRP_F32, rank, y);
        check(&p);
    }
    dp_close(&world);
}

/* --- pooling --- */

static void pools(void)
{
    static const char *const names[] = {"max pool", "average pool", "average pool, padded"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(60); i++) {
        dp_problem p = {.kind = names[i % 3]};
        dd_pool(&p, dd_float(), false);
        p.node[0].resample = (trp_dnn_resample)(i % 3);
        check(&p);
    }
    dp_close(&world);
}

/* Forward and backward as one graph, for the index is between them. */
static void pool_gradients(void)
{
    static const char *const names[] = {"max pool backward", "average pool backward",
                                        "padded pool backward"};
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(60); i++) {
        const trp_dtype type = types[dp_below(3)];
        const int mode = i % 3;
        const bool most = mode == TRP_DNN_POOL_MAX, index = most && dp_below(2);
        dp_problem p = {.kind = names[mode]};
        dd_pool(&p, type, index);
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
        n->dx = dp_memory(&p, dd_output(type), p.tensor[x].rank, p.tensor[x].dim);
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

/* How a graph was run is told. */
static void told(void)
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

/* --- normalisation --- */

static void norms(void)
{
    static const char *const names[][3] = {
        {"layer norm", "layer norm backward", "layer norm inference"},
        {"batch norm", "batch norm backward", "batch norm inference"},
        {"instance norm", "instance norm backward", "instance norm inference"},
        {"RMS norm", "RMS norm backward", "RMS norm inference"}};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(144); i++) {
        trp_dnn_norm norm = (trp_dnn_norm)(i % 4);
        int pass = i / 4 % 3;
        dp_problem p = {.kind = names[norm][pass]};
        if (pass == 2)
            dd_inference(&p, norm);
        else
            dd_training(&p, norm, pass == 1);
        check(&p);
    }
    dp_close(&world);
}

static const h_case cases[] = {
    {"convolutions", convolutions},
    {"large_convolutions", large_convolutions},
    {"larger_convolutions", larger_convolutions},
    {"narrow", narrow},
    {"products", products},
    {"pointwise", pointwise},
    {"activation_gradients", activation_gradients},
    {"reductions", reductions},
    {"statistics", statistics},
    {"pools", pools},
    {"pool_gradients", pool_gradients},
    {"large_windows", large_windows},
    {"told", told},
    {"norms", norms},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
