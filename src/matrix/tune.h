/* Searching for the fastest of cuBLASLt's algorithms for one problem, on the device. */
#ifndef TRP_MATRIX_TUNE_H
#define TRP_MATRIX_TUNE_H

#include "driver/cuda.h"
#include "matrix/record.h"

/* Times the algorithms that the library proposes for a plan that is made, on operands of its own of
 * `bytes` each, in a stream of its own, and puts the fastest into the plan: where it beats the
 * first by 2 % and by more than the measurements vary, and its D begins as the first one's does.
 * `full`: more of them, longer, and what differs from them in one attribute. False: it could not be
 * done (no memory, most likely) and the plan is as it was. The device's context must be current;
 * takes from milliseconds to seconds. */
bool trp__matmul_tune(const trp__matmul_planner *planner, const trp__cuda *cu,
                      const trp__matmul_key *key, const uint64_t bytes[], bool full,
                      trp__matmul_plan *plan, trp__matmul_record *out);

/* Takes a record into a plan that is made, if the library agrees that it fits the problem. */
bool trp__matmul_use_record(const trp__matmul_planner *planner, const trp__matmul_key *key,
                            const trp__matmul_record *record, trp__matmul_plan *plan);

#endif
