/* Search for the fastest algorithm of cuBLASLt for a problem, on the device. */
#ifndef TRP_MATRIX_TUNE_H
#define TRP_MATRIX_TUNE_H

#include "driver/cuda.h"
#include "matrix/record.h"

/* Times the algorithms that the library proposes for a plan, on separate operands of bytes[] each
 * and in a separate stream, and puts the fastest into the plan if it is faster than the first by 2
 * % and by more than the variation of measurements, and if its D begins like that of the first.
 * `full`: more algorithms are timed for longer, also those that differ from them in one attribute.
 * Returns false if the search failed, usually for lack of memory; the plan is unchanged then. The
 * context of the device must be current; a search takes from milliseconds to seconds. */
bool trp__matmul_tune(const trp__matmul_planner *planner, const trp__cuda *cu,
                      const trp__matmul_key *key, const uint64_t bytes[], bool full,
                      trp__matmul_plan *plan, trp__matmul_record *out);

/* Puts the algorithm of a record into a plan, if the library accepts it for the problem. */
bool trp__matmul_use_record(const trp__matmul_planner *planner, const trp__matmul_key *key,
                            const trp__matmul_record *record, trp__matmul_plan *plan);

#endif
