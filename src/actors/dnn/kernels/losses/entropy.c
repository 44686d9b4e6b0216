/* Cross-entropy: launches the kernels of entropy.h for a node. */
#include "actors/dnn/kernels/losses/entropy.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/math/loss.h"
#include "base/error.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS_MAX = 1 << 30, /* of a launch */
    CLASSES_MAX = 1 << 30,
    COUNT_BYTES = 256, /* of the workspace, before the losses of rows */
    SHARED_ANY = 48 << 10,
    SHARED_OWN = 1 << 10, /* what the kernels have beside the row */
};

/* The ports of operands, in the order of entropy.h. */
static const uint8_t ports[TRP__ENTROPY_OPERANDS] = {TRP__LOSS_X,     TRP__LOSS_DX,   TRP__LOSS_T,
                                                     TRP__LOSS_INDEX, TRP__LOSS_DY,   TRP__LOSS_Y,
                                                     TRP__LOSS_ROWS,  TRP__LOSS_STATS};

typedef struct step {
    trp__entropy p;
    uint8_t tensor[TRP__ENTROPY_OPERANDS]; /* TRP__DNN_NO_PORT: none */
    uint8_t dy_value;                      /* the tensor of a dy by value; else none */
    bool counts, totals;
    bool packs;   /* logits, gradients and probabilities have one type */
    bool targets; /* there are probabilities */
    bool is_long; /* a row is more than shared memory holds, and is read twice */
    uint32_t threads, shared_bytes;
    uint32_t shared_most; /* the launch limit, the same for all steps that share the kernel */
    char name[32];
    trp__cu_function count, rows, total;
} step;

static const trp__dnn_tensor *tensor_of(const trp__dnn_graph *g, const trp__dnn_node *n, int port)
{
    return n->port[port] == TRP__DNN_NO_PORT ? NULL : &g->tensor[n->port[port]];
}

/* Rows of logits whose classes lie next to each other. */
static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    const trp__dnn_node *n = &g->node[first];
    if (most == 0 || n->kind != TRP_DNN_CROSS_ENTROPY)
        return 0;
    const trp__dnn_tensor *x = tensor_of(g, n, TRP__LOSS_X);
    const int64_t classes = x->dim[x->rank - 1];
    for (int i = TRP__ENTROPY_X; i <= TRP__ENTROPY_T; i++) {
        const trp__dnn_tensor *t = tensor_of(g, n, ports[i]);
        if (t && (t->stride[t->rank - 1] != 1 || !trp__rows_takes_type(t->type) ||
                  (t->type == TRP_F64 && x->type != TRP_F64)))
            return 0;
    }
    return classes >= 1 && classes <= CLASSES_MAX;
}

/* Adds an operand of one element a row, with the last dimension or without. */
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

/* The most shared memory of a block. */
static uint32_t shared_limit(const char *target)
{
    static const struct {
        int from, to;
        uint32_t kib;
    } limits[] = {{80, 80, 163}, {86, 86, 99},   {87, 87, 163},
                  {89, 89, 99},  {90, 110, 227}, {120, 121, 99}};
    const int arch = target && strncmp(target, "sm_", 3) == 0 ? atoi(target + 3) : 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (arch >= limits[i].from && arch <= limits[i].to)
            return limits[i].kib << 10;
    }
    return SHARED_ANY;
}

/* Threads for a row of so many runs of so many packs: several blocks share a processor where rows
 * are short. */
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

/* The same for packs, as measured: where nothing is written few threads with many packs are
 * fastest, and one block that has a processor for itself is, with sixteen packs a thread. Threads
 * that read probabilities have as many packs as they read at a time, or little but masks. */
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

/* Shares runs, or packs, of 16 * `size` bytes of each row among threads. Some remain in shared
 * memory, of which a block has `most` bytes. */
static void share_out(step *s, int64_t count, int64_t size, uint32_t most)
{
    const bool again = s->p.used[TRP__ENTROPY_DX];
    const int64_t rows = s->packs && s->targets ? 2 : 1; /* that are kept */
    const int64_t deep = s->packs ? TRP__ENTROPY_DEEP : 1;
    s->threads = s->packs ? threads_for_packs(count, again, s->targets) : threads_for(count, size);
    const int64_t bytes = rows * size * 16 * s->threads, fit = most / bytes / deep * deep;
    const int64_t each = ((count + s->threads - 1) / s->threads + deep - 1) / deep * deep;
    s->p.cached = !again ? 0 : (int32_t)(each < fit ? each : fit);
    s->shared_bytes = (uint32_t)(s->p.cached * bytes);
}

static void share_rows(step *s, const trp__kernel_modules *modules, bool ragged)
{
    const uint8_t type = s->p.io[TRP__ENTROPY_X].type;
    const int64_t bytes = trp_dtype_bits((trp_dtype)type) / 8;
    const int64_t run = s->packs ? 16 / bytes : TRP__ROWS_RUN;
    const int64_t count = (s->p.classes + (ragged ? run - 1 : 0) + run - 1) / run;
    const uint32_t limit = shared_limit(modules->target), half = limit / 2 - 2 * SHARED_OWN;
    s->shared_most = limit - SHARED_OWN;
    share_out(s, count, run * bytes / 16, s->shared_most);
    s->is_long = s->p.used[TRP__ENTROPY_DX] && (int64_t)s->p.cached * s->threads < count;
    /* Two blocks of a processor: one reads while the other writes. What has no room is read again,
     * from the cache, which has it for rows that are not much longer. */
    if (s->packs && s->threads <= TRP__ENTROPY_PAIRED && s->shared_bytes > half)
        share_out(s, count, run * bytes / 16, half);
}

/* Finds the rows; whether they are ragged. */
static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, step *s)
{
    const trp__dnn_tensor *x = tensor_of(g, n, TRP__LOSS_X);
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
        trp__rows_add(&r, tensor_of(g, n, ports[i]));
        aligned = aligned && trp__rows_is_aligned(tensor_of(g, n, ports[i]));
    }
    next = along;
    for (int i = TRP__ENTROPY_INDEX; i < TRP__ENTROPY_OPERANDS; i++) {
        number[i] = next++;
        add_rows(&r, tensor_of(g, n, ports[i]), x->rank);
    }
    trp__rows_finish(&r, 0);
    for (int i = 0; i < TRP__ENTROPY_OPERANDS; i++) {
        const trp__dnn_tensor *t = tensor_of(g, n, ports[i]);
        trp__rows_operand_of(&r, number[i], 0, t ? t->type : TRP_F32, &s->p.io[i]);
    }
    trp__rows_space_of(&r.kept, 0, &s->p.space);
    s->p.runs = aligned && trp__rows_are_runs(&r.kept, 0, along, &ragged);
    return s->p.runs && ragged;
}

/* Whether kernels of one type take the rows. */
static bool are_packs(const trp__entropy *p)
{
    const uint8_t type = p->io[TRP__ENTROPY_X].type;
    return type != TRP_F64 && (!p->used[TRP__ENTROPY_T] || p->io[TRP__ENTROPY_T].type == type) &&
           (!p->used[TRP__ENTROPY_DX] || p->io[TRP__ENTROPY_DX].type == type);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void **out,
                       char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    const trp__dnn_tensor *x = tensor_of(g, n, TRP__LOSS_X), *dy = tensor_of(g, n, TRP__LOSS_DY);
    step *s = calloc(1, sizeof *s);
    if (!s)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a cross-entropy");
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
    snprintf(s->name, sizeof s->name, "trp_entropy_%s%s",
             !s->packs     ? ""
             : !s->targets ? "packs_"
             : s->is_long  ? "long_"
                           : "targets_",
             trp_dtype_name((trp_dtype)x->type));
    trp__text name = {.out = engine, .size = TRP_DNN_ENGINE_SIZE};
    trp__text_add(&name, "cross_entropy_%s%s", trp_dtype_name((trp_dtype)x->type),
                  s->p.runs ? "" : "_loose");
    *workspace = COUNT_BYTES + (uint64_t)s->p.space.rows * sizeof(double);
    *out = s;
    return TRP_OK;
}

static trp_status find_kernels(step *s, const trp__kernel_launch *l, trp_error *error)
{
    const struct {
        trp__cu_function *function;
        const char *name;
    } kernels[] = {
        {&s->count, "trp_entropy_count"}, {&s->rows, s->name}, {&s->total, "trp_entropy_total"}};
    trp_status status = TRP_OK;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels && status == TRP_OK; i++) {
        trp__cu_function function = *kernels[i].function;
        if (function)
            continue;
        status = trp__kernels_function(l->modules, l->instance, TRP__MODULE_ENTROPY,
                                       kernels[i].name, &function, error);
        if (status == TRP_OK && kernels[i].function == &s->rows &&
            s->shared_bytes > SHARED_ANY - SHARED_OWN)
            status =
                trp_cuda_check(l->instance,
                               l->modules->cu->cuFuncSetAttribute(
                                   function, TRP__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   (int)s->shared_most),
                               "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", error);
        if (status == TRP_OK)
            *kernels[i].function = function;
    }
    return status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    const uint64_t workspace = (uint64_t)(uintptr_t)l->workspace;
    trp_status status = find_kernels(s, l, error);
    for (int i = 0; i < TRP__ENTROPY_OPERANDS; i++)
        s->p.io[i].at =
            s->tensor[i] == TRP__DNN_NO_PORT ? 0 : (uint64_t)(uintptr_t)l->at[s->tensor[i]];
    if (s->dy_value != TRP__DNN_NO_PORT)
        s->p.dy = l->number[s->dy_value];
    s->p.count = s->counts ? workspace : 0;
    s->p.losses = workspace + COUNT_BYTES;
    if (s->counts && status == TRP_OK)
        status = trp__kernel_enqueue(l, s->count, 1, TRP__ENTROPY_THREADS, 0, &s->p, error);
    for (int64_t first = 0; first < s->p.space.rows && status == TRP_OK; first += BLOCKS_MAX) {
        const int64_t left = s->p.space.rows - first;
        s->p.first = first;
        status = trp__kernel_enqueue(l, s->rows, (uint64_t)(left < BLOCKS_MAX ? left : BLOCKS_MAX),
                                     s->threads, s->shared_bytes, &s->p, error);
    }
    if (s->totals && status == TRP_OK)
        status = trp__kernel_enqueue(l, s->total, 1, TRP__ENTROPY_THREADS, 0, &s->p, error);
    return status;
}

const trp__kernel_family trp__kernels_entropy = {
    .name = "cross_entropy",
    .takes = takes,
    .make = make,
    .launch = launch,
    .module = TRP__MODULE_ENTROPY,
};
