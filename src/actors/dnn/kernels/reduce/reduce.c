/* Plans and launches the kernels of reduce.h for a reduction over any dimensions. */
#include "actors/dnn/kernels/reduce/reduce.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/lower/layout.h"

#include <stdio.h>
#include <string.h>

enum {
    X = 0,
    Y = 1,               /* operands of a trp__space */
    RESULTS_MAX = 2,     /* results of a node: STATISTICS has two */
    BLOCKS_PER_CORE = 8, /* blocks that keep a multiprocessor busy */
    PIECE_MIN = 8192,    /* elements of a block, at least, where results have pieces */
    SPLITS_MAX = 1024,
    FINISH_ACROSS = 32, /* results of a block that combines pieces, at least, or all */
    ROWS_DEEP = 4,      /* packs of a row per thread, at most, unless a warp is too small */
    ROWS_WARPS = 16,    /* rows per multiprocessor from which on a row has a warp, not a block */
    ROWS_LONG = 4096,   /* packs of a piece of a row, at least */
    COLUMN_WIDTH = 128, /* columns of a block, at most */
    RAGGED_MIN = 64,    /* columns from which on packs are read though rows begin anywhere */
    COLUMN_BLOCKS = 2,  /* blocks per multiprocessor, about, that share long columns */
    COLUMN_ROWS = 8,    /* rows per thread, at least */
    ROWS_BLOCKS = 4,    /* blocks per multiprocessor, about, that share long rows */
    COUNT_MAX = 0x7fffffff, /* elements, at most, of a space with 32-bit indices */
};

typedef struct launch_part {
    trp__reduce reduce;
    uint8_t x, y; /* tensors */
    trp__kernel kernel;
} launch_part;

typedef struct step {
    int parts;
    launch_part part[RESULTS_MAX];
    bool columns, wide, packs;
    bool ragged; /* columns: packs of rows that begin anywhere */
    uint64_t blocks, finish_blocks;
    uint32_t shared; /* bytes of shared memory of a block */
    trp__kernel finish;
} step;

/* The fields of trp__reduce for each kind of reduction. */
static const struct {
    uint8_t kind, absolute, negative, divide, root;
} modes[] = {
    [TRP_DNN_SUM] = {TRP__REDUCE_SUMS, 0, 0, 0, 0},
    [TRP_DNN_MEAN] = {TRP__REDUCE_SUMS, 0, 0, 1, 0},
    [TRP_DNN_LEAST] = {TRP__REDUCE_EXTREMES, 0, 1, 0, 0},
    [TRP_DNN_MOST] = {TRP__REDUCE_EXTREMES, 0, 0, 0, 0},
    [TRP_DNN_AMAX] = {TRP__REDUCE_EXTREMES, 1, 0, 0, 0},
    [TRP_DNN_NORM1] = {TRP__REDUCE_SUMS, 1, 0, 0, 0},
    [TRP_DNN_NORM2] = {TRP__REDUCE_SQUARES, 0, 0, 0, 1},
    [TRP_DNN_PRODUCT] = {TRP__REDUCE_PRODUCTS, 0, 0, 0, 0},
};

/* Splits the dimensions into those that stay and those that are reduced, each in the order of
 * x's strides, the smallest first. */
static void split_space(const trp__dnn_tensor *x, const trp__dnn_tensor *y, trp__space *keep,
                        trp__space *over)
{
    trp__dnn_tensor kept = *x, reduced = *x;
    for (int i = 0; i < x->rank; i++) {
        const bool stays = y->dim[i] != 1 || x->dim[i] == 1;
        kept.dim[i] = stays ? x->dim[i] : 1;
        reduced.dim[i] = stays ? 1 : x->dim[i];
    }
    trp__space_begin(keep, &kept);
    trp__space_add(keep, &kept, x);
    trp__space_add(keep, &kept, y);
    trp__space_order(keep, X);
    trp__space_merge(keep);
    trp__space_begin(over, &reduced);
    trp__space_add(over, &reduced, x);
    trp__space_order(over, X);
    trp__space_merge(over);
}

static bool divides(const trp__space *s)
{
    return s->rank == 1 || trp__space_elements(s) <= COUNT_MAX;
}

/* A reduction with the nodes that lower/lower.c puts around it: magnitudes before it, a
 * conversion after it. */
typedef struct match {
    uint32_t nodes;
    const trp__dnn_node *node; /* the reduction */
    uint8_t x, y[RESULTS_MAX]; /* tensors */
    bool absolute;
} match;

/* Tells whether a node applies `mode` to each element of a tensor. */
static bool is_unary(const trp__dnn_graph *g, const trp__dnn_node *n, trp_dnn_pointwise mode)
{
    return n->kind == TRP_DNN_POINTWISE && n->mode == mode &&
           (n->compute == TRP_F32 || n->compute == TRP_F64) &&
           trp__dnn_same_dims(&g->tensor[n->port[TRP__DNN_POINTWISE_X]],
                              &g->tensor[n->port[TRP__DNN_POINTWISE_Y]]);
}

/* Tells whether a tensor only passes from one of the nodes to the next, and is not rounded. */
static bool is_between(const trp__dnn_graph *g, uint32_t first, uint32_t count, uint8_t tensor)
{
    const trp__dnn_part part = {g, first, count};
    uint8_t place[TRP__DNN_LOWERED_TENSORS];
    trp__dnn_places(&part, place);
    return place[tensor] == TRP__DNN_PLACE_INSIDE &&
           g->tensor[tensor].type == g->node[first].compute;
}

static bool find(const trp__dnn_graph *g, uint32_t first, uint32_t most, match *m)
{
    const trp__dnn_node *n = &g->node[first];
    *m = (match){.nodes = 1};
    if (most > 1 && is_unary(g, n, TRP_DNN_ABS) && n[1].kind == TRP_DNN_REDUCTION &&
        (n[1].mode == TRP_DNN_MOST || n[1].mode == TRP_DNN_SUM) &&
        n[1].port[TRP__DNN_REDUCTION_X] == n->port[TRP__DNN_POINTWISE_Y] &&
        is_between(g, first, 2, n->port[TRP__DNN_POINTWISE_Y])) {
        m->absolute = true;
        m->x = n->port[TRP__DNN_POINTWISE_X];
        m->nodes++;
        n++;
    } else if (n->kind == TRP_DNN_REDUCTION || n->kind == TRP_DNN_STATISTICS) {
        m->x = n->port[TRP__DNN_REDUCTION_X];
    } else {
        return false;
    }
    m->node = n;
    m->y[0] = n->port[1];
    m->y[1] = n->port[2];
    if (n->kind == TRP_DNN_REDUCTION && most > m->nodes && is_unary(g, n + 1, TRP_DNN_IDENTITY) &&
        n[1].port[TRP__DNN_POINTWISE_X] == m->y[0] && is_between(g, first, m->nodes + 1, m->y[0])) {
        m->y[0] = n[1].port[TRP__DNN_POINTWISE_Y];
        m->nodes++;
    }
    return true;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    match m;
    trp__space keep, over;
    if (!find(g, first, most, &m) || (m.node->compute != TRP_F32 && m.node->compute != TRP_F64))
        return 0;
    const trp__dnn_tensor *x = &g->tensor[m.x], *y = &g->tensor[m.y[0]];
    if (x->role == TRP__DNN_VALUE || x->rank != y->rank || !trp__space_takes_type(x->type) ||
        !trp__space_takes_type(y->type))
        return 0;
    split_space(x, y, &keep, &over);
    return divides(&keep) && divides(&over) ? m.nodes : 0;
}

static void take_space(const trp__space *s, trp__reduce_space *out, bool results)
{
    out->rank = (uint8_t)s->rank;
    for (int i = 0; i < s->rank; i++) {
        if (i < s->rank - 1)
            out->dim[i] = trp__map_divide_by((uint32_t)s->dim[i]);
        out->x[i] = s->stride[X][i];
        out->y[i] = results ? s->stride[Y][i] : 0;
    }
}

/* Tells whether loads of `width` elements of x are aligned, each of which begins at a multiple of
 * `width` in the space `along` and anywhere in the space `other`. */
static bool is_aligned(const trp__dnn_tensor *x, const trp__space *along, const trp__space *other,
                       int64_t width)
{
    const int64_t size = trp_dtype_bits((trp_dtype)x->type) / 8;
    const int64_t need = size * width < 16 ? size * width : 16;
    if (along->stride[X][0] != 1 || !trp__space_is_aligned(x, (uint64_t)need) ||
        (along->rank > 1 && along->dim[0] % width != 0))
        return false;
    for (int i = 1; i < along->rank; i++) {
        if (along->stride[X][i] * size % need != 0)
            return false;
    }
    for (int i = 0; i < other->rank; i++) {
        if (other->dim[i] > 1 && other->stride[X][i] * size % need != 0)
            return false;
    }
    return true;
}

static uint32_t power_of_two(int64_t at_least, uint32_t most)
{
    uint32_t n = 1;
    while (n < at_least && n < most)
        n *= 2;
    return n;
}

/* Plans the threads that combine the pieces of each result. */
static void lay_out_finish(step *s, trp__reduce *r)
{
    const uint32_t across = power_of_two(r->kept, FINISH_ACROSS);
    r->finish_lanes = power_of_two(r->splits, TRP__REDUCE_THREADS / across);
    const int64_t results = TRP__REDUCE_THREADS / r->finish_lanes;
    s->finish_blocks = (uint64_t)((r->kept + results - 1) / results);
}

/* Returns how many pieces a result has: about `wanted`, each a multiple of `unit` elements and
 * of at least `least`. */
static uint32_t share_pieces(trp__reduce *r, int64_t wanted, int64_t least, int64_t unit)
{
    int64_t pieces = r->length / least < wanted ? r->length / least : wanted;
    pieces = pieces < 1 ? 1 : pieces > SPLITS_MAX ? SPLITS_MAX : pieces;
    r->split = ((r->length + pieces - 1) / pieces + unit - 1) / unit * unit;
    return r->split > 0 ? (uint32_t)((r->length + r->split - 1) / r->split) : 1;
}

static bool has_packs(const trp__dnn_tensor *x, const trp__reduce *r, const trp__space *over)
{
    return (x->type == TRP_F32 || x->type == TRP_F16 || x->type == TRP_BF16) &&
           r->kind != TRP__REDUCE_PRODUCTS && over->rank == 1 && r->length > 0 &&
           r->length <= COUNT_MAX;
}

/* Plans rows: a few lanes, a warp, a block or several blocks for each. */
static void lay_out_packed_rows(step *s, trp__reduce *r, int64_t width, int processors)
{
    const int64_t packs = (r->length + width - 1) / width;
    r->lanes = power_of_two((packs + ROWS_DEEP - 1) / ROWS_DEEP, 32);
    if (r->lanes == 32 && r->kept < (int64_t)processors * ROWS_WARPS)
        r->lanes = TRP__REDUCE_THREADS;
    const int64_t rows = TRP__REDUCE_THREADS / r->lanes, tiles = (r->kept + rows - 1) / rows;
    const int64_t wanted = (int64_t)processors * ROWS_BLOCKS / (tiles > 0 ? tiles : 1);
    r->splits =
        share_pieces(r, r->lanes < TRP__REDUCE_THREADS ? 1 : wanted, ROWS_LONG * width, width);
    s->blocks = (uint64_t)tiles * r->splits;
    s->shared = 0;
}

/* Plans columns: the blocks of a cluster share long ones; several clusters do where columns are
 * few. */
static void lay_out_packed_columns(step *s, trp__reduce *r, int64_t width, int processors,
                                   int cluster)
{
    const uint32_t across =
        power_of_two((r->kept + width - 1) / width, COLUMN_WIDTH / (uint32_t)width);
    r->lanes = TRP__REDUCE_THREADS / across;
    const int64_t columns = (across - s->ragged) * width;
    const int64_t tiles = (r->kept + columns - 1) / columns;
    const int64_t blocks = (int64_t)processors * COLUMN_BLOCKS;
    r->cluster = (uint32_t)(cluster < TRP__REDUCE_CLUSTER ? cluster : TRP__REDUCE_CLUSTER);
    while (r->cluster > 1 && (tiles * r->cluster / 2 >= blocks ||
                              r->length < (int64_t)r->lanes * COLUMN_ROWS * r->cluster))
        r->cluster /= 2;
    const int64_t all = tiles * r->cluster,
                  groups = all * 2 > blocks ? 1 : (blocks + all - 1) / all;
    const uint32_t pieces =
        share_pieces(r, groups * r->cluster, (int64_t)r->lanes * COLUMN_ROWS, 1);
    r->splits = (pieces + r->cluster - 1) / r->cluster;
    s->blocks = (uint64_t)tiles * r->splits * r->cluster;
    s->shared = (uint32_t)(TRP__REDUCE_THREADS * width * (int64_t)sizeof(double));
}

static void lay_out_loose(step *s, trp__reduce *r, const trp__dnn_tensor *x, const trp__space *keep,
                          const trp__space *over, int processors)
{
    int64_t width = s->wide ? TRP__REDUCE_WIDTH_F64 : TRP__REDUCE_WIDTH, tiles;
    if (s->columns) {
        r->vector = !s->wide && trp__rows_takes_type(x->type) && is_aligned(x, keep, over, width) &&
                    keep->dim[0] % width == 0;
        width = r->vector ? width : 1;
        const int64_t across = power_of_two((r->kept + width - 1) / width, TRP__REDUCE_THREADS);
        const uint32_t lanes = (uint32_t)(TRP__REDUCE_THREADS / (across > 32 ? 32 : across));
        r->lanes = power_of_two(r->length, lanes);
        const int64_t columns = TRP__REDUCE_THREADS / r->lanes * width;
        tiles = (r->kept + columns - 1) / columns;
    } else {
        /* Rows that are one run may begin anywhere: the kernel reads elements one by one up to a
         * multiple of 16 bytes. */
        r->vector = trp__rows_takes_type(x->type) &&
                    (over->rank == 1 ? over->stride[X][0] == 1 : is_aligned(x, over, keep, width));
        r->lanes = power_of_two((r->length + width * 4 - 1) / (width * 4), TRP__REDUCE_THREADS);
        tiles = (r->kept + TRP__REDUCE_THREADS / r->lanes - 1) / (TRP__REDUCE_THREADS / r->lanes);
    }
    /* Adds pieces where the device has room for more blocks, if each gets enough elements. */
    const int64_t wanted = (int64_t)processors * BLOCKS_PER_CORE / (tiles > 0 ? tiles : 1);
    const int64_t each = s->columns ? TRP__REDUCE_THREADS / r->lanes * width : 1;
    r->splits = share_pieces(r, wanted, (PIECE_MIN + each - 1) / each, width); /* stay aligned */
    s->blocks = (uint64_t)tiles * r->splits;
    s->shared = s->columns ? TRP__REDUCE_SHARED_COLUMNS : TRP__REDUCE_SHARED;
}

/* Plans the threads and blocks of the kernels. */
static void lay_out(step *s, trp__reduce *r, const trp__dnn_tensor *x, const trp__space *keep,
                    const trp__space *over, const trp__kernel_modules *modules)
{
    int64_t width = 16 / (trp_dtype_bits((trp_dtype)x->type) / 8);
    r->cluster = 1;
    s->columns =
        r->kept > 1 && keep->stride[X][0] == 1 && (over->stride[X][0] != 1 || r->length == 1);
    s->packs = has_packs(x, r, over) && (s->columns || over->stride[X][0] == 1);
    r->vector = s->packs &&
                (!s->columns || (is_aligned(x, keep, over, width) && keep->dim[0] % width == 0));
    s->ragged = s->packs && s->columns && !r->vector && keep->rank == 1 && r->kept >= RAGGED_MIN &&
                over->stride[X][0] >= r->kept;
    width = r->vector || s->ragged ? width : 1;
    if (!s->packs)
        lay_out_loose(s, r, x, keep, over, modules->processors);
    else if (s->columns)
        lay_out_packed_columns(s, r, width, modules->processors, trp__kernel_cluster_most(modules));
    else
        lay_out_packed_rows(s, r, width, modules->processors);
    lay_out_finish(s, r);
}

static void name_kernel(const step *s, launch_part *p)
{
    static const char *const kinds[] = {[TRP__REDUCE_SUMS] = "sums",
                                        [TRP__REDUCE_SQUARES] = "squares",
                                        [TRP__REDUCE_EXTREMES] = "extremes"};
    const char *way = s->columns ? "columns" : "rows";
    if (s->packs)
        snprintf(p->kernel.name, sizeof p->kernel.name, "trp_reduce_%s_%s_%s%s", way,
                 kinds[p->reduce.kind], trp_dtype_name((trp_dtype)p->reduce.type),
                 p->reduce.vector ? ""
                 : s->ragged      ? "_ragged"
                                  : "_loose");
    else
        snprintf(p->kernel.name, sizeof p->kernel.name, "trp_reduce_%s_%s", way,
                 s->wide ? "f64" : "f32");
}

/* Returns the bytes of the workspace: the partial results of all pieces and, from *shared on, those
 * that the blocks of clusters combine. */
static uint64_t workspace_of(const step *s, const trp__reduce *r, uint64_t *shared)
{
    const uint64_t partial =
        r->splits > 1 ? (uint64_t)r->kept * r->splits * TRP__REDUCE_PARTS * sizeof(double) : 0;
    *shared = partial;
    return r->cluster > 1 ? partial + s->blocks * (s->shared / r->lanes) : partial;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    match m;
    trp__space keep, over;
    step *s = state;
    if (!find(g, part->first, part->count, &m))
        return trp__kernel_unfit(&trp__kernels_reduce, error);
    const trp__dnn_node *n = m.node;
    const trp__dnn_tensor *x = &g->tensor[m.x];
    s->parts = n->kind == TRP_DNN_STATISTICS ? 2 : 1;
    s->wide = x->type == TRP_F64 || x->type == TRP_I32;
    s->finish = (trp__kernel){
        .name = "trp_reduce_finish", .threads = TRP__REDUCE_THREADS, .shared = TRP__REDUCE_SHARED};
    for (int i = 0; i < s->parts; i++) {
        launch_part *p = &s->part[i];
        p->x = m.x;
        p->y = m.y[i];
        trp__reduce *r = &p->reduce;
        const int mode = n->kind == TRP_DNN_REDUCTION ? n->mode : TRP_DNN_SUM;
        *r = (trp__reduce){.type = x->type,
                           .y_type = g->tensor[p->y].type,
                           .kind = i > 0 ? TRP__REDUCE_SQUARES : modes[mode].kind,
                           .absolute = modes[mode].absolute || m.absolute,
                           .negative = modes[mode].negative,
                           .divide = modes[mode].divide,
                           .root = modes[mode].root,
                           .narrow = x->type == TRP_F16 || x->type == TRP_BF16,
                           .wide = s->wide};
        split_space(x, &g->tensor[p->y], &keep, &over);
        r->length = trp__space_elements(&over);
        r->kept = trp__space_elements(&keep);
        take_space(&keep, &r->keep, true);
        take_space(&over, &r->over, false);
        lay_out(s, r, x, &keep, &over, modules);
        p->kernel = (trp__kernel){
            .threads = TRP__REDUCE_THREADS, .shared = s->shared, .cluster = r->cluster};
        name_kernel(s, p);
        const uint64_t bytes = workspace_of(s, r, &r->shared);
        *workspace = bytes > *workspace ? bytes : *workspace;
    }
    trp__text_add(engine, "%s%s", s->part[0].kernel.name + strlen("trp_"),
                  s->packs || s->part[0].reduce.vector ? "" : "_loose");
    if (s->part[0].reduce.cluster > 1)
        trp__text_add(engine, "_c%u", s->part[0].reduce.cluster);
    if (s->part[0].reduce.splits > 1)
        trp__text_add(engine, "_s%u", s->part[0].reduce.splits);
    return TRP_OK;
}

static trp_status launch_one(step *s, launch_part *p, const trp__kernel_launch *l, trp_error *error)
{
    trp__reduce r = p->reduce;
    trp_status status = trp__kernel_find(l, TRP__MODULE_REDUCE, &p->kernel, error);
    if (status == TRP_OK && r.splits > 1)
        status = trp__kernel_find(l, TRP__MODULE_REDUCE, &s->finish, error);
    r.x = trp__kernel_address(l, p->x);
    r.y = trp__kernel_address(l, p->y);
    r.partial = (uint64_t)(uintptr_t)l->workspace;
    r.shared += r.partial;
    if (status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_REDUCE, &p->kernel, s->blocks, &r, NULL, error);
    if (status == TRP_OK && r.splits > 1)
        status =
            trp__kernel_run(l, TRP__MODULE_REDUCE, &s->finish, s->finish_blocks, &r, NULL, error);
    return status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = TRP_OK;
    for (int i = 0; i < s->parts && status == TRP_OK; i++)
        status = launch_one(s, &s->part[i], l, error);
    return status;
}

TRP__KERNEL_FAMILY(reduce, "reduce", REDUCE);
