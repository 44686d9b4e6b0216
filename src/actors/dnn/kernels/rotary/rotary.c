/* Rotary position embedding: launches the kernels of rotary.h for a node. */
#include "actors/dnn/kernels/rotary/rotary.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/math/rotary.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct step {
    trp__rotary p;
    bool wide;
    bool packs; /* the kernel is one for the type that x and y have */
    int run;
    trp__kernel rows;
} step;

/* Returns the positions as a tensor of x's dimensions: the indices, or numbers along the last
 * dimension but one. */
static trp__dnn_tensor entries_of(const trp__dnn_tensor *x, const trp__dnn_tensor *index)
{
    trp__dnn_tensor t = *x;
    if (index)
        return *index;
    for (int i = t.rank - 1; i >= 0; i--) {
        if (i != t.rank - 2)
            t.dim[i] = 1;
        t.stride[i] = i == t.rank - 2;
    }
    return t;
}

/* Groups the rows that share their positions, along the longest dimension in which they do. */
static void share_positions(trp__rotary *p)
{
    trp__rows_space *s = &p->space;
    int best = -1;
    for (int i = 0; i < s->rank; i++) {
        if (p->io[TRP__ROTARY_ENTRY].stride[i] == 0 && s->dim[i] > 1 &&
            (best < 0 || s->dim[i] > s->dim[best]))
            best = i;
    }
    p->shared = best < 0 ? 1 : s->dim[best];
    if (best < 0)
        return;
    for (int o = 0; o < 2; o++) {
        p->apart[o] = p->io[o].stride[best];
        p->io[o].stride[best] *= TRP__ROTARY_DEEP;
    }
    p->io[TRP__ROTARY_ALONG].stride[best] = TRP__ROTARY_DEEP;
    s->rows /= s->dim[best];
    s->dim[best] = (s->dim[best] + TRP__ROTARY_DEEP - 1) / TRP__ROTARY_DEEP;
    s->rows *= s->dim[best];
}

/* Tells whether all runs of `run` elements of an operand are aligned. */
static bool are_runs(const trp__rotary *p, const trp__dnn_tensor *t, int operand, int run)
{
    const uint64_t size = trp__space_element_bytes(t->type), bytes = size * (uint64_t)run;
    const uint64_t need = bytes < 16 ? bytes : 16;
    if (!trp__space_is_aligned(t, bytes))
        return false;
    for (int i = 0; i < p->space.rank; i++) {
        if ((uint64_t)p->io[operand].stride[i] * size % need != 0)
            return false;
    }
    return (uint64_t)p->apart[operand] * size % need == 0;
}

static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, step *s)
{
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__ROTARY_X),
                          *y = trp__dnn_tensor_at(g, n, TRP__ROTARY_Y);
    const trp__dnn_tensor *index = trp__dnn_tensor_at(g, n, TRP__ROTARY_INDEX);
    const trp__dnn_tensor *cosines = trp__dnn_tensor_at(g, n, TRP__ROTARY_COS);
    const int64_t width = x->dim[x->rank - 1], half = trp__rotary_turning(n, x, cosines) / 2;
    const trp__dnn_tensor entries = entries_of(x, index);
    trp__dnn_tensor group = *x;
    trp__rotary *p = &s->p;
    trp__rows r;
    memset(s, 0, sizeof *s);
    if (trp__dnn_elements(x) == 0 || width >= INT_MAX ||
        (width > 1 && (x->stride[x->rank - 1] != 1 || y->stride[y->rank - 1] != 1)))
        return false;
    group.dim[group.rank - 1] = 1;
    trp__rows_begin(&r, x, &group);
    trp__rows_add(&r, x);
    trp__rows_add(&r, y);
    trp__rows_add(&r, &entries);
    trp__rows_finish(&r, 0);
    p->node = *n;
    for (int o = 0; o < TRP__ROTARY_ALONG; o++)
        trp__rows_operand_of(&r, o, 0, o == 0 ? x->type : y->type, &p->io[o]);
    trp__rows_space_of(&r.kept, 0, &p->space);
    share_positions(p);
    p->half = (int32_t)half;
    p->pairs = n->mode == TRP_DNN_ROTARY_PAIRS;
    p->back = n->kind == TRP_DNN_ROTARY_BACKWARD;
    s->wide = n->compute == TRP_F64 || x->type == TRP_F64 || y->type == TRP_F64;
    const bool same = x->type == y->type && !s->wide;
    const int most = same && x->type != TRP_F32 ? 8 : 4;
    for (s->run = most; s->run > 1; s->run = s->run == 8 ? 4 : 1) {
        if (half % s->run == 0 && (width - 2 * half) % s->run == 0 && are_runs(p, x, 0, s->run) &&
            are_runs(p, y, 1, s->run))
            break;
    }
    s->packs = same && s->run == most;
    p->pair_chunks = (int32_t)(half / s->run);
    const int64_t chunks = p->pair_chunks + (width - 2 * half + s->run - 1) / s->run;
    if (chunks == 0 || p->space.rows >= INT_MAX / chunks)
        return false;
    p->chunks = trp__map_divide_by((uint32_t)chunks);
    p->items = p->space.rows * chunks;
    return true;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    step s;
    const trp__dnn_node *n = &g->node[first];
    if (most == 0 || (n->kind != TRP_DNN_ROTARY && n->kind != TRP_DNN_ROTARY_BACKWARD))
        return 0;
    return describe(g, n, &s);
}

/* Tells whether one load can read 4 elements of a row of a table. */
static bool is_table_of_runs(const trp__dnn_tensor *t)
{
    const uint64_t bytes = trp__space_element_bytes(t->type) * 4;
    const uint64_t need = bytes < 16 ? bytes : 16;
    return t->stride[1] == 1 && (uint64_t)t->stride[0] * bytes / 4 % need == 0 &&
           trp__space_is_aligned(t, bytes);
}

static void set_tables(const trp__dnn_graph *g, const trp__dnn_node *n, trp__rotary *p)
{
    const trp__dnn_tensor *index = trp__dnn_tensor_at(g, n, TRP__ROTARY_INDEX);
    const trp__dnn_tensor *c = trp__dnn_tensor_at(g, n, TRP__ROTARY_COS);
    const trp__dnn_tensor *s = trp__dnn_tensor_at(g, n, TRP__ROTARY_SIN);
    p->wide_index = index && index->type == TRP_I64;
    for (int bit = 0; bit < TRP__ROTARY_POWERS; bit++)
        p->power[bit] = pow(n->parameter[0], -2.0 * ldexp(1, bit) / (2.0 * p->half));
    if (!c || !s)
        return;
    p->positions = c->dim[0];
    p->table_runs = is_table_of_runs(c) && is_table_of_runs(s);
    p->cosine_type = c->type;
    p->sine_type = s->type;
    for (int i = 0; i < 2; i++) {
        p->cosine_stride[i] = c->stride[i];
        p->sine_stride[i] = s->stride[i];
    }
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_node *n = &part->graph->node[part->first];
    step *s = state;
    (void)modules;
    (void)workspace;
    if (!describe(part->graph, n, s))
        return trp__kernel_unfit(&trp__kernels_rotary, error);
    s->rows.threads = TRP__ROTARY_THREADS;
    set_tables(part->graph, n, &s->p);
    if (s->packs)
        snprintf(s->rows.name, sizeof s->rows.name, "trp_rotary_%s",
                 trp_dtype_name((trp_dtype)s->p.io[TRP__ROTARY_FROM].type));
    else
        snprintf(s->rows.name, sizeof s->rows.name, "trp_rotary_any_%s_%d", s->wide ? "f64" : "f32",
                 s->run);
    trp__text_add(engine, "%s", s->rows.name + strlen("trp_"));
    return TRP_OK;
}

static uint64_t address_of(const step *s, const trp__kernel_launch *l, int port)
{
    return trp__kernel_address(l, s->p.node.port[port]);
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    const uint8_t begin = s->p.node.port[TRP__ROTARY_OFFSET];
    s->p.io[TRP__ROTARY_FROM].at = address_of(s, l, TRP__ROTARY_X);
    s->p.io[TRP__ROTARY_TO].at = address_of(s, l, TRP__ROTARY_Y);
    s->p.index = address_of(s, l, TRP__ROTARY_INDEX);
    s->p.cosines = address_of(s, l, TRP__ROTARY_COS);
    s->p.sines = address_of(s, l, TRP__ROTARY_SIN);
    s->p.begin_at = address_of(s, l, TRP__ROTARY_OFFSET);
    s->p.begin = 0;
    if (begin != TRP__DNN_NO_PORT && !s->p.begin_at) /* by value: the bits of an i64 */
        memcpy(&s->p.begin, &l->number[begin], sizeof s->p.begin);
    const int64_t blocks = (s->p.items + TRP__ROTARY_THREADS - 1) / TRP__ROTARY_THREADS;
    return trp__kernel_run(l, TRP__MODULE_ROTARY, &s->rows, (uint64_t)blocks, &s->p, NULL, error);
}

TRP__KERNEL_FAMILY(rotary, "rotary", ROTARY);
