/* Which kernels may serve which problems, in the worker: stored verdicts (tuning/proofs.h),
 * a proof in the loader's side thread where there is none, and the reference kernel, which computes
 * what a kernel may not. The scheduler's thread, but for the side thread's part. */
#ifndef TRP_ACTORS_CUTLASS_PROOF_PROOFS_H
#define TRP_ACTORS_CUTLASS_PROOF_PROOFS_H

#include "actors/cutlass/proof/proof.h"
#include "compile/loader.h"
#include "compile/own/module.h"
#include "tuning/proofs.h"

enum { TRP__CUTLASS_JUDGEMENTS = 1024 /* in memory */ };

/* Values of a parameter's `judged`. */
typedef enum trp__cutlass_judgement {
    TRP__CUTLASS_NOT_JUDGED,
    TRP__CUTLASS_PROVEN,
    TRP__CUTLASS_UNPROVEN, /* it serves as it is */
    TRP__CUTLASS_REJECTED, /* the reference serves */
} trp__cutlass_judgement;

/* The key of a judgement. */
typedef struct trp__cutlass_judged_key {
    trp__cutlass_subject subject;
    trp__cutlass_settings settings;
    uint32_t slot, generation, reserved;
} trp__cutlass_judged_key;

_Static_assert(sizeof(trp__cutlass_judged_key) % 8 == 0, "as a table wants it");

typedef struct trp__cutlass_proofs {
    trp__jit_loader *loader;
    trp__tuning_site site;
    trp__proofs proofs;
    trp__lru *judged;
    atomic_bool unwanted;

    /* The side thread's, while it works. */
    bool proving;
    trp__cutlass_judged_key key;
    trp__cutlass_trial trial;
    uint64_t image; /* checksum of the kernel's image */
    trp__own_module reference;
    trp__cutlass_builder builder; /* of parameters for proofs */
    bool makes;
    trp__cutlass_judgement judgement; /* NOT_JUDGED: nobody wanted it any more, or `status` */
    trp_status status;
    trp_error error;
} trp__cutlass_proofs;

/* Zeroed before. */
trp_status trp__cutlass_proofs_open(trp__cutlass_proofs *p, trp__jit_loader *loader,
                                    trp_error *error);
/* The side thread has ended. Parts that were not opened are ignored. */
void trp__cutlass_proofs_close(trp__cutlass_proofs *p);

/* Whether the kernel of a module may serve a problem. TRP_AGAIN while it is proven. */
trp_status trp__cutlass_judge(trp__cutlass_proofs *p, const trp__jit_loaded *module,
                              const trp__cutlass_subject *subject,
                              const trp__cutlass_problem_key *key, uint64_t workspace,
                              trp__cutlass_judgement *out, trp_error *error);

/* Enqueues a request in place of its kernel, which was rejected: `table` is what the grouping of a
 * grouped product says. Results of reductions hold their neutral values. */
trp_status trp__cutlass_run_reference(const trp__cutlass_proofs *p,
                                      const trp__cutlass_subject *subject,
                                      const trp_cutlass_args *args, uint64_t table,
                                      trp_error *error);

#endif
