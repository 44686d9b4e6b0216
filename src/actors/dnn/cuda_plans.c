/* Finds plans of the dnn actor on a GPU in memory or in the kernel cache; otherwise the side thread
 * creates and tunes them. */
#include "actors/dnn/dnn_cuda.h"
#include "actors/dnn/plans/record.h"
#include "actors/dnn/plans/tune.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "worker/actor.h"

#include <stdlib.h>
#include <string.h>

/* A search of another process that takes longer than this has most likely stopped. */
#define PATIENCE_NS (60 * TRP__SECOND)

typedef trp__dnn_plan_key plan_key;
typedef trp__dnn_cuda_making making;
typedef trp__dnn_cuda_state state;

void trp__dnn_cuda_end_making(making *m)
{
    trp__dnn_plan_drop(m->plan);
    free(m->bytes);
    memset(m, 0, sizeof *m);
}

static bool is_unwanted(void *argument)
{
    state *s = argument;
    return atomic_load(&s->unwanted);
}

/* Tells whether there is a record that is good enough and that the library accepts. */
static bool use_record(state *s, const trp__key *key)
{
    making *m = &s->making;
    trp__dnn_plan *plan;
    if (!trp__dnn_record_find(s->store, key, &s->planner, &m->graph, &plan))
        return false;
    if (plan->tune < m->graph.head->tune || (!plan->proven && !s->prover.proofs.off)) {
        trp__dnn_plan_drop(plan);
        return false;
    }
    trp__dnn_plan_drop(m->plan);
    m->plan = plan;
    return true;
}

/* Stores the plan. One that is not proven for lack of a reference or of memory is created again by
 * the next process. */
static void keep_record(state *s, const trp__key *key)
{
    if (s->making.plan->proven || s->prover.proofs.off)
        trp__dnn_record_keep(s->store, key, s->making.plan);
}

static void note_proofs(state *s)
{
    s->making.plan->proven = !s->prover.proofs.unproven;
}

/* Searches unless another thread or process does; then waits for its result. Returns false when
 * nobody waits for the plan any more. */
static bool search_once(state *s, const trp__key *key)
{
    const trp__store_wait wait = {
        .deadline_ns = trp__deadline(PATIENCE_NS), .is_cancelled = is_unwanted, .context = s};
    making *m = &s->making;
    trp__store_claim *claim = NULL;
    trp_error ignored; /* a search without a claim does no harm */
    if (s->store &&
        trp__store_claim_begin(s->store, key, &wait, &claim, &ignored) == TRP_E_CANCELLED)
        return false;
    if (!use_record(s, key)) {
        trp__dnn_plan_set_values(m->plan, &m->graph);
        if (!s->planner.handle && s->lib->cudnnCreate(&s->planner.handle) != 0) {
            s->planner.handle = NULL;  /* candidates need it: without it the plan stays unchanged */
            m->plan->makeshift = true; /* and the next process searches again */
        }
        trp__dnn_tune(&s->planner, s->cu, s->l2_bytes, m->graph.head->tune == TRP_TUNE_FULL,
                      m->plan);
        note_proofs(s);
        m->plan->tune = m->graph.head->tune;
        keep_record(s, key);
    }
    trp__store_claim_end(claim);
    return true;
}

/* Rejects what a library has refused to run before another plan is created. */
static void reject_refused(state *s)
{
    const trp__dnn_plan *old = s->making.refused;
    const trp__dnn_step *step = old ? &old->step[old->refused_step] : NULL;
    if (!step)
        return;
    const trp__dnn_part part = {&old->lowered.graph, step->first, step->count};
    trp__dnn_proof_reject(&s->prover, &part, step->engine.name, old->refused_reason);
}

static trp_status make_new(state *s)
{
    making *m = &s->making;
    trp__dnn_plan_drop(m->plan);
    m->plan = NULL;
    s->prover.proofs.unproven = s->prover.proofs.cancelled = false;
    trp_status status = trp__dnn_plan_make(&s->planner, &m->graph, &m->plan, &m->error);
    if (status == TRP_OK && m->plan)
        note_proofs(s);
    return status == TRP_OK && s->prover.proofs.cancelled ? TRP_E_CANCELLED : status;
}

/* Tells the worker to end after a proof has broken the context or left an operation in it that does
 * not end. Its requests wait for the next worker. */
static void give_up(state *s)
{
    trp_error ignored;
    s->instance->services->cuda_fail(s->instance, trp__proofs_cuda_result(&s->prover.proofs),
                                     "a proof", &ignored);
}

/* Finishes a plan. If a library has refused to run its own plan, nothing is searched and the record
 * is replaced. Without a search only our own products are timed. */
static void finish_plan(state *s, const trp__key *key)
{
    making *m = &s->making;
    if (m->graph.head->tune != TRP_TUNE_OFF && !m->refused) {
        if (!search_once(s, key))
            m->status = TRP_E_CANCELLED;
        return;
    }
    if (!m->refused) {
        trp__dnn_tune_own(&s->planner, s->cu, s->l2_bytes, m->plan);
        note_proofs(s);
    }
    m->plan->tune = m->graph.head->tune;
    keep_record(s, key);
}

static void make_plan(void *argument)
{
    state *s = argument;
    making *m = &s->making;
    trp__key key;
    trp__dnn_record_key(&s->site, &m->graph, &key);
    m->status = TRP_OK;
    reject_refused(s);
    const bool known = !m->refused && use_record(s, &key);
    if (!known && m->ahead) {
        m->status = trp__error_set(&m->error, TRP_E_UNSUPPORTED, "a plan without a record");
    } else if (!known) {
        m->status = make_new(s);
        if (m->status == TRP_OK && m->plan)
            finish_plan(s, &key);
    }
    if (s->prover.proofs.broken)
        give_up(s);
    trp__key_end(&key);
}

static bool is_made(const state *s, const plan_key *key, const trp__dnn_graph *graph)
{
    const making *m = &s->making;
    return m->begun && m->ahead == trp__instance_rehearses(s->instance) && m->key.sum == key->sum &&
           m->key.bytes == key->bytes && m->graph.head->tune >= graph->head->tune &&
           trp__dnn_same_graph(m->graph.head, graph->head);
}

static trp_status begin_plan(state *s, const plan_key *key, const trp__dnn_graph *graph,
                             const trp__dnn_plan *refused, trp_error *error)
{
    making *m = &s->making;
    size_t bytes = trp__dnn_bytes(graph->head);
    trp__dnn_cuda_end_making(m);
    m->bytes = malloc(bytes);
    if (!m->bytes)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a graph of %zu bytes", bytes);
    memcpy(m->bytes, graph->head, bytes);
    m->graph = trp__dnn_graph_at(m->bytes);
    m->key = *key;
    m->begun = true;
    m->ahead = trp__instance_rehearses(s->instance);
    m->refused = refused;
    atomic_store(&s->unwanted, false);
    trp__side_run(s->side, make_plan, s);
    return TRP_AGAIN;
}

static trp__dnn_plan *keep_plan(state *s, const plan_key *key, trp__dnn_plan *plan)
{
    trp__dnn_plan **old = trp__lru_find(s->plans, key);
    if (old)
        trp__lru_remove(s->plans, old);
    *(trp__dnn_plan **)trp__lru_add(s->plans, key) = plan;
    return plan;
}

/* Takes the side thread's plan; returns NULL after an error or a cancellation. */
static trp__dnn_plan *take_plan(state *s)
{
    making *m = &s->making;
    trp__dnn_plan *plan = m->status == TRP_OK ? m->plan : NULL;
    if (!plan)
        return NULL;
    m->plan = NULL;
    return keep_plan(s, &m->key, plan);
}

trp_status trp__dnn_cuda_find_plan(state *s, const plan_key *key, const trp__dnn_graph *graph,
                                   trp__dnn_plan **out, trp_error *error)
{
    making *m = &s->making;
    trp__dnn_plan **known = trp__lru_find(s->plans, key);
    *out = known ? *known : NULL;
    const bool same = *out && trp__dnn_same_graph((*out)->key, graph->head);
    const bool refused = same && (*out)->refused;
    if (same && !refused && (*out)->tune >= graph->head->tune)
        return TRP_OK;
    const bool ours = is_made(s, key, graph);
    if (trp__side_busy(s->side)) {
        if (!ours) /* its request no longer exists */
            atomic_store(&s->unwanted, true);
        return TRP_AGAIN;
    }
    if (s->prover.proofs.broken) /* this worker is about to end */
        return TRP_AGAIN;
    if (m->begun) {
        const trp_status status = m->status;
        *error = m->error;
        trp__dnn_plan *made = take_plan(s);
        trp__dnn_cuda_end_making(m);
        if (!ours || status == TRP_E_CANCELLED) /* the cache may have changed */
            return trp__dnn_cuda_find_plan(s, key, graph, out, error);
        if (made)
            *out = made;
        return status;
    }
    return begin_plan(s, key, graph, refused ? *out : NULL, error);
}
