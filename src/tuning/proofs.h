/* Decides whether a plan may serve: by a known verdict, or by a proof now. Actors share around the
 * prover (tuning/prover.h): stored verdicts, a mark written before each proof, by which the next
 * worker rejects a plan that killed this one, and a claim, by which one process proves while others
 * wait. Runs in an actor's side thread. */
#ifndef TRP_TUNING_PROOFS_H
#define TRP_TUNING_PROOFS_H

#include "tuning/verdict.h"

#include <stdatomic.h>

/* Zero-initialised except the first block. */
typedef struct trp__proofs {
    trp__verdicts verdicts;
    const char *name;            /* the actor's, for the log */
    uint64_t owner;              /* the worker's application process */
    const atomic_bool *unwanted; /* set when nobody waits for the plan */
    bool off;                    /* no proofs; known verdicts still count */

    bool broken;       /* the context is broken, or a plan did not end: the worker must end */
    trp_error error;   /* the cause, domain */
    bool cancelled;    /* a proof was cancelled, since this was cleared */
    bool unproven;     /* a plan was accepted without a proof, since this was cleared */
    bool no_reference; /* the reference could not be compiled */
} trp__proofs;

/* One plan for one problem. */
typedef struct trp__proof_subject {
    const trp__key *key;
    const char *plan, *problem; /* for the log */
    /* Tells whether the reference and everything else a proof needs is available. */
    bool (*is_ready)(void *context);
    void (*prove)(void *context, trp__proof_verdict *out);
    void *context;
} trp__proof_subject;

/* Tells whether a reference compile that ended with `status` gave a reference; logs a failure.
 * After a lack of memory a later compile may succeed; otherwise sets `no_reference`. */
bool trp__proofs_have_reference(trp__proofs *p, trp_status status, const trp_error *error);

/* Tells whether the plan has been rejected. */
bool trp__proofs_reject(trp__proofs *p, const trp__key *key);

/* Tells whether a plan may serve. A plan that can't be proven (no reference, no memory, proofs off)
 * may serve, too, and sets `unproven`. False, with `broken`, if the proof broke the context. */
bool trp__proofs_accept(trp__proofs *p, const trp__proof_subject *subject);

/* Rejects a plan that the library refused to run. Uses the subject's names and key only. */
void trp__proofs_note_refusal(trp__proofs *p, const trp__proof_subject *subject,
                              const char *reason);

/* Returns the driver's result for a broken context, or that of a launch that timed out. */
int trp__proofs_cuda_result(const trp__proofs *p);

#endif
