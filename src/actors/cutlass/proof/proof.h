/* Proofs of kernels (tuning/prover.h): the operands of a request, of the same shape, strides and
 * alignment, the kernel with its parameter, and the reference that results are compared with. Sums
 * are of small integers, so that they are the same in any order, and what the epilogue makes of
 * them has to be the same to the bit as far as its functions are exact. */
#ifndef TRP_ACTORS_CUTLASS_PROOF_PROOF_H
#define TRP_ACTORS_CUTLASS_PROOF_PROOF_H

#include "actors/cutlass/plan/subject.h"
#include "actors/cutlass/run/builder.h"
#include "tuning/prover.h"

/* A kernel, loaded, and the problem that it is to be proven for. */
typedef struct trp__cutlass_trial {
    trp__cutlass_subject subject;
    trp__cutlass_problem_key key; /* of the request; addresses count for their alignment */
    const trp__cutlass_properties *properties;
    uint64_t workspace; /* bytes that the request's parameter needs */
} trp__cutlass_trial;

/* Whether results can be foretold: a tree that divides by what is only nearly known can't. */
bool trp__cutlass_provable(const trp__cutlass_trial *trial);

/* Proves it. `builder` is for proofs alone. The device's context must be current. */
void trp__cutlass_prove(const trp__cutlass_trial *trial, trp__cutlass_builder *builder,
                        trp__cu_function reference, trp__proof_verdict *out);

#endif
