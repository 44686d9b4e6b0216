/* CONCATENATE, SLICE, TRANSPOSE and RESHAPE to another type: each copy between views of tensors is
 * a graph of one IDENTITY node for the element-wise kernels. */
#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/space.h"
#include "actors/dnn/kernels/move/views.h"

enum { X, Y, TENSORS };

typedef struct copy {
    void *step;        /* a step of the element-wise kernels */
    uint8_t x;         /* the tensor that it reads */
    uint64_t from, to; /* offsets in x and y, in bytes */
} copy;

typedef struct step {
    uint64_t cleared; /* bytes of y to clear before the copies */
    int copies;
    uint8_t y;
    copy copy[TRP__MOVE_VIEWS];
} step;

static int64_t bytes_of(uint8_t type)
{
    return (int64_t)trp__space_element_bytes(type);
}

/* Returns the alignment of an address `bytes` bytes after one that is aligned to `alignment`. */
static uint32_t alignment_at(uint32_t alignment, uint64_t bytes)
{
    while (alignment > 1 && bytes % alignment != 0)
        alignment /= 2;
    return alignment;
}

/* Tells whether f32 cannot hold all values of a type, which is then converted in f64. */
static bool is_wide(uint8_t type)
{
    return type == TRP_F64 || type == TRP_I32;
}

static void describe(const trp__dnn_graph *g, const trp__move_view *v, trp__move_graph *out)
{
    const int64_t offset[TENSORS] = {v->from, v->to};
    trp__move_graph_make(out, g->head, &v->x, &v->y, TRP_DNN_POINTWISE, TRP__DNN_POINTWISE_X,
                         TRP__DNN_POINTWISE_Y);
    for (int i = 0; i < TENSORS; i++) {
        trp__dnn_tensor *t = &out->tensor[i];
        t->alignment = alignment_at(t->alignment, (uint64_t)(offset[i] * bytes_of(t->type)));
        t->written = i == Y;
    }
    out->node.mode = TRP_DNN_IDENTITY;
    out->node.compute = is_wide(v->x.type) || is_wide(v->y.type) ? TRP_F64 : TRP_F32;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    trp__move_view views[TRP__MOVE_VIEWS];
    const trp__dnn_node *n = &g->node[first];
    (void)most;
    if (!trp__dnn_is_move(n->kind))
        return 0;
    const int count = trp__move_views(g, n, views);
    for (int i = 0; i < count; i++) {
        trp__move_graph c;
        describe(g, &views[i], &c);
        if (g->tensor[views[i].tensor].role == TRP__DNN_VALUE ||
            trp__kernels_map.takes(&c.graph, 0, 1) != 1)
            return 0;
    }
    return count > 0;
}

static void drop(void *state)
{
    step *s = state;
    for (int i = 0; i < s->copies; i++)
        trp__kernel_drop(&trp__kernels_map, s->copy[i].step);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    trp__move_view views[TRP__MOVE_VIEWS];
    char name[TRP_DNN_ENGINE_SIZE] = "";
    trp_status status = TRP_OK;
    step *s = state;
    const int count = trp__move_views(g, n, views);
    s->y = trp__move_output(n);
    s->cleared = trp__move_cleared(g, n);
    for (int i = 0; i < count && status == TRP_OK; i++) {
        const trp__move_view *v = &views[i];
        copy *c = &s->copy[s->copies];
        trp__move_graph one;
        describe(g, v, &one);
        c->x = v->tensor;
        c->from = (uint64_t)(v->from * bytes_of(v->x.type));
        c->to = (uint64_t)(v->to * bytes_of(v->y.type));
        status = trp__kernel_make(&trp__kernels_map, &(trp__dnn_part){&one.graph, 0, 1}, modules,
                                  &c->step, name, workspace, error);
        s->copies += status == TRP_OK;
    }
    trp__text_add(engine, "convert_%s", name);
    return status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = s->cleared ? trp__kernel_clear(l, l->at[s->y], s->cleared, error) : TRP_OK;
    for (int i = 0; i < s->copies && status == TRP_OK; i++) {
        const copy *c = &s->copy[i];
        void *const at[TENSORS] = {
            [X] = (char *)l->at[c->x] + c->from, [Y] = (char *)l->at[s->y] + c->to};
        trp__kernel_launch one = *l;
        one.at = at;
        status = trp__kernels_map.launch(c->step, &one, error);
    }
    return status;
}

const trp__kernel_family trp__kernels_convert = {
    .name = "convert",
    .takes = takes,
    .step_bytes = sizeof(step),
    .make = make,
    .launch = launch,
    .drop = drop,
    .module = TRP__MODULE_MAP,
};
