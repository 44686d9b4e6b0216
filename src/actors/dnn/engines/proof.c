#include "actors/dnn/engines/proof.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof_parts.h"
#include "actors/dnn/lower/attention_limits.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Deaths of workers of other processes during the proof of an engine that are taken for
     * something else: whoever kills an application kills its worker wherever that is. */
    STRANGERS = 1,
    PRODUCTS = 8, /* algorithms of cuBLASLt's among which one is looked for */
};

/* So long another process may be at the same proof: then it is stopped, most likely. */
#define PATIENCE_NS (60 * TRP__SECOND)

void trp__dnn_prover_end(trp__dnn_prover *prover, trp_instance *instance)
{
    trp__dnn_verdicts_end(&prover->verdicts);
    if (prover->handle)
        prover->lib->cudnnDestroy(prover->handle);
    prover->handle = NULL;
    if (prover->cu)
        trp__kernels_end(&prover->reference, instance);
}

/* Running the engine. */

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
    trp__cudnn_maker m =
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

trp_status trp__dnn_problem_run(void *problem, const trp__proof_place *place, trp_error *error)
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

/* Proofs. */

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

/* Has the reference compiled where neither the cache nor a pack has it: a wrong engine would serve
 * meanwhile. */
static bool have_reference(const trp__dnn_planner *planner)
{
    trp__dnn_prover *prover = planner->prover;
    trp_error error;
    if (prover->no_reference)
        return false;
    const trp_status status =
        trp__kernels_make(planner->modules, TRP__MODULE_DIRECT, prover->unwanted, &error);
    if (status == TRP_E_CANCELLED) {
        prover->cancelled = true;
    } else if (status != TRP_OK) {
        prover->no_reference = status != TRP_E_MEMORY; /* of which there may be some later */
        trp__log_line(NULL, TRP__LOG_WARNING, "%s: engines serve unproven: %s", prover->name,
                      error.message);
    }
    return status == TRP_OK && trp__dnn_prover_modules(planner, TRP__MODULE_DIRECT);
}

/* Sees to it that there is a reference, and what runs the engine. */
static bool is_ready(const trp__dnn_planner *planner, const trp__dnn_part *part,
                     const trp__dnn_engine *engine)
{
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
                              .run = trp__dnn_problem_run,
                              .reference = trp__dnn_problem_reference,
                              .context = p};
    trp__prove(&proof, out);
    if (planner->prover->handle && out->result != TRP__PROOF_BROKE)
        planner->lib->cudnnSetStream(planner->prover->handle, NULL);
    free(p);
}

/* A part with fewer images, or fewer of whatever comes first: tensors of its own, the same nodes.
 */
typedef struct smaller {
    trp__dnn_graph graph;
    trp__dnn_part part;
    trp__dnn_tensor tensor[TRP__DNN_LOWERED_TENSORS];
} smaller;

/* As divisible by powers of two as before, up to 16. 0: it can't be smaller. */
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

/* False: not all tensors have as many, or one; or what comes first is no batch. */
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

/* The same algorithm of cuBLASLt, or the same kernel, for the smaller part. */
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

/* The same engine, knobs included, on fewer images. */
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

static void prove(const trp__dnn_planner *planner, const trp__dnn_part *part,
                  const trp__dnn_engine *engine, trp__proof_verdict *out)
{
    prove_part(planner, part, engine, out);
    if (out->result == TRP__PROOF_IMPOSSIBLE && out->error.status == TRP_E_MEMORY)
        prove_smaller(planner, part, engine, out);
}

static void tell(const trp__dnn_prover *prover, const trp__dnn_part *part, const char *engine,
                 const char *verdict, const char *reason)
{
    char text[160];
    trp__dnn_part_text(part, text, sizeof text);
    trp__log_line(NULL, TRP__LOG_WARNING, "%s: %s %s for %s: %s", prover->name, engine, verdict,
                  text, reason);
}

static trp__dnn_verdict verdict_of(const trp__proof_verdict *proof)
{
    trp__dnn_verdict v = {.state = proof->result == TRP__PROOF_GOOD         ? TRP__DNN_PROVEN
                                   : proof->result == TRP__PROOF_IMPOSSIBLE ? TRP__DNN_UNKNOWN
                                                                            : TRP__DNN_REJECTED,
                          .compared = proof->compared};
    trp__copy_string(v.reason, sizeof v.reason, proof->reason);
    return v;
}

/* What a worker that died during the proof has left. The same application's next worker takes it
 * for the engine's doing; another application's does when it has happened before. */
static bool has_killed(const trp__dnn_prover *prover, const trp__dnn_verdict *left)
{
    return left->state == TRP__DNN_PROVING &&
           (left->owner == prover->owner || left->attempts > STRANGERS);
}

/* Proves an engine, best with the claim on its verdict held: without it, who has left a mark may be
 * alive. The mark that is written first is a
 * rejection for who finds it, if this worker does not live to write another one. */
static trp__dnn_verdict prove_marked(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                     const trp__dnn_engine *engine, const trp__key *key,
                                     bool claimed)
{
    trp__dnn_prover *prover = planner->prover;
    trp__dnn_verdict verdict = trp__dnn_verdict_find(&prover->verdicts, key);
    trp__proof_verdict proof;
    if (verdict.state == TRP__DNN_PROVEN || verdict.state == TRP__DNN_REJECTED)
        return verdict;
    if (claimed && has_killed(prover, &verdict)) {
        verdict = (trp__dnn_verdict){.state = TRP__DNN_REJECTED, .reason = "it broke a worker"};
    } else {
        const trp__dnn_verdict mark = {
            .state = TRP__DNN_PROVING, .owner = prover->owner, .attempts = verdict.attempts + 1};
        trp__dnn_verdict_keep(&prover->verdicts, key, &mark);
        prove(planner, part, engine, &proof);
        verdict = verdict_of(&proof);
        if (proof.result == TRP__PROOF_BROKE) {
            prover->broken = true;
            prover->error = proof.error;
        }
    }
    trp__dnn_verdict_keep(&prover->verdicts, key, &verdict);
    if (verdict.state == TRP__DNN_REJECTED)
        tell(prover, part, engine->name, "is not used", verdict.reason);
    else if (verdict.state == TRP__DNN_UNKNOWN)
        tell(prover, part, engine->name, "serves unproven", verdict.reason);
    return verdict;
}

static bool is_unwanted(void *context)
{
    const trp__dnn_prover *prover = context;
    return prover->unwanted && atomic_load(prover->unwanted);
}

static trp__dnn_verdict prove_once(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                   const trp__dnn_engine *engine, const trp__key *key)
{
    trp__dnn_prover *prover = planner->prover;
    const trp__store_wait wait = {
        .deadline_ns = trp__deadline(PATIENCE_NS), .is_cancelled = is_unwanted, .context = prover};
    trp__store_claim *claim = NULL;
    trp__dnn_verdict none = {0};
    trp_error ignored; /* a proof without a claim does no harm */
    if (!is_ready(planner, part, engine) || prover->broken)
        return none;
    if (prover->verdicts.store && trp__store_claim_begin(prover->verdicts.store, key, &wait, &claim,
                                                         &ignored) == TRP_E_CANCELLED) {
        prover->cancelled = true;
        return none;
    }
    const trp__dnn_verdict verdict = prove_marked(planner, part, engine, key, claim != NULL);
    trp__store_claim_end(claim);
    return verdict;
}

bool trp__dnn_proof_rejects(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const char *engine)
{
    trp__dnn_prover *prover = planner->prover;
    trp__key key;
    if (!prover)
        return false;
    trp__dnn_verdict_key(&prover->verdicts, part, engine, &key);
    const trp__dnn_verdict verdict = trp__dnn_verdict_find(&prover->verdicts, &key);
    trp__key_end(&key);
    return verdict.state == TRP__DNN_REJECTED;
}

bool trp__dnn_proof_accepts(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const trp__dnn_engine *engine)
{
    trp__dnn_prover *prover = planner->prover;
    trp__key key;
    if (!prover)
        return true;
    trp__dnn_verdict_key(&prover->verdicts, part, engine->name, &key);
    trp__dnn_verdict verdict = trp__dnn_verdict_find(&prover->verdicts, &key);
    if (verdict.state != TRP__DNN_PROVEN && verdict.state != TRP__DNN_REJECTED)
        verdict = prover->off ? (trp__dnn_verdict){0} : prove_once(planner, part, engine, &key);
    trp__key_end(&key);
    if (verdict.state == TRP__DNN_PROVEN)
        return true;
    if (verdict.state == TRP__DNN_REJECTED || prover->broken)
        return false;
    prover->unproven = true;
    return true;
}

void trp__dnn_proof_reject(trp__dnn_prover *prover, const trp__dnn_part *part, const char *engine,
                           const char *reason)
{
    trp__dnn_verdict verdict = {.state = TRP__DNN_REJECTED};
    trp__key key;
    trp__copy_string(verdict.reason, sizeof verdict.reason, reason);
    trp__dnn_verdict_key(&prover->verdicts, part, engine, &key);
    trp__dnn_verdict_keep(&prover->verdicts, &key, &verdict);
    trp__key_end(&key);
    tell(prover, part, engine, "is not used", reason);
}
