#include "actors/cutlass/proof/proof.h"

#include "actors/cutlass/epilogue/render.h"
#include "actors/cutlass/proof/parts.h"
#include "actors/cutlass/reference/launch.h"
#include "actors/cutlass/run/launch.h"
#include "base/error.h"
#include "base/os/clock.h"
#include "matrix/proving.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A builder takes some 20 us; one that does not end is a kernel that does not. */
#define BUILDER_NS  (10 * TRP__SECOND)
#define BUILDER_NAP 20000

enum { SUMS_LEAST = 64 /* results that say how large results are */ };

typedef trp__cutlass_proving proving;

/* --- Runs of the kernel --- */

static trp_cutlass_args args_at(const proving *x, const trp__proof_place *place, uint64_t workspace,
                                trp__refit_set *addresses)
{
    trp_cutlass_args args = x->args;
    memset(addresses, 0, sizeof *addresses);
    for (uint32_t i = 0; i < x->operands; i++) {
        const uint64_t at = (uintptr_t)place->at[i];
        if (x->at[i] == TRP__PROVING_NO_ADDRESS)
            continue;
        memcpy((char *)&args + x->at[i], &at, sizeof at);
        trp__refit_add(addresses, x->at[i] / 8);
    }
    if (x->in_place || x->c == UINT32_MAX) { /* C in D's place, or what is not read */
        args.c = args.d;
        trp__refit_add(addresses, offsetof(trp_cutlass_args, c) / 8);
    }
    args.flags = workspace;
    args.workspace = workspace ? workspace + TRP_CUTLASS_FLAGS : 0;
    args.workspace_bytes = workspace ? x->trial->workspace : 0;
    return args;
}

static trp_status find_parameter(const proving *x, const trp__cutlass_problem_key *key,
                                 trp__cutlass_parameter **out, trp_error *error)
{
    const int64_t end = trp__deadline(BUILDER_NS);
    trp_status status;
    while ((status = trp__cutlass_builder_find(x->builder, x->trial->properties, key, out,
                                               error)) == TRP_AGAIN) {
        if (trp__now_ns() > end)
            return trp__error_set(error, TRP_E_LIBRARY, "the kernel's builder does not end");
        nanosleep(&(struct timespec){.tv_nsec = BUILDER_NAP}, NULL);
    }
    if (status == TRP_OK && (*out)->status != TRP_CUTLASS_BUILT)
        return trp__error_set(error, TRP_E_LIBRARY,
                              (*out)->status == TRP_CUTLASS_REFUSED
                                  ? "the kernel refuses a problem that it was chosen for"
                                  : "the kernel wants another workspace for the same problem");
    return status;
}

static trp_status set_bytes(const proving *x, uint64_t at, uint64_t bytes, trp__cu_stream stream,
                            trp_error *error)
{
    const trp__cuda *cu = x->builder->cu;
    const trp__cu_result result =
        bytes ? cu->cuMemsetD8Async(at, 0, (size_t)bytes, stream) : TRP__CU_SUCCESS;
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuMemsetD8Async");
}

/* Sets the initial values of reductions, as a request does. */
static trp_status set_neutral(const proving *x, const trp_cutlass_args *args, trp__cu_stream stream,
                              trp_error *error)
{
    const trp__cuda *cu = x->builder->cu;
    trp__cu_result result = TRP__CU_SUCCESS;
    for (uint32_t i = 0; i < x->tree.count; i++) {
        const trp__tree_node *n = &x->tree.node[i];
        if (n->op < TRP__TREE_REDUCE_ROWS)
            continue;
        const uint64_t *word = &args->slot[trp__tree_word(&x->tree, n->slot)];
        const uint64_t words = x->tree.compute == TRP_F64 ? 2 : 1;
        const int64_t results = n->op == TRP__TREE_REDUCE_ROWS      ? args->m
                                : n->op == TRP__TREE_REDUCE_COLUMNS ? args->n
                                                                    : 1;
        for (int64_t l = 0; l < (word[1] ? args->l : 1) && result == TRP__CU_SUCCESS; l++)
            result = cu->cuMemsetD32Async(word[0] + (uint64_t)l * word[1] * words * 4,
                                          (unsigned)trp__tree_neutral_bits(&x->tree, n),
                                          (size_t)((uint64_t)results * words), stream);
    }
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuMemsetD32Async");
}

static trp_status copy_c(const proving *x, const trp__proof_place *place, trp_error *error)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const trp__proving_lines lines = {.length = x->args.n,
                                      .count = x->args.m,
                                      .batch = trp__proving_members(x, 3),
                                      .ld = x->args.ldd,
                                      .stride = x->args.batch_d,
                                      .width = trp_dtype_bits((trp_dtype)p->d) / 8};
    return x->in_place ? trp__proving_copy(x->builder->cu, &lines, (uintptr_t)place->at[x->c],
                                           (uintptr_t)place->at[x->d], place->stream, error)
                       : TRP_OK;
}

static trp_status run_kernel(void *context, const trp__proof_place *place, trp_error *error)
{
    const proving *x = context;
    const trp__cutlass_trial *t = x->trial;
    const trp__cutlass_launcher launcher = {x->builder->cu, x->builder->instance, place->stream};
    trp__cutlass_problem_key key = {.slot = t->key.slot, .generation = t->key.generation};
    trp__cutlass_parameter *parameter = NULL;
    key.args = args_at(x, place, (uintptr_t)place->workspace, &key.addresses);
    trp_status status = find_parameter(x, &key, &parameter, error);
    if (status == TRP_OK)
        status = copy_c(x, place, error);
    if (status == TRP_OK)
        status = set_neutral(x, &key.args, place->stream, error);
    if (status == TRP_OK && key.args.flags)
        status = set_bytes(x, key.args.flags, TRP_CUTLASS_FLAGS, place->stream, error);
    if (status == TRP_OK)
        status = set_bytes(x, key.args.workspace + parameter->zero_at, parameter->zero_bytes,
                           place->stream, error);
    if (status == TRP_OK && x->table != UINT32_MAX)
        status = trp__cutlass_prepare(&launcher, t->properties, &key.args,
                                      (uintptr_t)place->at[x->table], error);
    return status == TRP_OK ? trp__cutlass_launch(&launcher, t->properties, parameter, error)
                            : status;
}

/* --- Runs of the reference --- */

static trp_status upload(const proving *x, void *to, const void *from, size_t bytes,
                         trp_error *error)
{
    const trp__cu_result result = trp__cuda_upload(x->builder->cu, (uintptr_t)to, from, bytes);
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuMemcpyHtoD");
}

/* One output, at its sample. */
static trp_status run_sample(const proving *x, const trp__proof_place *place,
                             trp__cutlass_reference *r, uint32_t output,
                             const trp__proof_sample *sample, trp_error *error)
{
    void *room = place->at[x->first_numbers + output];
    if (sample->count == 0)
        return TRP_OK;
    r->what = x->what[sample->operand];
    r->sample = room;
    r->count = (int64_t)sample->count;
    const trp_status status =
        upload(x, room, sample->number, sample->count * sizeof *sample->number, error);
    return status == TRP_OK
               ? trp__cutlass_reference_one(x->builder->cu, x->reference, r, place->stream, error)
               : status;
}

/* Whether results of a reduction are compared, which are made of all elements. */
static bool is_reduced(const proving *x, const trp__proof_sample samples[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t what = x->what[samples[i].operand];
        if (what < x->tree.count && x->tree.node[what].op >= TRP__TREE_REDUCE_ROWS)
            return true;
    }
    return false;
}

/* C is read where it was made, also where the kernel has it in D's place. */
static trp_status run_reference(void *context, const trp__proof_place *place,
                                const trp__proof_sample samples[], uint32_t count, trp_error *error)
{
    const proving *x = context;
    trp__refit_set ignored;
    trp__tree tree;
    trp__cutlass_reference r;
    trp_cutlass_args args = args_at(x, place, 0, &ignored);
    trp_status status = TRP_OK;
    if (x->c != UINT32_MAX)
        args.c = (uintptr_t)place->at[x->c];
    if (args.group_c == 2)
        args.group_c = 1;
    if (x->table != UINT32_MAX)
        status = upload(x, place->at[x->table], x->rows, x->rows_bytes, error);
    if (!trp__cutlass_reference_set(&x->trial->subject, &args,
                                    x->table != UINT32_MAX ? place->at[x->table] : NULL, &tree, &r))
        return trp__error_set(error, TRP_E_INTERNAL, "an epilogue tree that no sender made");
    if (status == TRP_OK && is_reduced(x, samples, count)) {
        status = set_neutral(x, &args, place->stream, error);
        return status == TRP_OK ? trp__cutlass_reference_all(x->builder->cu, x->reference, &r,
                                                             place->stream, error)
                                : status;
    }
    for (uint32_t i = 0; i < count && status == TRP_OK; i++)
        status = run_sample(x, place, &r, i, &samples[i], error);
    return status;
}

/* --- Proofs --- */

/* Fractions, where what comes of them is foretold well enough; special numbers beside exact sums.
 */
static uint32_t passes_of(const proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const trp__proving_tree tree = trp__proving_look_at_tree(&x->tree);
    const int64_t results = (int64_t)x->args.m * x->args.n * x->args.l;
    const uint8_t type[] = {p->a, p->b, p->d};
    bool fractions = x->tree.count > 0 && tree.tame && results >= SUMS_LEAST;
    for (size_t i = 0; i < sizeof type; i++)
        fractions = fractions && trp_dtype_bits((trp_dtype)type[i]) > 8 && type[i] != TRP_I32;
    return TRP__PROOF_ORDINARY | (fractions ? TRP__PROOF_SATURATING : 0) |
           (tree.exact && tree.reads ? TRP__PROOF_EXTREME : 0);
}

bool trp__cutlass_provable(const trp__cutlass_trial *t)
{
    trp__tree tree;
    trp__cutlass_reference r;
    return trp__cutlass_reference_set(&t->subject, &t->key.args, NULL, &tree, &r) &&
           trp__proving_look_at_tree(&tree).foretold;
}

static bool set_up(proving *x)
{
    const trp__cutlass_trial *t = x->trial;
    trp__cutlass_reference ignored;
    x->args = t->key.args;
    if (!trp__cutlass_reference_set(&t->subject, &x->args, NULL, &x->tree, &ignored))
        return false;
    x->in_place = t->subject.in_place && t->subject.problem.c != TRP_DTYPE_NONE;
    if (x->in_place) {
        x->args.ldc = x->args.ldd;
        x->args.batch_c = x->args.batch_d;
    }
    trp__proving_set_numbers(&x->tree, &x->args);
    return trp__proving_lay_out(x);
}

void trp__cutlass_prove(const trp__cutlass_trial *trial, trp__cutlass_builder *builder,
                        trp__cu_function reference, trp__proof_verdict *out)
{
    proving *x = calloc(1, sizeof *x);
    *out = (trp__proof_verdict){.result = TRP__PROOF_IMPOSSIBLE, .reason = "no memory"};
    if (!x)
        return;
    x->trial = trial;
    x->builder = builder;
    x->reference = reference;
    if (set_up(x)) {
        const trp__proof proof = {.cu = builder->cu,
                                  .operand = x->operand,
                                  .operands = x->operands,
                                  .workspace =
                                      trial->workspace ? TRP_CUTLASS_FLAGS + trial->workspace : 0,
                                  .passes = passes_of(x),
                                  .special = TRP__PROOF_LARGEST | TRP__PROOF_SMALLEST |
                                             TRP__PROOF_INFINITE | TRP__PROOF_NAN,
                                  .run = run_kernel,
                                  .reference = run_reference,
                                  .context = x};
        trp__prove(&proof, out);
    }
    free(x->rows);
    free(x);
}
