#include "actors/cutlass/plan/run.h"

#include "actors/cutlass/epilogue/render.h"
#include "actors/cutlass/plan/subject.h"
#include "actors/cutlass/plan/tune.h"
#include "base/build_id.h"
#include "base/error.h"

#include <stddef.h>
#include <string.h>

enum { ROWS_MAX = 64 }; /* of those that apply */

/* The problem. */

uint32_t trp__run_alignment(const trp__operand *o, const int64_t *distances, size_t count)
{
    uint64_t all = o->offset | 16;
    for (size_t i = 0; i < count; i++)
        all |= (uint64_t)distances[i] * o->element;
    return o->mode ? (uint32_t)(all & (~all + 1)) : 16;
}

uint32_t trp__run_alignment_of_tree(const trp__cutlass_running *w, int64_t batch)
{
    uint32_t least = 16;
    for (uint32_t i = 0; i < w->tree->count; i++) {
        const trp__tree_node *n = &w->tree->node[i];
        if (n->op != TRP__TREE_LOAD && n->op != TRP__TREE_STORE && n->op != TRP__TREE_PER_COLUMN)
            continue;
        const trp__tree_place *place = &w->operands->place[n->slot];
        const int64_t distances[] = {place->ld, batch > 1 ? place->stride : 0};
        uint32_t one = trp__run_alignment(&w->operands->operand[n->slot], distances, 2);
        least = one < least ? one : least;
    }
    return least;
}

uint32_t trp__run_shared_bytes(uint32_t capability)
{
    return capability == 80 || capability == 87                         ? 166912
           : capability == 90 || capability == 100 || capability == 103 ? 232448
                                                                        : 101376;
}

trp_status trp__run_check_offsets(const trp__cutlass_running *w, const trp__operand *matrix,
                                  size_t count)
{
    trp_status status = TRP_OK;
    for (size_t i = 0; i < count && status == TRP_OK; i++) {
        if (matrix[i].mode)
            status = trp__operand_check_offset(w->encoder, &matrix[i]);
    }
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < w->tree->slots && status == TRP_OK; s++) {
        if (w->operands->operand[s].mode)
            status = trp__operand_check_offset(w->encoder, &w->operands->operand[s]);
    }
    return status;
}

/* The kernel. */

/* A row that is tried. */
typedef struct trying {
    const trp__cutlass_running *w;
    const trp__cutlass_row *row;
    const trp__cutlass_settings *settings;
} trying;

static bool may_serve(void *context, trp__verdicts *verdicts, uint64_t image)
{
    const trying *t = context;
    const trp__cutlass_subject subject =
        trp__cutlass_subject_of(&t->w->problem, &t->w->args, t->w->in_place, t->row->name);
    trp__key key;
    trp__cutlass_verdict_key(verdicts, &subject, t->settings, image, &key);
    const trp__verdict verdict = trp__verdict_find(verdicts, &key);
    trp__key_end(&key);
    return verdict.state != TRP__VERDICT_REJECTED;
}

/* Tries a row with settings, NULL: those that it has without a search. */
static trp_status try_row(trp__cutlass_running *w, const trp__cutlass_row *row,
                          const trp__cutlass_settings *settings, trp__cutlass_want want, bool *used)
{
    trp__cutlass_settings variants[TRP__CUTLASS_VARIANTS_MAX];
    trp__module_layout layout;
    bool ready, rejected;
    if (!settings)
        trp__cutlass_row_variants(row, &w->problem, variants);
    trying t = {w, row, settings ? settings : variants};
    trp_status status = trp__cutlass_plan(w->encoder, row, &w->problem, &layout, want,
                                          w->any ? NULL : may_serve, &t, &ready, &rejected);
    w->rejected = w->rejected || rejected;
    *used = status == TRP_OK && !rejected && (ready || want == TRP__CUTLASS_USE);
    if (status == TRP_OK && rejected)
        return trp__error_set(w->encoder->error, TRP_E_UNSUPPORTED,
                              "the kernel %.60s was rejected for this problem", row->name);
    if (!*used)
        return status;
    trp__cutlass_set(t.settings, &w->args);
    w->run.storage = layout.storage;
    w->subject = trp__cutlass_subject_of(&w->problem, &w->args, w->in_place, row->name);
    if (w->chosen) {
        *w->chosen = (trp_cutlass_chosen){.ready = ready,
                                          .fallback = want == TRP__CUTLASS_USE_IF_THERE,
                                          .tuned = settings != NULL,
                                          .searching = w->search.count > 0};
        trp__copy_string(w->chosen->kernel, sizeof w->chosen->kernel, row->name);
    }
    return TRP_OK;
}

/* The one that the request names. */
static trp_status find_named(trp__cutlass_running *w)
{
    if (!w->kernel)
        return TRP_OK;
    w->named = trp__cutlass_row_find(w->kernel);
    if (!w->named)
        return trp__error_set(w->encoder->error, TRP_E_ARGUMENT,
                              "kernel: there is none that is called \"%.60s\"", w->kernel);
    return trp__cutlass_row_applies(w->named, &w->problem, w->encoder->error);
}

/* A row with the settings that it has without a search. */
static void choose_row(const trp__cutlass_running *w, const trp__cutlass_row *row,
                       trp__cutlass_choice *out)
{
    trp__cutlass_settings variants[TRP__CUTLASS_VARIANTS_MAX];
    trp__cutlass_row_variants(row, &w->problem, variants);
    out->row = row;
    out->settings = variants[0];
}

static void remember(trp__cutlass_running *w, const trp__cutlass_choice *choice)
{
    const trp__cutlass_choice_key key = trp__cutlass_choice_key_of(&w->problem, w->named);
    trp__cutlass_remember(w->encoder, &key, choice);
}

/* The best of those that are there, but for one that is being compiled. */
static trp_status add_there(trp__cutlass_running *w, const trp__cutlass_row *const *row,
                            uint32_t count, const trp__cutlass_row *but, bool *used)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < count && status == TRP_OK && !*used; i++) {
        if (row[i] == but)
            continue;
        status = try_row(w, row[i], NULL, TRP__CUTLASS_USE_IF_THERE, used);
        status = status == TRP_E_UNSUPPORTED || status == TRP_E_LIBRARY ? TRP_OK : status;
    }
    return status;
}

/* A file that is there is not looked for again. It is the worker that opens it; what is no whole
 * library is none, so that nothing is sent that can only fail. */
static bool is_there(const trp__run_library *library)
{
    char path[TRP__DYNLIB_PATH_SIZE];
    if (!atomic_load(library->found) && library->find(path) && trp__is_library_file(path))
        atomic_store(library->found, true);
    return atomic_load(library->found);
}

/* Where no kernel is there: the library if it can, else a row that is waited for. */
static trp_status add_last(trp__cutlass_running *w, const trp__cutlass_row *row,
                           const trp__cutlass_settings *settings, bool *used)
{
    bool wait = (w->first == TRP_CUTLASS_FIRST_WAIT || w->named) && !w->any;
    if (wait || !w->library || !w->library->takes(w->asked) || !is_there(w->library))
        return try_row(w, row, settings, TRP__CUTLASS_USE, used);
    w->by_library = *used = true;
    if (w->ran) /* but of products the worker reports more */
        trp__copy_string(w->ran->kernel, sizeof w->ran->kernel, w->library->name);
    if (w->chosen) {
        *w->chosen = (trp_cutlass_chosen){.ready = true, .fallback = true};
        trp__copy_string(w->chosen->kernel, sizeof w->chosen->kernel, w->library->name);
    }
    return TRP_OK;
}

/* The best of a list, or with FALLBACK one that is there. A row whose kernels can't have the tree
 * is passed over, and with FALLBACK one that could not be compiled too. */
static trp_status add_best(trp__cutlass_running *w, const trp__cutlass_row *const *row,
                           uint32_t count, trp__cutlass_choice *known)
{
    uint32_t best = 0;
    bool used = false, wait = w->first == TRP_CUTLASS_FIRST_WAIT || w->named;
    trp_status status = TRP_E_UNSUPPORTED;
    for (; best < count && (status == TRP_E_UNSUPPORTED || (status == TRP_E_LIBRARY && !wait));
         best++)
        status =
            try_row(w, row[best], NULL, wait ? TRP__CUTLASS_USE : TRP__CUTLASS_USE_IF_READY, &used);
    if (status == TRP_OK && wait && !known->tuned) {
        choose_row(w, row[best - 1], known);
        remember(w, known);
    }
    if (status == TRP_OK && !used)
        status = add_there(w, row + best, count - best, NULL, &used);
    return status == TRP_OK && !used ? add_last(w, row[best - 1], NULL, &used) : status;
}

/* Uses an earlier choice, if it has all that the request wants. */
static trp_status add_known(trp__cutlass_running *w, const trp__cutlass_choice *known, bool *used)
{
    bool wait = w->first == TRP_CUTLASS_FIRST_WAIT || w->named;
    if (known->tuned < w->tune || (!wait && !known->tuned))
        return TRP_OK;
    return try_row(w, known->row, known->tuned ? &known->settings : NULL,
                   wait ? TRP__CUTLASS_USE : TRP__CUTLASS_USE_IF_READY, used);
}

/* Searches; *used false: not now. */
static trp_status add_search(trp__cutlass_running *w, const trp__cutlass_row *const *row,
                             uint32_t count, trp__cutlass_choice *known, bool *used)
{
    trp__cutlass_settings ignored[TRP__CUTLASS_VARIANTS_MAX];
    const trp__cutlass_row *main = NULL;
    trp_status status = TRP_OK;
    bool alone = count == 1 && (w->tune == TRP_TUNE_QUICK ||
                                trp__cutlass_row_variants(row[0], &w->problem, ignored) == 1);
    if (alone) { /* there is nothing to search */
        choose_row(w, row[0], known);
        known->tuned = (uint8_t)w->tune;
        main = row[0];
    } else {
        status = trp__tune_begin(w, row, count, known, &main);
    }
    if (status != TRP_OK || !main)
        return status;
    known->asked = (uint8_t)w->tune;
    if (!known->tuned)
        choose_row(w, main, known);
    remember(w, known);
    return try_row(w, main, known->tuned ? &known->settings : NULL, TRP__CUTLASS_USE, used);
}

/* The request's kernel, or the library. */
static trp_status add_kernel(trp__cutlass_running *w, const trp__cutlass_row *const *row,
                             uint32_t count, trp__cutlass_choice *known)
{
    bool used = false;
    trp_status status = TRP_OK;
    if (known->tuned < w->tune)
        status = add_search(w, row, count, known, &used);
    if (status == TRP_E_UNSUPPORTED && w->rejected) { /* its own kernel can't run */
        memset(&w->search, 0, sizeof w->search);
        status = TRP_OK;
    }
    if (status != TRP_OK || used || !known->tuned)
        return status == TRP_OK && !used ? add_best(w, row, count, known) : status;
    /* The best one is known and on its way. */
    status = add_there(w, row, count, known->row, &used);
    return status == TRP_OK && !used ? add_last(w, known->row, &known->settings, &used) : status;
}

/* Where proofs have rejected all that there is: the library, or a worker that computes in place of
 * a kernel. */
static trp_status add_any(trp__cutlass_running *w, const trp__cutlass_row *row)
{
    bool used = false;
    w->any = true;
    memset(&w->search, 0, sizeof w->search);
    return add_last(w, row, NULL, &used);
}

trp_status trp__run_add_kernel(trp__cutlass_running *w)
{
    const trp__cutlass_row *row[ROWS_MAX];
    trp__cutlass_choice known;
    uint32_t count = 1;
    bool used = false;
    trp_status status = find_named(w);
    if (status != TRP_OK)
        return status;
    if (trp__tune_known(w, &known))
        status = add_known(w, &known, &used);
    if (status != TRP_OK && w->rejected) { /* what was the best is none */
        memset(&known, 0, sizeof known);
        status = TRP_OK;
    }
    if (status != TRP_OK || used)
        return status;
    if (w->named)
        row[0] = w->named;
    else
        count = trp__cutlass_choose(&w->problem, row, ROWS_MAX, w->encoder->error);
    if (count == 0)
        return w->encoder->error->status;
    status = add_kernel(w, row, count, &known);
    return status != TRP_OK && w->rejected ? add_any(w, row[0]) : status;
}

/* Accesses and arguments. */

void trp__run_note_address(trp__cutlass_running *w, size_t at, uint32_t access)
{
    w->address[w->run.addresses++] =
        (trp__run_address){.at = (uint16_t)at, .access = (uint16_t)access};
}

void trp__run_note_bytes(trp__cutlass_running *w, size_t at, uint32_t access)
{
    trp__run_note_address(w, at, access | TRP__RUN_BYTES);
}

trp_status trp__run_add_operand(trp__cutlass_running *w, const trp__operand *o, size_t at)
{
    uint32_t access = w->encoder->record->access_count;
    trp_status status = trp__operand_access(w->encoder, o);
    trp__run_note_address(w, at, access);
    return status;
}

/* Sets the outputs of a reduction to its neutral value: each of the batch, or all at once where
 * they follow each other. */
static trp_status add_fills(trp__cutlass_running *w, const trp__tree_node *n, uint32_t access)
{
    const trp__tree_place *place = &w->operands->place[n->slot];
    uint64_t bits = trp__tree_neutral_bits(w->tree, n);
    uint32_t words = w->tree->compute == TRP_F64 ? 2 : 1;
    /* The tree is that of the transposed problem, as are m and n here. */
    uint64_t count = (n->op == TRP__TREE_REDUCE_ROWS      ? (uint64_t)w->problem.m
                      : n->op == TRP__TREE_REDUCE_COLUMNS ? (uint64_t)w->problem.n
                                                          : 1) *
                     words;
    uint64_t batch = w->problem.batch > 1 && place->stride != 0 ? (uint64_t)w->problem.batch : 1;
    uint64_t stride = (uint64_t)place->stride * words;
    if (words == 2 && (uint32_t)bits != (uint32_t)(bits >> 32))
        return trp__error_set(w->encoder->error, TRP_E_UNSUPPORTED,
                              "nodes[%u] (reduction): the maximum or minimum of f64, on a GPU",
                              w->tree->origin[n->slot].node);
    if (batch > 1 && stride == count) {
        count *= batch;
        batch = 1;
    }
    if (batch > TRP__RUN_FILLS_MAX - w->run.fills)
        return trp__error_set(w->encoder->error, TRP_E_UNSUPPORTED,
                              "nodes[%u] (reduction): on a GPU expected at most %d of a batch that "
                              "do not follow each other, got %llu",
                              w->tree->origin[n->slot].node, TRP__RUN_FILLS_MAX,
                              (unsigned long long)batch);
    for (uint64_t i = 0; i < batch; i++)
        w->fill[w->run.fills++] = (trp__run_fill){
            .access = access, .pattern = (uint32_t)bits, .at = i * stride * 4, .count = count};
    return TRP_OK;
}

trp_status trp__run_add_slots(trp__cutlass_running *w)
{
    const trp__tree *tree = w->tree;
    trp__tree_value value[TRP__TREE_SLOTS_MAX];
    trp_status status = TRP_OK;
    memset(value, 0, sizeof value);
    for (uint32_t i = 0; i < tree->count && status == TRP_OK; i++) {
        const trp__tree_node *n = &tree->node[i];
        const trp__operand *o = &w->operands->operand[n->slot];
        uint32_t access = w->encoder->record->access_count;
        if (!n->slot)
            continue;
        value[n->slot].place = w->operands->place[n->slot];
        if (!o->mode)
            continue;
        value[n->slot].address = 1; /* the worker writes it */
        status = trp__operand_access(w->encoder, o);
        trp__run_note_address(
            w, offsetof(trp_cutlass_args, slot) + trp__tree_word(tree, n->slot) * 8, access);
        if (status == TRP_OK && n->op >= TRP__TREE_REDUCE_ROWS)
            status = add_fills(w, n, access);
    }
    if (status == TRP_OK && tree->count)
        trp__tree_fill_words(tree, value, w->args.slot);
    return status;
}

/* The record. */

trp_status trp__run_write(trp__cutlass_running *w)
{
    uint32_t words = w->tree->count ? trp__tree_word(w->tree, w->tree->slots) : 0;
    trp__key key = {0};
    char *room;
    void *piece = NULL;
    w->run.args_bytes = (uint32_t)(offsetof(trp_cutlass_args, slot) + words * 8);
    w->run.search_bytes = trp__tune_measure(w, &key);
    w->run.subject_bytes = sizeof(trp__cutlass_subject);
    w->run.result_bytes = w->ran ? sizeof *w->ran : 0;
    const uint32_t bytes = w->run.result_bytes + trp__run_bytes(&w->run);
    trp_status status =
        w->ran ? w->encoder->exchange(w->encoder, w->ran, w->run.result_bytes, bytes, &piece)
               : w->encoder->input(w->encoder, bytes, &piece);
    if (status == TRP_OK) {
        room = (char *)piece + w->run.result_bytes;
        memcpy(room, &w->args, w->run.args_bytes);
        memcpy(room + trp__run_addresses_at(&w->run), w->address,
               w->run.addresses * sizeof *w->address);
        memcpy(room + trp__run_fills_at(&w->run), w->fill, w->run.fills * sizeof *w->fill);
        if (w->run.rows_bytes > 0)
            memcpy(room + trp__run_rows_at(&w->run), w->rows, w->run.rows_bytes);
        if (w->run.search_bytes > 0)
            trp__tune_write(w, &key, room + trp__run_search_at(&w->run));
        memcpy(room + trp__run_subject_at(&w->run), &w->subject, sizeof w->subject);
        memcpy(w->encoder->record->payload, &w->run, sizeof w->run);
    }
    trp__key_end(&key);
    return status;
}
