/* Proves engines of cuDNN and algorithms of cuBLASLt for a part of a graph by the prover
 * (tuning/prover.h) against the reference kernels of reference/node.h. Runs in the side thread.
 */
#ifndef TRP_ACTORS_DNN_ENGINES_PROOF_H
#define TRP_ACTORS_DNN_ENGINES_PROOF_H

#include "actors/dnn/engines/engines.h"
#include "actors/dnn/reference/launch.h"
#include "tuning/proofs.h"

/* The needs of proofs. Zero-initialised except for the first block. */
typedef struct trp__dnn_prover {
    const trp__cuda *cu;
    const trp__cudnn *lib;
    trp__proofs proofs;

    trp__cudnn_handle handle;
    trp__kernel_modules reference; /* modules of the side thread */
} trp__dnn_prover;

/* The context must be current. */
void trp__dnn_prover_end(trp__dnn_prover *prover, trp_instance *instance);

/* Returns the side thread's modules, with the images of the planner's. NULL: out of memory. */
trp__kernel_modules *trp__dnn_prover_modules(const trp__dnn_planner *planner,
                                             trp__kernel_module module);

/* Tells whether an engine may run a part: it is known as correct or proven now. Without a prover,
 * or with proofs off, every engine may; so may one that cannot be proven because memory or a
 * compiler for the reference is missing, which sets proofs.unproven. Compiles the reference first
 * if neither the cache nor a pack has it. Returns false with proofs.broken if the proof has broken
 * the context. */
bool trp__dnn_proof_accepts(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const trp__dnn_engine *engine);

/* Tells whether an engine is known as wrong for a part, before anything is compiled for it. */
bool trp__dnn_proof_rejects(const trp__dnn_planner *planner, const trp__dnn_part *part,
                            const char *engine);

/* Rejects an engine from now on because the library has refused to run its plan. */
void trp__dnn_proof_reject(trp__dnn_prover *prover, const trp__dnn_part *part, const char *engine,
                           const char *reason);

#endif
