/* CONCATENATE, SLICE, TRANSPOSE and RESHAPE, and POINTWISE nodes that only lay elements out in
 * another order: each is one or more copies between views of tensors. */
#include "actors/dnn/kernels/move/move.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/space.h"
#include "actors/dnn/kernels/move/views.h"
#include "actors/dnn/lower/layout.h"

#include <stdio.h>

enum { X = 0, Y = 1 };

typedef enum move_kernel { ROWS, TILES, TURN2, TURN4, KERNELS } move_kernel;

static const struct {
    const char *name;
    uint32_t side;         /* of a tile, in units */
    uint32_t shared_units; /* of dynamic shared memory */
} kernels[KERNELS] = {
    [ROWS] = {"rows", 0, 0},
    [TILES] = {"tiles", TRP__MOVE_TILE, TRP__MOVE_TILE *(TRP__MOVE_TILE + 1)},
    [TURN2] = {"turn2", TRP__MOVE_TURN, 0},
    [TURN4] = {"turn4", TRP__MOVE_TURN, 0},
};

typedef struct copy {
    trp__move move;
    move_kernel kernel;
    uint64_t blocks;
    uint8_t x, y;      /* tensors */
    uint64_t from, to; /* offsets in x and y, in bytes */
} copy;

typedef struct step {
    uint64_t cleared; /* bytes of y to clear before the copies */
    int copies;
    copy copy[TRP__MOVE_VIEWS];
    trp__kernel kernel[KERNELS];
} step;

/* Returns how many elements move as one unit: neighbours in x and y, aligned to its bytes. */
static int64_t unit_of(const trp__space *s, const copy *c, const trp__dnn_tensor *x,
                       const trp__dnn_tensor *y, int64_t bytes)
{
    int64_t unit = 16 / bytes;
    if (s->stride[X][0] != 1 || s->stride[Y][0] != 1)
        return 1;
    for (; unit > 1; unit /= 2) {
        const uint64_t need = (uint64_t)(unit * bytes);
        bool good = s->dim[0] % unit == 0 && c->from % need == 0 && c->to % need == 0 &&
                    trp__space_is_aligned(x, need) && trp__space_is_aligned(y, need);
        for (int i = 1; i < s->rank; i++)
            good = good && s->stride[X][i] % unit == 0 && s->stride[Y][i] % unit == 0;
        if (good)
            break;
    }
    return unit;
}

static void plan_rows(copy *c, trp__space *s, int64_t unit)
{
    trp__move *m = &c->move;
    s->dim[0] /= unit;
    for (int i = 1; i < s->rank && unit > 1; i++) {
        s->stride[X][i] /= unit;
        s->stride[Y][i] /= unit;
    }
    m->count = (uint64_t)trp__space_elements(s);
    const uint64_t block = TRP__MOVE_THREADS * TRP__MOVE_EACH;
    c->blocks = (m->count + block - 1) / block;
}

/* Returns the bytes of an access along dimension `along` of an operand: 16 or 8, if all rows begin
 * at multiples of them and have a multiple of 8 bytes; else one element. */
static uint8_t piece_of(const trp__space *s, int operand, int along, const trp__dnn_tensor *t,
                        uint64_t from, int64_t bytes)
{
    for (int64_t piece = 16; piece > bytes; piece /= 2) {
        const uint64_t need = (uint64_t)piece;
        bool good =
            s->dim[along] * bytes % 8 == 0 && from % need == 0 && trp__space_is_aligned(t, need);
        for (int i = 0; i < s->rank; i++)
            good = good && (i == along || s->stride[operand][i] * bytes % piece == 0);
        if (good && piece >= 8)
            return (uint8_t)piece;
    }
    return (uint8_t)bytes;
}

static void plan_tiles(copy *c, const trp__space *s, int across)
{
    trp__move *m = &c->move;
    c->kernel = m->unit == 2 ? TURN2 : m->unit == 4 ? TURN4 : TILES;
    const int64_t side = kernels[c->kernel].side;
    m->across = (uint8_t)across;
    m->size[0] = s->dim[0];
    m->size[1] = s->dim[across];
    m->tiles[0] = (uint32_t)((s->dim[0] + side - 1) / side);
    m->tiles[1] = (uint32_t)((s->dim[across] + side - 1) / side);
    c->blocks = (uint64_t)m->tiles[0] * m->tiles[1];
    for (int i = 1; i < s->rank; i++)
        c->blocks *= i == across ? 1 : (uint64_t)s->dim[i];
}

static void plan_copy(const trp__dnn_graph *g, const trp__dnn_node *n, const trp__move_view *v,
                      copy *c)
{
    const trp__dnn_tensor *x = &g->tensor[v->tensor], *y = &g->tensor[trp__move_output(n)];
    const int64_t bytes = (int64_t)trp__space_element_bytes(x->type);
    trp__space s;
    c->x = v->tensor;
    c->y = trp__move_output(n);
    c->from = (uint64_t)(v->from * bytes);
    c->to = (uint64_t)(v->to * bytes);
    trp__space_begin(&s, &v->y);
    trp__space_add(&s, &v->y, &v->x);
    trp__space_add(&s, &v->y, &v->y);
    trp__space_order(&s, Y);
    trp__space_merge(&s);
    int across = 0;
    for (int i = 1; i < s.rank; i++) {
        if (s.stride[X][i] == 1 && s.dim[i] >= TRP__MOVE_TILE / 2)
            across = i;
    }
    const bool turned =
        across > 0 && s.stride[X][0] != 1 && s.stride[Y][0] == 1 && s.dim[0] >= TRP__MOVE_TILE / 2;
    const int64_t unit = turned ? 1 : unit_of(&s, c, x, y, bytes);
    c->move.unit = (uint8_t)(unit * bytes);
    if (turned) {
        plan_tiles(c, &s, across);
        c->move.piece[0] = piece_of(&s, X, across, x, c->from, bytes);
        c->move.piece[1] = piece_of(&s, Y, 0, y, c->to, bytes);
    } else
        plan_rows(c, &s, unit);
    c->move.rank = (uint8_t)s.rank;
    for (int i = 0; i < s.rank; i++) {
        c->move.dim[i] = trp__map_divide_by((uint32_t)s.dim[i]);
        c->move.from[i] = s.stride[X][i];
        c->move.to[i] = s.stride[Y][i];
    }
}

/* Tells whether a node lays elements out along another dimension and does nothing else. */
static bool is_turn(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    trp__move_view views[TRP__MOVE_VIEWS];
    copy c = {0};
    if (n->kind != TRP_DNN_POINTWISE || n->mode != TRP_DNN_IDENTITY)
        return false;
    const trp__dnn_tensor *x = &g->tensor[trp__move_input(n)], *y = &g->tensor[trp__move_output(n)];
    if (y->type != TRP_F32 && y->type != TRP_F16 && y->type != TRP_BF16)
        return false;
    if (x->type != y->type || x->role == TRP__DNN_VALUE || !trp__dnn_same_dims(x, y) ||
        trp__dnn_elements(y) == 0 || trp__dnn_elements(y) > INT32_MAX)
        return false;
    trp__move_views(g, n, views);
    plan_copy(g, n, views, &c);
    return c.kernel != ROWS;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    trp__move_view views[TRP__MOVE_VIEWS];
    const trp__dnn_node *n = &g->node[first];
    (void)most;
    if (!trp__dnn_is_move(n->kind))
        return is_turn(g, n);
    const int count = trp__move_views(g, n, views);
    for (int i = 0; i < count; i++) {
        const trp__dnn_tensor *x = &g->tensor[views[i].tensor];
        if (x->type != g->tensor[trp__move_output(n)].type || x->role == TRP__DNN_VALUE ||
            trp__dnn_elements(&views[i].y) > INT32_MAX)
            return 0;
    }
    return count > 0 ? 1 : 0;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_node *n = &part->graph->node[part->first];
    trp__move_view views[TRP__MOVE_VIEWS];
    move_kernel which = ROWS;
    step *s = state;
    (void)modules;
    (void)workspace;
    (void)error;
    for (int k = 0; k < KERNELS; k++) {
        s->kernel[k].threads = TRP__MOVE_THREADS;
        snprintf(s->kernel[k].name, sizeof s->kernel[k].name, "trp_move_%s", kernels[k].name);
    }
    s->cleared = trp__move_cleared(part->graph, n);
    s->copies = trp__move_views(part->graph, n, views);
    for (int i = 0; i < s->copies; i++) {
        plan_copy(part->graph, n, &views[i], &s->copy[i]);
        which = s->copy[i].kernel != ROWS ? s->copy[i].kernel : which;
    }
    trp__text_add(engine, "move_%s_%u", kernels[which].name, s->copy[0].move.unit);
    return TRP_OK;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status =
        s->cleared ? trp__kernel_clear(l, l->at[s->copy[0].y], s->cleared, error) : TRP_OK;
    for (int i = 0; i < s->copies && status == TRP_OK; i++) {
        copy *c = &s->copy[i];
        trp__kernel *k = &s->kernel[c->kernel];
        c->move.x = trp__kernel_address(l, c->x) + c->from;
        c->move.y = trp__kernel_address(l, c->y) + c->to;
        k->shared = kernels[c->kernel].shared_units * c->move.unit;
        status = trp__kernel_run(l, TRP__MODULE_MOVE, k, c->blocks, &c->move, NULL, error);
    }
    return status;
}

TRP__KERNEL_FAMILY(move, "move", MOVE);
