/* Proofs of cuBLASLt's algorithms (tuning/prover.h): the operands of a product, the reference that
 * its results are compared with (matrix/reference/), and the key of the verdict. */
#ifndef TRP_MATRIX_PROOF_H
#define TRP_MATRIX_PROOF_H

#include "matrix/plan.h"
#include "tuning/verdict.h"

enum { TRP__MATMUL_ALGO_NAME = 96 };

/* "cublaslt_a66_t20_s0_k1" */
void trp__matmul_algo_name(const trp__matmul_planner *planner, const trp__matmul_plan *plan,
                           char name[TRP__MATMUL_ALGO_NAME]);

/* The key of the verdict about a plan's algorithm, which the caller ends: the same for problems
 * that differ only in how they are searched. */
void trp__matmul_verdict_key(const trp__verdicts *verdicts, const trp__matmul_planner *planner,
                             const trp__matmul_key *key, const trp__matmul_plan *plan,
                             trp__key *out);

/* Whether the reference can compute the problem, and the prover make numbers for it. */
bool trp__matmul_provable(const trp__matmul *problem);

/* Runs a plan that is made against the reference kernel `reference`. The device's context must be
 * current. */
void trp__matmul_prove(const trp__matmul_planner *planner, const trp__cuda *cu,
                       const trp__matmul_key *key, const trp__matmul_plan *plan,
                       trp__cu_function reference, trp__proof_verdict *out);

#endif
