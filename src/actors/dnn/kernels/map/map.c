/* Plans fused element-wise graphs: a step has a program of map.h, which the interpreter runs, and
 * the source of a kernel for this program alone. */
#include "actors/dnn/kernels/map/map.h"

#include "actors/dnn/kernels/map/step.h"

#include <stdio.h>
#include <string.h>

typedef trp__map_program program;
typedef trp__map_step step;

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    program p;
    uint32_t count = 0, best = 0;
    if (!trp__map_is_element_wise(&g->node[first]))
        return 0;
    const trp__dnn_tensor *shape = &g->tensor[trp__map_output_port(&g->node[first])];
    while (count < most && trp__map_fits(g, &g->node[first + count], shape))
        count++;
    for (best = count; best > 0 && !trp__map_compile(&p, g, first, best);)
        best--;
    return best;
}

/* Writes the source of a kernel for one program. False: it is too long. */
static bool write_source(const step *s, int slots, char *out, size_t size)
{
    static const char *const layouts[] = {"LINEAR", "PACKED", "SPLAT", "STRIDED"};
    trp__text t = {.out = out, .size = size};
    char input[3][8];
    trp__text_add(&t, "#define _Static_assert static_assert\n"
                      "#include \"actors/dnn/kernels/map/fused.cuh\"\n");
    trp__text_add(&t, "TRP__FUSED(%s, %d, %d, %d, %u)\n", s->wide ? "double" : "float",
                  trp__map_width(s->wide), s->map.vector, s->map.rank, s->deep);
    for (int i = 0; i < slots; i++)
        trp__text_add(&t, "SLOT(%d)", i);
    for (int i = 0; i < s->numbers; i++)
        trp__text_add(&t, "VALUE(%d)", i);
    for (int i = 0; i < s->map.codes; i++) { /* all loads are in flight before anything waits */
        const int operand = s->map.code[i].a;
        if (s->map.code[i].op == TRP__MAP_LOAD)
            trp__text_add(&t, "\nREAD(%d, %d, TRP__MAP_%s)", operand, s->map.operand[operand].type,
                          layouts[s->map.operand[operand].layout]);
    }
    for (int i = 0; i < s->map.codes; i++) {
        const trp__map_code *c = &s->map.code[i];
        if (c->op == TRP__MAP_LOAD) {
            trp__text_add(&t, "\nLOAD(%d, %d)", c->to, c->a);
        } else if (c->op == TRP__MAP_STORE) {
            trp__text_add(&t, "\nSTORE(%d, %d, %d, TRP__MAP_%s)", c->a, c->b,
                          s->map.operand[c->b].type, layouts[s->map.operand[c->b].layout]);
        } else if (c->op == TRP__MAP_RANDOM) {
            trp__text_add(&t, "\nRANDOM(%d, %d, TRP__MAP_%s, %d, %d, %d, %d)", c->to, c->a,
                          layouts[s->map.operand[c->a].layout], c->b, c->c, c->parameter, c->mode);
        } else if (c->op == TRP__MAP_ROUND) {
            trp__text_add(&t, "\nROUND(%d, %d)", c->to, c->b);
        } else {
            const uint8_t inputs[] = {c->a, c->b, c->c};
            for (int k = 0; k < 3; k++)
                snprintf(input[k], sizeof input[k], "%c%d", inputs[k] < TRP__MAP_NUMBER ? 's' : 'n',
                         inputs[k] % TRP__MAP_NUMBER);
            trp__text_add(&t, "\nCOMPUTE(%d, %d, %s, %s, %s, %d)", c->op, c->to, input[0], input[1],
                          input[2], c->parameter);
        }
    }
    trp__text_add(&t, "\nEND\n");
    return strlen(out) + 1 < size;
}

/* Returns how many packs a thread of the program's own kernel has at a time: two where it reads one
 * array and no operand takes more than 2 bytes an element, so that a load has at most 16 bytes.
 * Several arrays have enough loads in flight with one pack. */
static uint32_t packs_of(const program *p)
{
    int arrays = 0;
    for (int i = 0; i < p->map.codes; i++)
        arrays += p->map.code[i].op == TRP__MAP_LOAD &&
                  p->map.operand[p->map.code[i].a].layout == TRP__MAP_LINEAR;
    bool narrow = p->map.vector && !p->wide && arrays == 1;
    for (int o = 0; o < p->map.operands; o++)
        narrow = narrow && (p->tensor[o] == TRP__DNN_NO_PORT ||
                            trp__space_element_bytes(p->map.operand[o].type) <= 2);
    return narrow ? 2 : 1;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    program p;
    step *s = state;
    (void)modules;
    (void)workspace;
    if (!trp__map_compile(&p, part->graph, part->first, part->count))
        return trp__kernel_unfit(&trp__kernels_map, error);
    trp__map_lay_out(&p, s);
    trp__map_keep(&p, s);
    s->module = TRP__MODULE_MAP;
    snprintf(s->kernel.name, sizeof s->kernel.name, "trp_map_%s", p.wide ? "f64" : "f32");
    s->kernel.shared = (uint32_t)p.slots * TRP__MAP_SLOT_BYTES;
    s->kernel.threads = TRP__MAP_THREADS;
    s->each = (uint32_t)trp__map_width(p.wide);
    s->deep = packs_of(&p);
    s->source = (char *)(s + 1);
    if (!write_source(s, p.slots, s->source, TRP__FUSED_SOURCE))
        s->source = NULL;
    trp__text_add(engine, "map_%s%s", p.wide ? "f64" : "f32", p.map.vector ? "_vector" : "");
    return TRP_OK;
}

const trp__kernel_family trp__kernels_map = {
    .name = "map",
    .takes = takes,
    .step_bytes = sizeof(step) + TRP__FUSED_SOURCE,
    .make = make,
    .launch = trp__map_launch,
    .module = TRP__MODULE_MAP,
};
