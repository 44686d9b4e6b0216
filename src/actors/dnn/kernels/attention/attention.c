/* Fused attention, for cases that cuDNN is not asked for or refuses: any type, stride, bias,
 * slopes, masks and lengths, with dropout, forward and backward, up to a depth of 256. Results are
 * the same in each run: no sum depends on the order in which blocks run. */
#include "actors/dnn/kernels/attention/families.h"

#include "actors/dnn/kernels/launch/row_spaces.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANK = 4, ALIGNMENT = 256, SIZE_MAX_ALL = 1 << 30 };

/* The ports of a node are numbered as the tensors of the kernels. */
_Static_assert((int)TRP__ATTENTION_STATS == (int)TRP__DNN_ATTENTION_STATS &&
                   (int)TRP__ATTENTION_SEQ_KV == (int)TRP__DNN_ATTENTION_SEQ_KV &&
                   (int)TRP__ATTENTION_DBIAS == (int)TRP__DNN_ATTENTION_DBIAS &&
                   (int)TRP__ATTENTION_TENSORS == (int)TRP__DNN_ATTENTION_SEED,
               "in the same order");

static const char *const pass_name[TRP__ATTENTION_PASSES] = {
    [TRP__ATTENTION_FORWARD] = "forward", [TRP__ATTENTION_ROWS] = "rows",
    [TRP__ATTENTION_TO_DQ] = "dq",        [TRP__ATTENTION_TO_DKV] = "dkv",
    [TRP__ATTENTION_TO_DBIAS] = "dbias",  [TRP__ATTENTION_FOLD] = "fold"};

/* Kernels of one type and depth: tiles and shared memory. */
typedef struct variant {
    const char *name;
    int depth, element, real; /* element, real: bytes */
    trp_dtype type;           /* of q, k, v and dy; 0: any */
    int own[2], walk[2];      /* forward, backward */
    trp__kernel_module module;
} variant;

enum {
#define NUMBER(module, ...) VARIANT_##module,
    TRP__ATTENTION_VARIANTS(NUMBER)
#undef NUMBER
};

static const variant variants[] = {
#define ROW(module, title, depth, element, real, type, own, walk, own_back, walk_back)             \
    {#title,                                                                                       \
     depth,                                                                                        \
     element,                                                                                      \
     real,                                                                                         \
     (trp_dtype)(type),                                                                            \
     {own, own_back},                                                                              \
     {walk, walk_back},                                                                            \
     TRP__MODULE_ATTENTION_##module},
    TRP__ATTENTION_VARIANTS(ROW)
#undef ROW
};

static uint32_t shared_of(const variant *v, bool backward)
{
    return (uint32_t)TRP__ATTENTION_SHARED(backward ? 2 : 1, v->own[backward], v->walk[backward],
                                           v->depth, v->element, v->real);
}

typedef struct step {
    trp__attention p;
    const variant *variant;
    uint8_t port[TRP__ATTENTION_TENSORS], seed, offset; /* tensors of the graph */
    bool backward;
    uint64_t sums_bytes;
    trp__kernel kernel[TRP__ATTENTION_PASSES];
} step;

/* Tells whether kernels of any type take a node; `*wide`: kernels of f64 do. */
static bool fits(const trp__dnn_graph *g, const trp__dnn_node *n, bool *wide)
{
    const trp__dnn_tensor *q = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_Q);
    const trp__dnn_tensor *v = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_V);
    if (n->kind != TRP_DNN_ATTENTION && n->kind != TRP_DNN_ATTENTION_BACKWARD)
        return false;
    *wide = n->compute == TRP_F64;
    for (int i = 0; i < TRP__ATTENTION_TENSORS; i++) {
        const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, i);
        const bool lengths = i == TRP__ATTENTION_SEQ_Q || i == TRP__ATTENTION_SEQ_KV;
        if (!t)
            continue;
        if (t->role == TRP__DNN_VALUE || t->rank != RANK ||
            (lengths ? t->type != TRP_I32 : !trp__rows_takes_type(t->type)))
            return false;
        for (int k = 0; k < RANK; k++) {
            if (t->dim[k] > SIZE_MAX_ALL)
                return false;
        }
        *wide = *wide || (t->type == TRP_F64 && i != TRP__ATTENTION_STATS);
    }
    /* The largest grid: that of the smallest tiles. */
    const double rows = (double)q->dim[0] * (double)q->dim[1] * ((double)q->dim[2] / 16 + 1) *
                        ((double)v->dim[2] / 16 + 1);
    return q->dim[3] <= 256 && v->dim[3] <= 256 && rows < 2147483647.0;
}

/* Tells whether a variant takes a node. takes_as() chooses the first one that does. */
static bool is_for(const variant *v, const trp__dnn_graph *g, const trp__dnn_node *n)
{
    static const uint8_t ports[] = {TRP__DNN_ATTENTION_Q, TRP__DNN_ATTENTION_K,
                                    TRP__DNN_ATTENTION_V, TRP__DNN_ATTENTION_DY};
    const trp__dnn_tensor *q = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_Q);
    const trp__dnn_tensor *w = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_V);
    bool wide = false;
    if (!fits(g, n, &wide) || wide != (v->real == 8) || q->dim[3] > v->depth ||
        w->dim[3] > v->depth)
        return false;
    for (size_t i = 0; i < sizeof ports && v->type; i++) {
        const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, ports[i]);
        if (t && t->type != v->type)
            return false;
    }
    return true;
}

static uint32_t takes_as(int number, const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    for (int i = 0; i < number && most > 0; i++) {
        if (is_for(&variants[i], g, &g->node[first]))
            return 0;
    }
    return most > 0 && is_for(&variants[number], g, &g->node[first]);
}

static void set_tensor(const trp__dnn_tensor *t, trp__attention_tensor *out)
{
    out->type = t->type;
    for (int k = 0; k < RANK; k++)
        out->stride[k] = t->dim[k] == 1 ? 0 : t->stride[k];
}

/* Sets how the gradient of a bias is added up over the dimensions along which the bias is repeated.
 * Returns the bytes of partial sums in the workspace; 0: none. */
static uint64_t set_bias(const trp__dnn_tensor *bias, trp__attention *p, uint64_t width)
{
    const int64_t dim[RANK] = {p->batches, p->heads, p->rows, p->columns};
    bool apart = false;
    for (int k = 0; k < RANK; k++) {
        p->over[k] = bias->dim[k] != dim[k];
        apart = apart || (k >= 2 && p->over[k]);
        p->bias_stride[k] = p->over[k] ? 0 : bias->stride[k];
    }
    if (!apart)
        return 0;
    p->over[0] = p->over[1] = 0; /* sums of each batch and head, which FOLD adds up */
    int64_t next = 1;
    for (int k = RANK; k-- > 0;) {
        p->bias_stride[k] = p->over[k] ? 0 : next;
        next *= p->over[k] ? 1 : dim[k];
    }
    return (uint64_t)next * width;
}

static void set_dropout(const trp__dnn_node *n, trp__attention *p)
{
    const double probability = n->parameter[1];
    p->dropout = probability > 0;
    p->factor = 1;
    if (!p->dropout)
        return;
    p->factor = probability < 1 ? 1 / (1 - probability) : 0;
    p->threshold = (uint32_t)ceil(probability * 16777216.0);
}

static trp_status make_as(int number, const trp__dnn_part *part, const trp__kernel_modules *modules,
                          void *state, trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    const trp__dnn_tensor *q = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_Q);
    const trp__dnn_tensor *k = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_K);
    const trp__dnn_tensor *v = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_V);
    const trp__dnn_tensor *stats = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_STATS);
    const trp__dnn_tensor *dbias = trp__dnn_tensor_at(g, n, TRP__DNN_ATTENTION_DBIAS);
    const bool backward = n->kind == TRP_DNN_ATTENTION_BACKWARD;
    const variant *chosen = &variants[number];
    const uint64_t width = (uint64_t)chosen->real;
    step *s = state;
    if (shared_of(chosen, backward) > trp__kernel_shared_most(modules))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "attention of depth %lld: too little shared memory on %s",
                              (long long)q->dim[3], modules->target);
    trp__attention *p = &s->p;
    s->variant = chosen;
    s->backward = backward;
    memcpy(s->port, n->port, sizeof s->port);
    s->seed = n->port[TRP__DNN_ATTENTION_SEED];
    s->offset = n->port[TRP__DNN_ATTENTION_OFFSET];
    for (int i = 0; i < TRP__ATTENTION_TENSORS; i++) {
        if (trp__dnn_tensor_at(g, n, i))
            set_tensor(trp__dnn_tensor_at(g, n, i), &p->tensor[i]);
    }
    p->batches = (int32_t)q->dim[0];
    p->heads = (int32_t)q->dim[1];
    p->shared_heads = (int32_t)k->dim[1];
    p->rows = (int32_t)q->dim[2];
    p->columns = (int32_t)k->dim[2];
    p->depth = (int32_t)q->dim[3];
    p->width = (int32_t)v->dim[3];
    p->window = n->window[0];
    p->causal = n->mode != TRP_DNN_MASK_NONE;
    p->bottom_right = n->mode == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT;
    p->recompute = stats && width == 8 && stats->type != TRP_F64;
    p->scale = n->parameter[0];
    set_dropout(n, p);
    if (backward) {
        s->sums_bytes = (uint64_t)p->batches * (uint64_t)p->heads * (uint64_t)p->rows *
                        TRP__ATTENTION_SUMS * width;
        s->sums_bytes = (s->sums_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        p->partial = dbias ? set_bias(dbias, p, width) : 0; /* bytes, until launch() */
    }
    *workspace = s->sums_bytes + p->partial;
    if (*workspace > g->head->workspace)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "attention: %llu bytes of workspace, at most %llu are allowed",
                              (unsigned long long)*workspace,
                              (unsigned long long)g->head->workspace);
    for (int pass = 0; pass < TRP__ATTENTION_PASSES; pass++) {
        trp__kernel *kernel = &s->kernel[pass];
        kernel->threads = TRP__ATTENTION_THREADS;
        kernel->shared = pass == TRP__ATTENTION_FOLD ? 0 : shared_of(chosen, backward);
        snprintf(kernel->name, sizeof kernel->name, "trp_attention_%s_%s", chosen->name,
                 pass_name[pass]);
    }
    trp__text_add(engine, "attention_%s", chosen->name);
    return TRP_OK;
}

/* Launches. */

/* Sets whether each 4 elements, and each 16 bytes, of a row are one access. */
static void set_accesses(trp__attention_tensor *t)
{
    const uint64_t size = trp__space_element_bytes(t->type);
    const uint64_t four = size * 4 < 16 ? size * 4 : 16;
    uint64_t bits = t->at;
    for (int k = 0; k < RANK - 1; k++)
        bits |= (uint64_t)t->stride[k] * size;
    t->vector = t->stride[RANK - 1] == 1 && bits % four == 0;
    t->chunk = t->stride[RANK - 1] == 1 && bits % 16 == 0;
}

static void set_number(const trp__kernel_launch *l, uint8_t tensor, uint64_t *number, uint64_t *at)
{
    *number = *at = 0;
    if (tensor == TRP__DNN_NO_PORT)
        return;
    *at = trp__kernel_address(l, tensor);
    if (*at == 0) /* by value: the bits of an i64 */
        memcpy(number, &l->number[tensor], sizeof *number);
}

static trp_status launch_pass(step *s, const trp__kernel_launch *l, const trp__attention *p,
                              trp__attention_pass pass, uint64_t blocks, trp_error *error)
{
    trp__attention parameter = *p;
    return trp__kernel_run(l, s->variant->module, &s->kernel[pass], blocks, &parameter, NULL,
                           error);
}

static uint64_t tiles_of(int64_t size, int64_t tile)
{
    return (uint64_t)trp__space_parts(size, tile);
}

static trp_status launch_dbias(step *s, const trp__kernel_launch *l, const trp__attention *p,
                               trp_error *error)
{
    const uint64_t batches = (uint64_t)p->batches, heads = (uint64_t)p->heads;
    const uint64_t blocks = (p->over[0] ? 1 : batches) * (p->over[1] ? 1 : heads) *
                            (p->over[2] ? 1 : tiles_of(p->rows, s->variant->own[1])) *
                            (p->over[3] ? 1 : tiles_of(p->columns, s->variant->walk[1]));
    trp_status status = launch_pass(s, l, p, TRP__ATTENTION_TO_DBIAS, blocks, error);
    if (status != TRP_OK || p->partial == 0)
        return status;
    const trp__attention_tensor *t = &p->tensor[TRP__ATTENTION_DBIAS];
    const uint64_t elements = (t->stride[0] ? batches : 1) * (t->stride[1] ? heads : 1) *
                              (p->over[2] ? 1 : (uint64_t)p->rows) *
                              (p->over[3] ? 1 : (uint64_t)p->columns);
    return launch_pass(s, l, p, TRP__ATTENTION_FOLD,
                       (elements + TRP__ATTENTION_THREADS - 1) / TRP__ATTENTION_THREADS, error);
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp__attention p = s->p;
    const uint64_t heads = (uint64_t)p.batches * (uint64_t)p.heads;
    const uint64_t shared_heads = (uint64_t)p.batches * (uint64_t)p.shared_heads;
    const uint64_t row_tiles = tiles_of(p.rows, s->variant->own[s->backward]);
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__ATTENTION_TENSORS; i++) {
        if (s->port[i] == TRP__DNN_NO_PORT)
            continue;
        p.tensor[i].at = trp__kernel_address(l, s->port[i]);
        set_accesses(&p.tensor[i]);
    }
    set_number(l, s->seed, &p.seed, &p.seed_at);
    set_number(l, s->offset, &p.offset, &p.offset_at);
    if (!s->backward)
        return launch_pass(s, l, &p, TRP__ATTENTION_FORWARD, heads * row_tiles, error);
    p.sums = (uint64_t)(uintptr_t)l->workspace;
    p.partial = s->p.partial ? p.sums + s->sums_bytes : 0;
    status = launch_pass(s, l, &p, TRP__ATTENTION_ROWS, heads * row_tiles, error);
    if (status == TRP_OK && p.tensor[TRP__ATTENTION_DQ].at)
        status = launch_pass(s, l, &p, TRP__ATTENTION_TO_DQ, heads * row_tiles, error);
    if (status == TRP_OK && (p.tensor[TRP__ATTENTION_DK].at || p.tensor[TRP__ATTENTION_DV].at))
        status = launch_pass(s, l, &p, TRP__ATTENTION_TO_DKV,
                             shared_heads * tiles_of(p.columns, s->variant->own[1]), error);
    if (status == TRP_OK && p.tensor[TRP__ATTENTION_DBIAS].at)
        status = launch_dbias(s, l, &p, error);
    return status;
}

/* A family for each module. */
#define FAMILY(number, title, ...)                                                                 \
    static uint32_t takes_##title(const trp__dnn_graph *g, uint32_t first, uint32_t most)          \
    {                                                                                              \
        return takes_as(VARIANT_##number, g, first, most);                                         \
    }                                                                                              \
    static trp_status make_##title(const trp__dnn_part *part, const trp__kernel_modules *modules,  \
                                   void *state, trp__text *engine, uint64_t *workspace,            \
                                   trp_error *error)                                               \
    {                                                                                              \
        return make_as(VARIANT_##number, part, modules, state, engine, workspace, error);          \
    }                                                                                              \
    const trp__kernel_family trp__kernels_attention_##title = {                                    \
        .name = "attention",                                                                       \
        .takes = takes_##title,                                                                    \
        .step_bytes = sizeof(step),                                                                \
        .make = make_##title,                                                                      \
        .launch = launch,                                                                          \
        .module = TRP__MODULE_ATTENTION_##number,                                                  \
    };
TRP__ATTENTION_VARIANTS(FAMILY)
