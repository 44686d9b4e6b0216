/* Plans element-wise programs that have a precompiled kernel (ready.h). */
#include "actors/dnn/kernels/map/ready.h"

#include "actors/dnn/kernels/map/step.h"

#include <stdio.h>
#include <string.h>

typedef trp__map_program program;
typedef trp__map_step step;

typedef struct ready {
    const char *name;
    trp__kernel_module module;
    uint8_t codes;
    trp__map_code code[TRP__READY_CODES];
} ready;

/* clang-format off */
#define LOAD(slot, operand)  {.op = TRP__MAP_LOAD, .to = (slot), .a = (operand)},
#define STORE(slot, operand) {.op = TRP__MAP_STORE, .a = (slot), .b = (operand)},
#define COMPUTE(opcode, slot, x, w, t, number)                                                     \
    {.op = (opcode), .to = (slot), .a = (x), .b = (w), .c = (t), .parameter = (number)},
#define RANDOM(slot, operand, seed, offset, number, how)                                           \
    {.op = TRP__MAP_RANDOM, .to = (slot), .a = (operand), .b = (seed), .c = (offset),              \
     .parameter = (number), .mode = (how)},
#define COUNT(...) + 1
#define PROGRAM(title, in, program, with)                                                          \
    {#title, in, 0 program(with, COUNT, COUNT, COUNT, COUNT),                                      \
     {program(with, LOAD, COMPUTE, RANDOM, STORE)}},
#define UNIT(title, program, with) PROGRAM(title, TRP__MODULE_READY_UNITS, program, with)
#define DRAW(title, program, with) PROGRAM(title, TRP__MODULE_READY_DRAWS, program, with)
static const ready ready_programs[] = {TRP__READY_UNITS(UNIT) TRP__READY_DRAWS(DRAW)};
/* clang-format on */
#undef LOAD
#undef STORE
#undef COMPUTE
#undef RANDOM
#undef COUNT
#undef PROGRAM
#undef UNIT
#undef DRAW

/* Returns the ready program with the instructions of `p`; NULL: there is none. */
static const ready *ready_codes(const program *p)
{
    for (size_t i = 0; i < sizeof ready_programs / sizeof *ready_programs; i++) {
        const ready *r = &ready_programs[i];
        if (p->map.codes == r->codes &&
            memcmp(p->map.code, r->code, r->codes * sizeof *r->code) == 0)
            return r;
    }
    return NULL;
}

/* Tells whether all operands have the layout that a ready kernel reads, and one type; *type is its
 * name. */
static bool is_ready(const program *p, const char **type)
{
    static const struct {
        uint8_t type;
        const char *name;
    } types[] = {
#define TYPE(name, type) {type, #name},
        TRP__READY_TYPES(TYPE)
#undef TYPE
    };
    const uint8_t stored = p->map.operand[p->stored].type;
    *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == stored)
            *type = types[i].name;
    }
    for (int o = 0; o < p->map.operands; o++) {
        if (p->map.operand[o].layout != TRP__MAP_LINEAR ||
            (p->tensor[o] != TRP__DNN_NO_PORT && p->map.operand[o].type != stored))
            return false;
    }
    return *type && p->map.vector;
}

/* Returns the ready program of `count` nodes, and lays it out for a step; NULL: there is none. */
static const ready *find_ready(const trp__dnn_graph *g, uint32_t first, uint32_t count, program *p,
                               step *s, const char **type)
{
    if (!trp__map_compile(p, g, first, count) || p->wide)
        return NULL;
    const ready *r = ready_codes(p);
    if (r)
        trp__map_lay_out(p, s);
    return r && is_ready(p, type) ? r : NULL;
}

static uint32_t takes_ready(const trp__dnn_graph *g, uint32_t first, uint32_t most,
                            trp__kernel_module module)
{
    enum { NODES_MAX = 4 };
    program p;
    step s;
    const char *type;
    uint32_t count = 0;
    if (!trp__map_is_element_wise(&g->node[first]))
        return 0;
    const trp__dnn_tensor *shape = &g->tensor[trp__map_output_port(&g->node[first])];
    while (count < most && count < NODES_MAX && trp__map_fits(g, &g->node[first + count], shape))
        count++;
    for (; count > 0; count--) {
        const ready *r = find_ready(g, first, count, &p, &s, &type);
        if (r && r->module == module)
            break;
    }
    return count;
}

static uint32_t takes_units(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    return takes_ready(g, first, most, TRP__MODULE_READY_UNITS);
}

static uint32_t takes_draws(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    return takes_ready(g, first, most, TRP__MODULE_READY_DRAWS);
}

static trp_status make_ready(const trp__dnn_part *part, const trp__kernel_modules *modules,
                             void *state, trp__text *engine, uint64_t *workspace, trp_error *error)
{
    program p;
    const char *type;
    step *s = state;
    (void)workspace;
    const ready *r = find_ready(part->graph, part->first, part->count, &p, s, &type);
    if (!r)
        return trp__kernel_unfit(&trp__kernels_glu, error);
    trp__map_keep(&p, s);
    s->module = r->module;
    s->kernel.threads = TRP__MAP_THREADS;
    s->each = TRP__MAP_WIDTH;
    if (r->module == TRP__MODULE_READY_DRAWS) {
        s->kernel.threads = TRP__READY_DRAW_THREADS;
        s->each = 16 / (uint32_t)trp__space_element_bytes(p.map.operand[p.stored].type);
        s->blocks = (int64_t)modules->processors * TRP__READY_DRAW_BLOCKS;
    }
    snprintf(s->kernel.name, sizeof s->kernel.name, "trp_%s_%s", r->name, type);
    trp__text_add(engine, "%s_%s", r->name, type);
    return TRP_OK;
}

const trp__kernel_family trp__kernels_glu = {
    .name = "glu",
    .takes = takes_units,
    .step_bytes = sizeof(step),
    .make = make_ready,
    .launch = trp__map_launch,
    .module = TRP__MODULE_READY_UNITS,
};

const trp__kernel_family trp__kernels_random = {
    .name = "random",
    .takes = takes_draws,
    .step_bytes = sizeof(step),
    .make = make_ready,
    .launch = trp__map_launch,
    .module = TRP__MODULE_READY_DRAWS,
};
