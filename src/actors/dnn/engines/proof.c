#include "actors/dnn/engines/proof.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof_parts.h"
#include "actors/dnn/lower/attention_limits.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCTS = 8 /* cuBLASLt algorithms searched for a given one */ };

void trp__dnn_prover_end(trp__dnn_prover *prover, trp_instance *instance)
{
    trp__verdicts_end(&prover->proofs.verdicts);
    if (prover->handle)
        prover->lib->cudnnDestroy(prover->handle);
    prover->handle = NULL;
    if (prover->cu)
        trp__kernels_end(&prover->reference, instance);
}

static trp_status make_pack(const trp__dnn_problem *p, const trp__proof_place *place,
                            trp__cudnn_descriptor *out, trp_error *error)
{
    const trp__dnn_graph *g = p->part->graph;
    int64_t uid[TRP__DNN_LOWERED_TENSORS];
    const void *at[TRP__DNN_LOWERED_TENSORS];
    uint32_t count = 0;
    for (uint32_t t = 0; t < g->head->tensors; t++) {
        if (p->place[t] < TRP__DNN_PLACE_VALUE)
            continue;
        uid[count] = trp__dnn_uid(t);
        at[count++] =
            p->place[t] == TRP__DNN_PLACE_VALUE ? p->value[t] : place->at[p->operand_of[t]];
    }
    trp__cudnn_builder m =
        trp__cudnn_begin(p->planner->lib, TRP__CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, error);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, TRP__CUDNN_TYPE_INT64, count, uid);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, TRP__CUDNN_TYPE_VOID_PTR, count,
                   at);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_VARIANT_PACK_WORKSPACE, TRP__CUDNN_TYPE_VOID_PTR, 1,
                   &place->workspace);
    return trp__cudnn_finish(&m, out);
}

static trp_status run_product(const trp__dnn_problem *p, const trp__proof_place *place,
                              trp_error *error)
{
    void *at[TRP__DNN_LOWERED_TENSORS] = {0};
    for (uint32_t i = 0; i + 1 < p->operands; i++)
        at[p->tensor_of[i]] = place->at[i];
    const trp__kernel_launch launch = {.modules = &p->planner->prover->reference,
                                       .stream = place->stream,
                                       .at = at,
                                       .workspace = place->workspace};
    return trp__dnn_product_launch(p->engine, &launch, error);
}

/* Runs the engine. */
static trp_status run_engine(void *problem, const trp__proof_place *place, trp_error *error)
{
    const trp__dnn_problem *p = problem;
    const trp__cudnn *lib = p->planner->lib;
    trp__cudnn_handle handle = p->planner->prover->handle;
    trp__cudnn_descriptor pack = NULL;
    if (p->engine->product)
        return run_product(p, place, error);
    trp_status status = make_pack(p, place, &pack, error);
    if (status == TRP_OK)
        status = trp__cudnn_check(lib, lib->cudnnSetStream(handle, place->stream), "cudnnSetStream",
                                  error);
    if (status == TRP_OK)
        status = trp__cudnn_check(lib, lib->cudnnBackendExecute(handle, p->engine->plan, pack),
                                  "cudnnBackendExecute", error);
    trp__cudnn_drop(lib, &pack);
    return status;
}

trp__kernel_modules *trp__dnn_prover_modules(const trp__dnn_planner *planner,
                                             trp__kernel_module module)
{
    trp__kernel_modules *own = &planner->prover->reference;
    trp_error ignored;
    own->cu = planner->prover->cu;
    own->target = planner->modules->target;
    own->processors = planner->modules->processors;
    return trp__kernels_share(planner->modules, own, module, &ignored) == TRP_OK ? own : NULL;
}

/* Compiles the reference if neither the cache nor a pack has it: a wrong engine would run
 * meanwhile. */
static bool have_reference(const trp__dnn_planner *planner)
{
    trp__proofs *proofs = &planner->prover->proofs;
    trp_error error;
    if (proofs->no_reference)
        return false;
    const trp_status status =
        trp__kernels_make(planner->modules, TRP__MODULE_DIRECT, proofs->unwanted, &error);
    return trp__proofs_have_reference(proofs, status, &error) &&
           trp__dnn_prover_modules(planner, TRP__MODULE_DIRECT);
}

/* An engine for a part under test. */
typedef struct judged {
    const trp__dnn_planner *planner;
    const trp__dnn_part *part;
    const trp__dnn_engine *engine; /* NULL if only its name is known */
    trp__key key;
    char text[160]; /* of the part */
    trp__proof_subject subject;
} judged;

/* Ensures that the reference and the engine are ready. */
static bool is_ready(void *context)
{
    const judged *j = context;
    const trp__dnn_planner *planner = j->planner;
    const trp__dnn_part *part = j->part;
    const trp__dnn_engine *engine = j->engine;
    trp__dnn_prover *prover = planner->prover;
    for (uint32_t n = 0; n < part->count; n++) {
        if (!planner->modules || !trp__direct_takes(&part->graph->node[part->first + n]))
            return false;
    }
    if (!have_reference(planner) || (trp__dnn_product_is_own(engine) &&
                                     !trp__dnn_prover_modules(planner, TRP__MODULE_MULTIPLY)))
        return false;
    if (!engine->product && !prover->handle && prover->lib->cudnnCreate(&prover->handle) != 0)
        prover->handle = NULL;
    return engine->product || prover->handle;
}

static void prove_part(const trp__dnn_planner *planner, const trp__dnn_part *part,
                       const trp__dnn_engine *engine, trp__proof_verdict *out)
{
    trp__dnn_problem *p = calloc(1, sizeof *p);
    *out = (trp__proof_verdict){.result = TRP__PROOF_IMPOSSIBLE};
    if (!p)
        return;
    p->planner = planner;
    p->part = part;
    p->engine = engine;
    p->reference = &planner->prover->reference;
    trp__dnn_problem_describe(p);
    const trp__proof proof = {.cu = planner->prover->cu,
                              .operand = p->operand,
                              .operands = p->operands,
                              .workspace = engine->workspace,
                              .passes = p->passes,
                              .special = p->special,
                              .run = run_engine,
                              .reference = trp__dnn_problem_reference,
                              .context = p};
    trp__prove(&proof, out);
    if (planner->prover->handle && out->result != TRP__PROOF_BROKE)
        planner->lib->cudnnSetStream(planner->prover->handle, NULL);
    free(p);
}

/* A part with fewer images, or a smaller first dimension: own tensors, the same nodes.
 */
typedef struct smaller {
    trp__dnn_graph graph;
    trp__dnn_part part;
    trp__dnn_tensor tensor[TRP__DNN_LOWERED_TENSORS];
} smaller;

/* Returns a smaller count with the same divisibility by powers of two, up to 16, or 0 if there is
 * none. */
static int64_t smaller_count(int64_t count)
{
    const int64_t power = count & -count;
    const int64_t least = power > 16 ? 16 : power > 1 ? power : 3;
    return least < count ? least : 0;
}

static bool is_filter(const trp__dnn_part *part, uint32_t t)
{
    for (uint32_t n = 0; n < part->count; n++) {
        const trp__dnn_node *node = &part->graph->node[part->first + n];
        if (node->kind < TRP_DNN_MATMUL && node->port[TRP__DNN_CONV_W] == t)
            return true;
    }
    return false;
}

/* Returns false if the first dimensions differ and are not 1, or if the first dimension is not a
 * batch. */
static bool shrink(const trp__dnn_part *part, smaller *out)
{
    const trp__dnn_graph *g = part->graph;
    uint8_t place[TRP__DNN_LOWERED_TENSORS];
    int64_t most = 1;
    trp__dnn_places(part, place);
    memcpy(out->tensor, g->tensor, g->head->tensors * sizeof *out->tensor);
    for (uint32_t n = 0; n < part->count; n++) {
        const trp__dnn_node *node = &g->node[part->first + n];
        if (trp__dnn_is_attention(node) || node->kind >= TRP_DNN_CONCATENATE ||
            (node->kind == TRP_DNN_MATMUL && g->tensor[node->port[TRP__DNN_MATMUL_Y]].rank < 3))
            return false;
    }
    for (int pass = 0; pass < 2; pass++) {
        const int64_t count = smaller_count(most);
        for (uint32_t t = 0; t < g->head->tensors; t++) {
            trp__dnn_tensor *tensor = &out->tensor[t];
            if (place[t] == TRP__DNN_PLACE_NONE || place[t] == TRP__DNN_PLACE_VALUE ||
                is_filter(part, t))
                continue;
            if (pass == 0 && tensor->dim[0] > most)
                most = tensor->dim[0];
            if (pass == 1 && tensor->dim[0] == most)
                tensor->dim[0] = count;
            else if (pass == 1 && tensor->dim[0] != 1)
                return false;
        }
        if (pass == 1 && count == 0)
            return false;
    }
    out->graph = *g;
    out->graph.tensor = out->tensor;
    out->part = (trp__dnn_part){&out->graph, part->first, part->count};
    return true;
}

/* Finds the same cuBLASLt algorithm or kernel for the smaller part. */
static trp_status find_product(const trp__dnn_planner *planner, const trp__dnn_part *part,
                               const char *name, trp__dnn_engine *out, trp_error *error)
{
    trp__dnn_engine engines[PRODUCTS + 1] = {{0}};
    trp__dnn_product product;
    uint32_t count = 0;
    trp_status status = TRP_E_UNSUPPORTED;
    if (!trp__dnn_product_of(part->graph, part->first, part->count, &product) ||
        trp__dnn_product_engines(planner, part->graph->head, &product, PRODUCTS, engines, &count,
                                 error) != TRP_OK)
        return TRP_E_UNSUPPORTED;
    count += trp__dnn_product_own_engine(planner, &product, engines + count);
    for (uint32_t i = 0; i < count; i++) {
        if (status != TRP_OK && strcmp(engines[i].name, name) == 0) {
            *out = engines[i];
            status = TRP_OK;
        } else {
            trp__dnn_engine_drop(planner->lib, &engines[i]);
        }
    }
    return status;
}

/* Proves the same engine, with the same knobs, on fewer images. */
static void prove_smaller(const trp__dnn_planner *planner, const trp__dnn_part *part,
                          const trp__dnn_engine *engine, trp__proof_verdict *out)
{
    smaller *s = calloc(1, sizeof *s);
    trp__dnn_engine small = {0};
    trp_error ignored;
    if (s && shrink(part, s) &&
        (engine->product ? find_product : trp__dnn_engine_named)(planner, &s->part, engine->name,
                                                                 &small, &ignored) == TRP_OK) {
        prove_part(planner, &s->part, &small, out);
        trp__dnn_engine_drop(planner->lib, &small);
    }
    free(s);
}

static void prove(void *context, trp__proof_verdict *out)
{
    const judged *j = context;
    prove_part(j->planner, j->part, j->engine, out);
    if (out->result == TRP__PROOF_IMPOSSIBLE && out->error.status == TRP_E_MEMORY)
        prove_smaller(j->planner, j->part, j->engine, out);
}

static void begin_judging(judged *j, trp__dnn_prover *prover, const trp__dnn_part *part,
                          const char *engine)
{
    j->part = part;
    trp__dnn_part_text(part, j->text, sizeof j->text);
    trp__dnn_verdict_key(&prover->proofs.verdicts, part, engine, &j->key);
    j->subject = (trp__proof_subject){.key = &j->key,
                                      .plan = engine,
                                      .problem = j->text,
                                      .is_ready = is_ready,
                                      .prove = prove,
                                      .context = j};
}

bool trp__dnn_proof_rejects(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const char *engine)
{
    trp__dnn_prover *prover = planner->prover;
    trp__key key;
    if (!prover)
        return false;
    trp__dnn_verdict_key(&prover->proofs.verdicts, part, engine, &key);
    const bool rejected = trp__proofs_reject(&prover->proofs, &key);
    trp__key_end(&key);
    return rejected;
}

bool trp__dnn_proof_accepts(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const trp__dnn_engine *engine)
{
    judged j = {.planner = planner, .engine = engine};
    if (!planner->prover)
        return true;
    begin_judging(&j, planner->prover, part, engine->name);
    const bool accepted = trp__proofs_accept(&planner->prover->proofs, &j.subject);
    trp__key_end(&j.key);
    return accepted;
}

void trp__dnn_proof_reject(trp__dnn_prover *prover, const trp__dnn_part *part, const char *engine,
                           const char *reason)
{
    judged j = {0};
    begin_judging(&j, prover, part, engine);
    trp__proofs_note_refusal(&prover->proofs, &j.subject, reason);
    trp__key_end(&j.key);
}
