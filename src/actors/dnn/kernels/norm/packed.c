/* Norms of tensors that are not packed in the order of their dimensions, such as channels last:
 * copies inputs to packed tensors in the workspace, runs the norm on these, and copies the outputs
 * back. */
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/space.h"
#include "actors/dnn/kernels/move/views.h"
#include "actors/dnn/lower/layout.h"
#include "actors/dnn/lower/lower.h"

#include <string.h>

enum { ALIGNMENT = 256 }; /* of the packed tensors in the workspace, in bytes */

/* A graph whose node has packed tensors in place of its own, and the numbers of these. */
typedef struct packed {
    trp__dnn_graph graph;
    trp__dnn_tensor tensor[TRP__DNN_LOWERED_TENSORS];
    int count;
    struct {
        uint8_t number;
        bool written;
    } moved[TRP__DNN_PORTS];
} packed;

/* The copy of a tensor to its packed form, or back. */
typedef struct move {
    void *step; /* a step of trp__kernels_move */
    uint8_t number;
    bool written;
    uint64_t at; /* offset of the packed form in the workspace, in bytes */
} move;

typedef struct step {
    void *norm;
    uint64_t norm_at; /* offset of the norm's workspace in that of the step */
    uint32_t tensors;
    int moves;
    move move[TRP__DNN_PORTS];
} step;

/* Gives a tensor a packed layout; false: it has one already. */
static bool pack(trp__dnn_tensor *t)
{
    if (trp__dnn_is_packed(t))
        return false;
    trp__dnn_lay_out(t, TRP__DNN_ROWS);
    t->role = TRP__DNN_BUFFER;
    t->alignment = 16;
    return true;
}

static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, packed *out)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(n->kind);
    if (n->kind != TRP_DNN_NORM_TRAINING && n->kind != TRP_DNN_NORM_INFERENCE &&
        n->kind != TRP_DNN_NORM_BACKWARD)
        return false;
    out->graph = *g;
    out->graph.tensor = out->tensor;
    out->count = 0;
    memcpy(out->tensor, g->tensor, g->head->tensors * sizeof *out->tensor);
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const uint8_t t = n->port[i];
        if (t == TRP__DNN_NO_PORT || g->tensor[t].role == TRP__DNN_VALUE)
            continue;
        if (!pack(&out->tensor[t]))
            continue;
        out->moved[out->count].number = t;
        out->moved[out->count++].written = kind->port[i].written;
    }
    return out->count > 0;
}

/* Makes the graph of a copy from a tensor to its packed form or, if it is written, back. */
static void describe_move(const trp__dnn_graph *g, const packed *p, int which, trp__move_graph *out)
{
    const uint8_t t = p->moved[which].number;
    const trp__dnn_tensor *loose = &g->tensor[t], *tight = &p->tensor[t];
    const bool written = p->moved[which].written;
    trp__move_graph_make(out, g->head, written ? tight : loose, written ? loose : tight,
                         TRP_DNN_RESHAPE, TRP__DNN_MOVE_X, TRP__DNN_MOVE_Y);
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    packed p;
    if (most == 0 || !describe(g, &g->node[first], &p) ||
        trp__kernels_norm.takes(g, first, 1) != 0 ||
        trp__kernels_norm.takes(&p.graph, first, 1) != 1)
        return 0;
    for (int i = 0; i < p.count; i++) {
        trp__move_graph t;
        describe_move(g, &p, i, &t);
        if (trp__kernels_move.takes(&t.graph, 0, 1) != 1)
            return 0;
    }
    return 1;
}

static void drop(void *state)
{
    step *s = state;
    for (int i = 0; i < s->moves; i++)
        trp__kernel_drop(&trp__kernels_move, s->move[i].step);
    trp__kernel_drop(&trp__kernels_norm, s->norm);
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_elements(t) * trp__space_element_bytes(t->type);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    step *s = state;
    packed p;
    char name[TRP_DNN_ENGINE_SIZE] = "", ignored[TRP_DNN_ENGINE_SIZE];
    uint64_t at = 0, more = 0;
    trp_status status = TRP_OK;
    if (!describe(g, &g->node[part->first], &p))
        return trp__kernel_unfit(&trp__kernels_packed, error);
    s->tensors = g->head->tensors;
    for (int i = 0; i < p.count && status == TRP_OK; i++) {
        move *m = &s->move[s->moves];
        trp__move_graph t;
        describe_move(g, &p, i, &t);
        m->number = p.moved[i].number;
        m->written = p.moved[i].written;
        m->at = at;
        at += rounded(bytes_of(&p.tensor[m->number]));
        status = trp__kernel_make(&trp__kernels_move, &(trp__dnn_part){&t.graph, 0, 1}, modules,
                                  &m->step, ignored, &more, error);
        s->moves += status == TRP_OK;
    }
    s->norm_at = at;
    if (status == TRP_OK)
        status = trp__kernel_make(&trp__kernels_norm, &(trp__dnn_part){&p.graph, part->first, 1},
                                  modules, &s->norm, name, &more, error);
    *workspace = at + more;
    trp__text_add(engine, "packed_%s", name);
    return status;
}

/* Enqueues the copies to packed forms or, for `written`, those back. */
static trp_status launch_moves(const step *s, const trp__kernel_launch *l, bool written,
                               trp_error *error)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < s->moves && status == TRP_OK; i++) {
        const move *m = &s->move[i];
        void *loose = l->at[m->number], *tight = (char *)l->workspace + m->at;
        void *const at[2] = {written ? tight : loose, written ? loose : tight};
        trp__kernel_launch one = *l;
        one.at = at;
        if (m->written == written)
            status = trp__kernels_move.launch(m->step, &one, error);
    }
    return status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    const step *s = state;
    void *at[TRP__DNN_LOWERED_TENSORS];
    trp__kernel_launch one = *l;
    memcpy(at, l->at, s->tensors * sizeof *at);
    for (int i = 0; i < s->moves; i++)
        at[s->move[i].number] = (char *)l->workspace + s->move[i].at;
    one.at = at;
    one.workspace = (char *)l->workspace + s->norm_at;
    trp_status status = launch_moves(s, l, false, error);
    if (status == TRP_OK)
        status = trp__kernels_norm.launch(s->norm, &one, error);
    return status == TRP_OK ? launch_moves(s, l, true, error) : status;
}

const trp__kernel_family trp__kernels_packed = {
    .name = "packed",
    .takes = takes,
    .step_bytes = sizeof(step),
    .make = make,
    .launch = launch,
    .drop = drop,
    .module = TRP__MODULE_NORM,
    .moves = true,
};
