/* Graphs of the dnn actor in the conformance suite. support/problems/dnn_problem.h draws a graph,
 * its tensors and their contents; support/reference computes the results.
 * SPDX-License-Identifier: Apache-2.0 */
#include "conformance/dnn_graphs.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* An operation has the first few of these. */
static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64},       {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16},       {.name = "bf16", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F8E4M3}, {.name = "f8e5m2", .type = TRP_F8E5M2},
    {.name = "i8", .type = TRP_I8},         {.name = "u8", .type = TRP_U8},
    {.name = "i32", .type = TRP_I32},       {.name = "bool", .type = TRP_BOOL},
};

/* ---- problems ---- */

typedef struct graph {
    dp_problem p;
    block blocks[DP_TENSORS];
} graph;
_Static_assert((int)DP_TENSORS <= (int)CF_BLOCKS, "one for each tensor");

/* Returns whether every buffer needs more than a byte: handles of empty buffers are not checked. */
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
    const cf_graph *row = p->operation->row;
    const trp_dtype type = p->operation->variants[p->variant].type;
    if (row->goes_with && !row->goes_with(type, (int)way))
        return false;
    graph *g = h_malloc(sizeof *g);
    *g = (graph){.p.kind = row->name, .p.packed = kind == CF_TIGHT};
    row->draw(&g->p, type, (int)way);
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
        *b = block_make(g->p.bytes[i], NULL);
        memcpy(b->before, g->p.data[i], b->bytes);
        /* check() compares the bytes between elements */
        memset(b->writable, g->p.written[i], b->bytes);
    }
    p->blocks = g->blocks;
    p->block_count = DP_TENSORS;
    /* the actor's own kernels run what the fake library refuses */
    p->may_refuse = h_is_gpu() ? "" : NULL;
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
    const cf_graph *row = p->operation->row;
    make_request(p, &r);
    return row->send ? row->send(dnn, &((graph *)p->own)->p, done) : trp_dnn_graph(dnn, &r, done);
}

/* Submits calls whose tensors are those of a request. */
static trp_status submit_calls(trp_actor *dnn, const cf_problem *p, void *request,
                               trp_completion *done)
{
    const cf_graph *row = p->operation->row;
    const trp_dnn_graph_request *r = request;
    dp_problem changed = ((const graph *)p->own)->p;
    memcpy(changed.tensor, r->tensors, sizeof changed.tensor);
    return row->send(dnn, &changed, done);
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

/* Makes mistake number `which` in a tensor; false: there is none of that number. */
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

/* Returns whether the first call of a layer has a tensor with its rank and dimensions. If that call
 * is right it is sent, whatever the next one holds. */
static bool in_first_call(const dp_problem *p, uint32_t tensor)
{
    const dp_layer *l = &p->layer;
    bool found = tensor == l->x || tensor == l->w || tensor == l->y || tensor == l->z;
    for (const uint32_t *field = &p->node[0].x; field <= &p->node[0].square_sum; field++)
        found = found || *field == tensor;
    return found;
}

static bool spoil(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *request)
{
    static trp_dnn_tensor tensors[DP_TENSORS];
    static trp_dnn_node nodes[DP_NODES];
    enum { EACH = 6 };
    const graph *g = p->own;
    const bool calls = ((const cf_graph *)p->operation->row)->send;
    trp_dnn_graph_request *r = request;
    unsigned number = 0;
    for (uint32_t i = 1; i <= g->p.tensors; i++) {
        if (!g->p.memory[i] || (calls && !in_first_call(&g->p, i)))
            continue;
        if (which / EACH != number++)
            continue;
        memcpy(tensors, g->p.tensor, sizeof tensors);
        r->tensors = tensors;
        const bool spoilt = spoil_tensor(&tensors[i], i, which % EACH, wrong);
        if (calls) /* calls have field names of their own */
            *wrong->word = "";
        return spoilt;
    }
    if (calls || which / EACH > number)
        return false;
    memcpy(nodes, g->p.node, sizeof nodes);
    r->nodes = nodes;
    nodes[0].kind = (trp_dnn_kind)(99 + which);
    *wrong->word = "nodes[0].kind";
    return true;
}

/* ---- the actor ---- */

#define FAMILY(how)                                                                                \
    {                                                                                              \
        .request_bytes = sizeof(trp_dnn_graph_request), .draw = draw, .request = make_request,     \
        .send = send, .submit = how, .check = check, .drop = drop, .spoil = spoil                  \
    }
static const cf_family family = FAMILY(NULL), family_of_calls = FAMILY(submit_calls);

int cf_graphs_main(int argc, char **argv, const char *title, const cf_graph *rows, size_t count)
{
    static cf_operation operations[32];
    H_CHECK(count <= COUNT_OF(operations));
    for (size_t i = 0; i < count; i++)
        operations[i] = (cf_operation){.name = rows[i].name,
                                       .op = TRP_OP_DNN_GRAPH,
                                       .family = rows[i].send ? &family_of_calls : &family,
                                       .row = &rows[i],
                                       .variants = &variants[rows[i].first],
                                       .variant_count = rows[i].types,
                                       .ways = rows[i].ways,
                                       .runs_again = true};
    const cf_actor dnn = {.kind = "dnn",
                          .title = title,
                          .operations = operations,
                          .count = count,
                          .rounds = 24,
                          .slow_fake = true,
                          .end = dp_print_table};
    return cf_main(argc, argv, &dnn);
}
