/* cuDNN's own start, ahead of the first request. */
#ifndef TRP_ACTORS_DNN_PLANS_WARM_H
#define TRP_ACTORS_DNN_PLANS_WARM_H

#include "actors/dnn/plans/record.h"

#include <stdatomic.h>

/* The library sets up its engines when it has its first plan, made or read from a record, and its
 * heuristic when it makes one: some 40 ms each (9.19), for which the first graph would wait. Reads
 * the record of a small convolution's plan, then has the heuristic look at it, unless there was a
 * record and somebody waits (`wanted`) by then; keeps a record if there was none. `store` may be
 * NULL. False: the library refuses it, which later requests may say. */
bool trp__dnn_warm_up(const trp__dnn_planner *planner, const trp__tuning_site *site,
                      trp__store *store, const atomic_bool *wanted);

#endif
