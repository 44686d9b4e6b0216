/* Searches for the fastest of cuDNN's engines for the pieces of a graph, on the device. */
#ifndef TRP_ACTORS_DNN_PLANS_TUNE_H
#define TRP_ACTORS_DNN_PLANS_TUNE_H

#include "actors/dnn/plans/plan.h"
#include "driver/cuda.h"

/* Times the library's proposed engines for each step of a created plan on separate tensors, with
 * the planner's handle in a separate stream. An engine replaces the first if it is faster by 2 %
 * and by more than the measurements vary, and computes the same. `full`: more engines, longer
 * measurements. A step that cannot be searched (usually for lack of memory) stays unchanged. The
 * device's context must be current. Takes from milliseconds to seconds. */
void trp__dnn_tune(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                   bool full, trp__dnn_plan *plan);

/* The same for products with own kernels: only these are timed against the plan's algorithm, in
 * some milliseconds a step. Done for all plans without a search, except for graphs that must be
 * deterministic. Needs no handle. */
void trp__dnn_tune_own(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                       trp__dnn_plan *plan);

#endif
