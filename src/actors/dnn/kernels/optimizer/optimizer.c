/* Plans and launches the kernels of optimizer.h for a node. */
#include "actors/dnn/kernels/optimizer/optimizer.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/space.h"

#include <stdio.h>
#include <string.h>

enum {
    PREPARED_BYTES = 256,
    PART_STEP = 1 << 14, /* elements: a multiple of what a block reads at a time */
};

/* Ports of arrays and numbers, in the order of optimizer.h. */
static const uint8_t arrays[TRP__OPTIMIZER_ARRAYS] = {
    TRP__OPT_W,     TRP__OPT_DW,         TRP__OPT_MOMENT,         TRP__OPT_MOMENT + 1,
    TRP__OPT_NEW_W, TRP__OPT_NEW_MOMENT, TRP__OPT_NEW_MOMENT + 1, TRP__OPT_NARROW};
static const uint8_t numbers[TRP__OPTIMIZER_NUMBERS] = {
    TRP__OPT_RATE, TRP__OPT_DECAY, TRP__OPT_COUNT, TRP__OPT_SCALE, TRP__OPT_LIMIT, TRP__OPT_FOUND};

typedef struct step {
    trp__optimizer p;
    trp__dnn_node node;
    bool wide;
    uint8_t is_value[TRP__OPTIMIZER_NUMBERS];
    trp__kernel norm, prepare, elements;
} step;

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    return most > 0 && g->node[first].kind == TRP_DNN_OPTIMIZER;
}

static void describe(const trp__dnn_graph *g, const trp__dnn_node *n, int port,
                     trp__optimizer_place *out)
{
    out->used = n->port[port] != TRP__DNN_NO_PORT;
    if (out->used)
        out->type = g->tensor[n->port[port]].type;
}

/* Tells whether accesses of four elements are aligned. */
static bool is_aligned(const trp__dnn_graph *g, const trp__dnn_node *n, int port)
{
    const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, port);
    return !t || trp__space_is_aligned(t, trp__space_element_bytes(t->type) * TRP__OPTIMIZER_RUN);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    step *s = state;
    (void)modules;
    (void)error;
    s->node = s->p.node = *n;
    s->p.runs = 1;
    for (int i = 0; i < TRP__OPTIMIZER_ARRAYS; i++) {
        describe(g, n, arrays[i], &s->p.array[i]);
        s->wide = s->wide || s->p.array[i].type == TRP_F64;
        s->p.runs = s->p.runs && is_aligned(g, n, arrays[i]);
    }
    for (int i = 0; i < TRP__OPTIMIZER_NUMBERS; i++) {
        describe(g, n, numbers[i], &s->p.number[i]);
        s->is_value[i] =
            s->p.number[i].used && g->tensor[n->port[numbers[i]]].role == TRP__DNN_VALUE;
    }
    describe(g, n, TRP__OPT_NORM, &s->p.norm);
    describe(g, n, TRP__OPT_SKIPPED, &s->p.skipped);
    s->p.segment_count = n->port[TRP__OPT_SEGMENTS] == TRP__DNN_NO_PORT
                             ? -1
                             : g->tensor[n->port[TRP__OPT_SEGMENTS]].dim[0];
    s->p.count = trp__dnn_elements(&g->tensor[n->port[TRP__OPT_W]]);
    if (s->p.number[TRP__OPTIMIZER_LIMIT].used || s->p.norm.used || s->p.skipped.used) {
        const int64_t steps = (s->p.count + PART_STEP - 1) / PART_STEP;
        s->p.part = (steps + TRP__TRAIN_PARTS - 1) / TRP__TRAIN_PARTS * PART_STEP;
        s->p.parts = steps ? (int32_t)((s->p.count + s->p.part - 1) / s->p.part) : 1;
        s->p.part = s->p.part ? s->p.part : PART_STEP;
    }
    *workspace = PREPARED_BYTES + TRP__OPT_SUMS * TRP__TRAIN_PARTS * sizeof(double);
    const char *type = s->wide ? "f64" : "f32";
    s->prepare = (trp__kernel){.name = "trp_optimizer_prepare", .threads = TRP__OPTIMIZER_THREADS};
    s->norm.threads = s->elements.threads = TRP__OPTIMIZER_THREADS;
    snprintf(s->norm.name, sizeof s->norm.name, "trp_optimizer_norm_%s", type);
    snprintf(s->elements.name, sizeof s->elements.name, "trp_optimizer_%s", type);
    trp__text_add(engine, "optimizer_%s%s", type, s->p.runs ? "" : "_loose");
    return TRP_OK;
}

static double number_of(const step *s, int which, double none)
{
    return s->p.number[which].used ? s->p.number[which].value : none;
}

/* Prepares the numbers of a step, all of which are given by value. */
static void prepare_here(step *s)
{
    int64_t count = 0;
    if (s->p.number[TRP__OPTIMIZER_COUNT].used)
        memcpy(&count, &s->p.number[TRP__OPTIMIZER_COUNT].value, sizeof count);
    s->p.step.step = trp__opt_step_of(
        &s->node, s->p.array[TRP__OPTIMIZER_MOMENT].used, number_of(s, TRP__OPTIMIZER_RATE, 0),
        number_of(s, TRP__OPTIMIZER_DECAY, 0), number_of(s, TRP__OPTIMIZER_SCALE, 1), count);
    s->p.step.skip = number_of(s, TRP__OPTIMIZER_FOUND, 0) != 0;
}

static uint64_t address_of(const step *s, const trp__kernel_launch *l, int port)
{
    return trp__kernel_address(l, s->node.port[port]);
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    const uint64_t workspace = (uint64_t)(uintptr_t)l->workspace;
    bool in_memory = s->p.parts > 0;
    trp__kernel *const kernels[] = {&s->norm, &s->prepare, &s->elements};
    trp_status status = TRP_OK;
    for (int i = 0; i < 3 && status == TRP_OK; i++)
        status = trp__kernel_find(l, TRP__MODULE_OPTIMIZER, kernels[i], error);
    for (int i = 0; i < TRP__OPTIMIZER_ARRAYS; i++)
        s->p.array[i].at = address_of(s, l, arrays[i]);
    for (int i = 0; i < TRP__OPTIMIZER_NUMBERS; i++) {
        if (s->is_value[i])
            s->p.number[i].value = l->number[s->node.port[numbers[i]]];
        else
            s->p.number[i].at = address_of(s, l, numbers[i]);
        in_memory = in_memory || s->p.number[i].at;
    }
    s->p.norm.at = address_of(s, l, TRP__OPT_NORM);
    s->p.skipped.at = address_of(s, l, TRP__OPT_SKIPPED);
    s->p.segments = address_of(s, l, TRP__OPT_SEGMENTS);
    s->p.sums = workspace + PREPARED_BYTES;
    s->p.prepared = in_memory ? workspace : 0;
    prepare_here(s);
    if (s->p.parts > 0 && status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_OPTIMIZER, &s->norm, (uint64_t)s->p.parts, &s->p,
                                 NULL, error);
    if (in_memory && status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_OPTIMIZER, &s->prepare, 1, &s->p, NULL, error);
    const int64_t blocks = (s->p.count + TRP__OPTIMIZER_BLOCK - 1) / TRP__OPTIMIZER_BLOCK;
    for (int64_t at = 0; at < blocks && status == TRP_OK; at += TRP__KERNEL_BLOCKS_MAX) {
        const int64_t left = blocks - at;
        s->p.first = at * TRP__OPTIMIZER_BLOCK;
        status = trp__kernel_run(
            l, TRP__MODULE_OPTIMIZER, &s->elements,
            (uint64_t)(left < TRP__KERNEL_BLOCKS_MAX ? left : TRP__KERNEL_BLOCKS_MAX), &s->p, NULL,
            error);
    }
    return status;
}

TRP__KERNEL_FAMILY(optimizer, "optimizer", OPTIMIZER);
