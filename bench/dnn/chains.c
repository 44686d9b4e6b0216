/* Measures element-wise operations: a node with a scalar against one with a tensor, and a chain of
 * nodes in one graph against one request per node. */
#include "dnn.h"
#include "bench/suite/filled.h"

#include <stdio.h>

enum { ELEMENTS = 867072, NODES_MOST = 16 };

/* The second operand of a node. The first operand is the result of the node before, or x for the
 * first node. */
typedef enum operand { NOTHING, TENSOR, NUMBER } operand;

typedef struct link {
    trp_dnn_pointwise mode;
    operand by;
} link;

typedef struct chain {
    suite *suite;
    trp_actor *actor;
    trp_dtype type;
    const link *node;
    uint32_t nodes;
    bool apart;            /* one request per node */
    trp_buffer x, b, y[2]; /* y: alternating results; the last is y[0] */
} chain;

static trp_dnn_tensor line(const chain *c, trp_buffer buffer)
{
    return (trp_dnn_tensor){.type = c->type, .rank = 1, .dim = {ELEMENTS}, .buffer = buffer};
}

/* Sends `count` nodes from `first` on as one graph over the given buffers. */
static bool send(chain *c, uint32_t first, uint32_t count, trp_buffer from, trp_buffer to)
{
    trp_dnn_tensor tensor[2 + 2 * NODES_MOST] = {{0}, line(c, from)};
    trp_dnn_node node[NODES_MOST];
    uint32_t tensors = 2;
    for (uint32_t i = 0; i < count; i++) {
        const link *l = &c->node[first + i];
        node[i] = (trp_dnn_node){
            .kind = TRP_DNN_POINTWISE, .pointwise = l->mode, .x = i == 0 ? 1 : node[i - 1].y};
        if (l->by != NOTHING) {
            node[i].b = tensors;
            tensor[tensors++] =
                l->by == TENSOR ? line(c, c->b) : (trp_dnn_tensor){.value = trp_real(0.9)};
        }
        node[i].y = tensors;
        tensor[tensors++] = i + 1 == count ? line(c, to) : (trp_dnn_tensor){.type = c->type};
    }
    const trp_dnn_graph_request r = {.header.wait_ns = TRP_FOREVER,
                                     .tensors = tensor,
                                     .tensor_count = tensors,
                                     .nodes = node,
                                     .node_count = count};
    return suite_check(c->suite, trp_dnn_graph(c->actor, &r, NULL), "trp_dnn_graph");
}

static bool run(void *context, uint64_t count)
{
    chain *c = context;
    bool good = true;
    for (uint64_t i = 0; i < count && good; i++) {
        if (!c->apart) {
            good = send(c, 0, c->nodes, c->x, c->y[0]);
            continue;
        }
        for (uint32_t k = 0; k < c->nodes && good; k++)
            good = send(c, k, 1, k == 0 ? c->x : c->y[(c->nodes - k) % 2],
                        c->y[(c->nodes - k - 1) % 2]);
    }
    return good && suite_drain(c->suite, DNN_LONGEST_NS);
}

static const link by_tensor[] = {{TRP_DNN_MUL, TENSOR}}, by_number[] = {{TRP_DNN_MUL, NUMBER}};
static const link activation[] = {
    {TRP_DNN_ADD, TENSOR}, {TRP_DNN_GELU_TANH, NOTHING}, {TRP_DNN_MUL, TENSOR}};
static const link arithmetic[NODES_MOST] = {
    {TRP_DNN_MUL, NUMBER},  {TRP_DNN_ADD, TENSOR},   {TRP_DNN_MUL, TENSOR}, {TRP_DNN_ADD, NUMBER},
    {TRP_DNN_ABS, NOTHING}, {TRP_DNN_SQRT, NOTHING}, {TRP_DNN_ADD, NUMBER}, {TRP_DNN_DIV, TENSOR},
    {TRP_DNN_MUL, NUMBER},  {TRP_DNN_ADD, TENSOR},   {TRP_DNN_MUL, NUMBER}, {TRP_DNN_SUB, TENSOR},
    {TRP_DNN_MAX, NUMBER},  {TRP_DNN_MUL, TENSOR},   {TRP_DNN_ADD, TENSOR}, {TRP_DNN_MUL, NUMBER}};

/* `raw` is the number of nodes of the raw side, one request each. */
static const struct {
    const char *name, *what;
    trp_dtype type;
    const link *raw, *node;
    uint32_t nodes;
} rows[] = {
    {"x * number", "x * b", TRP_F32, by_tensor, by_number, 1},
    {"gelu(x + b) * b", "a request for each node", TRP_F32, activation, activation, 3},
    {"16 nodes", "a request for each node", TRP_F32, arithmetic, arithmetic, NODES_MOST},
    {"16 nodes", "a request for each node", TRP_BF16, arithmetic, arithmetic, NODES_MOST},
};

static bool make_buffers(chain *c)
{
    static unsigned char piece[FILLED_PIECE];
    const uint64_t bytes = ELEMENTS * (trp_dtype_bits(c->type) / 8);
    filled_piece(TRP_BF16, piece, c->suite->seed); /* finite also when read as f32 */
    return filled_buffer(c->suite, piece, bytes, &c->x) &&
           filled_buffer(c->suite, piece, bytes, &c->b) &&
           filled_buffer(c->suite, NULL, bytes, &c->y[0]) &&
           filled_buffer(c->suite, NULL, bytes, &c->y[1]);
}

static void measure(suite *s, trp_actor *actor, size_t i)
{
    chain whole = {.suite = s, .actor = actor, .type = rows[i].type, .nodes = rows[i].nodes};
    report_row row = {.raw = rows[i].what,
                      .type = trp_dtype_name(rows[i].type),
                      .unit = "us",
                      .scale = 1e-3,
                      .size = ELEMENTS};
    whole.node = rows[i].node;
    const bool good = make_buffers(&whole);
    chain apart = whole;
    apart.node = rows[i].raw;
    apart.apart = true;
    const stats_side single = {run, &apart}, graph = {run, &whole};
    snprintf(row.name, sizeof row.name, "%s", rows[i].name);
    if (good && run(&apart, 1) && run(&whole, 1) &&
        suite_time_blocks(s, 7, 3e7, true, single, graph, &row))
        report_add(s->report, &row);
    else
        suite_fail(s, row.name);
    const trp_buffer all[] = {whole.x, whole.b, whole.y[0], whole.y[1]};
    suite_free(s, all, sizeof all / sizeof *all);
}

void suite_dnn_chains(suite *s)
{
    report_section(s->report, "Element-wise nodes of 867,072 elements",
                   "raw: a node with a tensor, or a request for each node; Troupe: one graph");
    trp_actor *actor = suite_actor(s, "dnn");
    for (size_t i = 0; actor && i < sizeof rows / sizeof *rows; i++)
        measure(s, actor, i);
    trp_actor_destroy(actor);
}
