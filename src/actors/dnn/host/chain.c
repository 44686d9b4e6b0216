#include "actors/dnn/host/chain.h"

#include "actors/dnn/host/arrays/ops.h"
#include "base/team.h"

#include <string.h>

enum {
    BLOCK = 1024,       /* elements, about */
    ROW_MOST = 1 << 16, /* elements of a row that is reduced in a chain */
    PIECE = 1 << 14,    /* elements that a thread takes at a time, at least */
    SHARED = 1 << 15,   /* elements times nodes below which one thread does all */
    ALIGN = 64,
    PORTS = 3, /* of x, b and t, or x and dy */
    ITEMS = 2 * TRP_DNN_TENSORS_MAX,
    NONE = -1,
};

/* How many elements of a tensor go with a row. */
typedef enum extent {
    FULL,   /* one with each of the row */
    COLUMN, /* one */
    ONE,    /* the same number with all */
} extent;

/* Dimensions in the order in which elements are gone through, those that follow each other in
 * memory as one; an element of the chain has the strides of 0 of what is broadcast. */
typedef struct view {
    int rank; /* at least 1 */
    int64_t dim[TRP__DNN_RANK], stride[TRP__DNN_RANK];
} view;

/* A tensor as a chain has it. */
typedef struct item {
    uint8_t tensor;
    extent extent;
    bool made;     /* by a node of the chain; else it is read from memory */
    bool stored;   /* to memory */
    bool direct;   /* its elements in memory are used as they are */
    bool constant; /* the same for all blocks */
    int last;      /* the last step that reads it */
    int slot;      /* of the scratch memory; NONE */
    view view;
} item;

typedef struct step {
    const trp__dnn_node *n;
    int from[PORTS]; /* items; NONE */
    int to;
} step;

typedef struct chain {
    const trp__dnn_graph *g;
    int first, count;
    bool wide;
    int rank, order[TRP__DNN_RANK]; /* the full shape's dimensions, slowest first */
    int64_t dim[TRP__DNN_RANK];     /* in that order */
    int split;                      /* dimensions from here on make a row; `rank`: a row is one */
    int64_t rows, width;            /* elements of a row */
    int64_t block;                  /* rows */
    int steps, items, slots;
    step step[TRP_DNN_NODES_MAX];
    item item[ITEMS];
} chain;

/* What a node reads and writes. */

static const uint8_t pointwise_ports[PORTS] = {TRP__DNN_POINTWISE_X, TRP__DNN_POINTWISE_B,
                                               TRP__DNN_POINTWISE_T};
static const uint8_t gradient_ports[PORTS] = {TRP__DNN_GRADIENT_X, TRP__DNN_GRADIENT_DY,
                                              TRP__DNN_GRADIENT_DX};

static uint8_t read_by(const trp__dnn_node *n, int which)
{
    if (n->kind == TRP_DNN_POINTWISE)
        return n->port[pointwise_ports[which]];
    if (n->kind == TRP_DNN_POINTWISE_BACKWARD)
        return which < 2 ? n->port[gradient_ports[which]] : TRP__DNN_NO_PORT;
    return which == 0 ? n->port[TRP__DNN_REDUCTION_X] : TRP__DNN_NO_PORT;
}

static uint8_t written_by(const trp__dnn_node *n)
{
    return n->port[n->kind == TRP_DNN_POINTWISE            ? TRP__DNN_POINTWISE_Y
                   : n->kind == TRP_DNN_POINTWISE_BACKWARD ? TRP__DNN_GRADIENT_DX
                                                           : TRP__DNN_REDUCTION_Y];
}

/* The tensor of a node that has the full shape. */
static uint8_t full_of(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_REDUCTION ? read_by(n, 0) : written_by(n);
}

static bool can_be_of_chain(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    if (n->kind == TRP_DNN_REDUCTION) {
        if (n->compute != TRP_F32)
            return false;
    } else if (n->kind != TRP_DNN_POINTWISE && n->kind != TRP_DNN_POINTWISE_BACKWARD) {
        return false;
    }
    for (int i = 0; i < PORTS; i++) {
        const uint8_t port = read_by(n, i);
        if (port != TRP__DNN_NO_PORT && g->tensor[port].type == TRP_I64)
            return false;
    }
    return g->tensor[written_by(n)].type != TRP_I64;
}

/* Shapes. */

static int64_t dim_of(const chain *c, const trp__dnn_tensor *t, int at)
{
    return t->dim[c->order[at]];
}

/* Whether a tensor has the chain's dimensions before `end`, and 1 from there on. */
static bool has_dims_before(const chain *c, const trp__dnn_tensor *t, int end)
{
    bool same = t->rank == c->rank;
    for (int i = 0; i < c->rank && same; i++)
        same = dim_of(c, t, i) == (i < end ? c->dim[i] : 1);
    return same;
}

static bool is_full(const chain *c, const trp__dnn_tensor *t)
{
    return has_dims_before(c, t, c->rank);
}

static bool is_column(const chain *c, const trp__dnn_tensor *t)
{
    return c->split < c->rank && has_dims_before(c, t, c->split);
}

/* What a tensor from outside goes with; false: it can't be broadcast to that. */
static bool find_extent(const chain *c, const trp__dnn_tensor *t, extent most, extent *out)
{
    bool in_row = false, in_rows = false;
    *out = ONE;
    if (t->role == TRP__DNN_VALUE || trp__dnn_elements(t) == 1)
        return true;
    if (t->rank != c->rank)
        return false;
    for (int i = 0; i < c->rank; i++) {
        const int64_t size = dim_of(c, t, i);
        if (size == 1)
            continue;
        if (size != c->dim[i])
            return false;
        *(i < c->split ? &in_rows : &in_row) = true;
    }
    *out = in_row || c->split == c->rank ? FULL : COLUMN;
    return *out == FULL ? most == FULL : in_rows;
}

/* Takes the shape of the first node, in the order in which its result lies. What is reduced is
 * always gone through in the order of its dimensions: so its bits do not depend on the chain. */
static void begin(chain *c, const trp__dnn_graph *g, int first)
{
    const trp__dnn_node *n = &g->node[first];
    const trp__dnn_tensor *t = &g->tensor[full_of(n)];
    *c = (chain){.g = g, .first = first, .wide = n->compute != TRP_F32, .rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        int at = i;
        const bool sorted = n->kind != TRP_DNN_REDUCTION;
        for (; sorted && at > 0 && t->stride[c->order[at - 1]] < t->stride[i]; at--)
            c->order[at] = c->order[at - 1];
        c->order[at] = i;
    }
    for (int i = 0; i < t->rank; i++)
        c->dim[i] = t->dim[c->order[i]];
    c->split = c->rank;
}

static bool is_in_order(const chain *c)
{
    int last = 0;
    for (int i = 0; i < c->rank; i++) {
        if (c->dim[i] != 1 && c->order[i] < last)
            return false;
        last = c->dim[i] != 1 ? c->order[i] : last;
    }
    return true;
}

/* Whether a reduction is one over the chain's rows; the first says what a row is. */
static bool splits(const chain *c, const trp__dnn_tensor *y, int *split)
{
    int64_t width = 1;
    int at = c->rank;
    if (!is_in_order(c))
        return false;
    while (at > 0 && dim_of(c, y, at - 1) == 1)
        width *= c->dim[--at];
    *split = at;
    return has_dims_before(c, y, at) && width > 1 && width <= ROW_MOST &&
           (c->split == c->rank || c->split == at);
}

/* Building. */

static int find_item(const chain *c, uint8_t tensor, bool made)
{
    for (int i = 0; i < c->items; i++) {
        if (c->item[i].tensor == tensor && c->item[i].made == made)
            return i;
    }
    return NONE;
}

/* Whether each of what a node reads can be had for a result of the extent. */
static bool can_read(const chain *c, const trp__dnn_node *n, extent to)
{
    for (int i = 0; i < PORTS; i++) {
        const uint8_t port = read_by(n, i);
        extent e;
        if (port == TRP__DNN_NO_PORT)
            continue;
        const int made = find_item(c, port, true);
        if (made != NONE ? c->item[made].extent < to
                         : !find_extent(c, &c->g->tensor[port], to, &e) || e < to)
            return false;
    }
    return true;
}

/* Joins a node, and says with what extent its result is; false: it begins another chain. The items
 * of what is read from outside are added behind, when the chain's rows are known. */
static bool join(chain *c, const trp__dnn_node *n)
{
    const trp__dnn_tensor *y = &c->g->tensor[written_by(n)];
    extent e = FULL;
    int split = c->split;
    if (!can_be_of_chain(c->g, n) || (n->compute != TRP_F32) != c->wide)
        return false;
    if (n->kind == TRP_DNN_REDUCTION) {
        if (!is_full(c, &c->g->tensor[read_by(n, 0)]) || !splits(c, y, &split))
            return false;
        e = COLUMN;
    } else if (!is_full(c, y)) {
        if (!is_column(c, y))
            return false;
        e = COLUMN;
    }
    const int old = c->split;
    c->split = split;
    if (!can_read(c, n, n->kind == TRP_DNN_REDUCTION ? FULL : e)) {
        c->split = old;
        return false;
    }
    c->item[c->items++] =
        (item){.tensor = written_by(n), .extent = e, .made = true, .last = NONE, .slot = NONE};
    c->step[c->steps++] = (step){.n = n, .from = {NONE, NONE, NONE}, .to = c->items - 1};
    return true;
}

static bool is_read_behind(const chain *c, uint8_t tensor)
{
    for (int i = c->first + c->steps; i < c->g->head->nodes; i++) {
        const trp__dnn_kind *kind = trp__dnn_kind_of(c->g->node[i].kind);
        for (int at = 0; at < TRP__DNN_PORTS; at++) {
            if (c->g->node[i].port[at] == tensor && !kind->port[at].written)
                return true;
        }
    }
    return false;
}

/* The dimensions of a tensor that go with its extent, and its strides there. */
static view view_of(const chain *c, const trp__dnn_tensor *t, extent e)
{
    const int end = e == FULL ? c->rank : e == COLUMN ? c->split : 0;
    view v = {.rank = 0, .dim = {1}, .stride = {0}};
    for (int i = 0; i < end; i++) {
        const int last = v.rank - 1;
        const int64_t stride = dim_of(c, t, i) == 1 ? 0 : t->stride[c->order[i]];
        if (c->dim[i] == 1)
            continue;
        if (v.rank > 0 && v.stride[last] == stride * c->dim[i]) {
            v.dim[last] *= c->dim[i];
            v.stride[last] = stride;
            continue;
        }
        v.dim[v.rank] = c->dim[i];
        v.stride[v.rank++] = stride;
    }
    v.rank = v.rank > 0 ? v.rank : 1;
    return v;
}

static bool is_dense(const view *v)
{
    return v->rank == 1 && (v->stride[0] == 1 || v->dim[0] == 1);
}

/* Whether none of a FULL tensor's strides goes from row to row. */
static bool is_one_row(const chain *c, const trp__dnn_tensor *t)
{
    for (int i = 0; i < c->split; i++) {
        if (dim_of(c, t, i) != 1)
            return false;
    }
    return c->split < c->rank;
}

/* The item of what a step reads. */
static int add_read(chain *c, uint8_t tensor, extent to)
{
    const trp__dnn_tensor *t = &c->g->tensor[tensor];
    int at = find_item(c, tensor, true);
    if (at == NONE)
        at = find_item(c, tensor, false);
    if (at != NONE)
        return at;
    item *x = &c->item[at = c->items++];
    *x = (item){.tensor = tensor, .last = NONE, .slot = NONE};
    find_extent(c, t, to, &x->extent);
    x->constant = x->extent == ONE || (x->extent == FULL && is_one_row(c, t));
    if (x->extent != ONE)
        x->view = view_of(c, t, x->extent);
    x->direct = x->extent != ONE && t->type == (c->wide ? TRP_F64 : TRP_F32) && is_dense(&x->view);
    return at;
}

static void finish_items(chain *c)
{
    for (int i = 0; i < c->steps; i++) {
        step *s = &c->step[i];
        item *y = &c->item[s->to];
        const trp__dnn_tensor *t = &c->g->tensor[y->tensor];
        const extent to = s->n->kind == TRP_DNN_REDUCTION ? FULL : y->extent;
        for (int k = 0; k < PORTS; k++) {
            const uint8_t port = read_by(s->n, k);
            if (port == TRP__DNN_NO_PORT)
                continue;
            s->from[k] = add_read(c, port, to);
            c->item[s->from[k]].last = i;
        }
        y->view = view_of(c, t, y->extent);
        y->stored = t->role != TRP__DNN_VIRTUAL || is_read_behind(c, y->tensor);
        y->direct = y->stored && t->type == (c->wide ? TRP_F64 : TRP_F32) && is_dense(&y->view);
    }
}

/* Slots, each free again behind the last step that reads what is in it. Those of constants stay. */
static int take_slot(chain *c, int until[ITEMS], int now, int last)
{
    int at = 0;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    while (at < c->slots && until[at] >= now)
        at++;
    c->slots += at == c->slots;
    until[at] = last;
    return at;
}

static void place_items(chain *c)
{
    int until[ITEMS];
    for (int i = 0; i < c->items; i++) {
        if (c->item[i].constant && !c->item[i].direct)
            c->item[i].slot = take_slot(c, until, 0, c->steps);
    }
    for (int i = 0; i < c->steps; i++) {
        const step *s = &c->step[i];
        for (int k = 0; k < PORTS; k++) {
            item *x = s->from[k] == NONE ? NULL : &c->item[s->from[k]];
            if (x && !x->made && !x->direct && !x->constant && x->slot == NONE)
                x->slot = take_slot(c, until, i, x->last);
        }
        item *y = &c->item[s->to];
        if (!y->direct)
            y->slot = take_slot(c, until, i, y->last > i ? y->last : i);
    }
}

static void describe(chain *c, const trp__dnn_graph *g, int first, int most)
{
    begin(c, g, first);
    while (c->steps < most && first + c->steps < g->head->nodes &&
           join(c, &g->node[first + c->steps]))
        ;
}

/* Everything but the number of steps, which is known. */
static void plan(chain *c, const trp__dnn_graph *g, int first, int count)
{
    describe(c, g, first, count);
    c->rows = c->width = 1;
    for (int i = 0; i < c->rank; i++)
        *(i < c->split ? &c->rows : &c->width) *= c->dim[i];
    c->block = c->width > 0 && c->width < BLOCK ? BLOCK / c->width : 1;
    c->block = c->block < c->rows ? c->block : c->rows;
    finish_items(c);
    place_items(c);
}

int trp__dnn_chain_length(const trp__dnn_graph *g, int first, int most)
{
    chain c;
    if (!can_be_of_chain(g, &g->node[first]) ||
        trp__dnn_elements(&g->tensor[full_of(&g->node[first])]) == 0)
        return 0;
    describe(&c, g, first, most);
    return c.steps;
}

/* Running. */

/* Of one slot: a block, and the elements that a broadcast of it to x or t would have. */
static size_t slot_bytes(const chain *c)
{
    const size_t bytes = (size_t)(c->block * c->width) * (c->wide ? sizeof(double) : sizeof(float));
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Two more slots than items have, for what is spread. */
static size_t worker_bytes(const chain *c)
{
    return slot_bytes(c) * (size_t)(c->slots + 2);
}

size_t trp__dnn_chain_bytes(const trp__dnn_graph *g, int first, int count)
{
    chain c;
    plan(&c, g, first, count);
    return worker_bytes(&c) * (size_t)trp__team_width();
}

typedef struct execution {
    const chain *c;
    const trp__dnn_host_run *run;
    int64_t piece; /* rows */
} execution;

/* One thread with some rows: a block of them. */
typedef struct state {
    const execution *e;
    char *scratch;
    int64_t row, rows; /* the block's */
    bool loaded[ITEMS];
} state;

static size_t real_size(const chain *c)
{
    return c->wide ? sizeof(double) : sizeof(float);
}

/* The first element and their number that an item has in the block. */
static int64_t first_of(const state *s, const item *x)
{
    return x->extent == ONE || x->constant ? 0
           : x->extent == FULL             ? s->row * s->e->c->width
                                           : s->row;
}

static int64_t count_of(const state *s, const item *x)
{
    return x->extent == ONE ? 1 : x->extent == FULL ? s->rows * s->e->c->width : s->rows;
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

/* Goes over the lines of a view, from element `first` on: the offset of the next element, and how
 * many follow it in the line. */
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

/* Elements of an item between memory and its slot. */
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

/* A number of the graph as its type holds it, or the only element of a tensor. */
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
    if (x->extent == ONE)
        load_one(s, x);
    else
        move(s, x, true);
}

/* The result as its type holds it, and in memory. */
static void finish_result(const state *s, const item *y)
{
    const chain *c = s->e->c;
    const uint8_t type = c->g->tensor[y->tensor].type;
    if (type != (c->wide ? TRP_F64 : TRP_F32) && y->last != NONE)
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

/* Elements of an item with one to each of the result's: what is broadcast is spread. */
static const char *spread(const state *s, const item *x, const item *y, int slot)
{
    const chain *c = s->e->c;
    const char *from = elements_of(s, x);
    char *to = slot_at(s, c->slots + slot);
    if (x->extent == y->extent)
        return from;
    if (x->extent == ONE) {
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
    const item *y = &c->item[p->to], *b = p->from[1] == NONE ? NULL : &c->item[p->from[1]];
    const size_t real = real_size(c);
    trp__chain_arrays a = {.count = count_of(s, y), .y = elements_of(s, y)};
    a.x = spread(s, &c->item[p->from[0]], y, 0);
    a.t = p->from[2] == NONE ? NULL : spread(s, &c->item[p->from[2]], y, 1);
    a.b = b ? elements_of(s, b) : NULL;
    a.one_b = b && b->extent == ONE;
    if (!b || a.one_b || b->extent == y->extent) {
        run_op(c, p->n, &a);
        return;
    }
    /* One of b with each row. */
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
        for (int k = 0; k < PORTS; k++) {
            if (p->from[k] != NONE)
                load_item(s, p->from[k]);
        }
        if (p->n->kind == TRP_DNN_REDUCTION)
            run_reduction(s, p);
        else
            run_pointwise(s, p);
        finish_result(s, &c->item[p->to]);
    }
}

/* A row that is the same for all is loaded as often as the largest block has it. */
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

/* Rows that a thread takes at a time: whole blocks. */
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
    plan(&c, &run->graph, first, count);
    execution e = {.c = &c, .run = run, .piece = piece_of(&c)};
    trp__team_run(run_piece, &e, (c.rows + e.piece - 1) / e.piece);
}
