/* Proofs of the algorithms of the matmul actor (matrix/proof.h), with the reference kernel from a
 * pack, the kernel cache or a compile. */
#ifndef TRP_ACTORS_MATMUL_PROOFS_H
#define TRP_ACTORS_MATMUL_PROOFS_H

#include "compile/own/module.h"
#include "matrix/proof.h"
#include "tuning/proofs.h"

#include <troupe/worker.h>

/* The program of the reference kernel. */
extern const trp__own_program trp__matmul_reference_program;

/* Used by the side thread. All members except those of the first block begin as 0. */
typedef struct trp__matmul_proofs {
    const trp__cuda *cu;
    const trp__matmul_planner *planner;
    trp__proofs proofs;

    trp__own_module reference;
    bool ahead;   /* the plan is for a rehearsal, so nothing is proven */
    bool skipped; /* a proof was skipped for this reason */
} trp__matmul_proofs;

/* Frees the module and the image. The context must be current. */
void trp__matmul_proofs_close(trp__matmul_proofs *p, trp_instance *instance);

/* Returns whether the algorithm of a plan may be used; see trp__proofs_accept(). */
bool trp__matmul_proofs_accept(trp__matmul_proofs *p, const trp__matmul_key *key,
                               const trp__matmul_plan *plan);

/* Returns whether the reference kernel is loaded and can compute the problem. */
bool trp__matmul_proofs_can_run(const trp__matmul_proofs *p, const trp__matmul_key *key);

#endif
