#include "actors/cutlass/run_pack.h"

#include "actors/cutlass/plans.h"
#include "actors/cutlass/run_wire.h"
#include "actors/cutlass/tree_render.h"
#include "base/error.h"

#include <stddef.h>
#include <string.h>

enum {
    ADDRESSES_MAX = TRP_CUTLASS_BUFFERS_MAX + TRP__GEMM_MATRICES,
    ROWS_MAX = 64, /* of those that apply */
};

/* What goes into the piece of staging memory. */
typedef struct running {
    trp__pack *pack;
    const trp__cutlass_product *x;
    trp__cutlass_problem problem;
    trp_cutlass_args args;
    trp__cutlass_run run;
    trp__run_address address[ADDRESSES_MAX];
    trp__run_fill fill[TRP__RUN_FILLS_MAX];
} running;

/* The problem. */

/* The largest power of two up to 16 that divides all of what an operand is addressed by. */
static uint32_t alignment(uint64_t offset, int64_t ld, int64_t stride, uint32_t element)
{
    uint64_t all = offset | (uint64_t)ld * element | (uint64_t)stride * element | 16;
    return (uint32_t)(all & (~all + 1));
}

static uint32_t alignment_of(const trp__operand *o, int64_t batch)
{
    return o->mode ? alignment(o->offset, o->ld, batch > 1 ? o->stride : 0, o->element) : 16;
}

/* Of auxiliary matrices, and of vectors that are read along lines of D. */
static uint32_t alignment_of_auxiliaries(const trp__cutlass_product *x)
{
    uint32_t least = 16;
    for (uint32_t i = 0; i < x->tree->count; i++) {
        const trp__tree_node *n = &x->tree->node[i];
        if (n->op != TRP__TREE_LOAD && n->op != TRP__TREE_STORE && n->op != TRP__TREE_PER_COLUMN)
            continue;
        const trp__tree_place *place = &x->operands->place[n->slot];
        const trp__operand *o = &x->operands->operand[n->slot];
        uint32_t one =
            alignment(o->offset, place->ld, x->g->batch > 1 ? place->stride : 0, o->element);
        least = one < least ? one : least;
    }
    return least;
}

/* Bytes of shared memory that a block can have. */
static uint32_t shared_bytes(uint32_t capability)
{
    return capability == 80 || capability == 87                         ? 166912
           : capability == 90 || capability == 100 || capability == 103 ? 232448
                                                                        : 101376;
}

/* What is misaligned is the sender's mistake, and not a lack of kernels. */
static trp_status check_offsets(const running *w)
{
    const trp__cutlass_product *x = w->x;
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        if (x->matrix[i].mode)
            status = trp__operand_check_offset(w->pack, &x->matrix[i]);
    }
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < x->tree->slots && status == TRP_OK; s++) {
        if (x->operands->operand[s].mode)
            status = trp__operand_check_offset(w->pack, &x->operands->operand[s]);
    }
    return status;
}

/* A column-major D is the row-major D' = B' A'. */
static void set_problem(running *w)
{
    const trp__cutlass_product *x = w->x;
    const trp__cutlass_gemm *g = x->g;
    bool turned = g->order[TRP__GEMM_D] == TRP_COL_MAJOR;
    int a = turned ? TRP__GEMM_B : TRP__GEMM_A, b = turned ? TRP__GEMM_A : TRP__GEMM_B;
    bool reads_c = g->type[TRP__GEMM_C] != TRP_DTYPE_NONE;
    int c = x->in_place ? TRP__GEMM_D : TRP__GEMM_C;
    w->problem = (trp__cutlass_problem){
        .m = turned ? g->n : g->m,
        .n = turned ? g->m : g->n,
        .k = g->k,
        .batch = g->batch,
        .a = g->type[a],
        .b = g->type[b],
        .c = g->type[TRP__GEMM_C],
        .d = g->type[TRP__GEMM_D],
        .accumulator = g->type[TRP__GEMM_A] == TRP_F64  ? TRP_F64
                       : g->type[TRP__GEMM_A] == TRP_I8 ? TRP_I32
                                                        : TRP_F32,
        .a_row = (g->order[a] == TRP_ROW_MAJOR) != turned,
        .b_row = (g->order[b] == TRP_ROW_MAJOR) != turned,
        .compute = g->compute,
        .align = {alignment_of(&x->matrix[a], g->batch), alignment_of(&x->matrix[b], g->batch),
                  reads_c ? alignment_of(&x->matrix[c], g->batch) : 16,
                  alignment_of(&x->matrix[TRP__GEMM_D], g->batch), alignment_of_auxiliaries(x)},
        .tree = x->tree->count ? x->tree : NULL,
        .capability = w->pack->compute,
        .processors = w->pack->processors,
        .shared_bytes = shared_bytes(w->pack->compute),
    };
    w->args = (trp_cutlass_args){
        .lda = g->ld[a],
        .ldb = g->ld[b],
        .ldc = g->ld[TRP__GEMM_C],
        .ldd = g->ld[TRP__GEMM_D],
        .batch_a = g->stride[a],
        .batch_b = g->stride[b],
        .batch_c = g->stride[TRP__GEMM_C],
        .batch_d = g->stride[TRP__GEMM_D],
        .m = (int32_t)w->problem.m,
        .n = (int32_t)w->problem.n,
        .k = (int32_t)g->k,
        .l = (int32_t)g->batch,
        .alpha = g->alpha,
        .beta = g->beta,
    };
}

/* The kernel. */

static void tell(const running *w, const trp__cutlass_row *row, bool ready, bool fallback)
{
    trp_cutlass_chosen *chosen = w->x->request->chosen;
    if (!chosen)
        return;
    *chosen = (trp_cutlass_chosen){.ready = ready, .fallback = fallback};
    trp__copy_string(chosen->kernel, sizeof chosen->kernel, row->name);
}

static trp_status try_row(running *w, const trp__cutlass_row *row, trp__cutlass_want want,
                          bool fallback, bool *used)
{
    trp__module_place place;
    bool ready;
    trp_status status = trp__cutlass_plan(w->pack, row, &w->problem, &place, want, &ready);
    *used = status == TRP_OK && (ready || want == TRP__CUTLASS_USE);
    if (!*used)
        return status;
    trp__cutlass_row_settings(row, &w->problem, &w->args);
    w->run.home = place.home;
    tell(w, row, ready, fallback);
    return TRP_OK;
}

/* The one that the request names. */
static trp_status add_named(running *w)
{
    const char *name = w->x->request->kernel;
    const trp__cutlass_row *row = trp__cutlass_row_find(name);
    bool used;
    if (!row)
        return trp__error_set(w->pack->error, TRP_E_ARGUMENT,
                              "kernel: there is none that is called \"%.60s\"", name);
    trp_status status = trp__cutlass_row_applies(row, &w->problem, w->pack->error);
    return status == TRP_OK ? try_row(w, row, TRP__CUTLASS_USE, false, &used) : status;
}

/* The best row, as the record's first access; or, while that is compiled and the request does not
 * want to wait, the best of those that are there. A row whose kernels can't have the tree is passed
 * over. */
static trp_status add_kernel(running *w)
{
    const trp__cutlass_row *row[ROWS_MAX];
    uint32_t count, best = 0;
    bool used = false, wait = w->x->request->first == TRP_CUTLASS_FIRST_WAIT;
    if (w->x->request->kernel)
        return add_named(w);
    row[0] = wait ? trp__cutlass_remembered(w->pack, &w->problem) : NULL;
    if (row[0])
        return try_row(w, row[0], TRP__CUTLASS_USE, false, &used);
    count = trp__cutlass_choose(&w->problem, row, ROWS_MAX, w->pack->error);
    if (count == 0)
        return w->pack->error->status;
    trp_status status = TRP_E_UNSUPPORTED;
    for (; best < count && status == TRP_E_UNSUPPORTED; best++)
        status = try_row(w, row[best], wait ? TRP__CUTLASS_USE : TRP__CUTLASS_USE_IF_READY, false,
                         &used);
    if (status == TRP_OK && wait)
        trp__cutlass_remember(w->pack, &w->problem, row[best - 1]);
    for (uint32_t i = best; i < count && status == TRP_OK && !used; i++) {
        status = try_row(w, row[i], TRP__CUTLASS_USE_IF_THERE, true, &used);
        status = status == TRP_E_UNSUPPORTED ? TRP_OK : status;
    }
    return status == TRP_OK && !used ? try_row(w, row[best - 1], TRP__CUTLASS_USE, false, &used)
                                     : status;
}

/* Accesses and arguments. */

static void note_address(running *w, size_t at, uint32_t access)
{
    w->address[w->run.addresses++] =
        (trp__run_address){.at = (uint16_t)at, .access = (uint16_t)access};
}

static trp_status add_matrix(running *w, int which, size_t at)
{
    uint32_t access = w->pack->record->access_count;
    trp_status status = trp__operand_access(w->pack, &w->x->matrix[which]);
    note_address(w, at, access);
    return status;
}

static trp_status add_matrices(running *w)
{
    const trp__cutlass_product *x = w->x;
    bool turned = x->g->order[TRP__GEMM_D] == TRP_COL_MAJOR;
    trp_status status =
        add_matrix(w, turned ? TRP__GEMM_B : TRP__GEMM_A, offsetof(trp_cutlass_args, a));
    if (status == TRP_OK)
        status = add_matrix(w, turned ? TRP__GEMM_A : TRP__GEMM_B, offsetof(trp_cutlass_args, b));
    if (status == TRP_OK && x->matrix[TRP__GEMM_C].mode)
        status = add_matrix(w, TRP__GEMM_C, offsetof(trp_cutlass_args, c));
    if (status == TRP_OK)
        status = add_matrix(w, TRP__GEMM_D, offsetof(trp_cutlass_args, d));
    if (!x->matrix[TRP__GEMM_C].mode) /* in D's place, or what is not read */
        note_address(w, offsetof(trp_cutlass_args, c), w->pack->record->access_count - 1);
    return status;
}

/* What a reduction writes is set to its neutral value before: each of the batch, or all at once
 * where they follow each other. */
static trp_status add_fills(running *w, const trp__tree_node *n, uint32_t access)
{
    const trp__cutlass_product *x = w->x;
    const trp__tree_place *place = &x->operands->place[n->slot];
    uint64_t bits = trp__tree_neutral_bits(x->tree, n);
    uint32_t words = x->tree->compute == TRP_F64 ? 2 : 1;
    /* The tree is that of the transposed problem, as are m and n here. */
    uint64_t count = (n->op == TRP__TREE_REDUCE_ROWS      ? (uint64_t)w->problem.m
                      : n->op == TRP__TREE_REDUCE_COLUMNS ? (uint64_t)w->problem.n
                                                          : 1) *
                     words;
    uint64_t batch = x->g->batch > 1 && place->stride != 0 ? (uint64_t)x->g->batch : 1;
    uint64_t stride = (uint64_t)place->stride * words;
    if (words == 2 && (uint32_t)bits != (uint32_t)(bits >> 32))
        return trp__error_set(w->pack->error, TRP_E_UNSUPPORTED,
                              "nodes[%u] (reduction): the maximum or minimum of f64, on a GPU",
                              x->tree->origin[n->slot].node);
    if (batch > 1 && stride == count) {
        count *= batch;
        batch = 1;
    }
    if (batch > TRP__RUN_FILLS_MAX - w->run.fills)
        return trp__error_set(w->pack->error, TRP_E_UNSUPPORTED,
                              "nodes[%u] (reduction): on a GPU expected at most %d of a batch that "
                              "do not follow each other, got %llu",
                              x->tree->origin[n->slot].node, TRP__RUN_FILLS_MAX,
                              (unsigned long long)batch);
    for (uint64_t i = 0; i < batch; i++)
        w->fill[w->run.fills++] = (trp__run_fill){
            .access = access, .pattern = (uint32_t)bits, .at = i * stride * 4, .count = count};
    return TRP_OK;
}

/* What nodes of the tree have in memory or by value, in the slots of the arguments. */
static trp_status add_slots(running *w)
{
    const trp__tree *tree = w->x->tree;
    trp__tree_value value[TRP__TREE_SLOTS_MAX];
    trp_status status = TRP_OK;
    memset(value, 0, sizeof value);
    for (uint32_t i = 0; i < tree->count && status == TRP_OK; i++) {
        const trp__tree_node *n = &tree->node[i];
        const trp__operand *o = &w->x->operands->operand[n->slot];
        uint32_t access = w->pack->record->access_count;
        if (!n->slot)
            continue;
        value[n->slot].place = w->x->operands->place[n->slot];
        if (!o->mode)
            continue;
        value[n->slot].address = 1; /* the worker writes it */
        status = trp__operand_access(w->pack, o);
        note_address(w, offsetof(trp_cutlass_args, slot) + trp__tree_word(tree, n->slot) * 8,
                     access);
        if (status == TRP_OK && n->op >= TRP__TREE_REDUCE_ROWS)
            status = add_fills(w, n, access);
    }
    if (status == TRP_OK && tree->count)
        trp__tree_fill_words(tree, value, w->args.slot);
    return status;
}

/* The record. */

static trp_status write_record(running *w)
{
    uint32_t words = w->x->tree->count ? trp__tree_word(w->x->tree, w->x->tree->slots) : 0;
    char *room;
    void *piece = NULL;
    w->run.args_bytes = (uint32_t)(offsetof(trp_cutlass_args, slot) + words * 8);
    trp_status status =
        w->pack->input(w->pack, trp__run_bytes(&w->run), w->x->request->header.wait_ns, &piece);
    if (status != TRP_OK)
        return status;
    room = piece;
    memcpy(room, &w->args, w->run.args_bytes);
    memcpy(room + trp__run_addresses_at(&w->run), w->address,
           w->run.addresses * sizeof *w->address);
    memcpy(room + trp__run_fills_at(&w->run), w->fill, w->run.fills * sizeof *w->fill);
    memcpy(w->pack->record->payload, &w->run, sizeof w->run);
    return TRP_OK;
}

trp_status trp__cutlass_pack_product(trp__pack *pack, const trp__cutlass_product *x)
{
    running w = {.pack = pack, .x = x};
    trp_status status = check_offsets(&w);
    if (status != TRP_OK)
        return status;
    set_problem(&w);
    status = add_kernel(&w);
    if (status == TRP_OK)
        status = add_matrices(&w);
    if (status == TRP_OK)
        status = add_slots(&w);
    return status == TRP_OK ? write_record(&w) : status;
}
