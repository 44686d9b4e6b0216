/* Initialises cuDNN ahead of the first request. */
#ifndef TRP_ACTORS_DNN_PLANS_WARM_H
#define TRP_ACTORS_DNN_PLANS_WARM_H

#include "actors/dnn/plans/record.h"

#include <stdatomic.h>

/* The library sets up its engines with its first plan, created or read from a record, and its
 * heuristic with the first created one: some 40 ms each (9.19), which the first graph would wait
 * for. Reads the record of a small convolution's plan, then runs the heuristic on it, unless there
 * was a record and somebody waits (`wanted`) by then; stores a record if there was none. `store`
 * may be NULL. Returns false if the library refuses the plan, which later requests may report. */
bool trp__dnn_warm_up(const trp__dnn_planner *planner, const trp__tuning_site *site,
                      trp__store *store, const atomic_bool *wanted);

#endif
