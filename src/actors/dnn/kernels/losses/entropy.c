/* Plans and launches the kernels of entropy.h for a node. */
#include "actors/dnn/kernels/losses/entropy.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/math/loss.h"

#include <stdio.h>

enum {
    CLASSES_MAX = 1 << 30,
    COUNT_BYTES = 256,    /* bytes of the workspace before the losses of rows */
    SHARED_OWN = 1 << 10, /* bytes of static shared memory of the kernels, at most */
};

/* The ports of operands, in the order of entropy.h. */
static const uint8_t ports[TRP__ENTROPY_OPERANDS] = {TRP__LOSS_X,     TRP__LOSS_DX,   TRP__LOSS_T,
                                                     TRP__LOSS_INDEX, TRP__LOSS_DY,   TRP__LOSS_Y,
                                                     TRP__LOSS_ROWS,  TRP__LOSS_STATS};

typedef struct step {
    trp__entropy p;
    uint8_t tensor[TRP__ENTROPY_OPERANDS]; /* TRP__DNN_NO_PORT: none */
    uint8_t dy_value;                      /* tensor of a dy by value; TRP__DNN_NO_PORT: none */
    bool counts, totals;
    bool packs;   /* logits, gradients and probabilities have one type */
    bool targets; /* there are probabilities */
    bool is_long; /* a row is more than shared memory holds, and is read twice */
    trp__kernel count, rows, total;
} step;

/* Takes rows of logits, gradients and probabilities whose classes lie next to each other. */
static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    const trp__dnn_node *n = &g->node[first];
    if (most == 0 || n->kind != TRP_DNN_CROSS_ENTROPY)
        return 0;
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__LOSS_X);
    const int64_t classes = x->dim[x->rank - 1];
    for (int i = TRP__ENTROPY_X; i <= TRP__ENTROPY_T; i++) {
        const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, ports[i]);
        if (t && (t->stride[t->rank - 1] != 1 || !trp__rows_takes_type(t->type) ||
                  (t->type == TRP_F64 && x->type != TRP_F64)))
            return 0;
    }
    return classes >= 1 && classes <= CLASSES_MAX;
}

/* Adds an operand with one element per row, whose last dimension may be missing. */
static void add_rows(trp__rows *r, const trp__dnn_tensor *t, int rank)
{
    trp__dnn_tensor own = {0};
    if (t)
        own = *t;
    if (t && t->rank == rank - 1) {
        own.rank = (uint8_t)rank;
        own.dim[rank - 1] = 1;
        own.stride[rank - 1] = 0;
    }
    trp__rows_add(r, &own);
}

/* Returns the threads for a row of `runs` runs of `packs` packs each: few for short rows, so that
 * several blocks share a multiprocessor. */
static uint32_t threads_for(int64_t runs, int64_t packs)
{
    static const struct {
        int64_t packs;
        uint32_t threads;
    } sizes[] = {{32, 32}, {64, 64}, {1024, 128}, {2048, 256}, {8192, 512}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (runs * packs <= sizes[i].packs)
            return sizes[i].threads;
    }
    return packs == 4 ? 512 : 1024;
}

/* Returns the threads for a row of packs, as measured. Without a gradient, few threads with many
 * packs are fastest; with one (`again`), a long row takes a whole multiprocessor with 16 packs per
 * thread. With probabilities (`targets`) a thread has at least as many packs as it reads at a time:
 * with fewer most of its work would be masked. */
static uint32_t threads_for_packs(int64_t packs, bool again, bool targets)
{
    const uint32_t threads = threads_for(packs, 1);
    if (targets && packs <= 256)
        return packs <= 128 ? 32 : 64;
    if (!again)
        return packs <= 32 ? 32 : packs <= 2048 ? 64 : 128;
    if (threads <= TRP__ENTROPY_PAIRED || targets)
        return threads < TRP__ENTROPY_PAIRED ? threads : TRP__ENTROPY_PAIRED;
    return packs > 16 * 1024 ? 1024 : (uint32_t)((packs + 15) / 16 + 31) / 32 * 32;
}

/* Shares the `count` runs or packs of a row, of 16 * `size` bytes each, out to threads. As many as
 * fit stay in shared memory, of which a block has `most` bytes. */
static void share_out(step *s, int64_t count, int64_t size, uint32_t most)
{
    const bool again = s->p.used[TRP__ENTROPY_DX];
    const int64_t rows = s->packs && s->targets ? 2 : 1; /* logits, and probabilities */
    const int64_t deep = s->packs ? TRP__ENTROPY_DEEP : 1;
    s->rows.threads =
        s->packs ? threads_for_packs(count, again, s->targets) : threads_for(count, size);
    const int64_t bytes = rows * size * 16 * s->rows.threads, fit = most / bytes / deep * deep;
    const int64_t each = ((count + s->rows.threads - 1) / s->rows.threads + deep - 1) / deep * deep;
    s->p.cached = !again ? 0 : (int32_t)(each < fit ? each : fit);
    s->rows.shared = (uint32_t)(s->p.cached * bytes);
}

static void share_rows(step *s, const trp__kernel_modules *modules, bool ragged)
{
    const uint8_t type = s->p.io[TRP__ENTROPY_X].type;
    const int64_t bytes = (int64_t)trp__space_element_bytes(type);
    const int64_t run = s->packs ? 16 / bytes : TRP__ROWS_RUN;
    const int64_t count = (s->p.classes + (ragged ? run - 1 : 0) + run - 1) / run;
    const uint32_t limit = trp__kernel_shared_most(modules), half = limit / 2 - 2 * SHARED_OWN;
    share_out(s, count, run * bytes / 16, limit - SHARED_OWN);
    s->is_long = s->p.used[TRP__ENTROPY_DX] && (int64_t)s->p.cached * s->rows.threads < count;
    /* Two blocks share a multiprocessor: one reads while the other writes. Packs that do not fit
     * are read again, from the L2 cache unless rows are much longer. */
    if (s->packs && s->rows.threads <= TRP__ENTROPY_PAIRED && s->rows.shared > half)
        share_out(s, count, run * bytes / 16, half);
}

/* Finds the rows, and returns whether they lie in runs that do not all begin at a multiple of 8
 * elements. */
static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, step *s)
{
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__LOSS_X);
    trp__dnn_tensor group = *x;
    trp__rows r;
    int number[TRP__ENTROPY_OPERANDS] = {0}, along = 0, next;
    bool ragged = false, aligned = true;
    group.dim[group.rank - 1] = 1;
    trp__rows_begin(&r, x, &group);
    for (int i = TRP__ENTROPY_X; i <= TRP__ENTROPY_T; i++) {
        if (!s->p.used[i])
            continue;
        number[i] = along++;
        trp__rows_add(&r, trp__dnn_tensor_at(g, n, ports[i]));
        aligned = aligned && trp__space_is_aligned(trp__dnn_tensor_at(g, n, ports[i]), 16);
    }
    next = along;
    for (int i = TRP__ENTROPY_INDEX; i < TRP__ENTROPY_OPERANDS; i++) {
        number[i] = next++;
        add_rows(&r, trp__dnn_tensor_at(g, n, ports[i]), x->rank);
    }
    trp__rows_finish(&r, 0);
    for (int i = 0; i < TRP__ENTROPY_OPERANDS; i++) {
        const trp__dnn_tensor *t = trp__dnn_tensor_at(g, n, ports[i]);
        trp__rows_operand_of(&r, number[i], 0, t ? t->type : TRP_F32, &s->p.io[i]);
    }
    trp__rows_space_of(&r.kept, 0, &s->p.space);
    s->p.runs = aligned && trp__rows_are_runs(&r.kept, 0, along, &ragged);
    return s->p.runs && ragged;
}

/* Tells whether kernels of one type take the rows. */
static bool are_packs(const trp__entropy *p)
{
    const uint8_t type = p->io[TRP__ENTROPY_X].type;
    return type != TRP_F64 && (!p->used[TRP__ENTROPY_T] || p->io[TRP__ENTROPY_T].type == type) &&
           (!p->used[TRP__ENTROPY_DX] || p->io[TRP__ENTROPY_DX].type == type);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    const trp__dnn_tensor *x = trp__dnn_tensor_at(g, n, TRP__LOSS_X),
                          *dy = trp__dnn_tensor_at(g, n, TRP__LOSS_DY);
    step *s = state;
    (void)error;
    for (int i = 0; i < TRP__ENTROPY_OPERANDS; i++) {
        s->tensor[i] = n->port[ports[i]];
        s->p.used[i] = s->tensor[i] != TRP__DNN_NO_PORT;
    }
    s->dy_value = TRP__DNN_NO_PORT;
    s->p.dy = 1;
    if (dy && dy->role == TRP__DNN_VALUE) {
        s->dy_value = s->tensor[TRP__ENTROPY_DY];
        s->tensor[TRP__ENTROPY_DY] = TRP__DNN_NO_PORT;
    }
    s->p.classes = x->dim[x->rank - 1];
    s->p.smooth = n->parameter[0];
    s->p.even = s->p.smooth / (double)s->p.classes;
    s->p.z = n->parameter[1];
    s->p.each = trp__train_reduction(n) == TRP_DNN_REDUCE_NONE;
    s->p.ignores = n->window[2] != 0 && s->p.used[TRP__ENTROPY_INDEX];
    s->p.ignore = (int64_t)((uint64_t)(uint32_t)n->start[1] << 32 | (uint32_t)n->start[0]);
    const bool ragged = describe(g, n, s);
    s->targets = s->p.used[TRP__ENTROPY_T];
    s->packs = s->p.runs && are_packs(&s->p);
    share_rows(s, modules, ragged);
    s->p.divisor = trp__loss_divisor(n, (double)s->p.space.rows, 1);
    s->counts = s->p.ignores && trp__train_reduction(n) == TRP_DNN_REDUCE_MEAN;
    s->totals = s->p.used[TRP__ENTROPY_Y] && !s->p.each;
    s->count = (trp__kernel){.name = "trp_entropy_count", .threads = TRP__ENTROPY_THREADS};
    s->total = (trp__kernel){.name = "trp_entropy_total", .threads = TRP__ENTROPY_THREADS};
    snprintf(s->rows.name, sizeof s->rows.name, "trp_entropy_%s%s",
             !s->packs     ? ""
             : !s->targets ? "packs_"
             : s->is_long  ? "long_"
                           : "targets_",
             trp_dtype_name((trp_dtype)x->type));
    trp__text_add(engine, "cross_entropy_%s%s", trp_dtype_name((trp_dtype)x->type),
                  s->p.runs ? "" : "_loose");
    *workspace = COUNT_BYTES + (uint64_t)s->p.space.rows * sizeof(double);
    return TRP_OK;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    const uint64_t workspace = (uint64_t)(uintptr_t)l->workspace;
    trp__kernel *const kernels[] = {&s->count, &s->rows, &s->total};
    trp_status status = TRP_OK;
    for (int i = 0; i < 3 && status == TRP_OK; i++)
        status = trp__kernel_find(l, TRP__MODULE_ENTROPY, kernels[i], error);
    for (int i = 0; i < TRP__ENTROPY_OPERANDS; i++)
        s->p.io[i].at = trp__kernel_address(l, s->tensor[i]);
    if (s->dy_value != TRP__DNN_NO_PORT)
        s->p.dy = l->number[s->dy_value];
    s->p.count = s->counts ? workspace : 0;
    s->p.losses = workspace + COUNT_BYTES;
    if (s->counts && status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_ENTROPY, &s->count, 1, &s->p, NULL, error);
    if (status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_ENTROPY, &s->rows, (uint64_t)s->p.space.rows, &s->p,
                                 &s->p.first, error);
    if (s->totals && status == TRP_OK)
        status = trp__kernel_run(l, TRP__MODULE_ENTROPY, &s->total, 1, &s->p, NULL, error);
    return status;
}

TRP__KERNEL_FAMILY(entropy, "cross_entropy", ENTROPY);
