#include "actors/dnn/host/chain.h"

#include "actors/dnn/host/arrays/ops.h"
#include "actors/dnn/host/chain_plan.h"
#include "base/os/team.h"

#include <string.h>

enum {
    PIECE = 1 << 14,  /* least elements per piece of a thread */
    SHARED = 1 << 15, /* elements times nodes below which one thread is used */
    ALIGN = 64,
};

typedef trp__dnn_chain_view view;
typedef trp__dnn_chain_item item;
typedef trp__dnn_chain_step step;
typedef trp__dnn_chain chain;

/* Returns the bytes of a slot: a block, and the elements that a broadcast of it to x or t has. */
static size_t slot_bytes(const chain *c)
{
    const size_t bytes = (size_t)(c->block * c->width) * (c->wide ? sizeof(double) : sizeof(float));
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns the bytes of a thread: two slots more than the items', for broadcast operands. */
static size_t worker_bytes(const chain *c)
{
    return slot_bytes(c) * (size_t)(c->slots + 2);
}

size_t trp__dnn_chain_bytes(const trp__dnn_graph *g, int first, int count)
{
    chain c;
    trp__dnn_chain_plan(&c, g, first, count);
    return worker_bytes(&c) * (size_t)trp__team_width();
}

typedef struct execution {
    const chain *c;
    const trp__dnn_host_run *run;
    int64_t piece; /* rows */
} execution;

/* A thread's current block of rows. */
typedef struct state {
    const execution *e;
    char *scratch;
    int64_t row, rows; /* the block's */
    bool loaded[TRP__CHAIN_ITEMS];
} state;

static size_t real_size(const chain *c)
{
    return c->wide ? sizeof(double) : sizeof(float);
}

/* Return the first element of an item in the block and their number. */
static int64_t first_of(const state *s, const item *x)
{
    return x->extent == TRP__CHAIN_ONE || x->constant ? 0
           : x->extent == TRP__CHAIN_FULL             ? s->row * s->e->c->width
                                                      : s->row;
}

static int64_t count_of(const state *s, const item *x)
{
    return x->extent == TRP__CHAIN_ONE    ? 1
           : x->extent == TRP__CHAIN_FULL ? s->rows * s->e->c->width
                                          : s->rows;
}

static char *slot_at(const state *s, int slot)
{
    return s->scratch + slot_bytes(s->e->c) * (size_t)slot;
}

static char *elements_of(const state *s, const item *x)
{
    if (!x->direct)
        return slot_at(s, x->slot);
    return (char *)s->e->run->place[x->tensor] + (size_t)first_of(s, x) * real_size(s->e->c);
}

/* Iterates over the lines of a view from element `first` on: the offset of the next element, and
 * the number that follow it in the line. */
typedef struct lines {
    const view *v;
    int64_t at[TRP__DNN_RANK], offset;
} lines;

static lines lines_from(const view *v, int64_t first)
{
    lines l = {.v = v};
    for (int i = v->rank - 1; i >= 0; i--) {
        l.at[i] = first % v->dim[i];
        first /= v->dim[i];
        l.offset += l.at[i] * v->stride[i];
    }
    return l;
}

static void advance(lines *l, int64_t count)
{
    int i = l->v->rank - 1;
    l->at[i] += count;
    l->offset += count * l->v->stride[i];
    for (; i > 0 && l->at[i] == l->v->dim[i]; i--) {
        l->offset += l->v->stride[i - 1] - l->v->dim[i] * l->v->stride[i];
        l->at[i] = 0;
        l->at[i - 1]++;
    }
}

/* Copies elements of an item between memory and its slot. */
static void move(const state *s, const item *x, bool load)
{
    const chain *c = s->e->c;
    const trp__dnn_tensor *t = &c->g->tensor[x->tensor];
    const size_t size = trp_dtype_bits((trp_dtype)t->type) / 8, real = real_size(c);
    char *dense = slot_at(s, x->slot), *place = s->e->run->place[x->tensor];
    const int last = x->view.rank - 1;
    int64_t rest = count_of(s, x);
    lines l = lines_from(&x->view, first_of(s, x));
    while (rest > 0) {
        const int64_t line = x->view.dim[last] - l.at[last], count = line < rest ? line : rest;
        char *at = place + l.offset * (int64_t)size;
        if (load)
            trp__dnn_host_load_line(t->type, at, x->view.stride[last], c->wide, dense, count);
        else
            trp__dnn_host_store_line(t->type, at, x->view.stride[last], c->wide, dense, count);
        dense += (size_t)count * real;
        rest -= count;
        if (rest > 0)
            advance(&l, count);
    }
}

static void fill(const chain *c, const void *value, void *to, int64_t count)
{
    if (c->wide) {
        for (int64_t i = 0; i < count; i++)
            ((double *)to)[i] = *(const double *)value;
    } else {
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] = *(const float *)value;
    }
}

/* Loads a number of the graph in its type, or the only element of a tensor. */
static void load_one(const state *s, const item *x)
{
    const trp__dnn_graph *g = s->e->c->g;
    const trp__dnn_tensor *t = &g->tensor[x->tensor];
    if (t->role == TRP__DNN_VALUE)
        trp__dnn_host_load_value(t, g->value[x->tensor], s->e->c->wide, slot_at(s, x->slot));
    else
        trp__dnn_host_load_line(t->type, s->e->run->place[x->tensor], 1, s->e->c->wide,
                                slot_at(s, x->slot), 1);
}

static void load_item(state *s, int index)
{
    const item *x = &s->e->c->item[index];
    if (s->loaded[index] || x->made || x->direct)
        return;
    s->loaded[index] = true;
    if (x->extent == TRP__CHAIN_ONE)
        load_one(s, x);
    else
        move(s, x, true);
}

/* Rounds the result to its type and stores it. */
static void finish_result(const state *s, const item *y)
{
    const chain *c = s->e->c;
    const uint8_t type = c->g->tensor[y->tensor].type;
    if (type != (c->wide ? TRP_F64 : TRP_F32) && y->last != TRP__CHAIN_NONE)
        trp__dnn_host_round(type, c->wide, slot_at(s, y->slot), count_of(s, y));
    if (y->stored && !y->direct)
        move(s, y, false);
}

static void run_op(const chain *c, const trp__dnn_node *n, const trp__chain_arrays *a)
{
    if (c->wide)
        trp__chain_op_f64(n, a);
    else
        trp__chain_op_f32(n, a);
}

/* Returns an item's elements, one per element of the result: broadcast items are expanded. */
static const char *spread(const state *s, const item *x, const item *y, int slot)
{
    const chain *c = s->e->c;
    const char *from = elements_of(s, x);
    char *to = slot_at(s, c->slots + slot);
    if (x->extent == y->extent)
        return from;
    if (x->extent == TRP__CHAIN_ONE) {
        fill(c, from, to, count_of(s, y));
        return to;
    }
    for (int64_t i = 0; i < s->rows; i++)
        fill(c, from + (size_t)i * real_size(c), to + (size_t)(i * c->width) * real_size(c),
             c->width);
    return to;
}

static void run_pointwise(const state *s, const step *p)
{
    const chain *c = s->e->c;
    const item *y = &c->item[p->to],
               *b = p->from[1] == TRP__CHAIN_NONE ? NULL : &c->item[p->from[1]];
    const size_t real = real_size(c);
    trp__chain_arrays a = {.count = count_of(s, y), .y = elements_of(s, y)};
    a.x = spread(s, &c->item[p->from[0]], y, 0);
    a.t = p->from[2] == TRP__CHAIN_NONE ? NULL : spread(s, &c->item[p->from[2]], y, 1);
    a.b = b ? elements_of(s, b) : NULL;
    a.one_b = b && b->extent == TRP__CHAIN_ONE;
    if (!b || a.one_b || b->extent == y->extent) {
        run_op(c, p->n, &a);
        return;
    }
    /* Each row has one element of b. */
    a.one_b = true;
    a.count = c->width;
    for (int64_t i = 0; i < s->rows; i++) {
        run_op(c, p->n, &a);
        a.x = (const char *)a.x + (size_t)c->width * real;
        a.t = a.t ? (const char *)a.t + (size_t)c->width * real : NULL;
        a.y = (char *)a.y + (size_t)c->width * real;
        a.b = (const char *)a.b + real;
    }
}

static void run_reduction(const state *s, const step *p)
{
    const chain *c = s->e->c;
    const float *x = (const void *)elements_of(s, &c->item[p->from[0]]);
    float *y = (void *)elements_of(s, &c->item[p->to]);
    for (int64_t i = 0; i < s->rows; i++)
        y[i] = trp__chain_reduce_f32(p->n->mode, x + i * c->width, c->width);
}

static void run_block(state *s)
{
    const chain *c = s->e->c;
    for (int i = 0; i < c->items; i++)
        s->loaded[i] = s->loaded[i] && c->item[i].constant;
    for (int i = 0; i < c->steps; i++) {
        const step *p = &c->step[i];
        for (int k = 0; k < TRP__CHAIN_PORTS; k++) {
            if (p->from[k] != TRP__CHAIN_NONE)
                load_item(s, p->from[k]);
        }
        if (p->n->kind == TRP_DNN_REDUCTION)
            run_reduction(s, p);
        else
            run_pointwise(s, p);
        finish_result(s, &c->item[p->to]);
    }
}

/* Runs a piece. A row common to all blocks is loaded as often as the largest block repeats it. */
static void run_piece(void *context, int64_t piece, int worker)
{
    const execution *e = context;
    const chain *c = e->c;
    const int64_t first = piece * e->piece;
    const int64_t end = first + e->piece < c->rows ? first + e->piece : c->rows;
    state s = {.e = e, .scratch = (char *)e->run->scratch + worker_bytes(c) * (size_t)worker};
    for (s.row = first; s.row < end; s.row += s.rows) {
        s.rows = end - s.row < c->block ? end - s.row : c->block;
        run_block(&s);
    }
}

/* Returns the rows of a piece: whole blocks. */
static int64_t piece_of(const chain *c)
{
    const int64_t rows = c->width < PIECE ? PIECE / c->width : 1;
    if (c->rows * c->width * c->steps < SHARED)
        return c->rows;
    return (rows + c->block - 1) / c->block * c->block;
}

void trp__dnn_chain_run(const trp__dnn_host_run *run, int first, int count)
{
    chain c;
    trp__dnn_chain_plan(&c, &run->graph, first, count);
    execution e = {.c = &c, .run = run, .piece = piece_of(&c)};
    trp__team_run(run_piece, &e, (c.rows + e.piece - 1) / e.piece);
}
