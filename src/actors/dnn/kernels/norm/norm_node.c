#include "actors/dnn/kernels/norm/norm_node.h"

#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/lower/layout.h"
#include "actors/dnn/math/functions.h"

#include <stdio.h>

enum {
    WALK_MAX = 1 << 20, /* elements of a row that a block walks over, at most */
    TILE_THREADS = 8,   /* threads of a short row, at most */
    RUNS_FORWARD = 4,
    RUNS_BACKWARD = 2,
};

typedef trp__norm_node norm;

static uint8_t port_of(const norm *m, int operand)
{
    static const uint8_t ports[TRP__NORM_OPERANDS] = {
        TRP__DNN_NORM_X,    TRP__DNN_NORM_Y,    TRP__DNN_NORM_DX,           TRP__DNN_NORM_SCALE,
        TRP__DNN_NORM_BIAS, TRP__DNN_NORM_MEAN, TRP__DNN_NORM_INV_VARIANCE, TRP__DNN_NO_PORT,
        TRP__DNN_NO_PORT,
    };
    if (ports[operand] == TRP__DNN_NO_PORT || (operand == TRP__NORM_DX && !m->back) ||
        (operand == TRP__NORM_BIAS && m->back))
        return TRP__DNN_NO_PORT;
    return m->node->port[ports[operand]];
}

static bool find_operands(const trp__dnn_graph *g, norm *m)
{
    for (int o = 0; o < TRP__NORM_OPERANDS; o++) {
        const uint8_t number = m->number[o] = port_of(m, o);
        if (number == TRP__DNN_NO_PORT)
            continue;
        m->tensor[o] = &g->tensor[number];
        if (!trp__rows_takes_type(m->tensor[o]->type) || m->tensor[o]->role == TRP__DNN_VALUE)
            return false;
        if (o <= TRP__NORM_BIAS)
            m->wide = m->wide || m->tensor[o]->type == TRP_F64;
    }
    return true;
}

void trp__norm_rows(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[], int count,
                    const trp__dnn_tensor *scale, const trp__dnn_tensor *inverse, trp__rows *rows)
{
    const trp__dnn_tensor *ports[TRP__DNN_PORTS] = {0}, *x = tensor[0];
    trp__dnn_tensor one = *x;
    ports[TRP__DNN_NORM_X] = x;
    ports[TRP__DNN_NORM_SCALE] = scale;
    ports[TRP__DNN_NORM_INV_VARIANCE] = inverse;
    const trp__dnn_tensor group = trp__dnn_statistics_shape(n, ports);
    for (int i = 0; i < one.rank; i++)
        one.dim[i] = 1;
    trp__rows_begin(rows, x, &group);
    for (int o = 0; o < count; o++)
        trp__rows_add(rows, tensor[o] ? tensor[o] : &one);
    trp__rows_finish(rows, 0);
}

/* Counts the elements of dscale, the columns: one per row along the inner dimensions, and the same
 * ones again along the outer. False: scale varies in another way. */
static bool find_columns(norm *m)
{
    const trp__space *kept = &m->rows.kept;
    int i = 0;
    m->columns = 1;
    for (; i < kept->rank && (kept->stride[TRP__NORM_SCALE][i] != 0 || kept->dim[i] == 1); i++)
        m->columns *= kept->dim[i];
    for (; i < kept->rank; i++) {
        if (kept->stride[TRP__NORM_SCALE][i] != 0)
            return false;
    }
    return true;
}

static bool is_dense(const norm *m, int operand)
{
    return !m->tensor[operand] || m->rows.reduced.stride[operand][0] == 1;
}

static bool is_vector(const norm *m, int operand)
{
    return !m->tensor[operand] ||
           (is_dense(m, operand) && trp__space_is_aligned(m->tensor[operand], 16));
}

/* Finds the strides of dscale and dbias, whose elements must lie in the order of scale's. Refuses a
 * scale with a stride of 0, which tells neither the number nor the order of their elements. */
static bool find_steps(const trp__dnn_graph *g, norm *m)
{
    const uint8_t ports[2] = {TRP__DNN_NORM_DSCALE, TRP__DNN_NORM_BIAS};
    const trp__dnn_tensor *scale = m->tensor[TRP__NORM_SCALE];
    for (int i = 0; i < scale->rank; i++) {
        if (scale->dim[i] > 1 && scale->stride[i] == 0)
            return false;
    }
    for (int i = 0; i < 2; i++) {
        const uint8_t number = m->node->port[ports[i]];
        trp__space s;
        if (number == TRP__DNN_NO_PORT)
            continue;
        const trp__dnn_tensor *t = &g->tensor[number];
        if (t->role == TRP__DNN_VALUE || !trp__rows_takes_type(t->type))
            return false;
        trp__space_begin(&s, scale);
        trp__space_add(&s, scale, t);
        trp__space_add(&s, scale, scale); /* so that only dimensions in the order of scale merge */
        trp__space_order(&s, 0);
        trp__space_merge(&s);
        if (s.rank != 1)
            return false;
        m->column_stride[i] = s.dim[0] == 1 ? 1 : s.stride[0][0];
    }
    return true;
}

/* Plans a backward kernel of packs: each thread holds its elements of a row in registers, and those
 * of later rows in shared memory. */
static bool plan_back_packs(norm *m, const char *type)
{
    static const trp__row_packs_ways wide = {{2, 32}, {2, TRP__NORM_BACK_THREADS}};
    static const trp__row_packs_ways narrow = {{4, 32}, {4, TRP__NORM_BACK_THREADS}};
    const uint8_t code = m->p.io[TRP__NORM_X].type;
    snprintf(m->kernel, sizeof m->kernel, "back_%s_each", type);
    m->p.bytes = TRP__NORM_BACK_AHEAD * TRP__NORM_BACK_BYTES;
    return m->p.io[TRP__NORM_MEAN].type != TRP_F64 && m->p.io[TRP__NORM_INVERSE].type != TRP_F64 &&
           trp__row_packs_share(code == TRP_F32 ? narrow : wide, m->p.n, code, &m->p.threads) > 0;
}

/* Tells whether a block's shared memory holds the channels of its rows. */
static bool has_channels(const norm *m)
{
    return m->p.threads >= TRP__NORM_GROUP ||
           m->p.channels <= TRP__NORM_CHANNELS / TRP__NORM_GROUP * m->p.threads;
}

/* Plans rows of 16-bit elements that all begin at multiples of 4 elements, but not all at multiples
 * of 8. */
static bool plan_halves(norm *m, const char *type)
{
    static const trp__row_packs_ways ways = {{4, 32}}; /* longer rows have few ragged packs */
    const trp__space *kept = &m->rows.kept;
    if (m->each || m->p.io[TRP__NORM_X].type == TRP_F32 || m->p.n % 4 != 0)
        return false;
    for (int i = 0; i < kept->rank; i++) {
        if (kept->stride[TRP__NORM_X][i] % 4 != 0)
            return false;
    }
    /* packs of 4 elements, as many as in one of f32 */
    snprintf(m->kernel, sizeof m->kernel, "%s_half_4", type);
    return trp__row_packs_share(ways, m->p.n, TRP_F32, &m->p.threads) > 0;
}

/* Plans short rows of one type that follow each other without a gap and do not all begin at
 * multiples of 16 bytes. */
static bool plan_tiles(norm *m, const char *type)
{
    const int64_t least = (m->p.n + TRP__NORM_TILE_ELEMENTS - 1) / TRP__NORM_TILE_ELEMENTS;
    int64_t next = m->p.n;
    if (m->each || m->back || m->p.channels > 0 || !is_vector(m, TRP__NORM_X) ||
        !is_vector(m, TRP__NORM_Y) || least < 2 || least > TILE_THREADS)
        return false;
    for (int i = 0; i < m->p.space.rank; i++) {
        if (m->p.space.dim[i] > 1 &&
            (m->p.io[TRP__NORM_X].stride[i] != next || m->p.io[TRP__NORM_Y].stride[i] != next))
            return false;
        next *= m->p.space.dim[i];
    }
    for (m->p.threads = 1; m->p.threads < least; m->p.threads *= 2)
        ;
    m->tiles = true;
    snprintf(m->kernel, sizeof m->kernel, "tiles_%s_rows", type);
    return true;
}

/* Plans a kernel of packs: all rows have one type, and a scale and bias per element are aligned as
 * packs are. */
static bool plan_packs(norm *m, bool ragged)
{
    static const trp__row_packs_ways ways = {{2, 32}, {4, 32}, {4, 512}, {8, 1024}};
    const char *type = trp__row_packs_type(m->p.io, m->back ? 3 : 2);
    if (!type || !m->p.runs || (m->back && !m->each) || m->p.space.rows > INT32_MAX ||
        (m->each && (ragged || !m->p.each_runs || m->p.n % TRP__ROWS_RUN != 0)) ||
        m->p.io[TRP__NORM_SCALE].type == TRP_F64 || m->p.io[TRP__NORM_BIAS].type == TRP_F64)
        return false;
    if (m->back)
        return plan_back_packs(m, type);
    if (ragged && plan_halves(m, type))
        return has_channels(m);
    if (ragged && plan_tiles(m, type))
        return true;
    const char *way = m->each ? "each" : "row";
    const int packs = trp__row_packs_share(ways, m->p.n + (ragged ? TRP__ROWS_RUN - 1 : 0),
                                           m->p.io[TRP__NORM_X].type, &m->p.threads);
    if (packs > 0 && !has_channels(m))
        return false;
    m->even = !ragged && m->p.n % TRP__ROWS_RUN == 0;
    if (packs > 0) {
        snprintf(m->kernel, sizeof m->kernel, "%s_%s_%d", type, way, packs);
        m->whole = m->p.threads > TRP__NORM_WALK_THREADS / 2;
        return true;
    }
    m->walks = true;
    m->p.threads = TRP__NORM_WALK_THREADS;
    snprintf(m->kernel, sizeof m->kernel, "%s_%s_walk", type, way);
    return m->p.n <= WALK_MAX;
}

bool trp__norm_plan_runs(norm *m, bool ragged)
{
    const int most = m->wide ? 1 : m->back ? RUNS_BACKWARD : RUNS_FORWARD;
    const int runs = trp__rows_share(m->p.n + (m->p.runs && ragged ? TRP__ROWS_RUN - 1 : 0), most,
                                     TRP__NORM_THREADS, &m->p.threads);
    m->runs = runs;
    m->p.bytes = 0;
    snprintf(m->kernel, sizeof m->kernel, "%s%s_%d", m->back ? "back_" : "",
             m->wide ? "f64" : "any", runs);
    return runs > 0;
}

/* Rows of any types that no registers hold: each a block's, in f64. */
static bool plan_walk(norm *m)
{
    m->runs = 1;
    m->p.runs = 0;
    m->p.bytes = 0;
    m->p.threads = TRP__NORM_WALK_THREADS;
    snprintf(m->kernel, sizeof m->kernel, "any_walk");
    return !m->back && !m->wide && m->p.n <= INT32_MAX;
}

static bool plan_rows(norm *m)
{
    const trp__space *kept = &m->rows.kept;
    bool ragged = false, vector = true;
    if (m->rows.reduced.rank != 1)
        return false;
    for (int o = TRP__NORM_X; o <= TRP__NORM_DX; o++) {
        vector = vector && is_vector(m, o);
        if (!is_dense(m, o))
            return false;
    }
    /* Runs are compared among x, y and dx; x stands in for a dx that is absent. */
    trp__space moved = *kept;
    for (int i = 0; i < kept->rank && !m->tensor[TRP__NORM_DX]; i++)
        moved.stride[TRP__NORM_DX][i] = kept->stride[TRP__NORM_X][i];
    m->p.runs =
        vector && trp__rows_are_runs(&moved, 0, 3, &ragged) && !(m->back && m->each && ragged);
    m->p.n = m->rows.reduced.dim[0];
    m->p.each = m->each;
    m->p.each_runs =
        m->each && !ragged && is_vector(m, TRP__NORM_SCALE) && is_vector(m, TRP__NORM_BIAS);
    m->p.centred = m->node->mode != TRP_DNN_RMS;
    m->p.share = 1.0f / (float)m->p.n;
    for (int o = 0; o < TRP__NORM_OPERANDS; o++)
        trp__rows_operand_of(&m->rows, o, 0, m->tensor[o] ? m->tensor[o]->type : TRP_F32,
                             &m->p.io[o]);
    trp__rows_space_of(kept, 0, &m->p.space);
    m->p.io[TRP__NORM_FACTOR].step = m->channel_step[0];
    m->p.io[TRP__NORM_TERM].step = m->channel_step[1];
    return plan_packs(m, ragged) ||
           (m->p.channels == 0 && (trp__norm_plan_runs(m, ragged) || plan_walk(m)));
}

/* A group norm in a graph: [RESHAPE], an instance norm of groups, [RESHAPE], MUL by a factor per
 * channel, [ADD of a term per channel]; nodes in brackets may be absent. Tensors are numbers in the
 * graph; TRP__DNN_NO_PORT: absent. */

typedef struct group {
    uint32_t norm, nodes; /* number of the norm in the graph; nodes matched so far */
    uint8_t x, grouped, normal, whole, product, y, factor, term;
} group;

static const trp__dnn_node *next_of(const trp__dnn_graph *g, uint32_t first, uint32_t most,
                                    const group *found, uint8_t kind)
{
    const trp__dnn_node *n = &g->node[first + found->nodes];
    return found->nodes < most && n->kind == kind ? n : NULL;
}

/* Tells whether the next node is POINTWISE `mode` of `a` and another tensor, and steps over it. */
static bool next_pair(const trp__dnn_graph *g, uint32_t first, uint32_t most, group *found,
                      trp_dnn_pointwise mode, uint8_t a, uint8_t *other, uint8_t *out)
{
    const trp__dnn_node *n = next_of(g, first, most, found, TRP_DNN_POINTWISE);
    if (!n || n->mode != mode || n->compute != TRP_F32)
        return false;
    const uint8_t x = n->port[TRP__DNN_POINTWISE_X], b = n->port[TRP__DNN_POINTWISE_B];
    if ((x == a) == (b == a))
        return false;
    *other = x == a ? b : x;
    *out = n->port[TRP__DNN_POINTWISE_Y];
    found->nodes++;
    return true;
}

static bool find_group(const trp__dnn_graph *g, uint32_t first, uint32_t most, group *out)
{
    const trp__dnn_node *n;
    *out = (group){.term = TRP__DNN_NO_PORT};
    const trp__dnn_node *reshape = next_of(g, first, most, out, TRP_DNN_RESHAPE);
    out->nodes += reshape != NULL;
    if (!(n = next_of(g, first, most, out, TRP_DNN_NORM_INFERENCE)) &&
        !(n = next_of(g, first, most, out, TRP_DNN_NORM_TRAINING)))
        return false;
    out->norm = first + out->nodes++;
    out->grouped = n->port[TRP__DNN_NORM_X];
    out->x = reshape ? reshape->port[TRP__DNN_MOVE_X] : out->grouped;
    out->normal = out->whole = n->port[TRP__DNN_NORM_Y];
    if (n->mode != TRP_DNN_INSTANCE || (reshape && reshape->port[TRP__DNN_MOVE_Y] != out->grouped))
        return false;
    if ((n = next_of(g, first, most, out, TRP_DNN_RESHAPE)) != NULL &&
        n->port[TRP__DNN_MOVE_X] == out->normal) {
        out->whole = n->port[TRP__DNN_MOVE_Y];
        out->nodes++;
    }
    if (!next_pair(g, first, most, out, TRP_DNN_MUL, out->whole, &out->factor, &out->product))
        return false;
    out->y = out->product;
    next_pair(g, first, most, out, TRP_DNN_ADD, out->product, &out->term, &out->y);
    return true;
}

/* Tells whether the tensors between x and y are computed inside the part and not rounded: no other
 * node reads them, and they are f32 or, before the norm, of the type of x. */
static bool is_closed(const trp__dnn_graph *g, uint32_t first, const group *f)
{
    const uint8_t inside[] = {f->grouped, f->normal, f->whole, f->product};
    const trp__dnn_part part = {g, first, f->nodes};
    uint8_t place[TRP__DNN_LOWERED_TENSORS];
    trp__dnn_places(&part, place);
    for (size_t i = 0; i < sizeof inside; i++) {
        const uint8_t t = inside[i], type = g->tensor[t].type;
        if (t != f->x && t != f->y &&
            (place[t] != TRP__DNN_PLACE_INSIDE ||
             (type != TRP_F32 && (t != f->grouped || type != g->tensor[f->x].type))))
            return false;
    }
    return place[f->x] == TRP__DNN_PLACE_MEMORY && place[f->y] == TRP__DNN_PLACE_MEMORY &&
           place[f->factor] == TRP__DNN_PLACE_MEMORY &&
           (f->term == TRP__DNN_NO_PORT || place[f->term] == TRP__DNN_PLACE_MEMORY);
}

/* Turns a tensor with one number per channel into one with a number per group, that of the group's
 * first channel. */
static bool view_channels(const trp__dnn_tensor *y, const trp__dnn_tensor *groups, int64_t channels,
                          trp__dnn_tensor *t)
{
    const int64_t step = t->stride[1];
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] != (i == 1 ? y->dim[1] : 1))
            return false;
    }
    if (t->rank != y->rank || !trp__rows_takes_type(t->type) || t->type == TRP_F64)
        return false;
    t->rank = groups->rank;
    for (int i = 0; i < TRP__DNN_RANK; i++) {
        t->dim[i] = i == 1 ? groups->dim[1] : 1;
        t->stride[i] = i == 1 ? step * channels : 0;
    }
    return true;
}

/* Gives the instance norm the operands of the whole group norm, in the shape of groups. */
static bool view_group(const trp__dnn_graph *g, const group *f, norm *m)
{
    static const uint8_t operand[4] = {TRP__NORM_X, TRP__NORM_Y, TRP__NORM_FACTOR, TRP__NORM_TERM};
    const uint8_t number[4] = {f->x, f->y, f->factor, f->term};
    const trp__dnn_tensor *groups = &g->tensor[f->grouped], *y = &g->tensor[f->y];
    const int64_t count = groups->rank > 2 ? groups->dim[1] : 0;
    if (!trp__dnn_is_packed(&g->tensor[f->x]) || !trp__dnn_is_packed(groups) ||
        !trp__dnn_is_packed(y) || y->rank < 3 || count < 1 || y->dim[0] != groups->dim[0] ||
        y->dim[1] % count != 0)
        return false;
    const int64_t channels = y->dim[1] / count;
    int64_t spread = 1;
    for (int i = 2; i < y->rank; i++)
        spread *= y->dim[i];
    if (channels > TRP__NORM_CHANNELS || spread < TRP__ROWS_RUN || spread > WALK_MAX ||
        channels * spread * spread > (int64_t)1 << 32)
        return false;
    for (int i = 0; i < 4; i++) {
        if (number[i] == TRP__DNN_NO_PORT)
            continue;
        m->view[i] = g->tensor[number[i]];
        if (i < 2)
            trp__dnn_view_as(&m->view[i], groups);
        else if (!view_channels(y, groups, channels, &m->view[i]))
            return false;
        m->tensor[operand[i]] = &m->view[i];
        m->number[operand[i]] = number[i];
    }
    m->p.channels = (int32_t)channels;
    m->p.spread = (int32_t)spread;
    m->p.spread_factor =
        (uint32_t)((((uint64_t)1 << 32) + (uint64_t)spread - 1) / (uint64_t)spread);
    m->channel_step[0] = g->tensor[f->factor].stride[1];
    m->channel_step[1] = f->term == TRP__DNN_NO_PORT ? 0 : g->tensor[f->term].stride[1];
    return true;
}

static bool describe_node(const trp__dnn_graph *g, const trp__dnn_node *n, const group *f, norm *m)
{
    *m = (norm){.node = n};
    const uint8_t epsilon = n->port[TRP__DNN_NORM_EPSILON];
    if ((n->kind != TRP_DNN_NORM_TRAINING && n->kind != TRP_DNN_NORM_INFERENCE &&
         n->kind != TRP_DNN_NORM_BACKWARD) ||
        n->mode == TRP_DNN_BATCH || (n->compute != TRP_F32 && n->compute != TRP_F64))
        return false;
    m->back = n->kind == TRP_DNN_NORM_BACKWARD;
    m->wide = n->compute == TRP_F64;
    m->each = n->mode != TRP_DNN_INSTANCE;
    if (epsilon != TRP__DNN_NO_PORT && !trp__rows_takes_type(g->tensor[epsilon].type))
        return false;
    if (!find_operands(g, m) || (f && !view_group(g, f, m)))
        return false;
    trp__norm_rows(n, m->tensor, TRP__NORM_OPERANDS, m->tensor[TRP__NORM_SCALE],
                   m->tensor[TRP__NORM_INVERSE], &m->rows);
    return plan_rows(m) && (!m->back || ((m->each || find_columns(m)) && find_steps(g, m)));
}

uint32_t trp__norm_describe(const trp__dnn_graph *g, uint32_t first, uint32_t most, norm *m)
{
    group f;
    if (most > 1 && find_group(g, first, most, &f) && is_closed(g, first, &f) &&
        describe_node(g, &g->node[f.norm], &f, m))
        return f.nodes;
    return most > 0 && describe_node(g, &g->node[first], NULL, m) ? 1 : 0;
}
