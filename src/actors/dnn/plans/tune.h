/* Searching for the fastest of cuDNN's engines for the pieces of a graph, on the device. */
#ifndef TRP_ACTORS_DNN_PLANS_TUNE_H
#define TRP_ACTORS_DNN_PLANS_TUNE_H

#include "actors/dnn/plans/plan.h"
#include "driver/cuda.h"

/* Times the engines that the library proposes for each step of a plan that is made, on tensors of
 * its own, with the planner's handle in a stream of its own, and puts the fastest into the plan:
 * where it beats the first by 2 % and by more than the measurements vary, and computes the same.
 * `full`: more of them, longer. A step for which that can't be done (no memory, most likely) stays
 * as it is. The device's context must be current; takes from milliseconds to seconds. */
void trp__dnn_tune(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                   bool full, trp__dnn_plan *plan);

/* The same of products that kernels of ours do: these alone are timed beside the algorithm that the
 * plan has, in some milliseconds a step, as it is done for all plans without a search, but for
 * graphs that must be deterministic. Needs no handle. */
void trp__dnn_tune_own(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                       trp__dnn_plan *plan);

#endif
