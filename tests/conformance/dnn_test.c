/* The dnn actor in the conformance suite: graphs of one node, or of one and its gradient, of every
 * type and layout. */
#include "conformance/dnn_graphs.h"

TROUPE_TEST("long", "computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all",
                     "TROUPE_TEST_REGULAR=1");

/* ---- what is drawn ---- */

/* Every fourth problem has more channels. */
static void conv(dp_problem *p, trp_dtype type, trp_dnn_kind kind, int way)
{
    dd_conv(p, dp_node(p, kind), type, way == 0 ? 7 : 3);
}

static void conv_forward(dp_problem *p, trp_dtype type, int way)
{
    conv(p, type, TRP_DNN_CONV_FORWARD, way);
}

static void conv_backward_data(dp_problem *p, trp_dtype type, int way)
{
    conv(p, type, TRP_DNN_CONV_BACKWARD_DATA, way);
}

static void conv_backward_filter(dp_problem *p, trp_dtype type, int way)
{
    conv(p, type, TRP_DNN_CONV_BACKWARD_FILTER, way);
}

static void matmul(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    trp_dnn_node *n = dp_node(p, TRP_DNN_MATMUL);
    const uint32_t rank = (uint32_t)dp_from(2, 5);
    int64_t a[TRP_DNN_RANK_MAX], b[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX], mnk[3];
    for (uint32_t k = 0; k < rank - 2; k++) {
        int64_t size = dp_below(12) ? dp_from(1, 3) : 0, which = dp_below(4);
        y[k] = size;
        a[k] = which == 1 && size > 0 ? 1 : size;
        b[k] = which == 2 && size > 0 ? 1 : size;
    }
    for (int k = 0; k < 3; k++)
        mnk[k] = dp_below(15) ? dp_from(1, 17) : 0;
    if (dd_as_users()) { /* the reference takes as many products as 100 x 100 x 100 */
        for (int k = 0; k < 3; k++)
            mnk[k] = dd_channels(2048);
        dd_fit(mnk, 3, 1000000);
    }
    y[rank - 2] = a[rank - 2] = mnk[0];
    y[rank - 1] = b[rank - 1] = mnk[1];
    a[rank - 1] = b[rank - 2] = mnk[2];
    n->compute = type == TRP_I8 ? TRP_I32 : TRP_DTYPE_NONE;
    n->a = dp_memory(p, type, rank, a);
    n->b = dp_memory(p, type, rank, b);
    n->y = dp_memory(p, type == TRP_I8 && dp_below(2) ? TRP_I32 : dd_output(type), rank, y);
}

/* ---- pointwise ---- */

/* Returns contents of x and b for which the function has a value and is not too steep. */
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

static void draw_pointwise(dp_problem *p, trp_dtype type, int mode)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = (trp_dnn_pointwise)mode;
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    const int inputs = dr_inputs(n->pointwise);
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
        if (value) /* rounded to that type */
            p->tensor[*fields[i]].type =
                (trp_dtype[]){TRP_DTYPE_NONE, TRP_F32, TRP_F16, TRP_F8E4M3}[dp_below(4)];
        p->fill[*fields[i]] = i == 2 ? DP_FEW : fill_of(n->pointwise, i == 0);
    }
    bool truth = n->pointwise >= TRP_DNN_EQUAL && n->pointwise <= TRP_DNN_NOT;
    n->y = dp_memory(p, truth && dp_below(2) ? TRP_BOOL : dd_output(type), rank, y);
    dd_parameters(n);
}

static void arithmetic(dp_problem *p, trp_dtype type, int way)
{
    draw_pointwise(p, type, way);
}

/* Integers have sums and products, minimum and maximum, and comparisons. */
static bool arithmetic_goes_with(trp_dtype type, int way)
{
    const bool integer = type == TRP_I8 || type == TRP_U8 || type == TRP_I32 || type == TRP_BOOL;
    return !integer || (way <= TRP_DNN_MAX && way != TRP_DNN_DIV);
}

static void function(dp_problem *p, trp_dtype type, int way)
{
    draw_pointwise(p, type, TRP_DNN_ABS + way);
}

static void comparison(dp_problem *p, trp_dtype type, int way)
{
    draw_pointwise(p, type, TRP_DNN_EQUAL + way);
}

static void activation(dp_problem *p, trp_dtype type, int way)
{
    draw_pointwise(p, type, TRP_DNN_RELU + way);
}

static void pointwise_backward(dp_problem *p, trp_dtype type, int way)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE_BACKWARD);
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    int64_t dim[TRP_DNN_RANK_MAX];
    dd_dims(dim, rank, 5, 20000);
    n->pointwise = (trp_dnn_pointwise)(TRP_DNN_RELU + way);
    dd_parameters(n);
    n->x = dp_memory(p, type, rank, dim);
    n->dy = dp_memory(p, type, rank, dim);
    n->dx = dp_memory(p, dd_output(type), rank, dim);
    p->fill[n->x] = dp_below(3) ? DP_AWAY : DP_STEEP;
}

/* ---- reductions ---- */

static void reduction(dp_problem *p, trp_dtype type, int way)
{
    const trp_dnn_reduce mode = (trp_dnn_reduce)way;
    trp_dnn_node *n = dp_node(p, TRP_DNN_REDUCTION);
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    bool sum = mode == TRP_DNN_SUM || mode == TRP_DNN_NORM1;
    int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
    dd_dims(x, rank, mode == TRP_DNN_PRODUCT ? 3 : 6, mode == TRP_DNN_PRODUCT ? 200 : 20000);
    for (uint32_t k = 0; k < rank; k++) {
        x[k] = sum && dp_below(10) == 0 ? 0 : x[k];
        y[k] = dp_below(2) ? x[k] : 1;
    }
    n->reduce = mode;
    n->x = dp_memory(p, type, rank, x);
    n->y = dp_memory(p, mode == TRP_DNN_PRODUCT && type != TRP_F64 ? TRP_F32 : dd_output(type),
                     rank, y);
    p->fill[n->x] = mode == TRP_DNN_PRODUCT ? DP_FEW : DP_ANY;
}

static void statistics(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    trp_dnn_node *n = dp_node(p, TRP_DNN_STATISTICS);
    const uint32_t rank = (uint32_t)dp_from(2, 5);
    int64_t x[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
    for (uint32_t k = 0; k < rank; k++) {
        x[k] = dp_below(15) ? dp_from(1, 6) : 0;
        y[k] = k == 1 ? x[k] : 1;
    }
    n->x = dp_memory(p, type, rank, x);
    n->sum = dp_memory(p, type == TRP_F64 ? type : TRP_F32, rank, y);
    n->square_sum = dp_memory(p, type == TRP_F64 ? type : TRP_F32, rank, y);
}

/* ---- pooling ---- */

static void resample_forward(dp_problem *p, trp_dtype type, int way)
{
    dd_pool(p, type, false);
    p->node[0].resample = (trp_dnn_resample)way;
}

/* Forward and backward in one graph, since the index is virtual. */
static void resample_backward(dp_problem *p, trp_dtype type, int way)
{
    const bool most = way == TRP_DNN_POOL_MAX, index = most && dp_below(2);
    dd_pool(p, type, index);
    trp_dnn_node *forward = &p->node[0], *n = dp_node(p, TRP_DNN_RESAMPLE_BACKWARD);
    const uint32_t x = forward->x, y = forward->y;
    forward->resample = (trp_dnn_resample)way;
    *n = *forward;
    n->kind = TRP_DNN_RESAMPLE_BACKWARD;
    n->x = most && !index ? x : 0;
    n->y = most && !index ? y : 0;
    p->tensor[y].type = type; /* the old y must be among the elements of x */
    p->fill[x] = DP_DISTINCT;
    n->dy = dp_memory(p, type, p->tensor[y].rank, p->tensor[y].dim);
    n->dx = dp_memory(p, dd_output(type), p->tensor[x].rank, p->tensor[x].dim);
}

/* ---- normalisation ---- */

static void norm_training(dp_problem *p, trp_dtype type, int way)
{
    dd_training(p, type, (trp_dnn_norm)way, false);
}

/* Follows the training node in the same graph. */
static void norm_backward(dp_problem *p, trp_dtype type, int way)
{
    dd_training(p, type, (trp_dnn_norm)way, true);
}

static void norm_inference(dp_problem *p, trp_dtype type, int way)
{
    dd_inference(p, type, (trp_dnn_norm)way);
}

static const cf_graph rows[] = {
    CF_GRAPH("conv_forward", conv_forward, CF_AND_I8, 4),
    CF_GRAPH("conv_backward_data", conv_backward_data, CF_FLOATS, 4),
    CF_GRAPH("conv_backward_filter", conv_backward_filter, CF_FLOATS, 4),
    CF_GRAPH("matmul", matmul, CF_AND_I8, 1),
    CF_GRAPH("arithmetic", arithmetic, CF_ALL_TYPES, TRP_DNN_ABS,
             .goes_with = arithmetic_goes_with),
    CF_GRAPH("function", function, CF_FLOATS, TRP_DNN_EQUAL - TRP_DNN_ABS),
    CF_GRAPH("comparison", comparison, CF_ALL_TYPES, TRP_DNN_RELU - TRP_DNN_EQUAL),
    CF_GRAPH("activation", activation, CF_FLOATS, TRP_DNN_SWISH + 1 - TRP_DNN_RELU),
    CF_GRAPH("pointwise_backward", pointwise_backward, CF_FLOATS, TRP_DNN_SWISH + 1 - TRP_DNN_RELU),
    CF_GRAPH("reduction", reduction, CF_AND_I8, 8),
    CF_GRAPH("statistics", statistics, CF_FLOATS, 1),
    CF_GRAPH("resample_forward", resample_forward, CF_FLOATS, 3),
    CF_GRAPH("resample_backward", resample_backward, CF_DISTINCT, 3),
    CF_GRAPH("norm_training", norm_training, CF_WIDE, 4),
    CF_GRAPH("norm_backward", norm_backward, CF_WIDE, 4),
    CF_GRAPH("norm_inference", norm_inference, CF_FLOATS, 4),
};

int main(int argc, char **argv)
{
    return cf_graphs_main(argc, argv, "dnn", rows, sizeof rows / sizeof *rows);
}
