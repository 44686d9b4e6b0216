#include "actors/dnn/host/chain_plan.h"

#include "actors/dnn/host/chain.h"

#include <string.h>

enum {
    BLOCK = 1024,       /* approximate elements */
    ROW_MOST = 1 << 16, /* largest row that is reduced in a chain */
};

typedef trp__dnn_chain_extent extent;
typedef trp__dnn_chain_view view;
typedef trp__dnn_chain_item item;
typedef trp__dnn_chain_step step;
typedef trp__dnn_chain chain;

/* The ports of a node. */

static const uint8_t pointwise_ports[TRP__CHAIN_PORTS] = {
    TRP__DNN_POINTWISE_X, TRP__DNN_POINTWISE_B, TRP__DNN_POINTWISE_T};
static const uint8_t gradient_ports[TRP__CHAIN_PORTS] = {TRP__DNN_GRADIENT_X, TRP__DNN_GRADIENT_DY,
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

/* Returns the tensor of a node with the full shape. */
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
    for (int i = 0; i < TRP__CHAIN_PORTS; i++) {
        const uint8_t port = read_by(n, i);
        if (port != TRP__DNN_NO_PORT && g->tensor[port].type == TRP_I64)
            return false;
    }
    return g->tensor[written_by(n)].type != TRP_I64;
}

static int64_t dim_of(const chain *c, const trp__dnn_tensor *t, int at)
{
    return t->dim[c->order[at]];
}

/* Tells whether a tensor has the chain's dimensions before `end`, and 1 from there on. */
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

/* Finds the extent to which an outside tensor is broadcast; returns false if that is impossible. */
static bool find_extent(const chain *c, const trp__dnn_tensor *t, extent most, extent *out)
{
    bool in_row = false, in_rows = false;
    *out = TRP__CHAIN_ONE;
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
    *out = in_row || c->split == c->rank ? TRP__CHAIN_FULL : TRP__CHAIN_COLUMN;
    return *out == TRP__CHAIN_FULL ? most == TRP__CHAIN_FULL : in_rows;
}

/* Takes the shape of the first node in the memory order of its result. Reductions are always
 * processed in the order of the dimensions, so that their bits do not depend on the chain. */
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

/* Tells whether a reduction is over the chain's rows; the first one determines what a row is. */
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

static int find_item(const chain *c, uint8_t tensor, bool made)
{
    for (int i = 0; i < c->items; i++) {
        if (c->item[i].tensor == tensor && c->item[i].made == made)
            return i;
    }
    return TRP__CHAIN_NONE;
}

/* Tells whether all inputs of a node are available for a result of the extent. */
static bool can_read(const chain *c, const trp__dnn_node *n, extent to)
{
    for (int i = 0; i < TRP__CHAIN_PORTS; i++) {
        const uint8_t port = read_by(n, i);
        extent e;
        if (port == TRP__DNN_NO_PORT)
            continue;
        const int made = find_item(c, port, true);
        if (made != TRP__CHAIN_NONE ? c->item[made].extent < to
                                    : !find_extent(c, &c->g->tensor[port], to, &e) || e < to)
            return false;
    }
    return true;
}

/* Adds a node and sets the extent of its result; returns false if it begins another chain. Outside
 * inputs are added later, when the chain's rows are known. */
static bool join(chain *c, const trp__dnn_node *n)
{
    const trp__dnn_tensor *y = &c->g->tensor[written_by(n)];
    extent e = TRP__CHAIN_FULL;
    int split = c->split;
    if (!can_be_of_chain(c->g, n) || (n->compute != TRP_F32) != c->wide)
        return false;
    if (n->kind == TRP_DNN_REDUCTION) {
        if (!is_full(c, &c->g->tensor[read_by(n, 0)]) || !splits(c, y, &split))
            return false;
        e = TRP__CHAIN_COLUMN;
    } else if (!is_full(c, y)) {
        if (!is_column(c, y))
            return false;
        e = TRP__CHAIN_COLUMN;
    }
    const int old = c->split;
    c->split = split;
    if (!can_read(c, n, n->kind == TRP_DNN_REDUCTION ? TRP__CHAIN_FULL : e)) {
        c->split = old;
        return false;
    }
    c->item[c->items++] = (item){.tensor = written_by(n),
                                 .extent = e,
                                 .made = true,
                                 .last = TRP__CHAIN_NONE,
                                 .slot = TRP__CHAIN_NONE};
    c->step[c->steps++] = (step){
        .n = n, .from = {TRP__CHAIN_NONE, TRP__CHAIN_NONE, TRP__CHAIN_NONE}, .to = c->items - 1};
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

/* Returns the dimensions of a tensor for its extent and its strides there. */
static view view_of(const chain *c, const trp__dnn_tensor *t, extent e)
{
    const int end = e == TRP__CHAIN_FULL ? c->rank : e == TRP__CHAIN_COLUMN ? c->split : 0;
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

/* Tells whether a TRP__CHAIN_FULL tensor has stride 0 between rows. */
static bool is_one_row(const chain *c, const trp__dnn_tensor *t)
{
    for (int i = 0; i < c->split; i++) {
        if (dim_of(c, t, i) != 1)
            return false;
    }
    return c->split < c->rank;
}

/* Returns the item of an input of a step. */
static int add_read(chain *c, uint8_t tensor, extent to)
{
    const trp__dnn_tensor *t = &c->g->tensor[tensor];
    int at = find_item(c, tensor, true);
    if (at == TRP__CHAIN_NONE)
        at = find_item(c, tensor, false);
    if (at != TRP__CHAIN_NONE)
        return at;
    item *x = &c->item[at = c->items++];
    *x = (item){.tensor = tensor, .last = TRP__CHAIN_NONE, .slot = TRP__CHAIN_NONE};
    find_extent(c, t, to, &x->extent);
    x->constant = x->extent == TRP__CHAIN_ONE || (x->extent == TRP__CHAIN_FULL && is_one_row(c, t));
    if (x->extent != TRP__CHAIN_ONE)
        x->view = view_of(c, t, x->extent);
    x->direct = x->extent != TRP__CHAIN_ONE && t->type == (c->wide ? TRP_F64 : TRP_F32) &&
                is_dense(&x->view);
    return at;
}

static void finish_items(chain *c)
{
    for (int i = 0; i < c->steps; i++) {
        step *s = &c->step[i];
        item *y = &c->item[s->to];
        const trp__dnn_tensor *t = &c->g->tensor[y->tensor];
        const extent to = s->n->kind == TRP_DNN_REDUCTION ? TRP__CHAIN_FULL : y->extent;
        for (int k = 0; k < TRP__CHAIN_PORTS; k++) {
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

/* Takes a slot, which is free again after the last step that reads it. Those of constants stay. */
static int take_slot(chain *c, int until[TRP__CHAIN_ITEMS], int now, int last)
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
    int until[TRP__CHAIN_ITEMS];
    for (int i = 0; i < c->items; i++) {
        if (c->item[i].constant && !c->item[i].direct)
            c->item[i].slot = take_slot(c, until, 0, c->steps);
    }
    for (int i = 0; i < c->steps; i++) {
        const step *s = &c->step[i];
        for (int k = 0; k < TRP__CHAIN_PORTS; k++) {
            item *x = s->from[k] == TRP__CHAIN_NONE ? NULL : &c->item[s->from[k]];
            if (x && !x->made && !x->direct && !x->constant && x->slot == TRP__CHAIN_NONE)
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

void trp__dnn_chain_plan(chain *c, const trp__dnn_graph *g, int first, int count)
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
