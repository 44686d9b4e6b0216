/* Algorithms of cuBLASLt beyond the few that its heuristic proposes: those that differ from a known
 * one in one attribute. */
#ifndef TRP_MATRIX_NEIGHBOURS_H
#define TRP_MATRIX_NEIGHBOURS_H

#include "matrix/plan.h"

/* Returns false to end the walk. */
typedef bool (*trp__matmul_visit)(void *context, const trp__cublaslt_result *neighbour);

/* Visits the algorithms that differ from `seed` in one attribute, that the library accepts for a
 * plan, and that need no more workspace and alignment than the problem has. Returns false if
 * visit() did. */
bool trp__matmul_neighbours(const trp__matmul_planner *planner, const trp__matmul_key *key,
                            const trp__matmul_plan *plan, const trp__cublaslt_algo *seed,
                            trp__matmul_visit visit, void *context);

#endif
