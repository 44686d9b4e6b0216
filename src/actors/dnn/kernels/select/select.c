/* Plans and launches the kernels of select.h: the largest elements of rows, and classes drawn from
 * them. */
#include "actors/dnn/kernels/select/select.h"

#include "actors/dnn/graph/train.h"
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCKS_MAX = 1 << 28, /* blocks of a launch, at most */
    MARKS_MAX = 8 << 20,  /* marks of all rows of a launch, unless one row has more */
    BLOCKS_EACH = 8,      /* blocks per multiprocessor, where rows are few */
    TILE_THREADS = 64,    /* threads of a tile, at least, where tiles shrink because rows are few */
    MERGED = 4,           /* marks per thread, as long as a block can have more threads */
    ARG_THREADS = 128,    /* threads of arg, at most: with 256, 8192 bf16 took a tenth longer */
    ALIGNMENT = 256 / (int)sizeof(uint64_t), /* of a buffer, in marks */
};

typedef enum kernel { ARG, ARG_FINISH, TILES, MERGE, SHARES, CLASS, DRAW_RANKED, KERNELS } kernel;

typedef struct step {
    trp__select p;
    trp__dnn_node node;
    uint32_t threads; /* threads of a block of arg, tiles or class */
    int64_t rows;     /* of a launch */
    int64_t marks;    /* marks of a row that the first kernel writes */
    int32_t picked;   /* marks of a row, at most */
    uint8_t number_type[TRP__SELECT_NUMBERS];
    trp__kernel kernel[KERNELS];
} step;

static const uint8_t numbers[TRP__SELECT_NUMBERS] = {
    TRP__PICK_SEED, TRP__PICK_OFFSET, TRP__PICK_SCALE, TRP__PICK_COUNT, TRP__PICK_LIMIT};

static int axis_of(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_SAMPLE ? trp__dnn_tensor_at(g, n, TRP__PICK_X)->rank - 1
                                     : trp__train_axis(n);
}

static int64_t picked_of(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_TOP_K ? trp__dnn_tensor_at(g, n, TRP__PICK_INDEX)->dim[axis_of(g, n)]
                                    : 1;
}

static bool is_whole(uint8_t type)
{
    return type == TRP_I8 || type == TRP_U8 || type == TRP_I32 || type == TRP_BOOL;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    const trp__dnn_node *n = &g->node[first];
    if (most == 0 ||
        (n->kind != TRP_DNN_ARG && n->kind != TRP_DNN_TOP_K && n->kind != TRP_DNN_SAMPLE))
        return 0;
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__PICK_X);
    const bool narrow = x->type != TRP_F64 && trp__rows_takes_type(x->type);
    return (narrow || (n->kind == TRP_DNN_ARG && is_whole(x->type))) &&
           x->dim[axis_of(g, n)] <= INT32_MAX && picked_of(g, n) <= TRP__SELECT_MOST;
}

/* Finds the rows: all dimensions but the axis number them, in the order of the tensor. */
static void describe(const trp__dnn_graph *g, const trp__dnn_node *n, trp__select *p)
{
    static const uint8_t ports[TRP__SELECT_OPERANDS] = {
        [TRP__SELECT_X] = TRP__PICK_X,
        [TRP__SELECT_INDEX] = TRP__PICK_INDEX,
        [TRP__SELECT_Y] = TRP__PICK_Y,
    };
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__PICK_X);
    const int axis = axis_of(g, n);
    p->space.rows = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        if (d == axis || x->dim[d] == 1)
            continue;
        for (int o = 0; o < TRP__SELECT_OPERANDS; o++) {
            const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, ports[o]);
            p->io[o].stride[p->space.rank] = t ? t->stride[d] : 0;
        }
        p->space.dim[p->space.rank++] = x->dim[d];
        p->space.rows *= x->dim[d];
    }
    for (int o = 0; o < TRP__SELECT_OPERANDS; o++) {
        const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, ports[o]);
        p->io[o].type = t ? t->type : TRP_F32;
        p->io[o].step = t && axis < t->rank ? t->stride[axis] : 0;
    }
    p->n = x->dim[axis];
    p->runs = (p->io[TRP__SELECT_X].step == 1 || p->n == 1) && trp__space_is_aligned(x, 16) &&
              !is_whole(x->type);
}

/* Tells whether some rows do not begin at a multiple of 8 elements. */
static bool is_ragged(const trp__select *p)
{
    for (int d = 0; d < p->space.rank && p->runs; d++) {
        if (p->io[TRP__SELECT_X].stride[d] % TRP__ROWS_RUN != 0)
            return true;
    }
    return false;
}

/* Returns the threads of a block for `elements` elements, about `each` per thread: a power of two
 * from 32 to `most`. */
static uint32_t threads_for(int64_t elements, int64_t each, uint32_t most)
{
    uint32_t threads = 32;
    while (threads < most && threads * each < elements)
        threads *= 2;
    return threads;
}

/* Plans arg: a row is one part, unless rows are too few for all multiprocessors. */
static void share_arg(step *s, int64_t elements, int processors)
{
    const int64_t blocks = (int64_t)processors * BLOCKS_EACH, rows = s->p.space.rows;
    int64_t parts = rows > 0 && rows < blocks ? blocks / rows : 1;
    const int64_t most = trp__space_parts(elements, TRP__SELECT_PART);
    parts = parts < most ? parts : most;
    s->p.part = trp__space_parts(trp__space_parts(elements, parts), TRP__ROWS_RUN) * TRP__ROWS_RUN;
    s->p.parts = trp__space_parts(elements, s->p.part);
    s->threads = threads_for(s->p.part, 2 * TRP__ROWS_RUN, ARG_THREADS);
    s->marks = s->p.parts > 1 ? s->p.parts : 0;
}

static bool is_ranked(const step *s)
{
    return s->node.kind == TRP_DNN_TOP_K || s->node.port[TRP__PICK_COUNT] != TRP__DNN_NO_PORT ||
           s->node.port[TRP__PICK_LIMIT] != TRP__DNN_NO_PORT;
}

/* Returns the tiles of a row, which are of one size, and sets the threads of a tile's block. Tiles
 * get smaller while rows are too few for all processors and the blocks of a row can still be a
 * cluster. */
static int64_t share_tiles(step *s, int64_t elements, const trp__kernel_modules *modules)
{
    const int64_t most = trp__kernel_cluster_most(modules);
    s->threads = threads_for(elements, TRP__SELECT_EACH, TRP__SELECT_THREADS);
    int64_t tiles = trp__space_parts(elements, (int64_t)s->threads * TRP__SELECT_EACH);
    while (s->threads > TILE_THREADS && 2 * tiles <= most &&
           s->p.space.rows * tiles < modules->processors) {
        s->threads /= 2;
        tiles = trp__space_parts(elements, (int64_t)s->threads * TRP__SELECT_EACH);
    }
    s->p.tile = trp__space_parts(trp__space_parts(elements, tiles), TRP__ROWS_RUN) * TRP__ROWS_RUN;
    return trp__space_parts(elements, s->p.tile);
}

/* Plans class: the blocks of a cluster share the tiles of a row. */
static void share_class(step *s, int64_t elements, const trp__kernel_modules *modules)
{
    const int64_t tiles = share_tiles(s, elements, modules);
    s->p.part = trp__space_parts(tiles, trp__kernel_cluster_most(modules));
    s->p.parts = trp__space_parts(tiles, s->p.part);
}

/* Plans tiles: each has a block. */
static void share_marks(step *s, int64_t elements, const trp__kernel_modules *modules)
{
    s->p.parts = share_tiles(s, elements, modules);
    s->marks = s->p.parts * s->p.picked;
}

/* Plans shares: parts have a constant size. */
static void share_ranked(step *s, int64_t elements)
{
    s->p.part = TRP__SELECT_SHARES;
    s->p.shares = trp__space_parts(elements, s->p.part);
}

static void share_rows(step *s, int64_t blocks)
{
    s->rows = BLOCKS_MAX / blocks;
    if (s->marks > 0 && MARKS_MAX / s->marks < s->rows)
        s->rows = MARKS_MAX / s->marks;
    s->rows = s->rows < 1 ? 1 : s->rows > s->p.space.rows ? s->p.space.rows : s->rows;
}

/* Returns the marks of one of the two buffers that merges read and write in turn. */
static int64_t place_marks(const step *s)
{
    return trp__space_parts(s->rows * s->marks, ALIGNMENT) * ALIGNMENT;
}

static void name_kernels(step *s, const char *type)
{
    static const struct {
        const char *name;
        bool typed;
    } rows[KERNELS] = {
        [ARG] = {"arg", true},
        [ARG_FINISH] = {"arg_finish", false},
        [TILES] = {"tiles", true},
        [MERGE] = {"merge", false},
        [SHARES] = {"shares", true},
        [CLASS] = {"class", true},
        [DRAW_RANKED] = {"draw_ranked", false},
    };
    for (int k = 0; k < KERNELS; k++)
        snprintf(s->kernel[k].name, sizeof s->kernel[k].name, "trp_select_%s%s%s", rows[k].name,
                 rows[k].typed ? "_" : "", rows[k].typed ? type : "");
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__PICK_X);
    step *s = state;
    (void)error;
    s->node = *n;
    describe(g, n, &s->p);
    const int64_t elements = s->p.n + (is_ragged(&s->p) ? TRP__ROWS_RUN - 1 : 0);
    s->p.smallest = n->kind != TRP_DNN_SAMPLE && n->mode == TRP_DNN_SMALLEST;
    s->p.nan_first = n->kind == TRP_DNN_ARG;
    s->p.used_y = n->kind == TRP_DNN_TOP_K && n->port[TRP__PICK_Y] != TRP__DNN_NO_PORT;
    s->p.picked = (int32_t)picked_of(g, n);
    s->p.parts = 1;
    if (n->kind == TRP_DNN_SAMPLE && is_ranked(s)) {
        const trp__dnn_tensor *count = trp__dnn_tensor_at(g, n, TRP__PICK_COUNT);
        const int64_t sorted = count ? TRP__SELECT_MOST : TRP__SELECT_NUCLEUS;
        s->p.picked = (int32_t)(s->p.n < sorted ? s->p.n : sorted);
    }
    if (n->kind == TRP_DNN_ARG) {
        share_arg(s, elements, modules->processors);
    } else if (is_ranked(s)) {
        share_marks(s, elements, modules);
    }
    if (n->kind == TRP_DNN_SAMPLE && is_ranked(s))
        share_ranked(s, elements);
    else if (n->kind == TRP_DNN_SAMPLE)
        share_class(s, elements, modules);
    share_rows(s, s->p.parts);
    s->picked = s->p.picked;
    for (int i = 0; i < TRP__SELECT_NUMBERS && n->kind == TRP_DNN_SAMPLE; i++) {
        const trp__dnn_tensor *number = trp__dnn_tensor_at(g, n, numbers[i]);
        s->number_type[i] = number ? number->type : TRP_F64;
    }
    name_kernels(s, is_whole(x->type) ? "any" : trp_dtype_name((trp_dtype)x->type));
    trp__text_add(engine, "select_%s_%s%s",
                  n->kind == TRP_DNN_ARG      ? "arg"
                  : n->kind == TRP_DNN_SAMPLE ? "sample"
                                              : "top_k",
                  trp_dtype_name((trp_dtype)x->type), s->p.runs ? "" : "_loose");
    *workspace = (uint64_t)(2 * place_marks(s) + s->rows * s->p.shares) * sizeof(uint64_t);
    return TRP_OK;
}

/* --- Launches --- */

static trp_status enqueue_clusters(step *s, const trp__kernel_launch *l, kernel which,
                                   int64_t blocks, uint32_t cluster, uint32_t threads,
                                   trp_error *error)
{
    trp__kernel *k = &s->kernel[which];
    k->cluster = cluster;
    k->threads = threads;
    return trp__kernel_run(l, TRP__MODULE_SELECT, k, (uint64_t)blocks, &s->p, NULL, error);
}

static trp_status enqueue(step *s, const trp__kernel_launch *l, kernel which, int64_t blocks,
                          uint32_t threads, trp_error *error)
{
    return enqueue_clusters(s, l, which, blocks, 1, threads, error);
}

static void set_operands(step *s, const trp__kernel_launch *l)
{
    static const uint8_t operands[TRP__SELECT_OPERANDS] = {TRP__PICK_X, TRP__PICK_INDEX,
                                                           TRP__PICK_Y};
    for (int i = 0; i < TRP__SELECT_OPERANDS; i++) {
        const uint8_t tensor = s->node.port[operands[i]];
        s->p.io[i].at = trp__kernel_address(l, tensor);
    }
    for (int i = 0; i < TRP__SELECT_NUMBERS && s->node.kind == TRP_DNN_SAMPLE; i++) {
        trp__select_number *number = &s->p.number[i];
        const uint8_t tensor = s->node.port[numbers[i]];
        number->used = tensor != TRP__DNN_NO_PORT;
        if (!number->used)
            continue;
        number->type = s->number_type[i];
        number->at = trp__kernel_address(l, tensor);
        number->value = l->number[tensor];
        memcpy(&number->bits, &l->number[tensor], sizeof number->bits);
    }
}

/* Finds the largest elements of each row: results or, for draws, marks in order at `ranked`. */
static trp_status launch_tiles(step *s, const trp__kernel_launch *l, trp_error *error)
{
    trp__select *p = &s->p;
    const int64_t tiles = p->parts;
    const bool meets = tiles > 1 && tiles <= trp__kernel_cluster_most(l->modules) &&
                       tiles * p->picked <= TRP__SELECT_LIST;
    const uint64_t place[2] = {(uint64_t)(uintptr_t)l->workspace,
                               (uint64_t)(uintptr_t)l->workspace +
                                   (uint64_t)place_marks(s) * sizeof(uint64_t)};
    int at = 0;
    p->to = place[at];
    p->ranked = s->node.kind == TRP_DNN_TOP_K ? 0 : place[1];
    p->meets = meets;
    trp_status status = enqueue_clusters(s, l, TILES, p->rows * tiles, meets ? (uint32_t)tiles : 1,
                                         s->threads, error);
    p->meets = 0;
    while (p->parts > 1 && !meets && status == TRP_OK) {
        p->length = p->parts * p->picked;
        const uint32_t threads = threads_for(p->length, MERGED, TRP__SELECT_THREADS);
        p->parts = trp__space_parts(p->length, (int64_t)threads * TRP__SELECT_MARKS);
        p->from = place[at];
        at = !at;
        p->to = place[at];
        if (p->ranked) /* the last merge writes `ranked`, and the others `to` */
            p->ranked = p->to;
        status = enqueue(s, l, MERGE, p->rows * p->parts, threads, error);
    }
    p->parts = tiles;
    p->from = p->ranked;
    return status;
}

/* Tells whether the draw from a row may need more than its `picked` largest marks, and has to
 * search the row for them. */
static bool searches(const step *s)
{
    const trp__select_number *count = &s->p.number[TRP__SELECT_COUNT];
    const bool all_left =
        count->used && !count->at && count->bits > 0 && count->bits <= (uint64_t)s->p.picked;
    return s->p.n > s->p.picked && !all_left;
}

static trp_status launch_draw(step *s, const trp__kernel_launch *l, trp_error *error)
{
    trp__select *p = &s->p;
    trp_status status = TRP_OK;
    if (!is_ranked(s))
        return enqueue_clusters(s, l, CLASS, p->rows * p->parts, (uint32_t)p->parts, s->threads,
                                error);
    p->sums = (uint64_t)(uintptr_t)l->workspace + 2 * (uint64_t)place_marks(s) * sizeof(uint64_t);
    p->length = p->picked;
    /* With a count, shares of all classes are hardly ever needed. */
    if (p->n > p->picked && !p->number[TRP__SELECT_COUNT].used)
        status =
            enqueue(s, l, SHARES, p->rows * trp__space_parts(p->shares, TRP__SELECT_THREADS / 32),
                    TRP__SELECT_THREADS, error);
    else
        p->sums = 0;
    if (status != TRP_OK)
        return status;
    const uint32_t list = threads_for(p->picked, 1, TRP__SELECT_THREADS);
    const uint32_t row = threads_for(p->n, TRP__ROWS_RUN, TRP__SELECT_DRAW);
    return enqueue(s, l, DRAW_RANKED, p->rows, searches(s) && row > list ? row : list, error);
}

static trp_status launch_rows(step *s, const trp__kernel_launch *l, trp_error *error)
{
    trp__select *p = &s->p;
    trp_status status = TRP_OK;
    if (s->node.kind == TRP_DNN_ARG) {
        p->to = p->parts > 1 ? (uint64_t)(uintptr_t)l->workspace : 0;
        status = enqueue(s, l, ARG, p->rows * p->parts, s->threads, error);
        if (p->parts > 1 && status == TRP_OK)
            status = enqueue(s, l, ARG_FINISH, p->rows, 32, error);
        return status;
    }
    if (is_ranked(s))
        status = launch_tiles(s, l, error);
    if (status != TRP_OK)
        return status;
    return s->node.kind == TRP_DNN_SAMPLE ? launch_draw(s, l, error) : TRP_OK;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = TRP_OK;
    set_operands(s, l);
    const trp__select_number *count = &s->p.number[TRP__SELECT_COUNT];
    const int64_t wanted = (int64_t)count->bits;
    const bool fewer = count->used && !count->at && wanted > 0 && wanted < s->picked;
    s->p.picked = fewer ? (int32_t)wanted : s->picked;
    for (int64_t first = 0; first < s->p.space.rows && s->p.picked > 0 && status == TRP_OK;
         first += s->rows) {
        const int64_t left = s->p.space.rows - first;
        s->p.first = first;
        s->p.rows = left < s->rows ? left : s->rows;
        status = launch_rows(s, l, error);
    }
    return status;
}

TRP__KERNEL_FAMILY(select, "select", SELECT);
