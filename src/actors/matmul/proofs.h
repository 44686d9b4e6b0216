/* What the matmul actor has to prove its algorithms with (matrix/proof.h): the reference kernel,
 * from a pack, the kernel cache or a compile. */
#ifndef TRP_ACTORS_MATMUL_PROOFS_H
#define TRP_ACTORS_MATMUL_PROOFS_H

#include "compile/own.h"
#include "matrix/proof.h"
#include "tuning/proofs.h"

#include <troupe/worker.h>

/* The program of the reference kernel. */
extern const trp__own_program trp__matmul_reference_program;

/* Zero-initialised but for the first block. The side thread's. */
typedef struct trp__matmul_proofs {
    const trp__cuda *cu;
    const trp__matmul_planner *planner;
    trp__proofs proofs;

    void *image;
    trp__cu_module module;
    trp__cu_function reference; /* NULL: not loaded */
    bool ahead;                 /* nothing is proven: it is for a rehearsal, */
    bool skipped;               /* and that was wanted, since this was cleared */
} trp__matmul_proofs;

/* The context must be current. */
void trp__matmul_proofs_close(trp__matmul_proofs *p, trp_instance *instance);

/* Whether the algorithm of a plan may serve, as trp__proofs_accept(). */
bool trp__matmul_proofs_accept(trp__matmul_proofs *p, const trp__matmul_key *key,
                               const trp__matmul_plan *plan);

/* Whether the reference can run the problem itself: it is loaded. */
bool trp__matmul_proofs_can_run(const trp__matmul_proofs *p, const trp__matmul_key *key);

#endif
