#include "tuning/proofs.h"

#include "base/error.h"
#include "base/log.h"
#include "base/os/clock.h"

enum {
    /* Deaths of other processes' workers during a proof that are not blamed on the plan: killing an
     * application kills its worker wherever that is. */
    STRANGERS = 1,
};

/* A process that holds the claim for longer is probably stopped. */
#define PATIENCE_NS (60 * TRP__SECOND)

static void log_verdict(const trp__proofs *p, const trp__proof_subject *subject,
                        const char *verdict, const char *reason)
{
    trp__log_line(NULL, TRP__LOG_WARNING, "%s: %s %s for %s: %s", p->name, subject->plan, verdict,
                  subject->problem, reason);
}

static trp__verdict verdict_of(const trp__proof_verdict *proof)
{
    trp__verdict v = {.state = proof->result == TRP__PROOF_GOOD         ? TRP__VERDICT_PROVEN
                               : proof->result == TRP__PROOF_IMPOSSIBLE ? TRP__VERDICT_UNKNOWN
                                                                        : TRP__VERDICT_REJECTED,
                      .compared = proof->compared};
    trp__copy_string(v.reason, sizeof v.reason, proof->reason);
    return v;
}

static bool is_final(const trp__verdict *verdict)
{
    return verdict->state == TRP__VERDICT_PROVEN || verdict->state == TRP__VERDICT_REJECTED;
}

/* Judges the mark of a worker that died during a proof. The same application's next worker blames
 * the plan; another application's does if it has happened before. */
static bool has_killed(const trp__proofs *p, const trp__verdict *left)
{
    return left->state == TRP__VERDICT_PROVING &&
           (left->owner == p->owner || left->attempts > STRANGERS);
}

/* Proves a plan, preferably with the claim: without it, the writer of a mark may be alive. The mark
 * written first becomes a rejection if this worker dies during the proof. */
static trp__verdict prove_marked(trp__proofs *p, const trp__proof_subject *subject, bool claimed)
{
    trp__verdict verdict = trp__verdict_find(&p->verdicts, subject->key);
    trp__proof_verdict proof;
    if (is_final(&verdict))
        return verdict;
    if (claimed && has_killed(p, &verdict)) {
        verdict = (trp__verdict){.state = TRP__VERDICT_REJECTED, .reason = "it broke a worker"};
    } else {
        const trp__verdict mark = {
            .state = TRP__VERDICT_PROVING, .owner = p->owner, .attempts = verdict.attempts + 1};
        trp__verdict_keep(&p->verdicts, subject->key, &mark);
        subject->prove(subject->context, &proof);
        verdict = verdict_of(&proof);
        if (proof.result == TRP__PROOF_BROKE) {
            p->broken = true;
            p->error = proof.error;
        }
    }
    trp__verdict_keep(&p->verdicts, subject->key, &verdict);
    if (verdict.state == TRP__VERDICT_REJECTED)
        log_verdict(p, subject, "is not used", verdict.reason);
    else if (verdict.state == TRP__VERDICT_UNKNOWN)
        log_verdict(p, subject, "serves unproven", verdict.reason);
    return verdict;
}

static bool is_unwanted(void *context)
{
    const trp__proofs *p = context;
    return p->unwanted && atomic_load(p->unwanted);
}

static trp__verdict prove_once(trp__proofs *p, const trp__proof_subject *subject)
{
    const trp__store_wait wait = {
        .deadline_ns = trp__deadline(PATIENCE_NS), .is_cancelled = is_unwanted, .context = p};
    trp__store_claim *claim = NULL;
    trp__verdict none = {0};
    trp_error ignored; /* a proof without a claim does no harm */
    if (!subject->is_ready(subject->context) || p->broken)
        return none;
    if (p->verdicts.store && trp__store_claim_begin(p->verdicts.store, subject->key, &wait, &claim,
                                                    &ignored) == TRP_E_CANCELLED) {
        p->cancelled = true;
        return none;
    }
    const trp__verdict verdict = prove_marked(p, subject, claim != NULL);
    trp__store_claim_end(claim);
    return verdict;
}

bool trp__proofs_have_reference(trp__proofs *p, trp_status status, const trp_error *error)
{
    if (status == TRP_E_CANCELLED) {
        p->cancelled = true;
    } else if (status != TRP_OK) {
        p->no_reference = status != TRP_E_MEMORY;
        trp__log_line(NULL, TRP__LOG_WARNING, "%s: plans serve unproven: %s", p->name,
                      error->message);
    }
    return status == TRP_OK;
}

bool trp__proofs_reject(trp__proofs *p, const trp__key *key)
{
    return trp__verdict_find(&p->verdicts, key).state == TRP__VERDICT_REJECTED;
}

bool trp__proofs_accept(trp__proofs *p, const trp__proof_subject *subject)
{
    trp__verdict verdict = trp__verdict_find(&p->verdicts, subject->key);
    if (!is_final(&verdict))
        verdict = p->off ? (trp__verdict){0} : prove_once(p, subject);
    if (verdict.state == TRP__VERDICT_PROVEN)
        return true;
    if (verdict.state == TRP__VERDICT_REJECTED || p->broken)
        return false;
    p->unproven = true;
    return true;
}

void trp__proofs_note_refusal(trp__proofs *p, const trp__proof_subject *subject, const char *reason)
{
    trp__verdict verdict = {.state = TRP__VERDICT_REJECTED};
    trp__copy_string(verdict.reason, sizeof verdict.reason, reason);
    trp__verdict_keep(&p->verdicts, subject->key, &verdict);
    log_verdict(p, subject, "is not used", reason);
}

int trp__proofs_cuda_result(const trp__proofs *p)
{
    enum { LAUNCH_TIMEOUT = 702 };
    return trp__cuda_sticky(p->error.code) ? p->error.code : LAUNCH_TIMEOUT;
}
