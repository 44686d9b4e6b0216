/* The dnn actor in the conformance suite: graphs of one node, or of one and its gradient, of every
 * type and layout. */
#include "conformance/conformance.h"
#include "support/problems/dnn_draw.h"

TROUPE_TEST("long", "computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all",
                     "TROUPE_TEST_REGULAR=1");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- what is drawn ---- */

/* One graph of a type; `way` is below the operation's. */
typedef void draw_graph(dp_problem *p, trp_dtype type, int way);

/* Of every fourth problem more channels. */
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
    if (dd_as_users()) { /* as many products as 100 x 100 x 100 */
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
        if (value) /* as that type holds it */
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

/* Forward and backward as one graph, for the index is between them. */
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
    p->tensor[y].type = type; /* the old y must be what is in x */
    p->fill[x] = DP_DISTINCT;
    n->dy = dp_memory(p, type, p->tensor[y].rank, p->tensor[y].dim);
    n->dx = dp_memory(p, dd_output(type), p->tensor[x].rank, p->tensor[x].dim);
}

/* ---- normalisation ---- */

static void norm_training(dp_problem *p, trp_dtype type, int way)
{
    dd_training(p, type, (trp_dnn_norm)way, false);
}

/* Behind the training in one graph. */
static void norm_backward(dp_problem *p, trp_dtype type, int way)
{
    dd_training(p, type, (trp_dnn_norm)way, true);
}

static void norm_inference(dp_problem *p, trp_dtype type, int way)
{
    dd_inference(p, type, (trp_dnn_norm)way);
}

/* ---- operations ---- */

/* An operation has the first so many. */
static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64},       {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16},       {.name = "bf16", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F8E4M3}, {.name = "f8e5m2", .type = TRP_F8E5M2},
    {.name = "i8", .type = TRP_I8},         {.name = "u8", .type = TRP_U8},
    {.name = "i32", .type = TRP_I32},       {.name = "bool", .type = TRP_BOOL},
};
enum { DISTINCT = 3, WIDE = 4, FLOATS = 6, AND_I8 = 7, ALL = 10 };

static const struct {
    const char *name;
    draw_graph *draw;
    unsigned types, ways;
} rows[] = {
    {"conv_forward", conv_forward, AND_I8, 4},
    {"conv_backward_data", conv_backward_data, FLOATS, 4},
    {"conv_backward_filter", conv_backward_filter, FLOATS, 4},
    {"matmul", matmul, AND_I8, 1},
    {"arithmetic", arithmetic, ALL, TRP_DNN_ABS},
    {"function", function, FLOATS, TRP_DNN_EQUAL - TRP_DNN_ABS},
    {"comparison", comparison, ALL, TRP_DNN_RELU - TRP_DNN_EQUAL},
    {"activation", activation, FLOATS, TRP_DNN_SWISH + 1 - TRP_DNN_RELU},
    {"pointwise_backward", pointwise_backward, FLOATS, TRP_DNN_SWISH + 1 - TRP_DNN_RELU},
    {"reduction", reduction, AND_I8, 8},
    {"statistics", statistics, FLOATS, 1},
    {"resample_forward", resample_forward, FLOATS, 3},
    {"resample_backward", resample_backward, DISTINCT, 3},
    {"norm_training", norm_training, WIDE, 4},
    {"norm_backward", norm_backward, WIDE, 4},
    {"norm_inference", norm_inference, FLOATS, 4},
};
enum { OPERATIONS = COUNT_OF(rows) };

static cf_operation operations[OPERATIONS];

/* Of integers: sums and products, the larger and the smaller one, comparisons. */
static bool goes_with(draw_graph *draw, trp_dtype type, unsigned way)
{
    const bool integer = type == TRP_I8 || type == TRP_U8 || type == TRP_I32 || type == TRP_BOOL;
    return draw != arithmetic || !integer || (way <= TRP_DNN_MAX && way != TRP_DNN_DIV);
}

/* ---- problems ---- */

typedef struct graph {
    dp_problem p;
    block blocks[DP_TENSORS];
} graph;
_Static_assert((int)DP_TENSORS <= (int)CF_BLOCKS, "one for each tensor");

/* Whether every buffer needs more than a byte: handles of nothing are not looked at. */
static bool is_solid(const dp_problem *p)
{
    for (uint32_t i = 1; i <= p->tensors; i++) {
        if (p->memory[i] && p->value[i].count * trp_dtype_bits(p->tensor[i].type) < 16)
            return false;
    }
    return true;
}

static void drop(cf_problem *p)
{
    graph *g = p->own;
    for (uint32_t i = 1; i <= g->p.tensors; i++) {
        free(g->p.data[i]);
        dr_free(&g->p.value[i]);
    }
    free(g);
}

static bool draw(cf_problem *p, unsigned way, cf_kind kind)
{
    const size_t row = (size_t)(p->operation - operations);
    const trp_dtype type = variants[p->variant].type;
    if (!goes_with(rows[row].draw, type, way))
        return false;
    graph *g = h_malloc(sizeof *g);
    *g = (graph){.p.kind = rows[row].name, .p.packed = kind == CF_TIGHT};
    rows[row].draw(&g->p, type, (int)way);
    dp_prepare(&g->p);
    p->own = g;
    if (kind == CF_TIGHT && !is_solid(&g->p)) {
        drop(p);
        return false;
    }
    for (uint32_t i = 1; i <= g->p.tensors; i++) {
        block *b = &g->blocks[i];
        if (!g->p.memory[i])
            continue;
        *b = (block){.bytes = g->p.bytes[i]};
        b->before = h_malloc(b->bytes);
        b->after = h_malloc(b->bytes);
        b->writable = h_malloc(b->bytes);
        memcpy(b->before, g->p.data[i], b->bytes);
        memset(b->writable, g->p.written[i], b->bytes); /* check() looks at what is between */
    }
    p->blocks = g->blocks;
    p->block_count = DP_TENSORS;
    p->may_refuse = h_is_gpu() ? "" : NULL; /* the actor's kernels take what the fake's do not */
    return true;
}

static void make_request(const cf_problem *p, void *out)
{
    graph *g = p->own;
    for (uint32_t i = 1; i <= g->p.tensors; i++)
        g->p.tensor[i].buffer = g->blocks[i].buffer;
    g->p.options.ran = &g->p.ran;
    *(trp_dnn_graph_request *)out = (trp_dnn_graph_request){.tensors = g->p.tensor,
                                                            .tensor_count = g->p.tensors + 1,
                                                            .nodes = g->p.node,
                                                            .node_count = g->p.nodes,
                                                            .options = g->p.options};
}

static trp_status send(trp_actor *dnn, const cf_problem *p, trp_completion *done)
{
    trp_dnn_graph_request r;
    make_request(p, &r);
    return trp_dnn_graph(dnn, &r, done);
}

static bool check(cf_problem *p, cf_tally *tally)
{
    graph *g = p->own;
    char *after[DP_TENSORS] = {NULL};
    for (uint32_t i = 1; i <= g->p.tensors; i++) {
        if (!g->p.memory[i])
            continue;
        after[i] = h_malloc(g->p.bytes[i]);
        memcpy(after[i], g->blocks[i].after, g->p.bytes[i]);
    }
    dp_check_engine(&g->p);
    const double worst = dp_compare_in(&g->p, after);
    tally->worst = worst > tally->worst ? worst : tally->worst;
    for (uint32_t i = 1; i <= g->p.tensors; i++)
        free(after[i]);
    return !g->p.refused;
}

/* ---- bad input ---- */

/* What is done to tensor `number`; false: nothing by that number. */
static bool spoil_tensor(trp_dnn_tensor *t, uint32_t number, unsigned which, const cf_wrong *wrong)
{
    static char word[64];
    static const char *const names[] = {"", "", "", ".type", ".rank", ".dim[0]"};
    if (which >= COUNT_OF(names))
        return false;
    snprintf(word, sizeof word, "tensors[%u]%s", number, names[which]);
    *wrong->word = word;
    if (which == 0) {
        t->buffer = wrong->stale;
        *wrong->status = TRP_E_STALE;
    }
    if (which == 1)
        t->buffer = wrong->tiny;
    if (which == 2)
        t->offset = UINT64_MAX - 15;
    if (which == 3)
        t->type = TRP_C64;
    if (which == 4)
        t->rank = TRP_DNN_RANK_MAX + 1;
    if (which == 5)
        t->dim[0] = -1;
    return true;
}

static bool spoil(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *request)
{
    static trp_dnn_tensor tensors[DP_TENSORS];
    static trp_dnn_node nodes[DP_NODES];
    enum { EACH = 6 };
    const graph *g = p->own;
    trp_dnn_graph_request *r = request;
    unsigned number = 0;
    for (uint32_t i = 1; i <= g->p.tensors; i++) {
        if (!g->p.memory[i])
            continue;
        if (which / EACH != number++)
            continue;
        memcpy(tensors, g->p.tensor, sizeof tensors);
        r->tensors = tensors;
        return spoil_tensor(&tensors[i], i, which % EACH, wrong);
    }
    if (which / EACH > number)
        return false;
    memcpy(nodes, g->p.node, sizeof nodes);
    r->nodes = nodes;
    nodes[0].kind = (trp_dnn_kind)(99 + which);
    *wrong->word = "nodes[0].kind";
    return true;
}

/* ---- the actor ---- */

static const cf_family family = {
    .request_bytes = sizeof(trp_dnn_graph_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
    .spoil = spoil,
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < OPERATIONS; i++)
        operations[i] = (cf_operation){.name = rows[i].name,
                                       .op = TRP_OP_DNN_GRAPH,
                                       .family = &family,
                                       .variants = variants,
                                       .variant_count = rows[i].types,
                                       .ways = rows[i].ways,
                                       .runs_again = true};
    const cf_actor dnn = {.kind = "dnn",
                          .operations = operations,
                          .count = OPERATIONS,
                          .rounds = 24,
                          .slow_fake = true,
                          .end = dp_print_table};
    return cf_main(argc, argv, &dnn);
}
