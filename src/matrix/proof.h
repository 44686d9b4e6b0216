/* Proofs of cuBLASLt's algorithms (tuning/prover.h): the operands of a product, the reference for
 * its results (matrix/reference/), and the key of the verdict. */
#ifndef TRP_MATRIX_PROOF_H
#define TRP_MATRIX_PROOF_H

#include "matrix/plan.h"
#include "tuning/verdict.h"

enum { TRP__MATMUL_ALGO_NAME = 96 };

/* Writes the name of an algorithm, such as "cublaslt_a66_t20_s0_k1". */
void trp__matmul_algo_name(const trp__matmul_planner *planner, const trp__matmul_plan *plan,
                           char name[TRP__MATMUL_ALGO_NAME]);

/* Makes the key of the verdict on a plan's algorithm; the caller ends it. Problems that differ only
 * in the level of search have the same key. */
void trp__matmul_verdict_key(const trp__verdicts *verdicts, const trp__matmul_planner *planner,
                             const trp__matmul_key *key, const trp__matmul_plan *plan,
                             trp__key *out);

/* Returns whether the reference can compute the problem and the prover can generate its inputs. */
bool trp__matmul_provable(const trp__matmul *problem);

/* Compares a plan with the kernel `reference`. The context of the device must be current. */
void trp__matmul_prove(const trp__matmul_planner *planner, const trp__cuda *cu,
                       const trp__matmul_key *key, const trp__matmul_plan *plan,
                       trp__cu_function reference, trp__proof_verdict *out);

#endif
