/* Proofs of the ways to run a part of a graph, by the prover (tuning/prover.h): engines of cuDNN's
 * and algorithms of cuBLASLt's against the reference, the kernels of reference/node.h. In the side
 * thread.
 */
#ifndef TRP_ACTORS_DNN_ENGINES_PROOF_H
#define TRP_ACTORS_DNN_ENGINES_PROOF_H

#include "actors/dnn/engines/engines.h"
#include "actors/dnn/reference/launch.h"
#include "tuning/proofs.h"

/* What proofs need. Zero-initialised but for the first block. */
typedef struct trp__dnn_prover {
    const trp__cuda *cu;
    const trp__cudnn *lib;
    trp__proofs proofs;

    trp__cudnn_handle handle;
    trp__kernel_modules reference; /* modules of this thread's own */
} trp__dnn_prover;

/* The context must be current. */
void trp__dnn_prover_end(trp__dnn_prover *prover, trp_instance *instance);

/* The side thread's own modules, with the image of one that the planner's have. NULL: no memory. */
trp__kernel_modules *trp__dnn_prover_modules(const trp__dnn_planner *planner,
                                             trp__kernel_module module);

/* Whether an engine may serve a part: known as good, or proven now. Without a prover it always may.
 * One that can't be proven because there is no compiler for the reference or memory is short may
 * too, as any with proofs off, and sets proofs.unproven. Where neither the cache nor a pack has
 * the reference it is compiled first. False, with proofs.broken, if the proof has broken the
 * context. */
bool trp__dnn_proof_accepts(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const trp__dnn_engine *engine);

/* Whether an engine is known not to be right for a part: before anything is compiled for it. */
bool trp__dnn_proof_rejects(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const char *engine);

/* The library has refused to run an engine that it had planned: it is rejected from now on. */
void trp__dnn_proof_reject(trp__dnn_prover *prover, const trp__dnn_part *part, const char *engine,
                           const char *reason);

#endif
