/* Softmax: finds the nodes that layers/norm.c makes of it, and launches the kernels of softmax.h.
 */
#include "actors/dnn/kernels/softmax/softmax.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/lower/layout.h"

#include <stdio.h>
#include <string.h>

enum {
    NODES_MAX = 6,
    LETTERS = 128,
    ROW_THREADS = 128,    /* threads of a block whose rows have at most a warp each */
    PART_MIN = 1 << 14,   /* elements of a part of a row, at least */
    PACKED_MAX = 1 << 30, /* elements of a row of packs, at most: its indices have 32 bits */
    BLOCKS_EACH = 4,      /* blocks of parts per multiprocessor */
    SLICE_MIN = 1 << 15,  /* elements of a row, at most, for which registers beat a cluster */
};

/* Patterns of nodes, with a letter for each tensor. x, y and d (dy) are read and o is written. The
 * others are inside the pattern; m, n and l of them have one element per row. */

typedef struct pattern {
    bool back, log;
    uint32_t nodes;
    struct {
        uint8_t kind, mode;
        char a, b, out; /* b: 0 if absent */
    } node[NODES_MAX];
} pattern;

#define REDUCE(mode, a, out)                                                                       \
    {                                                                                              \
        TRP_DNN_REDUCTION, TRP_DNN_##mode, a, 0, out                                               \
    }
#define POINT(mode, a, b, out)                                                                     \
    {                                                                                              \
        TRP_DNN_POINTWISE, TRP_DNN_##mode, a, b, out                                               \
    }

static const pattern patterns[] = {
    {.nodes = 5,
     .node = {REDUCE(MOST, 'x', 'm'), POINT(SUB, 'x', 'm', 's'), POINT(EXP, 's', 0, 'e'),
              REDUCE(SUM, 'e', 'n'), POINT(DIV, 'e', 'n', 'o')}},
    {.log = true,
     .nodes = 6,
     .node = {REDUCE(MOST, 'x', 'm'), POINT(SUB, 'x', 'm', 's'), POINT(EXP, 's', 0, 'e'),
              REDUCE(SUM, 'e', 'n'), POINT(LOG, 'n', 0, 'l'), POINT(SUB, 's', 'l', 'o')}},
    {.back = true,
     .nodes = 4,
     .node = {POINT(MUL, 'd', 'y', 'p'), REDUCE(SUM, 'p', 'n'), POINT(SUB, 'd', 'n', 's'),
              POINT(MUL, 's', 'y', 'o')}},
    {.back = true,
     .log = true,
     .nodes = 4,
     .node = {REDUCE(SUM, 'd', 'n'), POINT(EXP, 'y', 0, 'e'), POINT(MUL, 'e', 'n', 'p'),
              POINT(SUB, 'd', 'p', 'o')}},
};

/* The number of the tensor that each letter stands for. */
typedef struct match {
    const pattern *pattern;
    uint8_t tensor[LETTERS];
} match;

static bool bind(match *m, char letter, uint8_t tensor)
{
    uint8_t *bound = &m->tensor[(unsigned char)letter];
    if (*bound == TRP__DNN_NO_PORT)
        *bound = tensor;
    return *bound == tensor && tensor != TRP__DNN_NO_PORT;
}

static bool binds_node(match *m, uint32_t i, const trp__dnn_node *n)
{
    const char a = m->pattern->node[i].a, b = m->pattern->node[i].b, out = m->pattern->node[i].out;
    if (n->kind != m->pattern->node[i].kind || n->mode != m->pattern->node[i].mode ||
        (n->compute != TRP_F32 && n->compute != TRP_F64))
        return false;
    if (n->kind == TRP_DNN_REDUCTION)
        return bind(m, a, n->port[TRP__DNN_REDUCTION_X]) &&
               bind(m, out, n->port[TRP__DNN_REDUCTION_Y]);
    const uint8_t x = n->port[TRP__DNN_POINTWISE_X], y = n->port[TRP__DNN_POINTWISE_B];
    const match before = *m;
    bool good = bind(m, a, x) && (!b || bind(m, b, y));
    if (!good && n->mode == TRP_DNN_MUL) {
        *m = before;
        good = bind(m, a, y) && bind(m, b, x);
    }
    return good && bind(m, out, n->port[TRP__DNN_POINTWISE_Y]);
}

/* Returns the letters of all tensors inside patterns, or of those outside. */
static const char *letters_of(bool inside)
{
    return inside ? "msenlp" : "xydo";
}

/* Tells whether a tensor has one element for each row of `shape`. */
static bool is_reduced(const trp__dnn_tensor *t, const trp__dnn_tensor *shape)
{
    for (int i = 0; i < shape->rank; i++) {
        if (t->dim[i] != 1 && t->dim[i] != shape->dim[i])
            return false;
    }
    return t->rank == shape->rank;
}

static bool fits(const match *m, const trp__dnn_graph *g, uint32_t first)
{
    const trp__dnn_part part = {g, first, m->pattern->nodes};
    const trp__dnn_tensor *shape = &g->tensor[m->tensor['o']];
    const trp__dnn_tensor *sum = &g->tensor[m->tensor['n']];
    uint8_t place[TRP__DNN_LOWERED_TENSORS];
    trp__dnn_places(&part, place);
    for (int inside = 0; inside < 2; inside++) {
        for (const char *c = letters_of(inside); *c; c++) {
            const uint8_t number = m->tensor[(unsigned char)*c];
            const trp__dnn_tensor *t = &g->tensor[number];
            if (number == TRP__DNN_NO_PORT)
                continue;
            if (inside ? place[number] != TRP__DNN_PLACE_INSIDE || t->type != g->node[first].compute
                       : place[number] != TRP__DNN_PLACE_MEMORY || !trp__rows_takes_type(t->type))
                return false;
            if (!trp__dnn_same_dims(t, strchr("mnl", *c) ? sum : shape))
                return false;
        }
    }
    return is_reduced(sum, shape);
}

static bool find(const trp__dnn_graph *g, uint32_t first, uint32_t most, match *m)
{
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        bool good = patterns[p].nodes <= most;
        m->pattern = &patterns[p];
        memset(m->tensor, TRP__DNN_NO_PORT, sizeof m->tensor);
        for (uint32_t i = 0; i < patterns[p].nodes && good; i++)
            good = binds_node(m, i, &g->node[first + i]) &&
                   g->node[first + i].compute == g->node[first].compute;
        if (good && fits(m, g, first))
            return true;
    }
    return false;
}

/* Steps. */

typedef struct step {
    trp__softmax p;
    uint8_t tensor[3];
    uint64_t blocks;
    bool in_parts; /* two launches */
    trp__kernel kernel;
} step;

static bool describe(const trp__dnn_graph *g, const match *m, trp__rows *r, step *s)
{
    const bool back = m->pattern->back;
    const uint8_t tensor[3] = {back ? m->tensor['y'] : m->tensor['x'],
                               back ? m->tensor['d'] : m->tensor['x'], m->tensor['o']};
    memcpy(s->tensor, tensor, sizeof tensor);
    trp__rows_begin(r, &g->tensor[m->tensor['o']], &g->tensor[m->tensor['n']]);
    for (int i = 0; i < 3; i++)
        trp__rows_add(r, &g->tensor[tensor[i]]);
    trp__rows_finish(r, 2);
    s->p.n = r->reduced.dim[0];
    s->p.log = m->pattern->log;
    return r->reduced.rank == 1;
}

static void set_operands(const trp__dnn_graph *g, const trp__rows *r, int from, step *s)
{
    for (int i = 0; i < 3; i++)
        trp__rows_operand_of(r, i, from, g->tensor[s->tensor[i]].type, &s->p.io[i]);
    trp__rows_space_of(&r->kept, from, &s->p.space);
}

static bool all_aligned(const trp__dnn_graph *g, const step *s)
{
    return trp__space_is_aligned(&g->tensor[s->tensor[0]], 16) &&
           trp__space_is_aligned(&g->tensor[s->tensor[1]], 16) &&
           trp__space_is_aligned(&g->tensor[s->tensor[2]], 16);
}

/* Tells whether all operands have a stride along rows of 1 or, for `by` above 1, of a multiple of
 * `by`. */
static bool steps_divide(const trp__rows *r, int64_t by)
{
    for (int o = 0; o < 3; o++) {
        if (by == 1 ? r->reduced.stride[o][0] != 1 : r->reduced.stride[o][0] % by != 0)
            return false;
    }
    return true;
}

/* Tells whether adjacent elements belong to different rows. */
static bool are_columns(const trp__rows *r)
{
    for (int o = 0; o < 3; o++) {
        if (r->kept.stride[o][0] != 1)
            return false;
    }
    return r->reduced.dim[0] == 1 || !steps_divide(r, 1);
}

/* Cuts rows into parts of multiples of `unit` elements, and at least about `least`, for enough
 * blocks. others: the blocks without parts. */
static void share_parts(step *s, uint64_t others, int64_t unit, int64_t least, int processors)
{
    const uint64_t wanted = (uint64_t)(processors > 0 ? processors : 1) * BLOCKS_EACH;
    const int64_t units = (s->p.n + unit - 1) / unit, few = least / unit;
    int64_t parts = others >= wanted / 2 ? 1 : (int64_t)(wanted / others);
    if (parts > units / few)
        parts = units / few;
    if (parts < 1)
        parts = 1;
    s->p.part = (units + parts - 1) / parts * unit;
    s->p.parts = (s->p.n + s->p.part - 1) / s->p.part;
    s->blocks = others * (uint64_t)s->p.parts;
    s->p.last = (int64_t)s->blocks - 1;
    s->in_parts = s->p.parts > 1;
    s->p.pass = TRP__SOFTMAX_BOTH;
}

static void plan_blocks(step *s)
{
    s->kernel.threads = s->p.threads <= 32 ? ROW_THREADS : (uint32_t)s->p.threads;
    const uint64_t rows = s->kernel.threads / (uint32_t)s->p.threads;
    s->blocks = ((uint64_t)s->p.space.rows + rows - 1) / rows;
}

/* Plans a cluster of blocks for each row; false: it does not suit. */
static bool plan_slices(const trp__kernel_modules *m, bool back, bool ragged, step *s)
{
    const int64_t unit = s->p.io[0].type == TRP_F32 ? 4 : 8; /* elements of 16 bytes */
    trp__slices slices;
    if (s->p.n > PACKED_MAX ||
        !trp__rows_slices(m, s->p.space.rows, (s->p.n + (ragged ? unit - 1 : 0) + unit - 1) / unit,
                          back ? 1 : 2, 2, 1, &slices))
        return false;
    s->kernel.cluster = slices.cluster;
    s->p.room = slices.room;
    s->p.parts = slices.cluster;
    s->p.part = slices.each * unit;
    s->p.pass = TRP__SOFTMAX_BOTH;
    s->blocks = (uint64_t)s->p.space.rows * slices.cluster;
    s->kernel.threads = slices.threads;
    s->kernel.shared = slices.shared;
    return true;
}

static void plan_rows(const trp__dnn_graph *g, const trp__rows *r, bool wide, bool back,
                      const trp__kernel_modules *modules, step *s)
{
    const int processors = modules->processors;
    static const trp__row_packs_ways forward = {{2, 32}, {4, 32}, {4, 512}, {8, 1024}};
    static const trp__row_packs_ways backward = {{2, 32}, {4, 32}, {4, 1024}};
    bool ragged = false;
    const char *type = wide ? "f64" : "any", *way = back ? "softmax_back" : "softmax";
    set_operands(g, r, 0, s);
    const char *packed = s->p.space.rows <= INT32_MAX ? trp__row_packs_type(s->p.io, 3) : NULL;
    s->p.columns = 1;
    s->p.runs =
        all_aligned(g, s) && steps_divide(r, 1) && trp__rows_are_runs(&r->kept, 0, 3, &ragged);
    const int64_t need = s->p.n + (s->p.runs && ragged ? TRP__ROWS_RUN - 1 : 0);
    const int packs = s->p.runs && packed ? trp__row_packs_share(back ? backward : forward, need,
                                                                 s->p.io[0].type, &s->p.threads)
                                          : 0;
    if (s->p.runs && packed && (packs == 0 || s->p.n > SLICE_MIN) &&
        plan_slices(modules, back, ragged, s)) {
        snprintf(s->kernel.name, sizeof s->kernel.name, "trp_softmax_%s_%sslices", packed,
                 back ? "back_" : "");
        return;
    }
    if (packs > 0) {
        plan_blocks(s);
        snprintf(s->kernel.name, sizeof s->kernel.name, "trp_softmax_%s_%s%d", packed,
                 back ? "back_" : "", packs);
        return;
    }
    const int runs = trp__rows_share(need,
                                     wide   ? 1
                                     : back ? 2
                                            : 4,
                                     TRP__ROWS_THREADS_MAX, &s->p.threads);
    if (runs > 0) {
        plan_blocks(s);
        snprintf(s->kernel.name, sizeof s->kernel.name, "trp_%s_%s_%d", way, type, runs);
        return;
    }
    s->kernel.threads = TRP__SOFTMAX_THREADS;
    share_parts(s, (uint64_t)s->p.space.rows, TRP__SOFTMAX_TILE, PART_MIN, processors);
    if (s->p.runs && packed && s->p.n <= PACKED_MAX) {
        share_parts(s, (uint64_t)s->p.space.rows, TRP__SOFTMAX_PACKED_TILE, PART_MIN, processors);
        s->kernel.threads = TRP__SOFTMAX_PACKED_THREADS;
        snprintf(s->kernel.name, sizeof s->kernel.name, "trp_softmax_%s_%sparts", packed,
                 back ? "back_" : "");
        return;
    }
    snprintf(s->kernel.name, sizeof s->kernel.name, "trp_%s_parts_%s", way, type);
}

static void plan_columns(const trp__dnn_graph *g, const trp__rows *r, bool wide, bool back,
                         int processors, step *s)
{
    const int64_t unit = TRP__SOFTMAX_WARPS * TRP__SOFTMAX_DEEP;
    bool ragged = false;
    set_operands(g, r, 1, s);
    s->p.columns = r->kept.dim[0];
    s->p.runs = all_aligned(g, s) && (s->p.n == 1 || steps_divide(r, TRP__ROWS_RUN)) &&
                trp__rows_are_runs(&r->kept, 1, 3, &ragged) && !ragged &&
                s->p.columns >= TRP__SOFTMAX_COLUMNS / 2;
    s->kernel.threads = TRP__SOFTMAX_WARPS * 32;
    share_parts(s,
                (uint64_t)s->p.space.rows *
                    (uint64_t)((s->p.columns + TRP__SOFTMAX_COLUMNS - 1) / TRP__SOFTMAX_COLUMNS),
                unit, 4 * unit, processors);
    snprintf(s->kernel.name, sizeof s->kernel.name, "trp_%s_columns_%s",
             back ? "softmax_back" : "softmax", wide ? "f64" : "any");
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    match m;
    trp__rows r;
    step s = {0};
    return find(g, first, most, &m) && describe(g, &m, &r, &s) ? m.pattern->nodes : 0;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    match m;
    trp__rows r;
    step *s = state;
    if (!find(g, part->first, part->count, &m) || !describe(g, &m, &r, s))
        return trp__kernel_unfit(&trp__kernels_softmax, error);
    bool wide = g->node[part->first].compute == TRP_F64;
    for (int i = 0; i < 3; i++)
        wide = wide || g->tensor[s->tensor[i]].type == TRP_F64;
    if (are_columns(&r))
        plan_columns(g, &r, wide, m.pattern->back, modules->processors, s);
    else
        plan_rows(g, &r, wide, m.pattern->back, modules, s);
    trp__text_add(engine, "%s%s", s->kernel.name + strlen("trp_"), s->p.runs ? "" : "_loose");
    if (s->in_parts)
        *workspace = 2 * sizeof(double) * (uint64_t)s->p.parts * (uint64_t)s->p.columns *
                     (uint64_t)s->p.space.rows;
    return TRP_OK;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = TRP_OK;
    for (int i = 0; i < 3; i++)
        s->p.io[i].at = trp__kernel_address(l, s->tensor[i]);
    s->p.sums = (uint64_t)(uintptr_t)l->workspace;
    if (s->in_parts) {
        s->p.pass = TRP__SOFTMAX_SUMS;
        status = trp__kernel_run(l, TRP__MODULE_SOFTMAX, &s->kernel, s->blocks, &s->p, &s->p.first,
                                 error);
        s->p.pass = TRP__SOFTMAX_APPLY;
    }
    return status == TRP_OK ? trp__kernel_run(l, TRP__MODULE_SOFTMAX, &s->kernel, s->blocks, &s->p,
                                              &s->p.first, error)
                            : status;
}

TRP__KERNEL_FAMILY(softmax, "softmax", SOFTMAX);
