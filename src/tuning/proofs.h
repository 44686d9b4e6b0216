/* Whether a plan may serve: known as good, or proven now. What actors share around a proof
 * (tuning/prover.h): verdicts that are kept, the mark that is written before a proof, so that the
 * next worker rejects the plan that broke this one, and the claim by which one process proves while
 * others wait. In an actor's side thread. */
#ifndef TRP_TUNING_PROOFS_H
#define TRP_TUNING_PROOFS_H

#include "tuning/verdict.h"

#include <stdatomic.h>

/* Zero-initialised but for the first block. */
typedef struct trp__proofs {
    trp__verdicts verdicts;
    const char *name;            /* the actor's, for the log */
    uint64_t owner;              /* the process that the worker belongs to */
    const atomic_bool *unwanted; /* nobody waits for the plan any more */
    bool off;                    /* nothing is proven; verdicts that are known count all the same */

    bool broken;       /* the context is, or a plan did not end: the worker must end */
    trp_error error;   /* how, domain "cuda" */
    bool cancelled;    /* nobody waited for a proof any more, since this was cleared */
    bool unproven;     /* a plan was accepted without a proof, since this was cleared */
    bool no_reference; /* it could not be compiled */
} trp__proofs;

/* One plan for one problem. */
typedef struct trp__proof_subject {
    const trp__key *key;
    const char *plan, *problem; /* for the log */
    /* Whether there is a reference, and what else a proof needs. */
    bool (*is_ready)(void *context);
    void (*prove)(void *context, trp__proof_verdict *out);
    void *context;
} trp__proof_subject;

/* Whether there is a reference after its compile ended with `status`; says in the log once if not.
 * After a lack of memory another compile may succeed; otherwise `no_reference` is set. */
bool trp__proofs_have_reference(trp__proofs *p, trp_status status, const trp_error *error);

/* Whether the plan is known not to be right. */
bool trp__proofs_reject(trp__proofs *p, const trp__key *key);

/* Whether a plan may serve. One that can't be proven, for want of a reference or of memory, may
 * too, as any with proofs off, and sets `unproven`. False, with `broken`, if the proof has broken
 * the context. */
bool trp__proofs_accept(trp__proofs *p, const trp__proof_subject *subject);

/* The library has refused to run what it had planned: it is rejected from now on. Of the subject
 * only what it is called and its key count. */
void trp__proofs_note_refusal(trp__proofs *p, const trp__proof_subject *subject,
                              const char *reason);

/* How a broken context is told to the worker: the driver's result, or that of a launch that timed
 * out. */
int trp__proofs_cuda_result(const trp__proofs *p);

#endif
